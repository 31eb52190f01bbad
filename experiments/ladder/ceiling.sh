#!/bin/sh
# What choosing could reach at most: the oracle takes what is right wherever it is proposed. On bookings also what the model itself
# picks, asked as in Agent Q's search. An hour on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
play() { # NAME CONFIG ARGUMENTS...
    name=$1 config=$here/$2.toml
    shift 2
    "$BESTOFQ" eval --config $config "$@" --store runs/ladder-ceiling --run $name --out $here/$name.json
}
ceiling() { # CONFIG RUNG RUNS ARGUMENTS...
    env=$1 rung=$2 runs=$3
    shift 3
    play ceiling-$env-$rung $env --agents own --set scorer=experiments.ceiling:Ceiling --runs $runs "$@"
}
ceiling shop same 1 --split train --tasks 240
ceiling shop new 1 --split train --tasks 240 --set suite.only=P??00[0-3]?-2
ceiling shop held-out 1 --split test --tasks 240 --set suite.only=*
ceiling miniwob same 1 --split train --tasks 235
ceiling miniwob seeds 1 --split test --tasks 235 --set suite.families=seen --set suite.per_task=5
ceiling miniwob families 1 --split test --tasks 110 --set suite.only=* --set suite.families=held-out --set suite.per_task=10
for rung in same held-out; do
    test $rung = same && where="--split train" || where="--split test --set suite.only=*"
    ceiling booking $rung 2 $where --tasks 100
    play booking-$rung-picker booking --agents prompting,picker --runs 2 $where --tasks 100
done
