#!/bin/sh
# After `sh experiments/memory/run.sh quirks`: that memory on the 240 tasks of two rungs. 25 minutes on one core.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/quirks
for rung in sites test; do
    case $rung in
    test) splits=task ;;  # new tasks on known sites
    sites) splits=site ;; # new sites
    esac
    "$BESTOFQ" eval --config $here/config.toml --set value=memory --q runs/memory-quirks/memory --split test --set suite.splits=$splits \
        --tasks 240 --runs 1 --agents prompting,words,best-of-q --store runs/quirks-$rung --run memory
done
.venv/bin/python -m experiments.outcomes write $here/episodes.csv runs/quirks-test runs/quirks-sites
.venv/bin/python -m experiments.outcomes gains $here/episodes.csv quirks-test:memory:prompting
