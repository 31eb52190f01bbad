#!/bin/sh
# How many episodes of each task does Q need? The shop's matched Q from one to five passes over its 800 tasks
# (`ladder.sh shop` makes them). Half an hour on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
config="--config $here/shop.toml --set iql.network.hidden=[512,256] --set iql.discount=0.95
    --set iql.network.scaling=whiten --set model.embed.matches=true"
store=runs/ladder-shop
for passes in 1 2 3 4 5; do
    "$BESTOFQ" train --no-estimate $config --store $store --episodes $((800 * passes)) --out $store/passes-$passes
    for rung in same new; do
        case $rung in
        same) where="--split train" ;;
        new) where="--split train --set suite.only=P??00[0-3]?-2" ;;
        esac
        "$BESTOFQ" eval $config $where --tasks 240 --runs 1 --q $store/passes-$passes --agents best-of-q \
            --store runs/ladder-episodes --run $rung-$passes --out $here/episodes-$rung-$passes.json
    done
done
