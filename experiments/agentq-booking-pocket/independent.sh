#!/bin/sh
# README's control of the search: six independent rollouts of each test task by the base model, with the same stop at the first
# success. A quarter of an hour on two quiet cores; what is done is not done again.
set -eu
here=experiments/agentq-booking-pocket
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
PYTHON=${PYTHON:-.venv/bin/python}
"$BESTOFQ" eval --config $here/config.toml --set proposer=experiments.agent_q.sampled:make_proposer --agents prompting \
    --split test --tasks 200 --runs 6 --run sampled --store runs/agentq-independent
"$PYTHON" -m experiments.agent_q.sampled runs/agentq-independent sampled $here/episodes.csv
