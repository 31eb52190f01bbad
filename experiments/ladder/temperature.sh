#!/bin/sh
# Where does Q begin to pay: from candidates that hardly differ from the first to ones that are drawn far from it. The
# shop's matched Q (`ladder.sh shop` makes it) on other goals for the products it knows. An hour on one core; started
# again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"
goals="--split train --set suite.only=P??00[0-3]?-2 --tasks 160 --runs 1"
for t in 0.4 0.8 1.2 1.6; do
    "$BESTOFQ" eval --config $here/shop.toml $goals $matched --set model.temperature=$t --q runs/ladder-shop/q0 \
        --agents prompting,random,vote,verifier,best-of-q,prior --store runs/ladder-temperature --run at-$t \
        --out $here/temperature-$t.json
    "$BESTOFQ" eval --config $here/shop.toml $goals --set model.temperature=$t --set scorer=experiments.ceiling:Ceiling \
        --agents own --store runs/ladder-temperature --run ceiling-$t --out $here/temperature-$t-ceiling.json
done
