"""A scorer of your own over the same candidates: options that the goal names are chosen before buying. 100 tasks.

Run it with `.venv/bin/python examples/own_scorer.py`; it takes a few seconds. The commands take it by name, with any
model that proposes:

    .venv/bin/bestofq eval --agents prompting,own --set scorer=examples.own_scorer:make_scorer --store runs/own
"""

import asyncio
import tempfile
from collections.abc import Sequence

import bestofq as bq
from bestofq.testing import ScriptedProposer


class NamedOption:
    """`Scorer`: 1 for an option that the goal names, else 0; among equals the proposer's order decides."""

    async def score(self, state: bq.State, candidates: Sequence[bq.Candidate]) -> bq.Scores:
        goal = state.task.goal
        return bq.Scores(values=tuple(float(c.label.removeprefix("click radio ") in goal) for c in candidates))


def make_scorer(models: object) -> NamedOption:
    """What the setting `scorer` names; `models` are the run's (`bestofq.config.models.Models`)."""
    return NamedOption()


def propose(state: bq.State, n: int) -> list[str]:
    """The goal as query; then the first product; then Buy Now, or an option that is not chosen yet."""
    elements = state.observation.elements
    useful = [e for e in elements if e.name.startswith("Buy Now") or e.name.startswith("$")]
    options = [e for e in elements if e.role == "radio" and "checked" not in e.states]
    return [f"click [{e.mark}]" for e in (*useful, *options)] or [f'write [1] "{state.task.goal}" enter']


async def main() -> None:
    suite, proposer = bq.load_suite("webshop"), ScriptedProposer(propose)
    agents = (
        bq.Agent(name="first", proposer=proposer, n_candidates=16),
        bq.Agent(name="named option", proposer=proposer, scorer=NamedOption(), n_candidates=16),
    )
    with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
        for agent in agents:
            done = await bq.play(agent, suite, store, tasks=100)
            print(f"{agent.name:15} success {sum(episode.success for episode in done) / len(done):.0%}")


if __name__ == "__main__":
    asyncio.run(main())
