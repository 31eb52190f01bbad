"""The rollout's interval by hand arithmetic, its promises by chance, and its share."""

from random import Random

import numpy as np
import pytest

from bestofq.reports.rollout import RATES, RISK, Rollout, Tried, _log_evidence, difference_bounds


def test_without_sessions_nothing_is_known_and_a_tenth_is_ranked() -> None:
    bounds = difference_bounds(Tried(), Tried())
    assert (bounds.low, bounds.high) == (-1, 1)
    assert Rollout().share == pytest.approx(0.1)


def test_the_interval_ends_where_the_mixture_s_likelihood_is_twenty_times_the_rates() -> None:
    """Ten of ten succeed ranked, none of ten without. The mixture's likelihood is 1/11 in each arm, that of rates
    (p, q) is p^10 and (1 - q)^10. By symmetry p = 1 - q at the least difference: (11^2 p^20)^-1 = 20."""
    rate = (20 * 11**2) ** (-1 / 20)
    bounds = difference_bounds(Tried(won=10), Tried(lost=10))
    assert bounds.high == 1
    assert bounds.low == pytest.approx(2 * rate - 1, abs=0.011)
    assert bounds.low <= 2 * rate - 1


def test_the_interval_holds_every_pair_of_rates_that_the_sessions_allow() -> None:
    rng = np.random.default_rng(0)
    for counts in rng.integers(0, 40, (40, 4)).tolist():
        ranked, own = Tried(*counts[:2]), Tried(*counts[2:])
        allowed = _log_evidence(ranked)[:, None] + _log_evidence(own)[None, :] < np.log(20)
        differences = (RATES[:, None] - RATES[None, :])[allowed]
        bounds = difference_bounds(ranked, own)
        assert bounds.low == pytest.approx(max(-1, differences.min() - RATES[1]))
        assert bounds.high == pytest.approx(min(1, differences.max() + RATES[1]))


@pytest.mark.parametrize(("gain", "promise"), [(-0.3, "ends"), (0.0, "neither"), (0.3, "all")])
def test_its_promises_hold_by_chance(gain: float, promise: str) -> None:
    ended = raised = 0
    for seed in range(20):
        random, state, reached = Random(seed), Rollout(), False
        for _ in range(500):
            ranked = random.random() < state.share
            state = state.after(random.random() < 0.5 + gain * ranked, ranked=ranked)
            reached |= state.share == 1
            if reached or state.stopped:
                break
        ended, raised = ended + state.stopped, raised + reached
    assert (ended >= 18, raised >= 18) == (promise == "ends", promise == "all")
    assert promise == "ends" or ended <= 4
    assert promise == "all" or raised <= 4


def test_what_may_be_lost_is_bounded_at_every_moment() -> None:
    random, state = Random(1), Rollout()
    for _ in range(300):
        assert state.share * -min(0, state.bounds.low) <= RISK + 1e-9 or state.share == 0
        ranked = random.random() < state.share
        state = state.after(random.random() < 0.6, ranked=ranked)


def test_it_never_returns_after_it_ended() -> None:
    state = Rollout()
    for _ in range(12):
        state = state.after(False, ranked=True).after(True, ranked=False)
    assert state.stopped
    for _ in range(200):
        state = state.after(False, ranked=False)
    assert (state.stopped, state.share) == (True, 0)
