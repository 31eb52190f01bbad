#!/bin/sh
# MiniWoB++: does Q carry over better from more problems of each task? One pass over 140 of each; Q from the first half of it and from all,
# on 470 other problems, ten of each task. Then what the other scripts leave out: the paper's Q and the picker on families that nobody has
# seen, and Q over one-hot texts on the problems that it learned from. Two hours on two cores; started again, it continues.
set -ef
BESTOFQ=.venv/bin/bestofq
here=experiments/ladder
store=runs/ladder-doses
config="--config $here/miniwob.toml"
matched="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set iql.network.scaling=whiten --set model.embed.matches=true"
one_hot="--set iql.network.hidden=[512,256] --set iql.discount=0.95 --set model.embedder=experiments.one_hot:OneHot"
play() { # RUNG Q AGENTS SETTINGS...
    rung=$1 q=$2 agents=$3
    shift 3
    case $rung in
    seeds) where="--split test --set suite.families=seen --set suite.per_task=10 --tasks 470" ;;
    same) where="--split train --set suite.per_task=5 --set suite.train_tasks=235 --tasks 235" ;; # five of the 140 of each
    families) where="--split test --set suite.only=* --set suite.families=held-out --set suite.per_task=10 --tasks 110" ;;
    esac
    "$BESTOFQ" eval $config $where "$@" --runs 1 --q $store/$q --agents $agents --store $store-$rung --run $q
}
"$BESTOFQ" collect $config --set suite.per_task=140 --set suite.train_tasks=6580 --set seed_runs=1 --store $store
"$BESTOFQ" train --no-estimate $config $matched --episodes 3290 --store $store --out $store/q70
"$BESTOFQ" train --no-estimate $config $matched --store $store --out $store/q140
"$BESTOFQ" train --no-estimate $config --store $store --out $store/paper
"$BESTOFQ" train --no-estimate $config $one_hot --store $store --out $store/one-hot
play seeds q140 prompting,random,vote,picker,verifier,best-of-q,prior $matched
play seeds q70 best-of-q,prior $matched
play seeds paper best-of-q,prior
play families q140 prompting,random,vote,picker,verifier,best-of-q,prior $matched
play families paper best-of-q,prior
play same q140 prompting,best-of-q,prior $matched
play same one-hot best-of-q $one_hot
for seed in 1 2; do # other trainings
    "$BESTOFQ" train --no-estimate $config $matched --set iql.seed=$seed --store $store --out $store/seed-$seed
    play seeds seed-$seed best-of-q,prior $matched
    play families seed-$seed best-of-q,prior $matched
done
for rung in seeds families same; do
    "$BESTOFQ" report $store-$rung --baseline prompting --table agents --markdown $store-$rung/report --json $store-$rung/report
    cp $store-$rung/report/agents.md $here/doses-$rung.md
    cp $store-$rung/report/agents.json $here/doses-$rung.json
done
"$BESTOFQ" report $store-seeds --baseline verifier --table agents --json $store-seeds/verifier
cp $store-seeds/verifier/agents.json $here/doses-seeds-verifier.json
