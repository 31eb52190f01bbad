#!/bin/sh
# README's table of rollouts that draw from the policy and rollouts that follow its first choice: the base model with
# search before each step, on 60 dev bookings, and trees of 60 training bookings. What is done already is not done again.
set -eu
HERE=experiments/agentq-booking-pocket
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
for rollout in sample greedy; do
    "$BESTOFQ" eval booking --config $HERE/config.toml --agents mcts --split dev --tasks 60 --runs 1 \
        --store runs/rollouts --run "$rollout" --set "agent_q.inference.rollout=$rollout"
    "$BESTOFQ" search booking --config $HERE/config.toml --split train --tasks 60 --store runs/rollouts \
        --run "trees $rollout" --set "agent_q.search.rollout=$rollout"
done
"$BESTOFQ" compare runs/rollouts --by run --json $HERE/rollouts --markdown $HERE/rollouts
