#!/bin/sh
# README's table of α: from the trees that the experiment leaves, a row's pairs, the model tuned on them, 100 dev
# bookings. A quarter of an hour on two cores; what is done already is not done again.
set -eu
HERE=experiments/agentq-booking-pocket
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
RFT=runs/agentq-booking/seed-0/rft/model
for row in "0.5 0.2" "0.5 0.6" "0.6 0.2" "0.75 0.1" "0.75 0.3" "0.75 0.5" "0.85 0.2" "1 0.2"; do
    alpha=${row% *} threshold=${row#* }
    out=runs/alpha/$alpha-$threshold
    mkdir -p "$out"
    [ -e "$out/pairs.parquet" ] || "$BESTOFQ" pairs --out "$out/pairs.parquet" --config $HERE/config.toml \
        --store runs/agentq-booking --run "search rft 0" --model $RFT \
        --set "agent_q.alpha=$alpha" --set "agent_q.threshold=$threshold"
    "$BESTOFQ" tune --out "$out" --pairs "$out/pairs.parquet" --config $HERE/config.toml --model $RFT
    "$BESTOFQ" eval booking --config $HERE/config.toml --model "$out/model" --agents prompting --split dev --tasks 100 \
        --runs 1 --store runs/alpha --run "α $alpha, threshold $threshold"
done
"$BESTOFQ" report runs/alpha --by run --json $HERE/alpha --markdown $HERE/alpha
