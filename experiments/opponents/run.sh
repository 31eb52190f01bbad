#!/bin/sh
# sh experiments/opponents/run.sh dev|shop|miniwob|real: each ranker on the same tasks, a run each, then the figure of what
# is there. Started again, it continues. TASKS: how many.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/opponents
ladder=experiments/ladder
env=$1

play() { # NAME AGENT SETTINGS...: what learns nothing
    name=$1 agent=$2
    shift 2
    "$BESTOFQ" eval $config --split test --tasks $tasks --runs 1 --agents $agent --store $store --run $name "$@"
}
nothing_learned() {
    play prompting prompting
    play vote vote
    play picker picker
    play verifier verifier
    play arbiter arbiter
    play catts catts
    play catts-verifier catts --set catts.arbiter=verifier
}
ranked() { # SETTINGS...: by a Q-function
    play best-of-q best-of-q "$@"
    play adaptive-saving adaptive "$@"
    play adaptive adaptive --set adaptive.enough=0 "$@"
    play repropose repropose "$@"
    play catts-q catts --set catts.arbiter=q "$@"
}
case $env in
dev) # what the thresholds would do at dev steps
    config="--config $ladder/shop.toml --set suite.only=* --split dev"
    "$BESTOFQ" eval $config --tasks 100 --runs 1 --agents best-of-q --store runs/opponents-dev --run dev
    .venv/bin/python $here/thresholds.py runs/opponents-dev dev $here/dev.json
    exit
    ;;
shop) # about two hours on one core; Q is the one that ships
    store=runs/opponents-shop tasks=${TASKS:-240}
    config="--config $ladder/shop.toml --set suite.only=*"
    nothing_learned
    ranked
    ;;
miniwob) # an hour; the Q-function is that of ladder/problems.sh, where it was made
    store=runs/opponents-miniwob tasks=${TASKS:-94} q=runs/ladder-miniwob-many/q70
    config="--config $ladder/miniwob.toml --set suite.families=seen --set suite.per_task=2"
    nothing_learned
    if [ -d $q ]; then
        play prior prior --q $q
        ranked --q $q
    fi
    ;;
real) # the real shop's model and Q-function do not ship: see ../webshop-real
    store=runs/opponents-real tasks=${TASKS:-240}
    config="--config experiments/webshop-real/config.toml"
    nothing_learned
    ranked --q runs/webshop-real/q/q0
    ;;
esac
set --
if [ -d runs/opponents-shop ]; then set -- "$@" $here/result ${TASKS:-240} runs/opponents-shop; fi
if [ -d runs/opponents-miniwob ]; then set -- "$@" $here/miniwob ${TASKS:-94} runs/opponents-miniwob; fi
if [ -d runs/opponents-real ]; then set -- "$@" $here/real ${TASKS:-240} runs/opponents-real; fi
.venv/bin/python $here/compare.py "$@"
mv $here/result.md $here/table.md
