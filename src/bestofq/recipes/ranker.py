"""A Q-function behind any agent: it ranks actions that something else proposes, on pages that something else shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from bestofq.agents.scorers.learned import GatedScorer, QScorer
from bestofq.agents.scorers.memory import MemoryScorer
from bestofq.config.agents import load_values, make_gated_scorer, shipped_q
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.actions import Action, Other, action_text
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.errors import InputError
from bestofq.core.loading import validate_settings
from bestofq.core.observation import Observation, Task

Said = str | Action | Candidate  # an action in words, as one of ours, or with its thought


class Ranker:
    """Q(s, a) for whoever proposes (Best-of-Q, 3.3). Each text is embedded once."""

    def __init__(self, scorer: QScorer | MemoryScorer | GatedScorer) -> None:
        self.scorer = scorer

    @classmethod
    def load(
        cls, folder: Path | str | None = None, *, gate: Literal["calibrated", "off"] = "calibrated", **model: object
    ) -> "Ranker":
        """The Q-function in a folder, as `bestofq train --out` leaves it; None: the one that ships for the shop.

        It stays behind the gate that the training calibrated. With `gate="off"` the best value is always taken.

        `model` are settings of `model`, such as `embedder`: what it learned with. CheckpointError where the folder
        holds none, or one that reads other embeddings; ConfigError where a setting is unknown or impossible.
        """
        settings = BestOfQSettings(gate=gate, model=validate_settings(TypeAdapter(ModelSettings), model))
        found = Path(folder) if folder else shipped_q(settings)
        if found is None:
            raise InputError(f"no Q-function ships for the model {settings.model.path}: give the folder of one")
        models, values = load_values(found, Models(settings))
        return cls(make_gated_scorer(models, values))

    async def rank(
        self, goal: str, page: str | Observation, history: Sequence[Said], candidates: Sequence[Said]
    ) -> tuple[int, tuple[float, ...]]:
        """Which candidate to take, and the Q-value of each [N]; of equals the first, and the first if the gate is shut.

        `page` is what the agent sees, as text or as `observe` gives it, with a screenshot where Q reads pictures;
        `history`: what was done before, oldest first. InputError where there is no candidate.
        """
        if not candidates:
            raise InputError("there are 0 candidates, at least 1 is needed: propose an action first")
        seen = Observation(url="", title="", text=page, elements=()) if isinstance(page, str) else page
        task = Task(id="", suite="", goal=goal, start_url=seen.url)
        done = tuple(Decision(candidates=(_candidate(one, None),), scores=(0.0,), chosen=0) for one in history)
        state = State(task=task, observation=seen, decisions=done)
        scores = await self.scorer.score(state, [_candidate(one, seen) for one in candidates])
        best = max(range(len(candidates)), key=scores.values.__getitem__)
        return 0 if scores.shut else best, scores.values


def _candidate(said: Said, seen: Observation | None) -> Candidate:
    """Only its label and its thought are read; `seen`: the page whose marks it names."""
    if isinstance(said, Candidate):
        return said
    if isinstance(said, str):
        return Candidate(action=Other(text=said), label=said)
    return Candidate(action=said, label=action_text(said, seen.elements if seen else None))
