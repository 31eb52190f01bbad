#!/bin/sh
# Is what `bestofq estimate` says beforehand what is then measured? Q-functions good and bad, each judged by held-out logs
# and then played. Two hours on one core; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/estimate
learned=runs/estimate-learned held_out=runs/estimate-held-out played=runs/estimate-played
config="--config experiments/ladder/shop.toml --set iql.steps=2000"
goals="--set suite.only=P??00[0-3]?-2" # other goals for the same products: no Q learned from them
whitened="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten"
matched="$whitened --set model.embed_matches=true"

play() { # RUN ARGUMENTS...
    run=$1
    shift
    "$BESTOFQ" eval $config $goals --split train --tasks 160 --runs 1 "$@" --store $played/$run --run $run
}
q() { # NAME SETTINGS...: the next learns while this one plays
    name=$1
    shift
    "$BESTOFQ" train $config "$@" --store $learned --out $learned/$name
    play $name --agents best-of-q --q $learned/$name &
}
"$BESTOFQ" collect $config --set seed_runs=1 --store $learned
"$BESTOFQ" collect $config $goals --set suite.train_tasks=400 --set seed_runs=2 --store $held_out
play prompting --agents prompting
q matched $matched
q paper
q reversed $matched --set iql.learner=experiments.learners:reversed_outcomes
q whitened $whitened
wait
q matched-100-episodes $matched --episodes 100
q shuffled $matched --set iql.learner=experiments.learners:shuffled_outcomes
q matched-50-steps $matched --set iql.steps=50
wait
q matched-seed-1 $matched --set iql.seed=1
q small-network --set iql.network.hidden=[512,256] --set iql.discount=0.95
q without-goal $matched --set iql.network.q_without=["task"]
wait
q matched-300-episodes $matched --episodes 300
q monte-carlo $matched --set iql.learner=experiments.learners:monte_carlo
q whitened-100-episodes $whitened --episodes 100
wait
