#!/bin/sh
# The rungs of the bookings with a model that needs little help: Agent Q's of experiments/agentq-booking-pocket, seed 0, whose
# command goes first (README there). Seed passes, Q-functions, rankers on both rungs. An hour on one core; it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-tuned
config="--config $here/booking.toml --model runs/agentq-booking/seed-0/agent-q/model"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed_matches=true"

play() { # RUNG Q AGENTS SETTINGS...
    rung=$1 q=$2 agents=$3
    shift 3
    case $rung in
    same) where="--split train" ;;                       # the tasks that Q learned from
    held-out) where="--split test --set suite.only=*" ;; # other restaurants
    esac
    "$BESTOFQ" eval $config $where "$@" --q $store/$q --agents $agents --tasks 100 --runs 2 --store $store-$rung \
        --run $q --out $store-$rung/$q.json
}

"$BESTOFQ" collect $config --store $store
"$BESTOFQ" train --no-estimate $config --store $store --out $store/paper
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/q0
for rung in same held-out; do
    play $rung paper prompting,random,vote,best-of-q,prior
    play $rung q0 best-of-q,prior $matched
    "$BESTOFQ" report $store-$rung --baseline prompting --table agents --markdown $store-$rung/report --json $store-$rung/report
    cp $store-$rung/report/agents.md $here/tuned-$rung.md
    cp $store-$rung/report/agents.json $here/tuned-$rung.json
done
