#!/bin/sh
# sh experiments/ladder/ensemble.sh matched|reviewed: five training seeds of a Q of many products (`ladder.sh many` makes its
# episodes) as one cautious scorer. The matched Q is cautious around the proposer's first candidate, the one that reads reviews, too,
# around the verifier's choice. How cautious is chosen on 200 dev tasks, then 240 tests on other products. An hour and two hours
# on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
q=$1
store=runs/ladder-many
settings="--config $here/shop.toml --set suite.only=* --set iql.network.hidden=[512,256] --set iql.discount=0.95
    --set iql.network.scaling=whiten --set model.embed_matches=true"
case $q in
matched) name=ensemble tried="mean cautious very_cautious most_cautious" chosen="mean very_cautious" ;;
reviewed)
    name=verified tried="mean verified cautious_verified" chosen=verified
    settings="$settings --set model.embed_context=review --set model.embed_pooling=last"
    ;;
esac
BESTOFQ_ENSEMBLE=
for seed in 0 1 2 3 4; do
    "$BESTOFQ" train --no-estimate $settings --set suite.train_tasks=4000 --set seed_runs=1 --set iql.seed=$seed --store $store \
        --out $store/$q-$seed
    BESTOFQ_ENSEMBLE=$BESTOFQ_ENSEMBLE${BESTOFQ_ENSEMBLE:+,}$store/$q-$seed
done
export BESTOFQ_ENSEMBLE
play() { # SPLIT TASKS RUN ARGUMENTS...
    split=$1 tasks=$2 run=$3
    shift 3
    "$BESTOFQ" eval $settings --split $split --tasks $tasks --runs 1 "$@" --store runs/ladder-$name-$split --run $run \
        --out $here/$name-$split-$run.json
}
for split in dev test; do
    test $split = dev && tasks=200 how=$tried || tasks=240 how=$chosen
    play $split $tasks base --q $store/$q-0 --agents prompting,verifier,best-of-q,prior
    for one in $how; do
        play $split $tasks $one --agents own --set scorer=experiments.ensemble:$one
    done
done
