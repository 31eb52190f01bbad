# `make demo` and `make test` do all their own set-up; arguments go through ARGS, as in `make demo ARGS="--seed 1"`.
.PHONY: demo test test-gpu check experiment reference site tutorial dist setup clean

BIN := .venv/bin
WORKERS := $(shell echo $$(( $$(nproc) * 3 / 2 )))# of the tests: some wait for a browser or another process

demo:
	@scripts/setup.sh demo
	$(BIN)/bestofq demo $(ARGS)

test: setup
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-gpu: setup
	$(BIN)/pytest -m gpu -rs $(ARGS)

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(MAKE) test

experiment: setup
	$(BIN)/python -m experiments best-of-q --config experiments/webshop-pocket/config.toml $(ARGS)

reference: setup
	$(BIN)/python scripts/reference.py docs/reference.md

site: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m scripts.site

tutorial: setup
	$(BIN)/python -m scripts.tutorial

dist:
	@scripts/dist.sh

setup:
	@scripts/setup.sh

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
