#!/bin/sh
# Five training seeds of the Q of many products that reads reviews, too (`ladder.sh many` makes its episodes), as one scorer that leaves the
# verifier's choice where they disagree: how cautious is chosen on 200 dev tasks, then 240 tests on other products. Two hours on
# one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-many
config="--config $here/shop.toml --set suite.only=*"
reviewed="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten
    --set model.embed_matches=true --set model.embed_context=review --set model.embed_pooling=last"
for seed in 0 1 2 3 4; do
    "$BESTOFQ" train --no-estimate $config --set suite.train_tasks=4000 --set seed_runs=1 $reviewed --set iql.seed=$seed --store $store \
        --out $store/rev-$seed
done
export BESTOFQ_ENSEMBLE=$store/rev-0,$store/rev-1,$store/rev-2,$store/rev-3,$store/rev-4
play() { # SPLIT TASKS RUN ARGUMENTS...
    split=$1 tasks=$2 run=$3
    shift 3
    "$BESTOFQ" eval $config $reviewed --split $split --tasks $tasks --runs 1 "$@" --store runs/ladder-verified-$split --run $run \
        --out $here/verified-$split-$run.json
}
alone="--q $store/rev-0 --agents prompting,verifier,best-of-q,prior"
play dev 200 base $alone
for how in mean verified cautious_verified; do
    play dev 200 $how --agents own --set scorer=experiments.ensemble:$how
done
play test 240 base $alone
play test 240 verified --agents own --set scorer=experiments.ensemble:verified
