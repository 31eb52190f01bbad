#!/bin/sh
# The whole study on one machine, from the repository's root: sh experiments/agentq-open/run.sh [--dry-run]
# Killed at any moment, the same command continues. BASE, GPUS, OUT, TASKS, HELD_OUT and STAGES may be set before it;
# further words (--set …) go to every command.
set -eu
here=$(dirname "$0")
base=${BASE:-meta-llama/Meta-Llama-3-70B-Instruct}
gpus=${GPUS:-8} out=${OUT:-runs/agentq-open} tasks=${TASKS:-200} held_out=${HELD_OUT:-200}
serve=${SERVE:-vllm serve} sharded=${SHARDED:-examples/accelerate/fsdp.yaml}
python=.venv/bin/python config=$here/config.toml
BESTOFQ=.venv/bin/bestofq
dry=
[ "${1:-}" = --dry-run ] && dry=1 && shift

serving() { # MODEL: behind the endpoint of config.toml
    $serve "$1" --served-model-name policy --tensor-parallel-size "$gpus" --port 8000 > "$out/server.log" 2>&1 &
    server=$!
    trap 'kill $server' EXIT
    until curl -sf http://127.0.0.1:8000/v1/models > /dev/null; do
        kill -0 $server || { cat "$out/server.log"; exit 1; }
        sleep 5
    done
}

stopped() {
    kill $server
    wait $server || true
    trap - EXIT
}

tuned() { # MODEL OUT …: adapters of MODEL, by all GPUs; then whole weights in OUT/model
    weights=$1 folder=$2 && shift 2
    [ -e "$folder/model" ] && return
    $python -m accelerate.commands.launch --config_file "$sharded" --num_processes "$gpus" -m bestofq.cli.main tune \
        --config "$config" --store "$out" --out "$folder" "$@" --set "model.path=$weights"
    [ -e "$folder/model" ] || $python - "$weights" "$folder" << 'MERGE'
import sys
from pathlib import Path
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base, folder = sys.argv[1], Path(sys.argv[2])
model = AutoModelForCausalLM.from_pretrained(base, dtype="bfloat16")
PeftModel.from_pretrained(model, folder / "adapter").merge_and_unload().save_pretrained(folder / "part")
AutoTokenizer.from_pretrained(base).save_pretrained(folder / "part")
(folder / "part").rename(folder / "model")
MERGE
}

mkdir -p "$out"
if [ -n "$dry" ]; then # with the model served or not: the table says what is missing
    "$BESTOFQ" search --config "$config" --store "$out" --run rft --tasks "$tasks" --dry-run --set model.path="$base" "$@"
    exit
fi
policy=$base
for stage in ${STAGES:-rft dpo}; do
    [ -e "$out/$stage/model" ] && policy=$out/$stage/model && continue
    serving "$policy"
    "$BESTOFQ" search --config "$config" --store "$out" --run "$stage" --tasks "$tasks" --set model.path="$policy" "$@"
    stopped
    if [ "$stage" = rft ]; then # 6.2: RFT first, and its model is the reference of DPO
        tuned "$policy" "$out/rft" --run rft "$@"
    else
        "$BESTOFQ" pairs --config "$config" --store "$out" --run dpo --out "$out/pairs.parquet" --set model.path="$policy" "$@"
        tuned "$policy" "$out/dpo" --pairs "$out/pairs.parquet" "$@"
    fi
    policy=$out/$stage/model
done
serving "$policy"
"$BESTOFQ" eval --config "$config" --store "$out" --agents prompting,mcts --split test --tasks "$held_out" --runs 1 \
    --out "$here/result.json" --set model.path="$policy" "$@"
stopped
