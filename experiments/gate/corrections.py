"""Estimates of a ranked agent's lift that try to be true of the states that it will visit, and of what it does next."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from bestofq.core.logged import LoggedChoices
from bestofq.reports.off_policy import local_approximation, step_numbers, sum_by_task
from bestofq.reports.stats import Doubles, PairedDifference, Quantity, share

CLIP = 20.0
Lift = Callable[[LoggedChoices, Doubles, Doubles], PairedDifference | None]


def weigh(
    log: LoggedChoices, pi: Doubles, base: Doubles, *, before: int = 0, after: int = 0
) -> PairedDifference | None:
    """The local approximation with weights π / μ: of the `before` steps before a choice, as the agent would come to it,
    and of the `after` steps after it, as it would continue. At most `CLIP`; weights of steps with the same number have
    the mean 1."""
    rows, number = np.arange(len(log.chosen)), step_numbers(log)
    mu, won = log.propensity[rows, log.chosen], log.success[log.episode].astype(np.float64)
    ratio = pi[rows, log.chosen] / mu
    left = np.bincount(log.episode)[log.episode] - 1 - number
    weight = np.ones(len(rows))
    for back in range(1, before + 1):
        weight *= np.where(number >= back, np.roll(ratio, back), 1.0)
    for ahead in range(1, after + 1):
        weight *= np.where(left >= ahead, np.roll(ratio, -ahead), 1.0)
    weight = np.minimum(weight, CLIP)
    total = np.maximum(1e-9, np.bincount(number, weight))
    weight *= (np.bincount(number) / total)[number]
    mean = np.bincount(number, weight * won) / np.maximum(1e-9, np.bincount(number, weight))
    changes = weight * (pi - base)[rows, log.chosen] / mu * (won - mean[number])
    counts = np.stack([changes, np.roll(log.last, 1)], axis=1)
    return Quantity(sum_by_task(log, counts), (-3.0, 3.0), lambda s: share(s[..., 0], s[..., 1])).difference


def plain(log: LoggedChoices, pi: Doubles, base: Doubles) -> PairedDifference | None:
    return local_approximation(log, pi, base).difference


ESTIMATORS: Mapping[str, Lift] = {
    "local approximation": plain,
    "its states, 1 step": partial(weigh, before=1),
    "its states, 2 steps": partial(weigh, before=2),
    "its states, all steps": partial(weigh, before=30),
    "its next step": partial(weigh, after=1),
    "its next 2 steps": partial(weigh, after=2),
    "its states and its next step, 1 step": partial(weigh, before=1, after=1),
}
