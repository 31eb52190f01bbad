#!/bin/sh
# sh experiments/ladder/ladder.sh shop|many|booking|miniwob: seed passes, Q-functions, every ranker on every rung. An hour or
# two on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
env=$1
store=runs/ladder-$env
config="--config $here/$env.toml"
whitened="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten"
matched="$whitened --set model.embed.matches=true"
one_hot="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set model.embedder=experiments.one_hot:OneHot"
case $env in
many) # as many episodes of the shop, but one of each of 4,000 goals for all training products
    config="--config $here/shop.toml --set suite.only=* --set suite.train_tasks=4000 --set seed_runs=1"
    rungs="held-out" rankers=prompting,random,verifier played="--tasks 240 --runs 1"
    ;;
shop) rungs="same new held-out" rankers=prompting,random,vote,picker,verifier played="--tasks 240 --runs 1" ;;
booking) rungs="same held-out" rankers=prompting,random,vote played="--tasks 100 --runs 2" ;;
miniwob) rungs="same seeds" rankers=prompting,random,vote,picker,verifier played="--tasks 235 --runs 1" ;;
esac

play() { # RUNG Q AGENTS SETTINGS...
    rung=$1 q=$2 agents=$3
    shift 3
    case $rung in
    same) where="--split train" ;;                                       # the tasks that Q learned from
    new) where="--split train --set suite.only=P??00[0-3]?-2" ;;         # other goals for the same products
    held-out) where="--split test --set suite.only=*" ;;                 # other products, other restaurants
    reworded) where="--split train --set suite.name=experiments.shops:reworded" ;;
    reworded-held-out) where="--split test --set suite.only=* --set suite.name=experiments.shops:reworded" ;;
    seeds) where="--split test --set suite.families=seen --set suite.per_task=5" ;; # other problems of the tasks it learned
    families) where="--split test --set suite.only=* --set suite.families=held-out --set suite.per_task=10" ;;
    esac
    "$BESTOFQ" eval $config $where "$@" --q $store/$q --agents $agents $played --store $store-$rung --run $q \
        --out $store-$rung/$q.json
}
climb() { # Q AGENTS SETTINGS...
    for rung in $rungs; do play $rung "$@"; done
}

"$BESTOFQ" collect $config --store $store
"$BESTOFQ" train $config --set value=memory --store $store --out $store/memory
climb memory prompting,words,best-of-q,memory # the memory behind its gate, and without
further=
case $env in
shop) further="reworded reworded-held-out" ;; # goals in other words
miniwob) further=families played="--tasks 110 --runs 1" ;;
esac
for rung in $further; do play $rung memory prompting,words,best-of-q,memory; done
case $env in
miniwob) played="--tasks 235 --runs 1" stores="$store-same $store-seeds $store-families" csv=episodes-miniwob.csv ;;
shop) stores="$store-same $store-new $store-held-out $store-reworded $store-reworded-held-out" csv=episodes.csv ;;
*) stores= ;;
esac
[ -z "$stores" ] || .venv/bin/python -m experiments.outcomes write $here/$csv $stores
"$BESTOFQ" train --no-estimate $config --store $store --out $store/paper
climb paper $rankers,best-of-q,prior
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/q0
climb q0 best-of-q,prior $matched
if [ $env = many ] || [ $env = shop ]; then # reading reviews, too: that of many ships as pocket_q
    reviewed="$matched --set model.embed.context=review --set model.embed.pooling=last"
    "$BESTOFQ" train --no-estimate $config $reviewed --store $store --out $store/reviewed
    climb reviewed best-of-q $reviewed
    for rung in $rungs; do cp $store-$rung/reviewed.json $here/$env-$rung-reviewed.json; done
fi
if [ $env = shop ] || [ $env = booking ]; then
    "$BESTOFQ" train --no-estimate $config $whitened --store $store --out $store/whitened
    climb whitened best-of-q,prior $whitened
    "$BESTOFQ" train --no-estimate $config $one_hot --store $store --out $store/one-hot
    play same one-hot best-of-q $one_hot
fi
if [ $env = shop ]; then # other training seeds, and a cycle of two passes with q0
    for seed in 1 2; do
        "$BESTOFQ" train --no-estimate $config $matched --set iql.seed=$seed --store $store --out $store/seed-$seed
        climb seed-$seed best-of-q $matched
    done
    "$BESTOFQ" improve $config $matched --set cycles=1 --store $store --out $store
    climb q1 best-of-q $matched
fi
for rung in $rungs; do
    "$BESTOFQ" report $store-$rung --baseline prompting --table agents --markdown $store-$rung/report --json $store-$rung/report
    cp $store-$rung/report/agents.md $here/$env-$rung.md
    cp $store-$rung/report/agents.json $here/$env-$rung.json
done
if [ $env = shop ]; then
    "$BESTOFQ" report $store-same --baseline prompting --by agent --svg $here/success.svg
    mv $here/shop-same.md $here/table.md
    mv $here/shop-same.json $here/result.json
fi
