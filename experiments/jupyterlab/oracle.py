"""An oracle that does every task through the product's own actions, and shows what choosing could bring.

`proposer = "experiments.jupyterlab.oracle:make_proposer"` plays its script alone. `make_among` adds the script's action
to the model's candidates, and the scorer `make_scorer` takes it: where it stands among them tells what choosing can do.
"""

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bestofq.agents.dialects.commands import parse_reply
from bestofq.config.models import Models
from bestofq.core.actions import Marked, Wait, action_text, element_of
from bestofq.core.decision import Candidate, Proposal, Scores, State
from bestofq.core.observation import Observation
from bestofq.store.store import Store
from experiments.jupyterlab.templates import make_problem
from experiments.memory.proposals import KeptProposer
from experiments.memory.proposals import make_proposer as make_kept

WAIT, ADDED = "wait 2", "by the oracle"


def next_command(state: State) -> str:
    """The script's command on this page; `wait 2` while the page does not have what it needs, and at its end."""
    taken = sum(not isinstance(decision.candidate.action, Wait) for decision in state.decisions)
    script, seen = make_problem(state.task.id).script, state.observation
    if taken >= len(script):
        return WAIT
    words, command = re.fullmatch(r"(?:when (.+?): )?(.*)", script[taken]).groups()  # type: ignore[union-attr]
    if words and words not in " ".join(seen.text.split()):
        return WAIT
    marked = re.sub(r"\{(.+?)(?: #(\d))?\}", lambda found: _mark(found[1], int(found[2] or 1), seen), command)
    return WAIT if "[0]" in marked else marked


def _mark(pattern: str, number: int, seen: Observation) -> str:
    fitting = [e.mark for e in seen.elements if re.fullmatch(pattern, f"{e.role} {e.name}")]
    return f"[{fitting[number - 1] if number <= len(fitting) else 0}]"


class Oracle:
    """`Proposer` of one candidate."""

    async def propose(self, state: State, n: int) -> Proposal:
        return Proposal(candidates=(parse_reply(next_command(state), state.observation),))


class Among:
    """`Proposer` of the model's candidates, and the oracle's last if they are all others."""

    def __init__(self, model: KeptProposer) -> None:
        self.model = model

    async def propose(self, state: State, n: int) -> Proposal:
        proposal, right = await self.model.propose(state, n), parse_reply(next_command(state), state.observation)
        if any(_same(candidate, right, state.observation) for candidate in proposal.candidates):
            return proposal
        added = right.model_copy(update={"thought": ADDED})
        return proposal.model_copy(update={"candidates": (*proposal.candidates, added)})


class OracleScorer:
    """`Scorer`: 1 for what the oracle would do, else 0."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        right = parse_reply(next_command(state), state.observation)
        return Scores(values=tuple(float(_same(candidate, right, state.observation)) for candidate in candidates))


def _same(one: Candidate, other: Candidate, seen: Observation) -> bool:
    """The same action, on elements of the same name."""
    return _facts(one, seen) == _facts(other, seen)


def _facts(candidate: Candidate, seen: Observation) -> tuple[str, str | None]:
    action = candidate.action
    element = element_of(action, seen) if isinstance(action, Marked) else None
    return re.sub(r"\[\d+\]", "", action_text(action)), element.name if element else None


def make_proposer(models: Models) -> Oracle:
    return Oracle()


def make_among(models: Models) -> Among:
    return Among(make_kept(models))


def make_scorer(models: Models) -> OracleScorer:
    return OracleScorer()


def write_episodes(folder: str, to: str) -> None:
    """A line for each episode of a store. `first`, `among`: the steps at which the oracle's action was the model's
    first candidate, or any of the model's. Waiting counts in no column."""
    with Store.open(folder, read_only=True) as store, Path(to).open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["run", "task", "outcome", "steps", "first", "among", "prompt_tokens", "seconds"])
        for episode in (one for run in store.runs() for one in store.episodes(run=run.name)):
            chosen = [step.decision for step in episode.steps if not isinstance(step.decision.candidate.action, Wait)]
            first, added = sum(one.chosen == 0 for one in chosen), sum(one.candidate.thought == ADDED for one in chosen)
            counts = len(chosen), first, len(chosen) - added
            used = sum(one.tokens_in for one in episode.usage), round(sum(one.seconds for one in episode.usage))
            lines.writerow([episode.run, episode.task.id, episode.verdict.outcome, *counts, *used])


if __name__ == "__main__":
    write_episodes(*sys.argv[1:])
