"""The names of the runs that Best-of-Q's recipe and its experiment make: reports find them by these."""

SEED_RUN = "seed"
DEV_BASE = "dev-base"
"""Prompting on the dev tasks."""


def cycle_run(cycle: int) -> str:
    """The run of an exploiting pass; cycles count from 1."""
    return f"cycle-{cycle}"


def dev_run(cycle: int) -> str:
    """The run of a pass over dev tasks by the Q-function that was trained after so many cycles."""
    return f"dev-q{cycle}"
