#!/usr/bin/env bash
# Record with exploration, train, and play three arms: the agent's own reply, the best value, the best value behind the gate.
# Run again, it continues. BROWSER_USE: the Python that has browser-use; RECORD, TASKS: tasks to record, and to play in each set.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=experiments/serve-browser-use out=${OUT:-runs/serve-browser-use} record=${RECORD:-240} tasks=${TASKS:-60}
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
python=${BROWSER_USE:-.venv-browser-use/bin/python} world=http://127.0.0.1:8801
mkdir -p "$out"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT
start() { "$@" >>"$out/log.txt" 2>&1 & pids+=($!); }
up() { until curl -s -o /dev/null "$1"; do sleep 1; done; }
serve() { # ARM PORT OPTIONS...
    start "$BESTOFQ" serve --upstream $world/v1 --store "$out/$1" --run "$1" --port "$2" "${@:3}"
    up "http://127.0.0.1:$2/v1/models"
}
drive() { # ARM PORT SPLIT TASKS
    $python $here/drive.py --world $world --serve "http://127.0.0.1:$2" --name "$1-$3" --out "$out/$1-$3.jsonl" --split "$3" --tasks "$4" >>"$out/drive.txt" 2>&1
}

start .venv/bin/python $here/world.py --port 8801
up $world/v1/models
serve record 8770 --explore 0.2
drive record 8770 train "$record"
kill "${pids[-1]}" && wait "${pids[-1]}" || true # a store has one writer
"$BESTOFQ" train --store "$out/record" --run record --out "$out/q"
port=8771
for split in ${SETS:-test train}; do # other products, and the tasks that it learned from
    arms=()
    for arm in own "argmax --rank $out/q --insist" "gated --rank $out/q"; do
        serve "${arm%% *}-$split" $((port += 1)) ${arm#"${arm%% *}"}
        drive "${arm%% *}" $port $split "$tasks" & arms+=($!)
    done
    wait "${arms[@]}"
done
.venv/bin/python -m experiments.outcomes write $here/episodes.csv "$out"/record "$out"/*-test "$out"/*-train
