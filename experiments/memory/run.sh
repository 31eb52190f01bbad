#!/bin/sh
# sh experiments/memory/run.sh demo|shop|plain|plain480|quirks|booking: exploring passes, what learns from them, and every ranker on the same
# candidates of held-out tasks. Half an hour on two quiet cores; started again, it continues. SETS=4: the memory also learns from four other
# sets of exploring episodes.
set -ef
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
here=experiments/memory
env=$1
store=runs/memory-$env
config="--config $here/${env%480}.toml"
matched="--set value=network --set iql.steps=2000 --set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"
case $env in
demo) rungs=test tasks=80 ;;
shop) rungs="held-out same" tasks=80 ;;
plain) rungs="held-out same" tasks=40 ;;
plain480) rungs="held-out same" tasks=80 config="$config --set suite.train_tasks=240" ;; # four times the tasks and episodes
quirks) rungs=test tasks=160 ;;
booking) rungs="same held-out" tasks=100 ;;
esac

play() { # RUN Q AGENTS SETTINGS...
    run=$1 q=$2 agents=$3
    shift 3
    for rung in $rungs; do
        case $rung in
        same) where="--split train" ;;
        test) where="--split test" ;;                            # new tasks on known sites
        held-out) where="--split test --set suite.only=*" ;; # other products, other restaurants
        esac
        "$BESTOFQ" eval $config $where "$@" --set proposer=experiments.memory.proposals:make_proposer --q $store/$q \
            --agents $agents --tasks $tasks --runs 1 --store $store-$rung --run $run
    done
}

"$BESTOFQ" collect $config --store $store
"$BESTOFQ" train $config --store $store --out $store/memory --set value=memory
play memory memory prompting,best-of-q,words,random --set value=memory --set gate=off
play gate memory best-of-q --set value=memory
for seed in $(seq 1 ${SETS:-0}); do # other exploring episodes
    "$BESTOFQ" collect $config --set seed=$seed --store $store-$seed
    "$BESTOFQ" train $config --store $store-$seed --out $store-$seed/memory --set value=memory
    play memory-$seed ../memory-$env-$seed/memory best-of-q --set value=memory --set gate=off
    play gate-$seed ../memory-$env-$seed/memory best-of-q --set value=memory
done
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/matched
play matched matched best-of-q $matched
"$BESTOFQ" train $config --set preset=paper --set iql.steps=2000 --store $store --out $store/paper
play paperq-off paper best-of-q --set preset=paper
play paperq-calibrated paper best-of-q --set preset=paper --set gate=calibrated
for rung in $rungs; do
    "$BESTOFQ" report $store-$rung --baseline prompting --table agents --json $store-$rung/report
    cp $store-$rung/report/agents.json $here/$env-$rung.json
done
