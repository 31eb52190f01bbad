#!/bin/sh
# After ladder.sh shop: how exchangeable the candidates are, by the proposer's temperature. Half an hour on one core; started
# again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-shop
settings="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed_matches=true"
for temperature in 0.4 0.8 1.2 1.6; do # the shop's Q-function learned from candidates drawn at 0.8
    "$BESTOFQ" eval --config $here/shop.toml $settings --split train --set suite.only=P??00[0-3]?-2 --tasks 160 --runs 1 \
        --q $store/q0 --agents prompting,random,vote,verifier,best-of-q --set model.temperature=$temperature \
        --store $store-temperature --run t$temperature --out $store-temperature/t$temperature.json
    cp $store-temperature/t$temperature.json $here/temperature-$temperature.json
done
"$BESTOFQ" report $store-temperature --by model.temperature --svg $here/temperature.svg
