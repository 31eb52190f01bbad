#!/bin/sh
# Candidates that one reply lists, none of them first for being likeliest (experiments/listing.py), beside the single
# reply and draws of the same model. The shipped pocket model is taught such replies first. An hour and a half on one core; started
# again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
model=runs/pocket-listing
store=runs/ladder-listing
config="--config $here/shop.toml --set model.path=$model --set seed_runs=3"
lists="--set proposer=experiments.listing:make_proposer"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"
if [ ! -d $model ]; then
    .venv/bin/python -m experiments pocket --out $model.part --set base=sites/src/bestofq_sites/models/pocket \
        --set examples=20000 --set demonstrations.listing_share=1 --set demonstrations.review_share=0.3 \
        --set demonstrations.miniwob.share=0 --set training.steps=400 --set training.lr_muon=0.006 \
        --set training.lr_adam=0.001 --set training.widths=[192,256,320,400,512]
    mv $model.part $model
fi

"$BESTOFQ" collect $config $lists --store $store
"$BESTOFQ" train --no-estimate $config $lists --store $store --out $store/paper
"$BESTOFQ" train --no-estimate $config $lists $matched --store $store --out $store/matched
for rung in same new; do
    goals="--split train --tasks 240 --runs 1 --store $store-$rung"
    [ $rung = same ] || goals="$goals --set suite.only=P??00[0-3]?-2" # other goals for the same products
    out=$here/listing-$rung
    "$BESTOFQ" eval $config $goals --agents prompting,random,verifier --run single --out $out-single.json
    "$BESTOFQ" eval $config $lists $goals --q $store/paper --agents prompting,random,verifier,best-of-q --run paper \
        --out $out-paper.json
    "$BESTOFQ" eval $config $lists $matched $goals --q $store/matched --agents best-of-q --run matched --out $out-matched.json
    "$BESTOFQ" eval $config $lists $goals --set scorer=experiments.ceiling:Ceiling --agents own --run ceiling \
        --out $out-ceiling.json
done
