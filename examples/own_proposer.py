"""A proposer of your own: what names most words of the goal is clicked. One episode in the text shop.

Run it with `.venv/bin/python examples/own_proposer.py`; it takes about a second.
"""

import asyncio
import tempfile

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.actions import Action, Click, Write, action_text
from bestofq.core.decision import Candidate, Proposal, Provenance, State
from bestofq.core.usage import Usage
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.rollouts.episode import EpisodeOptions, run_episode
from bestofq.store.store import Store


class NamedMost:
    """`Proposer`: search first; then the elements that share most words with the goal, the best first."""

    async def propose(self, state: State, n: int) -> Proposal:
        elements, goal = state.observation.elements, set(state.task.goal.lower().split())
        done = {decision.candidate.label for decision in state.decisions}
        actions: list[Action] = [Click(mark=e.mark) for e in elements if e.role != "searchbox"]
        actions.sort(key=lambda a: -len(goal & set(action_text(a, elements).lower().split())))
        if not state.decisions:
            actions.insert(0, Write(mark=1, text=state.task.goal, enter=True))
        candidates = [Candidate(action=a, label=action_text(a, elements), thought="it names most") for a in actions]
        new = [candidate for candidate in candidates if candidate.label not in done] or candidates
        return Proposal(candidates=tuple(new[:n]), usage=(Usage(role="proposer", calls=1),))


async def main() -> None:
    suite = synthetic_suite()
    task = suite.tasks("dev", limit=1)[0]
    agent = Agent(name="named-most", proposer=NamedMost(), scorer=ConstantScorer(), selector=GreedySelector())
    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        await store.begin_run("example", {}, Provenance(version=__version__))
        episode = await run_episode(
            TextEnv(suite), agent, task, store=store, run="example", options=EpisodeOptions(step_limit=STEP_LIMIT)
        )
    for step in episode.steps:
        print(" | ".join(candidate.label for candidate in step.decision.candidates))
    print(f"reward {episode.verdict.reward:.2f}: {episode.verdict.outcome}")


asyncio.run(main())
