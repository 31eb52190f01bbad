#!/bin/sh
# The quirks with what the shop's ladder found: how tokens match the goal's (`model.embed.matches`). Needs the pocket model
# of the README. An hour on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/quirks
config="--config $here/config.toml"
matched="$config --set model.embed.matches=true"
"$BESTOFQ" collect $config --store runs/quirks
"$BESTOFQ" train --no-estimate $config --store runs/quirks --out runs/quirks/q-0
"$BESTOFQ" train --no-estimate $matched --store runs/quirks --out runs/quirks/q-matched

played="--tasks 240 --runs 1"
for rung in test same sites; do
    case $rung in
    test) where="--split test --set suite.splits=task" ;;  # new tasks on known sites
    same) where="--split train --set suite.splits=task" ;; # the tasks Q learned from
    sites) where="--split test --set suite.splits=site" ;; # new sites
    esac
    "$BESTOFQ" eval $config $where $played --q runs/quirks/q-0 --agents prompting,best-of-q --store runs/quirks-$rung \
        --run $rung --out $here/$rung-again.json
    "$BESTOFQ" eval $matched $where $played --q runs/quirks/q-matched --agents best-of-q,prior --store runs/quirks-$rung \
        --run $rung-matched --out $here/$rung-matched.json
done
