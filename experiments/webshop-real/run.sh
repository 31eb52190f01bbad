#!/bin/sh
# sh experiments/webshop-real/run.sh product|webshop: WebShop's real files (in data/webshop), split by product or as published.
# The model, which both share, then exploring episodes, two Q-functions, and every ranker on 200 test goals, RUNS times.
# SIZES. Started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/webshop-real
model=runs/pocket-real
split=$1
store=runs/webshop-real-$split
config="--config $here/config.toml --set suite.splits=$split"
matched="--set model.embed_context=alone --set model.embed_pooling=mean --set model.embed_matches=true --set iql.steps=4000
    --set iql.discount=0.95 --set iql.network.hidden=[512,256] --set iql.network.dropout=0.1 --set iql.network.scaling=whiten"
if [ ! -d $model ]; then
    .venv/bin/python -m experiments pocket --out $model.part --set demonstrations.data=data/webshop \
        --set examples=46000 --set vocabulary=4096 --set induction.steps=200 --set demonstrations.named=true \
        --set demonstrations.pick_share=0.12 --set demonstrations.review_share=0.6 --set demonstrations.lookup_share=0.15 \
        --set training.steps=1850 --set training.batch_tokens=9216 --set training.lr_muon=0.006 \
        --set training.lr_adam=0.001 --set "training.widths=[288,400,512,640]"
    mv $model.part $model
fi
play() { # RUN AGENTS ARGUMENTS...
    run=$1 agents=$2
    shift 2
    "$BESTOFQ" eval $config --split test --tasks 200 --runs ${RUNS:-3} --agents $agents "$@" \
        --store $store-test --run $run
}

"$BESTOFQ" collect $config --store $store
play reviews prompting,verifier
"$BESTOFQ" train --no-estimate $config --store $store --out $store/reviews
play reviews best-of-q --q $store/reviews
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/matched
play matched best-of-q,prior $matched --q $store/matched
play reviews random,vote
for baseline in prompting verifier; do
    "$BESTOFQ" report $store-test --baseline $baseline --table agents --markdown $store-test/$baseline --json $store-test/$baseline
    cp $store-test/$baseline/agents.md $here/$split-to-$baseline.md
    cp $store-test/$baseline/agents.json $here/$split-to-$baseline.json
done
