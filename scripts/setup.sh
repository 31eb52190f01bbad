#!/usr/bin/env bash
# Makes .venv with bestofq, its sites and its tools, and sees to a Chromium; `setup.sh demo` leaves out the tools of
# development. Run again, it returns at once while the pyproject.toml files and this file are unchanged. `make clean`
# forgets everything.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.bestofq-setup
key=$(cat pyproject.toml sites/pyproject.toml scripts/setup.sh | sha256sum)
for_whom=${1:-dev}
made=
if [[ -x .venv/bin/bestofq && -f $stamp ]]; then made=$(<"$stamp"); fi
if [[ $made == "$key dev" || $made == "$key $for_whom" ]]; then
    exit 0
fi

say() { printf '\033[1m[setup]\033[0m %s\n' "$*" >&2; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }
quietly() { "$@" >/dev/null 2>&1; }

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif quietly sudo -n true; then
        sudo -n "$@"
    else
        return 1
    fi
}

apt_install() {
    quietly command -v apt-get || return 1
    as_root apt-get update -q &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

find_python() {
    local name
    for name in python3 python3.13 python3.12 python3.11 python3.14; do
        if quietly "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            command -v "$name"
            return
        fi
    done
    fail "found no Python >= 3.11: install one (Debian 12, Ubuntu 24.04: apt install python3), then run this again"
}

make_venv() {
    quietly .venv/bin/python -m pip --version && return
    local python package
    python=$(find_python)
    package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    if ! quietly "$python" -c 'import ensurepip'; then
        say "installing $package"
        apt_install "$package" || fail "$python cannot make virtual environments: run 'sudo apt-get install $package'"
    fi
    say "making .venv with $python"
    "$python" -m venv --clear .venv
}

# Python compiles each module at its first import: to compile all of them here takes a minute.
pip_install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

# PyTorch's CPU build is a tenth of the size of its CUDA build. Its index is not reachable from every network, and
# where a mirror stands in for PyPI, the pin names a version that mirrors hold.
install_torch() {
    quietly .venv/bin/python -c 'import torch' && return
    if quietly nvidia-smi -L; then
        say "installing torch for the NVIDIA GPU"
        pip_install torch
    else
        say "installing torch for the CPU"
        quietly pip_install torch --index-url https://download.pytorch.org/whl/cpu --retries 0 --timeout 15 ||
            pip_install torch==2.13.0
    fi
}

# A program that does not even print its version is Ubuntu's stub for a snap that is not there.
has_chromium() {
    local name
    for name in "${BESTOFQ_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        [[ -n $name ]] && quietly command -v "$name" && quietly timeout 60 "$name" --version && return
    done
    quietly .venv/bin/python -c '
import pathlib, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    sys.exit(not pathlib.Path(playwright.chromium.executable_path).exists())'
}

install_chromium() {
    has_chromium && return
    say "installing Chromium"
    if ! grep -qs '^ID=ubuntu' /etc/os-release; then
        apt_install chromium-headless-shell fonts-liberation || apt_install chromium fonts-liberation || true
        has_chromium && return
    fi
    .venv/bin/playwright install --with-deps chromium || .venv/bin/playwright install chromium
    has_chromium || fail "found no Chromium: install one and name it in BESTOFQ_CHROMIUM"
}

make_venv
install_torch
say "installing bestofq and its tools ($for_whom)"
if [[ $for_whom == demo ]]; then
    pip_install --editable '.[agentq]' --editable ./sites
else
    pip_install --editable '.[dev]' --editable ./sites
fi
install_chromium
printf '%s\n' "$key $for_whom" >"$stamp"
say "done"
