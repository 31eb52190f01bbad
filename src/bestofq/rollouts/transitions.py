"""Stored episodes as (s, a, r, s', terminal): first what is to be embedded, once each, then the arrays of IQL."""

from collections.abc import Iterable
from itertools import zip_longest

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.core.decision import DECIDED, Episode, state_at
from bestofq.core.embedding import EmbedItem
from bestofq.core.errors import DataError
from bestofq.core.transitions import Transitions

NO_EPISODE = (
    "there is no finished episode with a verdict and a step to learn from: collect some, or run `bestofq judge`"
)


def tabulate(
    episodes: Iterable[Episode], texts: EmbeddingTexts, *, candidates: bool = False
) -> tuple[list[EmbedItem], Transitions]:
    """Return U distinct items in order of first appearance, each to be embedded once, and a row per step (T) that names
    them. The rows' `vectors` [U, 0] are yet to be made. The reward is sparse: 1 at the last step of a success, else 0
    (Best-of-Q, 3.1). `candidates`: with those that were not taken, too.

    The last step of a judged episode is terminal, running out of steps included. Episodes whose outcome does not tell
    how the agent did (cut, unjudged, unparseable: all but `DECIDED`) are left out, and so are those without a step.
    DataError where that leaves no row.
    """
    row_of: dict[str, int] = {}
    items: list[EmbedItem] = []

    def number(item: EmbedItem) -> int:
        row = row_of.setdefault(item.key, len(items))
        if row == len(items):
            items.append(item)
        return row

    rows: list[tuple[int, ...]] = []  # state, action, task, next state, whether the episode ends there and is won
    offered: list[list[int]] = []
    for episode in episodes:
        steps, outcome = episode.steps, episode.verdict.outcome
        if not steps or outcome not in DECIDED:
            continue
        task = texts.task(episode.task)
        states = [state_at(episode.task, steps[:index], step.observation) for index, step in enumerate(steps)]
        shown = [texts.state(state) for state in states]
        for step, state, item, after in zip(steps, states, shown, [*shown[1:], None], strict=True):
            decision, here = step.decision, number(item)
            next_row = here if after is None else number(after)
            ends = after is None
            won = ends and outcome == "success"
            rows.append((here, number(texts.action(state, decision.candidate)), number(task), next_row, ends, won))
            if candidates:
                offered.append([number(texts.action(state, one)) for one in decision.candidates])
    if not rows:
        raise DataError(NO_EPISODE)
    state, action, task, next_state, ends, won = np.array(rows, dtype=np.int64).T.copy()
    transitions = Transitions(
        vectors=np.zeros((len(items), 0), np.float32),
        state=state,
        action=action,
        task=task,
        next_state=next_state,
        reward=won.astype(np.float32),
        terminal=ends.astype(np.bool_),
        candidates=np.array([*zip_longest(*offered, fillvalue=-1)], dtype=np.int64).T if candidates else None,
    )
    return items, transitions
