#!/bin/sh
# sh experiments/jupyterlab/run.sh, after prepare.sh and with the model's server of ../miniwob-qwen at port 8097: the oracle, the model's
# candidates along the oracle's way, then collect, train, play. Any step may be killed; started again, it continues.
# ORACLE, ALONG, TRAIN and TEST (tasks of each template) change the size. LARGE: another model's name, with its server at port 8099, for
# the candidates along the oracle's way.
set -ef
BESTOFQ=${BESTOFQ:-.venv/bin/bestofq}
PYTHON=${PYTHON:-.venv/bin/python}
export JUPYTERLAB="${JUPYTERLAB:-$PWD/runs/jupyterlab/bin/jupyter-lab}"
here=experiments/jupyterlab
store=runs/jupyterlab-qwen
config="--config $here/config.toml"
oracle="--set proposer=experiments.jupyterlab.oracle:make_proposer"
along="--set proposer=experiments.jupyterlab.oracle:make_among --set scorer=experiments.jupyterlab.oracle:make_scorer"
short="--set suite.step_limit=8"

play() { # RUN TASKS AGENT SETTINGS...
    run=$1 tasks=$2 agent=$3
    shift 3
    "$BESTOFQ" eval $config --split test --set suite.per_template=$tasks "$@" --agents $agent --tasks 1000 --runs 1 --run $run --store $store
}

play oracle ${ORACLE:-4} prompting $oracle
play along ${ALONG:-4} own $along
[ -z "$LARGE" ] || play along-large ${ALONG:-4} own $along --set endpoints.chat.model=$LARGE --set endpoints.chat.base_url=http://127.0.0.1:8099/v1
play first ${TEST:-4} prompting $short
"$PYTHON" -m experiments.jupyterlab.oracle $store $here/episodes.csv
"$BESTOFQ" collect $config --set suite.per_template=${TRAIN:-20} --store $store
"$BESTOFQ" train $config --store $store --out $store/memory
play random ${TEST:-4} random $short
play memory-gated ${TEST:-4} best-of-q $short --q $store/memory
play memory ${TEST:-4} best-of-q $short --q $store/memory --set gate=off
"$PYTHON" -m experiments.jupyterlab.oracle $store $here/episodes.csv
