#!/bin/sh
# What choosing could reach at most: the oracle takes what is right wherever it is proposed. Twenty minutes on one core;
# started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
ceiling() { # CONFIG RUNG SETTINGS...
    name=ceiling-$1-$2 config=$here/$1.toml
    shift 2
    "$BESTOFQ" eval --config $config --agents own --set scorer=experiments.ceiling:Ceiling --runs 1 "$@" \
        --store runs/ladder-ceiling --run $name --out $here/$name.json
}
ceiling shop same --split train --tasks 240
ceiling shop new --split train --tasks 240 --set suite.only=P??00[0-3]?-2
ceiling shop held-out --split test --tasks 240 --set suite.only=*
ceiling miniwob seeds --split test --tasks 235 --set suite.families=seen --set suite.per_task=5
