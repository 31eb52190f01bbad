#!/bin/sh
# MiniWoB++: does Q carry over better from more problems of each task? One pass over 140 of each; Q from the first half of it and from all,
# on 470 other problems, ten of each task. Two hours on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-doses
config="--config $here/miniwob.toml --set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten
    --set model.embed_matches=true"
"$BESTOFQ" collect $config --set suite.per_task=140 --set suite.train_tasks=6580 --set seed_runs=1 --store $store
for problems in 70 140; do
    "$BESTOFQ" train --no-estimate $config --episodes $((47 * problems)) --store $store --out $store/q$problems
done
play() { # Q AGENTS
    "$BESTOFQ" eval $config --split test --set suite.families=seen --set suite.per_task=10 --tasks 470 --runs 1 \
        --q $store/$1 --agents $2 --store $store-played --run $1
}
play q140 prompting,verifier,best-of-q,prior
play q70 best-of-q,prior
"$BESTOFQ" report $store-played --baseline prompting --table agents --markdown $store-played/report --json $store-played/report
cp $store-played/report/agents.md $here/doses.md
cp $store-played/report/agents.json $here/doses.json
