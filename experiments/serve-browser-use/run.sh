#!/usr/bin/env bash
# record -> outcome -> train -> compare. Run again it goes on where it was. BROWSER_USE: the python that has browser-use.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=experiments/serve-browser-use out=${OUT:-runs/serve-browser-use} tasks=${TASKS:-200}
python=${BROWSER_USE:-.venv-browser-use/bin/python} world=http://127.0.0.1:8801
bin=.venv/bin BESTOFQ=.venv/bin/bestofq store=$out/store
mkdir -p "$out"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
start() { "$@" >>"$out/log.txt" 2>&1 & pids+=($!); }
serve() { start "$BESTOFQ" serve --upstream $world/v1 --store "$store-$1" --run "$1" --port "$2" "${@:3}"; }
up() { until curl -s -o /dev/null "$1"; do sleep 1; done; }
drive() { $python $here/drive.py --world $world --serve "http://127.0.0.1:$1" --name "$2" --out "$out/$2-$3.jsonl" --first "$3" --tasks "$((tasks / 2))" "${@:4}" >>"$out/drive.txt" 2>&1; }
both() { drive "$@" & local one=$!; drive "$1" "$2" $((tasks / 2)) "${@:4}"; wait $one; }

start $bin/python $here/world.py --port 8801
serve record 8770
up $world/v1/models
up http://127.0.0.1:8770/v1/models
both 8770 record 0 --split train --temperature 1.0
kill "${pids[1]}" && wait "${pids[1]}" || true # a store has one writer
"$BESTOFQ" train --store "$store-record" --run record --out "$out/q" --set model.embedder=pocket \
    --set iql.network.scaling=whiten --set model.embed.matches=true --set iql.steps=1500
serve prompting 8771
serve best-of-q 8772 --rank "$out/q" --embedder pocket
up http://127.0.0.1:8771/v1/models
up http://127.0.0.1:8772/v1/models
both 8771 prompting 0 --split test &
arm=$!
both 8772 best-of-q 0 --split test
wait $arm
$bin/python $here/compare.py "$out" $here/result.json
