#!/bin/sh
# sh experiments/miniwob-qwen/run.sh, after prepare.sh: serve, collect, train, play. Any step may be killed; started again, it continues.
# PASSES over the problems to learn from, NEW and UNSEEN (problems of each kind to play) change the size. LARGE=1 also plays the model of 1.5
# billion parameters, with what the smaller one's episodes and its own taught. VECTORS=1 also trains networks that read the proposer's own
# hidden states. SETS=4 also plays memories of four other sets of exploring episodes.
set -ef
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
PYTHON=${PYTHON:-.venv/bin/python}
here=experiments/miniwob-qwen
store=runs/miniwob-qwen
played=$store
trap 'kill $(jobs -p) 2>/dev/null' EXIT # the servers that it starts
config="--config $here/config.toml"
matched="--set value=network --set iql.steps=1500 --set iql.discount=0.95 --set iql.network.hidden=[512,256] --set iql.network.scaling=whiten --set model.embed.matches=true"
paper="--set preset=paper --set actions=web --set iql.steps=1500" # the actions of the episodes, for the same candidates

if ! curl -s http://127.0.0.1:8097/health >/dev/null; then
    cd runs/qwen
    ./llama-server -m qwen2.5-coder-0.5b-instruct-q4_k_m.gguf -t 1 -np 4 -c 8192 --port 8097 2>server.log &
    ./llama-server -m minilm.gguf --embeddings -t 1 -np 1 -c 512 -b 512 -ub 512 --port 8098 2>embedder.log &
    cd ../..
fi

play() { # RUN Q AGENT SETTINGS...
    run=$1 q=$2 agent=$3
    shift 3
    common="--q $store/$q --agents $agent --tasks 1000 --runs ${RUNS:-1} --run $run"
    "$BESTOFQ" eval $config "$@" $common --split train --store $played-same
    "$BESTOFQ" eval $config --set suite.per_task=${NEW:-17} "$@" $common --split test --store $played-new
    [ "${UNSEEN:-10}" = 0 ] || "$BESTOFQ" eval $config --set suite.only=* --set suite.families=held-out --set suite.per_task=${UNSEEN:-10} \
        "$@" $common --split test --store $played-unseen
}

"$PYTHON" -m experiments.memory.proposals read $here/proposals.jsonl # what the model replied; without these states it is asked
"$BESTOFQ" collect $config --set seed_runs=${PASSES:-32} --store $store
"$BESTOFQ" train $config --store $store --out $store/memory
play first memory prompting
play memory-gated memory best-of-q
play words memory words
play memory memory best-of-q --set gate=off
RUNS=3 play random memory random
"$BESTOFQ" train $config $matched --store $store --out $store/matched
play matched matched best-of-q $matched --set gate=off
play matched-gated matched best-of-q $matched
for seed in 1 2 3 4; do
    "$BESTOFQ" train $config $matched --set iql.seed=$seed --store $store --out $store/matched-$seed
    UNSEEN=0 play matched-$seed matched-$seed best-of-q $matched --set iql.seed=$seed --set gate=off
    UNSEEN=0 play matched-gated-$seed matched-$seed best-of-q $matched --set iql.seed=$seed
done
"$BESTOFQ" train --no-estimate $config $paper --store $store --out $store/paper
play paper paper best-of-q $paper
for seed in 1 2 3 4; do
    "$BESTOFQ" train --no-estimate $config $paper --set iql.seed=$seed --store $store --out $store/paper-$seed
    UNSEEN=0 play paper-$seed paper-$seed best-of-q $paper --set iql.seed=$seed
done
if [ "${VECTORS:-0}" = 1 ]; then # the mean of the proposer's last hidden states, in place of MiniLM's vectors
    if ! curl -s http://127.0.0.1:8100/health >/dev/null; then
        (cd runs/qwen && exec ./llama-server -m qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --embeddings --pooling mean -t 1 -np 1 -c 2048 -b 2048 -ub 2048 \
            --port 8100 2>vectors.log) &
    fi
    own="--set endpoints.embedder.model=qwen2.5-coder-0.5b-instruct --set endpoints.embedder.base_url=http://127.0.0.1:8100/v1"
    for seed in 0 1 2 3 4; do
        "$BESTOFQ" train --no-estimate $config $own $matched --set iql.seed=$seed --store $store --out $store/own-matched-$seed
        UNSEEN=0 play own-matched-$seed own-matched-$seed best-of-q $own $matched --set iql.seed=$seed --set gate=off
        "$BESTOFQ" train --no-estimate $config $own $paper --set iql.seed=$seed --store $store --out $store/own-paper-$seed
        UNSEEN=0 play own-paper-$seed own-paper-$seed best-of-q $own $paper --set iql.seed=$seed
    done
fi
NEW=4 UNSEEN=0 play picker memory picker # they ask the model at each step
NEW=4 UNSEEN=0 play verifier memory verifier
NEW=4 UNSEEN=0 play vote memory vote --set proposer=none # its own draws
NEW=4 UNSEEN=0 play prior memory prior --set proposer=none
if [ "${SETS:-0}" != 0 ]; then # other exploring episodes
    played=runs/miniwob-qwensets
    UNSEEN=0 play first memory prompting
    for seed in $(seq 1 $SETS); do
        "$BESTOFQ" collect $config --set seed=$seed --set seed_runs=${PASSES:-32} --store $store-$seed
        "$BESTOFQ" train $config --store $store-$seed --out $store-$seed/memory
        UNSEEN=0 play gate-$seed ../miniwob-qwen-$seed/memory best-of-q
        UNSEEN=0 play memory-$seed ../miniwob-qwen-$seed/memory best-of-q --set gate=off
    done
    "$PYTHON" -m experiments.outcomes write $here/episodes-sets.csv $played-same $played-new
fi
if [ "${LARGE:-0}" = 1 ]; then # its candidates, ranked by what the small model's episodes taught
    if ! curl -s http://127.0.0.1:8099/health >/dev/null; then
        (cd runs/qwen && exec ./llama-server -m qwen2.5-coder-1.5b-instruct-q4_k_m.gguf -t 1 -np 2 -c 16384 --port 8099 2>server15.log) &
    fi
    played=runs/miniwob-qwen15
    config="$config --set endpoints.chat.model=qwen2.5-coder-1.5b-instruct --set endpoints.chat.base_url=http://127.0.0.1:8099/v1"
    NEW=8 UNSEEN=0 play first-1.5b memory prompting
    NEW=8 UNSEEN=0 play memory-gated-1.5b memory best-of-q
    NEW=8 UNSEEN=0 play words-1.5b memory words
    NEW=8 UNSEEN=0 play random-1.5b memory random
    "$BESTOFQ" collect $config --set seed_runs=${PASSES:-32} --store runs/miniwob-qwen15
    "$BESTOFQ" train $config --store runs/miniwob-qwen15 --out runs/miniwob-qwen15/memory
    NEW=8 UNSEEN=0 play own-gated-1.5b ../miniwob-qwen15/memory best-of-q
    NEW=8 UNSEEN=0 play own-memory-1.5b ../miniwob-qwen15/memory best-of-q --set gate=off
    "$PYTHON" -m experiments.outcomes write $here/episodes-1.5b.csv $played-same $played-new
fi
"$PYTHON" -m experiments.memory.proposals write $here/proposals.jsonl
"$PYTHON" -m experiments.outcomes write $here/episodes.csv $store $store-same $store-new $store-unseen
