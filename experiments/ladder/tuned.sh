#!/bin/sh
# Other restaurants with a model that needs little help: Agent Q's of experiments/agentq-booking-pocket, seed 0, whose command
# goes first (README there). Seed passes, a Q-function, three agents. An hour on one core; it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-tuned
config="--config $here/booking.toml --model runs/agentq-booking/seed-0/agent-q/model"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed_matches=true"

"$BESTOFQ" collect $config --store $store
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/q0
"$BESTOFQ" eval $config $matched --split test --set suite.only=* --q $store/q0 --agents prompting,best-of-q,prior \
    --tasks 100 --runs 1 --store $store-held-out --run q0 --out $store-held-out/q0.json
"$BESTOFQ" report $store-held-out --baseline prompting --table agents --markdown $store-held-out/report --json $store-held-out/report
cp $store-held-out/report/agents.md $here/tuned-held-out.md
cp $store-held-out/report/agents.json $here/tuned-held-out.json
