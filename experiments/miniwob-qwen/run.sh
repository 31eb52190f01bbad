#!/bin/sh
# sh experiments/miniwob-qwen/run.sh, after prepare.sh: serve, collect, train, play. Any step may be killed; started again, it continues.
# PROBLEMS (of each kind to learn from), PASSES, NEW and UNSEEN (problems of each kind to play) change the size.
set -ef
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
PYTHON=${PYTHON:-.venv/bin/python}
here=experiments/miniwob-qwen
store=runs/miniwob-qwen
config="--config $here/config.toml"
matched="--set value=network --set iql.steps=1500 --set iql.discount=0.95 --set iql.network.hidden=[512,256] --set iql.network.scaling=whiten --set model.embed.matches=true"
paper="--set preset=paper --set actions=web --set iql.steps=1500" # the actions of the episodes, for the same candidates

if ! curl -s http://127.0.0.1:8097/health >/dev/null; then
    cd runs/qwen
    ./llama-server -m qwen2.5-coder-0.5b-instruct-q4_k_m.gguf -t 1 -np 1 -c 4096 --port 8097 2>server.log &
    ./llama-server -m minilm.gguf --embeddings -t 1 -np 1 -c 512 -b 512 -ub 512 --port 8098 2>embedder.log &
    trap 'kill $(jobs -p)' EXIT
    cd ../..
fi

play() { # RUN Q AGENT SETTINGS...
    run=$1 q=$2 agent=$3
    shift 3
    common="--split test --q $store/$q --agents $agent --tasks 1000 --runs 1 --run $run"
    "$BESTOFQ" eval $config --set suite.per_task=${NEW:-5} "$@" $common --store $store-new
    "$BESTOFQ" eval $config --set suite.only=* --set suite.families=held-out --set suite.per_task=${UNSEEN:-10} "$@" $common --store $store-unseen
}

"$BESTOFQ" collect $config --set suite.per_task=${PROBLEMS:-8} --set seed_runs=${PASSES:-5} --store $store
"$BESTOFQ" train $config --store $store --out $store/memory
for agent in prompting random words; do
    play $agent memory $agent
done
play memory memory best-of-q --set gate=off
play memory-gated memory best-of-q
"$BESTOFQ" train $config $matched --store $store --out $store/matched
play matched matched best-of-q $matched --set gate=off
play matched-gated matched best-of-q $matched --set gate=calibrated
"$BESTOFQ" train $config $paper --store $store --out $store/paper
play paper paper best-of-q $paper
play vote memory vote --set candidates=samples # each candidate is a reply of its own
"$PYTHON" -m experiments.opponents.compare $here/new ${TASKS:-80} $store-new $here/unseen ${TASKS_UNSEEN:-80} $store-unseen
