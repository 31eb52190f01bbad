#!/usr/bin/env bash
# Record with exploration, train, and play three arms: the agent's own reply, the best value, the best value behind the gate.
# Run again, it continues. UPSTREAM: an endpoint that has the model; PASSES of 24 tasks to record, TASKS of each split to play.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=experiments/other_shop out=${OUT:-runs/other-shop} upstream=${UPSTREAM:-http://127.0.0.1:8097/v1} tasks=${TASKS:-48}
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq} table=${TABLE:-$here/episodes.csv}
export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}.
mkdir -p "$out"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT
start() { "$@" >>"$out/log.txt" 2>&1 & pids+=($!); }
serve() { # STORE PORT OPTIONS...; fails if it ends at once, as where the gate is shut
    start "$BESTOFQ" serve --upstream "$upstream" --store "$out/$1" --run "$1" --port "$2" --n 2 --deadline 400 "${@:3}"
    until curl -s -o /dev/null "http://127.0.0.1:$2/v1/models"; do kill -0 "${pids[-1]}" 2>/dev/null || return 1; sleep 1; done
}
play() { # ARM SPLIT PORT TASKS PASSES
    .venv/bin/python -m experiments.other_shop.play "$1" "$2" "http://127.0.0.1:$3" "$4" "$5" "$table"
}

serve record 8781 --explore 0.2
play record train 8781 24 "${PASSES:-7}"
kill "${pids[-1]}" && wait "${pids[-1]}" || true # a store has one writer
"$BESTOFQ" train --store "$out/record" --run record --out "$out/q"
serve own 8782
serve argmax 8783 --rank "$out/q" --insist
arms=(own:8782 argmax:8783)
if serve gated 8784 --rank "$out/q"; then arms+=(gated:8784); fi # where the gate is shut it is as own
for many in $(seq 8 8 "$tasks"); do # a few tasks at a time, so that all arms have the same ones whenever it stops
    for split in test train; do
        for arm in "${arms[@]}"; do
            play "${arm%:*}" $split "${arm#*:}" "$many" 1
        done
    done
done
for split in test train; do
    .venv/bin/python -m experiments.outcomes gains "$table" own-$split:own-$split:own
done
