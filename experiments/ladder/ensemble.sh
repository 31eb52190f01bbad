#!/bin/sh
# Five training seeds of the matched Q of many products (`ladder.sh many` makes its episodes) as one cautious scorer: how
# cautious is chosen on 200 dev tasks, then 240 tests on other products. An hour on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-many
config="--config $here/shop.toml --set suite.only=*"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten
    --set model.embed_matches=true"
for seed in 0 1 2 3 4; do
    "$BESTOFQ" train --no-estimate $config --set suite.train_tasks=4000 --set seed_runs=1 $matched --set iql.seed=$seed --store $store \
        --out $store/seed-$seed
done
export BESTOFQ_ENSEMBLE=$store/seed-0,$store/seed-1,$store/seed-2,$store/seed-3,$store/seed-4
play() { # SPLIT TASKS STORE RUN ARGUMENTS...
    split=$1 tasks=$2 episodes=$3 run=$4
    shift 4
    "$BESTOFQ" eval $config $matched --split $split --tasks $tasks --runs 1 "$@" --store $episodes --run $run \
        --out $here/ensemble-$split-$run.json
}
alone="--q $store/seed-0 --agents prompting,verifier,best-of-q,prior"
play dev 200 runs/ladder-dev base $alone
for how in mean cautious very_cautious most_cautious; do
    play dev 200 runs/ladder-dev matched-$how --agents own --set scorer=experiments.ensemble:$how
done
play test 240 runs/ladder-many-held-out q0 $alone
for how in mean very_cautious; do
    play test 240 runs/ladder-many-held-out $how --agents own --set scorer=experiments.ensemble:$how
done
