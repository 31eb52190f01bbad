#!/bin/sh
# sh benchmarks/gpu.sh FOLDER: all that needs a GPU, in at most ten minutes. Tests, steps of IQL, DPO beside TRL, the embedder.
# FOLDER gets a JSON file and a log of each. With TRIAL=1 the same commands run at tiny sizes, on any machine.
set -u
out=${1:?usage: sh benchmarks/gpu.sh FOLDER}
python=${PYTHON:-.venv/bin/python}
mkdir -p "$out"

measure() { # NAME SECONDS ARGUMENTS...
    name=$1 seconds=$2
    shift 2
    timeout "$seconds" "$python" "$@" >"$out/$name.log" 2>&1
    echo "$name: exit $?, $out/$name.log"
}

if [ "${TRIAL:-0}" = 1 ]; then
    iql="--dims 64 --steps 5 --rounds 1" dpo="--model pocket --steps 2 --rounds 1 --only 8:1 --shorter 8" embedder="--sizes tiny --states 4 --actions 16"
else
    iql="--dims 2048 --steps 200 --rounds 3" dpo="--model 0.5b --device cuda" embedder="--device cuda --sizes 3b"
fi
measure tests 150 -m pytest -q -m gpu -rs
measure iql 100 benchmarks/iql.py $iql --out "$out/iql-gpu.json"
measure embedder 150 benchmarks/embedder.py $embedder --out "$out/embedder-gpu.json"
measure dpo 190 benchmarks/dpo.py $dpo --out "$out/dpo-gpu.json"
