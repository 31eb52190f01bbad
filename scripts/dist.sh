#!/usr/bin/env bash
# Builds the wheels and archives of bestofq and bestofq-sites, checks them, and installs the wheels in an empty virtual environment, where `bestofq doctor`
# looks for what it needs outside the repository; with WITH_DEMO=1 `bestofq demo` is played there.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

"${PYTHON:-python3}" -m venv "$tools/build" "$tools/user"
"$tools/build/bin/pip" install --quiet --disable-pip-version-check build twine
rm -rf dist
"$tools/build/bin/python" -m build --outdir dist .
"$tools/build/bin/python" -m build --outdir dist sites
"$tools/build/bin/twine" check --strict dist/*
"$tools/user/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 # the CPU build, as scripts/setup.sh
"$tools/user/bin/pip" install --quiet --disable-pip-version-check dist/*.whl
cd "$tools"
"$tools/user/bin/bestofq" --version
"$tools/user/bin/bestofq" doctor
if [[ -n ${WITH_DEMO:-} ]]; then "$tools/user/bin/bestofq" demo; fi
