#!/bin/sh
# README's table of rollouts that draw from the policy and rollouts that follow its first choice: the base model with
# search before each step, on 150 dev bookings. Forty minutes on two cores; what is done is not done again.
set -eu
HERE=experiments/agentq-booking-pocket
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
for rollout in sample greedy; do
    "$BESTOFQ" eval booking --config $HERE/config.toml --agents mcts --split dev --tasks 150 --runs 1 \
        --store "runs/rollouts-$rollout" --run "$rollout" --set "agent_q.search.rollout=$rollout" \
        --set agent_q.search.stop_at_success=true
done
"$BESTOFQ" report runs/rollouts-greedy runs/rollouts-sample --by run --json $HERE/rollouts --markdown $HERE/rollouts
