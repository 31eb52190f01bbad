#!/bin/sh
# MiniWoB++ again, with one pass over 70 problems of each task instead of two over 24: other problems of these tasks, then
# families that neither the model nor Q has seen. Three hours on one core; started again, it continues.
# Commit 69385730 also plays five Q-functions as one cautious scorer.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-miniwob-many
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"
seeds="--split test --set suite.families=seen --set suite.per_task=5 --tasks 235 --runs 1 --store $store-played"

"$BESTOFQ" collect --config $here/miniwob.toml --set suite.per_task=100 --set suite.train_tasks=3290 --set seed_runs=1 --store $store
"$BESTOFQ" train --no-estimate --config $here/miniwob.toml $matched --store $store --out $store/q70
"$BESTOFQ" eval --config $here/miniwob.toml $seeds $matched --q $store/q70 --agents prompting,best-of-q,prior --run q0
"$BESTOFQ" eval --config $here/miniwob.toml $seeds $matched --q $store/q70 --agents verifier --run q0
"$BESTOFQ" report $store-played --baseline prompting --table agents --markdown $store-played/report --json $store-played/report
cp $store-played/report/agents.md $here/problems-seeds.md
cp $store-played/report/agents.json $here/problems-seeds.json

families="--split test --set suite.only=* --set suite.families=held-out --set suite.per_task=10 --tasks 110 --runs 1 --store $store-families"
"$BESTOFQ" eval --config $here/miniwob.toml $families $matched --q $store/q70 --agents prompting,random,vote,verifier,best-of-q,prior \
    --run q0 --out $here/problems-families.json
