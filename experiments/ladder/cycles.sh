#!/bin/sh
# sh experiments/ladder/cycles.sh [shop|booking] [TASKS]: the paper's whole schedule, five exploring passes and four cycles of two. Does
# Q go on learning from its own episodes? For the paper's Q and the matched one. From 800 tasks, the default, these are 10,400 episodes
# each: in the shop two hours on two cores; from 240 three quarters of an hour, of the bookings four hours. Started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
tasks=${2:-800}
case ${1:-shop} in
shop) name=cycles-$tasks played=240 rungs="same new held-out" ;;
booking) name=cycles-booking-$tasks played=200 rungs="same held-out" ;;
esac
config="--config $here/${1:-shop}.toml --set suite.train_tasks=$tasks --set seed_runs=5"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"
seed=runs/ladder-$name
where_is() { # the tasks of a rung
    case $rung in
    same) where="--split train" ;;
    new) where="--split train --set suite.only=P??00[0-3]?-2" ;; # other goals for the same products
    held-out) where="--split test --set suite.only=*" ;;         # other products, other restaurants
    esac
}
compare() { # FILE BASELINE RUNS...
    file=$here/$name-$rung-$q$1.json baseline=$rung-$q-$2
    shift 2
    "$BESTOFQ" report $seed-played "$@" --by run --baseline $baseline --json $seed-report
    cp $seed-report/by-run.json $file
}
"$BESTOFQ" collect $config --store $seed
for q in matched paper; do
    store=$seed-$q
    test -d $store || { cp -r $seed $store.part && mv $store.part $store; }
    test $q = paper || set -- $matched
    test $q = matched || set --
    "$BESTOFQ" improve $config "$@" --set cycles=4 --store $store --out $store
    longer="--no-estimate --set iql.steps=10000 --store $store" # two and a half times as long
    "$BESTOFQ" train $longer $config "$@" --run seed --out $store/qseed-longer
    "$BESTOFQ" train $longer $config "$@" --run seed --run cycle-1 --run cycle-2 --run cycle-3 --run cycle-4 --out $store/qlonger
    for rung in $rungs; do
        where_is
        runs=
        for cycle in 0 1 2 3 4 longer seed-longer; do
            "$BESTOFQ" eval $config "$@" $where --tasks $played --runs 1 --q $store/q$cycle --agents best-of-q \
                --store $seed-played --run $rung-$q-$cycle
            runs="$runs --run $rung-$q-$cycle"
        done
        compare "" 0 $runs
        compare -longer seed-longer --run $rung-$q-seed-longer --run $rung-$q-longer
    done
done
for rung in $rungs; do # beside the proposer's first candidate
    where_is
    "$BESTOFQ" eval $config $where --tasks $played --runs 1 --agents prompting --store $seed-played --run $rung-first
    "$BESTOFQ" report $seed-played --run $rung-first --run $rung-matched-0 --run $rung-matched-4 --run $rung-paper-0 \
        --run $rung-paper-4 --by run --baseline $rung-first --json $seed-report
    cp $seed-report/by-run.json $here/$name-$rung-first.json
done
