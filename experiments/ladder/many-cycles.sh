#!/bin/sh
# Does a Q that reads the model's reviews come to know more than they say, from episodes of its own? One exploring pass over 4,000
# goals for all training products, then two cycles of one pass: 12,000 episodes. Each Q plays 300 dev tasks; the last plays 600 tests
# on other products, beside the verifier. Three hours on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-many-cycles
config="--config $here/shop.toml --set suite.only=* --set iql.network.hidden=[512,256] --set iql.discount=0.95
    --set iql.network.scaling=whiten --set model.embed_matches=true --set model.embed_context=review --set model.embed_pooling=last"
"$BESTOFQ" improve $config --set suite.train_tasks=4000 --set seed_runs=1 --set cycles=2 --set runs_per_cycle=1 --store $store --out $store
play() { # SPLIT TASKS RUN Q AGENTS
    "$BESTOFQ" eval $config --split $1 --tasks $2 --runs 1 --q $store/$4 --agents $5 --store $store-played --run $1-$3 \
        --out $here/many-cycles-$1-$3.json
}
play dev 300 first q0 prompting,verifier
for q in q0 q1 q2; do play dev 300 $q $q best-of-q,prior; done
play test 600 q2 q2 prompting,verifier,best-of-q,prior
