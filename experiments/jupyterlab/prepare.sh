#!/bin/sh
# sh experiments/jupyterlab/prepare.sh: JupyterLab from PyPI in an environment of its own, runs/jupyterlab. The model: ../miniwob-qwen/prepare.sh.
set -eu
python3 -m venv runs/jupyterlab
runs/jupyterlab/bin/pip install -q jupyterlab==4.6.6 jupyter-server==2.21.1 ipykernel==7.4.0 nbconvert==7.17.2
echo "ready: export JUPYTERLAB=$PWD/runs/jupyterlab/bin/jupyter-lab"
