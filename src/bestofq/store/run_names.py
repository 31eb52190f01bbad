"""The names of the recipes' runs, by which reports find them again."""

SEED_RUN = "seed"
DEV_BASE = "dev-base"
"""Prompting on the dev tasks of the learning curve."""


def cycle_run(cycle: int) -> str:
    """The run of an exploiting pass; cycles count from 1."""
    return f"cycle-{cycle}"


def dev_run(cycle: int) -> str:
    """The run in which the Q-function of a cycle played dev tasks; 0 is the one learned from the seed runs."""
    return f"dev-q{cycle}"
