#!/bin/sh
# Attention over tokens, and the proposer's own probability, as inputs of Q, from the first 1,200 of the shop's episodes
# (`experiments/ladder/ladder.sh shop` makes them) in 1,500 steps. Half an hour on one core.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/webshop-attention
config="--config experiments/ladder/shop.toml"
dev=runs/webshop-attention-dev
"$BESTOFQ" eval $config --split dev --tasks 100 --runs 1 --agents random --run dev --store $dev
.venv/bin/python -m experiments inputs $config --set iql.network.hidden=[512,256] --set iql.discount=0.95 \
    --set iql.network.scaling=whiten --set model.embed_matches=true --set iql.precision=fp32 --set iql.steps=1500 \
    --episodes 1200 --store runs/ladder-shop --dev $dev --out runs/webshop-attention --results $here
