#!/bin/sh
# WebShop's real files (in data/webshop): can the pocket model play products that it was not taught? A model of train goals, its
# exploring episodes on them, then 200 goals of other products. An hour and a half on two cores; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/webshop-real
model=runs/pocket-products
store=runs/webshop-products
config="--config $here/config.toml --set suite.splits=product --set model.path=$model"
if [ ! -d $model ]; then
    .venv/bin/python -m experiments pocket --out $model.part --set demonstrations.data=data/webshop \
        --set 'demonstrations.data_splits=["product","webshop"]' --set examples=46000 --set vocabulary=4096 \
        --set induction.steps=200 --set demonstrations.named=true --set demonstrations.pick_share=0.12 \
        --set demonstrations.review_share=0.6 --set demonstrations.lookup_share=0.15 --set training.steps=1850 \
        --set training.batch_tokens=9216 --set training.lr_muon=0.006 --set training.lr_adam=0.001 \
        --set "training.widths=[288,400,512,640]"
    mv $model.part $model
fi
"$BESTOFQ" collect $config --store $store
"$BESTOFQ" eval $config --split test --tasks 200 --runs 1 --agents prompting --store $store-test --run unseen
"$BESTOFQ" report $store --table agents --json $store/report
cp $store/report/agents.json $here/taught.json
"$BESTOFQ" report $store-test --table agents --json $store-test/report
cp $store-test/report/agents.json $here/unseen.json
