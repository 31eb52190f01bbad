"""A rollout that raises its own share and ends itself: an interval of a difference in success that always holds."""

from collections.abc import Iterable
from math import lgamma, log
from typing import NamedTuple

import numpy as np

from bestofq.core.decision import DECIDED
from bestofq.reports.stats import Doubles, Interval
from bestofq.store.records import EpisodeSummary

ALPHA = 0.05  # chance that the interval ever leaves the truth out
RISK = 0.1  # successes in a session that may be lost at most, whatever the interval still allows
MOST = 0.5  # share of the ranked sessions until they are known to be better
RATES = np.linspace(0, 1, 201)  # of success, in each arm
_LOG_RATES = np.log(np.maximum(RATES, 1e-300))


class Tried(NamedTuple):
    """Sessions of one arm that ended."""

    won: int = 0
    lost: int = 0


def difference_bounds(ranked: Tried, own: Tried, alpha: float = ALPHA) -> Interval:
    """Return an interval of the difference in success rates, ranked less own, in [-1, 1].

    It may be looked at after every session: the chance that any of the intervals leaves the truth out is at most
    `alpha`. The sessions of an arm succeed independently at one rate. For rates (p, q) the product of both arms'
    likelihood ratios against a uniform mixture of rates is a martingale that starts at 1 (Robbins 1970). By
    Ville's inequality it ever reaches 1 / alpha with probability alpha at most. The interval holds all p - q of pairs
    for which it has not. The ends are rounded outwards to the next of `RATES`.
    """
    against, room = _log_evidence(own), log(1 / alpha) - _log_evidence(ranked)
    bottom = int(against.argmin())  # the evidence against a rate has one valley: the own rates allowed are an interval
    rows = np.flatnonzero(room > against[bottom])
    first = bottom + 1 - np.searchsorted(against[bottom::-1], room[rows])
    last = bottom - 1 + np.searchsorted(against[bottom:], room[rows])
    low, high = (rows - last).min() - 1, (rows - first).max() + 1
    return Interval(low=max(-1.0, float(low * RATES[1])), high=min(1.0, float(high * RATES[1])))


def _log_evidence(tried: Tried) -> Doubles:
    """Return the logarithm of the mixture's likelihood over that of each rate [R]."""
    mixture = lgamma(tried.won + 1) + lgamma(tried.lost + 1) - lgamma(tried.won + tried.lost + 2)
    likelihood: Doubles = tried.won * _LOG_RATES + tried.lost * _LOG_RATES[::-1]
    return mixture - likelihood


class Rollout(NamedTuple):
    """What the sessions that ended say of ranking, and the share of new sessions that are ranked.

    The share is 10 % at first. Until ranking is known to be better it is at most a half, and so small that no more than
    one success in ten sessions can be lost. Above zero with its lower bound, all sessions are ranked. Once the upper
    bound falls below zero, none is, for good.
    """

    ranked: Tried = Tried()
    own: Tried = Tried()
    stopped: bool = False
    bounds: Interval = Interval(low=-1, high=1)

    @property
    def share(self) -> float:
        if self.stopped:
            return 0.0
        return 1.0 if self.bounds.low > 0 else min(MOST, RISK / max(-self.bounds.low, RISK))

    @property
    def sessions(self) -> int:
        return sum(self.ranked) + sum(self.own)

    def after(self, won: bool, *, ranked: bool) -> "Rollout":
        before = self.ranked if ranked else self.own
        tried = Tried(before.won + won, before.lost + (not won))
        more = self._replace(ranked=tried) if ranked else self._replace(own=tried)
        bounds = difference_bounds(more.ranked, more.own)
        return more._replace(bounds=bounds, stopped=self.stopped or bounds.high < 0)

    def describe(self) -> str:
        low, high = (f"{100 * end:+.1f}" for end in (self.bounds.low, self.bounds.high))
        state = "it has ended, and the agent's own replies are back" if self.stopped else f"{self.share:.0%} are ranked"
        return f"after {self.sessions:,} sessions ranking changes success by {low} to {high} points: {state}"


def replay(episodes: Iterable[EpisodeSummary], ranked: str) -> list[Rollout]:
    """Return the rollout after each ended session [E + 1], from none; `ranked` names the agent of the ranked ones."""
    ended = sorted((e for e in episodes if e.outcome in DECIDED), key=lambda e: (e.ended_at or "", e.id))
    states = [Rollout()]
    for episode in ended:
        states.append(states[-1].after(episode.success, ranked=episode.agent == ranked))
    return states
