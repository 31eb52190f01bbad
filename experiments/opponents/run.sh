#!/bin/sh
# sh experiments/opponents/run.sh shop|miniwob|real|all: each ranker on the same tasks, a run each, then the figure of what is there. Started
# again, it continues. TASKS: how many.
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
    play adaptive adaptive "$@"
    play repropose repropose "$@"
    play catts-q catts --set catts.arbiter=q "$@"
}
case $env in
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
    ranked --q runs/real/q/q4
    ;;
esac
shown=
for one in shop miniwob real; do
    if [ -d runs/opponents-$one ]; then shown="$shown $here/$one runs/opponents-$one"; fi
done
.venv/bin/python $here/compare.py $shown
mv $here/shop.json $here/result.json
mv $here/shop.md $here/table.md
