"""What the thresholds of the agents that spend by need would have done at stored dev steps of best-of-q.

thresholds.py STORE RUN OUT: for each advantage how often `adaptive` would have stopped at the greedy candidate, how
often Q took another there, what that saves; how often `repropose` would have asked; the entropies of the votes.
"""

import json
import sys
from pathlib import Path
from typing import get_args

import numpy as np

from bestofq.agents.scorers.arbiter import no_majority, vote_shares
from bestofq.core.decision import Decision
from bestofq.core.transitions import Floats
from bestofq.recipes.provenance import commit, this_command
from bestofq.store.schema import Status
from bestofq.store.store import Store

LEVELS = (-0.3, -0.2, -0.15, -0.1, -0.05, 0.0, 0.05, 0.1)
QUARTILES = (0.25, 0.5, 0.75)


def decisions(folder: str, run: str) -> list[Decision]:
    """Of all episodes, those that were cut or interrupted too."""
    with Store.open(folder, read_only=True) as store:
        return [
            step.decision for kind in get_args(Status) for e in store.episodes(run=run, status=kind) for step in e.steps
        ]


def spent(decision: Decision, role: str) -> tuple[int, int]:
    """Tokens read and written."""
    used = [one for one in decision.usage if one.role == role]
    return sum(one.tokens_in for one in used), sum(one.tokens_out for one in used)


def saving(found: list[Decision], stops: Floats) -> float:
    """Share of the tokens that an adaptive agent saves which stops there, [S] of 0 and 1: the other candidates' replies
    and what Q reads of them, less the prompt and the greedy reply once more where it does not stop."""
    proposed = np.array([spent(decision, "proposer") for decision in found], np.float64)  # [S, 2]
    embedded = np.array([sum(spent(decision, "embedder")) for decision in found], np.float64)
    n = np.array([len(decision.candidates) for decision in found], np.float64)
    by_candidate = np.polyfit(n, embedded, 1)[0]
    reply = np.array([proposed[i, 1] / sum(c.votes or 1 for c in d.candidates) for i, d in enumerate(found)])
    saved = stops * (proposed[:, 1] - reply + by_candidate * (n - 1)) - (1 - stops) * (proposed[:, 0] + reply)
    return float(saved.sum() / (proposed.sum() + embedded.sum()))


def main() -> None:
    folder, run, out = sys.argv[1:]
    found = decisions(folder, run)
    value = np.array([decision.state_value or 0.0 for decision in found])
    first = np.array([decision.scores[0] for decision in found]) - value
    best = np.array([max(decision.scores) for decision in found]) - value
    other = np.array([decision.chosen != 0 for decision in found])
    levels = [
        {
            "advantage": level,
            "adaptive_stops": float((first >= level).mean()),
            "of_q_s_corrections_lost": float((first >= level)[other].mean()),
            "tokens_saved": saving(found, (first >= level).astype(np.float32)),
            "repropose_asks": float((best < level).mean()),
        }
        for level in LEVELS
    ]
    shares = [vote_shares(decision.candidates) for decision in found if len(decision.candidates) > 1]
    entropies = [float(-(p * np.log(p)).sum()) for p in shares]
    margins = [float(1 - np.sort(p)[-1] + np.sort(p)[-2]) for p in shares]
    result = {
        "command": this_command(),
        "commit": commit(),
        "steps": len(found),
        "steps_with_several": len(shares),
        "no_majority": float(np.mean([no_majority(p) for p in shares])),
        "entropy": dict(zip(map(str, QUARTILES), np.quantile(entropies, QUARTILES).tolist(), strict=True)),
        "margin": dict(zip(map(str, QUARTILES), np.quantile(margins, QUARTILES).tolist(), strict=True)),
        "levels": levels,
    }
    Path(out).write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.write(Path(out).read_text())


if __name__ == "__main__":
    main()
