"""Small logs of choices, by hand and by chance."""

from collections.abc import Sequence

import numpy as np

from bestofq.core.logged import LoggedChoices

STEP = tuple[tuple[float, ...], int]
"""Q of the candidates, and the one taken."""


def log_of(*episodes: tuple[str, bool, Sequence[STEP]], epsilon: float = 0.5) -> LoggedChoices:
    """Of the exploring agent: task, success and steps of each episode; with two candidates either is taken alike."""
    steps = [(number, *step) for number, (_, _, own) in enumerate(episodes) for step in own]
    width = max(len(q) for _, q, _ in steps)

    def row(values: Sequence[float], beyond: float) -> list[float]:
        return [*values, *[beyond] * (width - len(values))]

    others = [max(1, len(q) - 1) for _, q, _ in steps]
    probable = [
        [1.0] if len(q) == 1 else [1 - epsilon, *[epsilon / n] * n] for (_, q, _), n in zip(steps, others, strict=True)
    ]
    return LoggedChoices(
        episode=np.array([number for number, _, _ in steps]),
        task=tuple(task for task, _, _ in episodes),
        success=np.array([won for _, won, _ in episodes]),
        q=np.array([row(q, -np.inf) for _, q, _ in steps], np.float32),
        level=np.array([row([4] * len(q), 0) for _, q, _ in steps], np.int64),
        chosen=np.array([taken for _, _, taken in steps]),
        propensity=np.array([row(p, 0.0) for p in probable], np.float32),
    )


SMALL = log_of(
    ("a", True, [((0.1, 0.9), 1), ((0.8, 0.2), 0)]),  # as Q would: 2 · 2
    ("a", False, [((0.1, 0.9), 0)]),  # not as Q would
    ("b", True, [((0.7,), 0), ((0.1, 0.2, 0.3), 2)]),  # as Q would: 1 · 4
    ("b", False, [((0.9, 0.1), 0)]),  # as Q would: 2
)


def played(agent: str, episodes: int, seed: int) -> LoggedChoices:
    """Two steps of two candidates, of which one is right; a wrong one fails at once by half. Q is right four times in
    five, the first candidate every other time. `agent`: explore, ranked or first."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(episodes):
        steps: list[STEP] = []
        won = True
        for _ in range(2):
            right = int(rng.integers(2))
            best = right if rng.random() < 0.8 else 1 - right
            taken = {"explore": int(rng.integers(2)), "ranked": best, "first": 0}[agent]
            steps.append(((0.6, 0.3) if best == 0 else (0.3, 0.6), taken))
            won = taken == right or rng.random() < 0.5
            if not won:
                break
        found.append((f"t{number // 2}", won, steps))
    return log_of(*found)
