"""A scorer of your own over the same candidates: options that the goal names are chosen before buying. 100 tasks.

Run it with `.venv/bin/python examples/own_scorer.py`; it takes a few seconds. The commands take it by name, with any
model that proposes:

    .venv/bin/bestofq eval --agents prompting,own --set scorer=examples.own_scorer:make_scorer --store runs/own
"""

import asyncio
import tempfile
from collections.abc import Sequence

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scripted import ScriptedProposer
from bestofq.agents.selectors import GreedySelector
from bestofq.build.models import Models
from bestofq.core.decision import Candidate, Provenance, Scores, State
from bestofq.core.protocols import Env, Scorer
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store


class NamedOption:
    """`Scorer`: 1 for an option that the goal names, else 0; among equals the proposer's order decides."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return Scores(values=tuple(float(c.label.removeprefix("click radio ") in state.task.goal) for c in candidates))


def make_scorer(models: Models) -> Scorer:
    """What the setting `scorer` names; `models` are the run's, for a scorer that asks or embeds."""
    return NamedOption()


def propose(state: State, n: int) -> list[str]:
    """The goal as query; then the first product; then Buy Now, or an option that is not chosen yet."""
    elements = state.observation.elements
    useful = [e for e in elements if e.name.startswith("Buy Now") or e.name.startswith("$")]
    options = [e for e in elements if e.role == "radio" and "checked" not in e.states]
    return [f"click [{e.mark}]" for e in (*useful, *options)] or [f'write [1] "{state.task.goal}" enter']


async def main() -> None:
    suite, proposer = synthetic_suite(), ScriptedProposer(propose)

    async def make_env() -> Env:
        return TextEnv(suite)

    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        await store.begin_run("example", {}, Provenance(version=__version__))
        for scorer in (ConstantScorer(), NamedOption()):
            name = type(scorer).__name__
            agent = Agent(name=name, proposer=proposer, scorer=scorer, selector=GreedySelector(), n_candidates=16)
            tasks = suite.tasks("dev", limit=100)
            done = await run_many(
                tasks, make_env, agent, store=store, run="example", options=RunOptions(step_limit=STEP_LIMIT)
            )
            print(f"{name:15} success {sum(episode.success for episode in done) / len(done):.0%}")


if __name__ == "__main__":
    asyncio.run(main())
