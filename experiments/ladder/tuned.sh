#!/bin/sh
# Bookings with a model that needs little help: Agent Q's of experiments/agentq-booking-pocket, seed 0, whose command goes first
# (README there). Seed passes, a Q-function, three agents: on the tasks that it learned from, and on other restaurants. An hour and
# a half on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-tuned
config="--config $here/booking.toml --model runs/agentq-booking/seed-0/agent-q/model"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"

"$BESTOFQ" collect $config --store $store
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/q0
for rung in same held-out; do
    test $rung = same && where="--split train" || where="--split test --set suite.only=*"
    "$BESTOFQ" eval $config $matched $where --q $store/q0 --agents prompting,best-of-q,prior \
        --tasks 100 --runs 1 --store $store-$rung --run q0 --out $store-$rung/q0.json
    "$BESTOFQ" report $store-$rung --baseline prompting --table agents --markdown $store-$rung/report --json $store-$rung/report
    cp $store-$rung/report/agents.md $here/tuned-$rung.md
    cp $store-$rung/report/agents.json $here/tuned-$rung.json
done
