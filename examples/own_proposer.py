"""A proposer of your own: what names most words of the goal is clicked. One episode in the text shop.

Run it with `.venv/bin/python examples/own_proposer.py`; it takes about a second.
"""

import asyncio
import tempfile

import bestofq as bq


class NamedMost:
    """`Proposer`: search first; then the elements that share most words with the goal, the best first."""

    async def propose(self, state: bq.State, n: int) -> bq.Proposal:
        goal, done = set(state.task.goal.lower().split()), {decision.candidate.label for decision in state.decisions}
        elements = [element for element in state.observation.elements if element.role != "searchbox"]
        elements.sort(key=lambda element: -len(goal & set(element.name.lower().split())))
        actions: list[tuple[bq.Action, str]] = [(bq.Click(mark=e.mark), f"click {e.role} {e.name}") for e in elements]
        if not state.decisions:
            actions.insert(0, (bq.Write(mark=1, text=state.task.goal, enter=True), "search for the goal"))
        candidates = [bq.Candidate(action=a, label=label, thought="it names most") for a, label in actions]
        new = [candidate for candidate in candidates if candidate.label not in done] or candidates
        return bq.Proposal(candidates=tuple(new[:n]))


async def main() -> None:
    agent = bq.Agent(name="named-most", proposer=NamedMost())
    with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
        [done] = await bq.play(agent, bq.load_suite("webshop"), store, tasks=1)
        episode = store.episode(done.id)
    for step in episode.steps:
        print(" | ".join(candidate.label for candidate in step.decision.candidates))
    print(f"reward {episode.verdict.reward:.2f}: {episode.verdict.outcome}")


asyncio.run(main())
