#!/bin/sh
# All of this folder: seed passes, Q-functions, every ranker on every rung. About an hour on two cores; started again, it
# continues.
set -e
BESTOFQ=.venv/bin/bestofq
here=experiments/quirks
"$BESTOFQ" collect --config $here/config.toml --store runs/quirks
"$BESTOFQ" train --no-estimate --config $here/config.toml --store runs/quirks --out runs/quirks/q-0
"$BESTOFQ" train --no-estimate --config $here/config.toml --set iql.seed=1 --store runs/quirks --out runs/quirks/q-1
"$BESTOFQ" train --no-estimate --config $here/config.toml --set iql.seed=2 --store runs/quirks --out runs/quirks/q-2
"$BESTOFQ" train --no-estimate --config $here/config.toml --set iql.network.scaling=none --store runs/quirks --out runs/quirks/q-unscaled
"$BESTOFQ" train --no-estimate --config $here/paper.toml --store runs/quirks --out runs/quirks/q-paper

rung() { # NAME SPLIT AGENTS SPLITS PAPERS_AGENTS: the whitened Q, then the paper's
    "$BESTOFQ" eval --config $here/config.toml --q runs/quirks/q-0 --split $2 --tasks 240 --runs 1 \
        --store runs/quirks-$1 --run $1 --agents $3 --set suite.splits=$4 --out $here/$1.json
    "$BESTOFQ" eval --config $here/paper.toml --q runs/quirks/q-paper --split $2 --tasks 240 --runs 1 \
        --store runs/quirks-$1 --run $1-paper --agents $5 --set suite.splits=$4 --out $here/$1-paper.json
}
rung test test prompting,random,vote,picker,verifier,best-of-q,prior task best-of-q,prior # new tasks on known sites
rung same train prompting,random,best-of-q task best-of-q                                 # the tasks Q learned from
rung sites test prompting,random,best-of-q,prior site best-of-q                           # new sites
for seed in 1 2; do
    "$BESTOFQ" eval --config $here/config.toml --q runs/quirks/q-$seed --split test --tasks 240 --runs 1 \
        --store runs/quirks-test --run test-seed-$seed --agents best-of-q --out $here/test-seed-$seed.json
done
"$BESTOFQ" eval --config $here/config.toml --set iql.network.scaling=none --q runs/quirks/q-unscaled --split test --tasks 240 \
    --runs 1 --store runs/quirks-test --run test-unscaled --agents best-of-q --out $here/test-unscaled.json
"$BESTOFQ" report runs/quirks-test --run test --run test-paper --baseline prompting --table agents \
    --markdown runs/quirks-tables
cp runs/quirks-tables/agents.md $here/table.md
"$BESTOFQ" report runs/quirks-test --run test --by agent --svg $here/success.svg
mv $here/test.json $here/result.json
.venv/bin/python -m experiments rank --config $here/config.toml --store runs/quirks-test --run test --agent best-of-q
