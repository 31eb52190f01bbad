#!/bin/sh
# The paper's whole schedule, five exploring passes and four cycles of two: does Q go on learning from its own episodes? For
# the paper's Q and the matched one, 10,400 episodes each. Two hours on two cores; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
config="--config $here/shop.toml"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed_matches=true"
seed=runs/ladder-cycles
"$BESTOFQ" collect $config --store $seed
for q in matched paper; do
    store=$seed-$q
    test -d $store || { cp -r $seed $store.part && mv $store.part $store; }
    test $q = paper || set -- $matched
    test $q = matched || set --
    "$BESTOFQ" improve $config "$@" --set cycles=4 --store $store --out $store
    for cycle in 0 1 2 3 4; do
        for rung in same new; do
            case $rung in
            same) where="--split train" ;;
            new) where="--split train --set suite.only=P??00[0-3]?-2" ;; # goals that no episode has seen
            esac
            "$BESTOFQ" eval $config "$@" $where --tasks 240 --runs 1 --q $store/q$cycle --agents best-of-q \
                --store $seed-played --run $rung-$q-$cycle --out $here/cycles-$rung-$q-$cycle.json
        done
    done
done
