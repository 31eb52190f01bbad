#!/bin/sh
# Is what `bestofq estimate` says beforehand what is then measured? Scorers of known worth first (two minutes), then
# Q-functions good and bad, each judged by held-out logs and played (an hour on one core). Started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
config="--config experiments/ladder/shop.toml"
goals="--set suite.only=P??00[0-3]?-2" # other goals for the same products: no Q learned from them

.venv/bin/python -m experiments estimate noisy
"$BESTOFQ" collect $config --set seed_runs=1 --store runs/estimate-learned
"$BESTOFQ" collect $config $goals --set suite.train_tasks=400 --set seed_runs=2 --store runs/estimate-held-out
for group in matching plain; do
    .venv/bin/python -m experiments estimate $group
done
.venv/bin/python -m experiments estimate
