#!/bin/sh
# Does a Q that reads the model's reviews come to know more than they say, from episodes of its own? One exploring pass over 4,000
# goals for all training products, then a cycle of one pass: 8,000 episodes. Each Q plays 300 dev tasks, beside the verifier. An hour
# and a half on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-many-cycles
config="--config $here/shop.toml --set suite.only=* --set iql.network.hidden=[512,256] --set iql.discount=0.95
    --set iql.network.scaling=whiten --set model.embed.matches=true --set model.embed.context=review --set model.embed.pooling=last"
"$BESTOFQ" improve $config --set suite.train_tasks=4000 --set seed_runs=1 --set cycles=1 --set runs_per_cycle=1 --store $store --out $store
play() { # Q AGENTS
    "$BESTOFQ" eval $config --split dev --tasks 300 --runs 1 --q $store/$1 --agents $2 --store $store-played --run $1
}
play q0 prompting,verifier,best-of-q,prior
play q1 best-of-q,prior
"$BESTOFQ" report $store-played --baseline verifier --table agents --markdown $store-played/report --json $store-played/report
cp $store-played/report/agents.md $here/many-cycles-dev.md
cp $store-played/report/agents.json $here/many-cycles-dev.json
