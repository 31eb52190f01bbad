"""What every part promises (`core.protocols`), as checks for your own tests. Each raises AssertionError that says why.

def test_it_is_a_suite() -> None:
    asyncio.run(check_suite(make_suite({})))
"""

import math
from collections.abc import Sequence
from typing import get_args

from bestofq.core.actions import Answer, Click
from bestofq.core.decision import Candidate, Decision, Episode, Outcome, Provenance, State, Step, Verdict
from bestofq.core.observation import Element, Observation, Split, Task
from bestofq.core.protocols import Judge, Prefetching, Proposer, Scorer, Suite

SPLITS: tuple[Split, ...] = ("train", "dev", "test")
PAGE = Observation(  # three links, two of one name
    url="/",
    title="Shop",
    text="Red [1] Blue [2]\nBlue [3]",
    elements=tuple(Element(mark=m, role="link", name=name) for m, name in ((1, "Red"), (2, "Blue"), (3, "Blue"))),
)
STATE = State(task=Task(id="t", suite="s", goal="a blue one", start_url="/"), observation=PAGE)
CANDIDATES = tuple(
    Candidate(action=Click(mark=m), label=f"click link {name}", log_prob=-float(m), reply=f" so\nclick [{m}]")
    for m, name in ((1, "Red"), (2, "Blue"), (3, "Blue"))
)
EPISODE = Episode(
    id="e",
    run="r",
    agent="a",
    task=STATE.task,
    steps=(Step(index=0, observation=PAGE, decision=Decision(candidates=CANDIDATES, scores=(0, 0, 0), chosen=1)),),
    final=PAGE,
    verdict=Verdict(reward=0.0, outcome="unjudged"),
    provenance=Provenance(version="test"),
)


async def check_suite(suite: Suite, *, disjoint: bool = True) -> None:
    """Check what it says of itself, its tasks, its environments. `disjoint`: no task has two splits."""
    assert isinstance(suite, Suite), f"{suite!r} lacks a name, method or property of bestofq.core.protocols.Suite"
    assert suite.name, "it has no name"
    assert suite.step_limit >= 1, f"step_limit is {suite.step_limit}: an episode takes a step at least"
    assert suite.needs_judge or suite.judge is None, "needs_judge is False, so its own judge would never be asked"
    found = {split: await suite.tasks(split) for split in SPLITS}
    for split, tasks in found.items():
        assert len({task.id for task in tasks}) == len(tasks) > 0, f"{split}: no tasks, or two of one id"
        said = {(task.split, task.suite) for task in tasks}
        assert said == {(split, suite.name)}, f"tasks of {split} say {said} of their split and suite"
    ids = [task.id for tasks in found.values() for task in tasks]
    assert not disjoint or len({*ids}) == len(ids), "a task is in two splits: what is learned would be tested"
    async with suite.open() as make_env:
        again = {split: [task.id for task in await suite.tasks(split)] for split in SPLITS}
        assert again == {split: [task.id for task in tasks] for split, tasks in found.items()}, (
            "it has others once it is open"
        )
        tasks = [task for split in SPLITS for task in await suite.tasks(split)]
        envs = [await make_env(), await make_env()]
        for env, task in zip(envs, (tasks[0], tasks[-1]), strict=True):
            begun = await env.reset(task, seed=task.seed)
            assert begun.error is None, f"{task.id} begins with the error {begun.error}"
            missed = await env.step(Click(mark=len(begun.elements) + 1))
            assert missed.observation.error, "a click on an element that is not there is no error in the observation"
            for result in (missed, await env.step(Answer(text="done"))):
                assert (result.reward is None) == suite.needs_judge, f"reward {result.reward}: see needs_judge"
        for env in envs:
            await env.close()


async def check_scorer(scorer: Scorer, state: State = STATE, candidates: Sequence[Candidate] = CANDIDATES) -> None:
    """One finite score each, the same again; what it used is counted as a scorer's."""
    assert isinstance(scorer, Scorer), f"{scorer!r} has no method score"
    for count in range(1, len(candidates) + 1):
        one, two = [await scorer.score(state, candidates[:count]) for _ in range(2)]
        assert len(one.values) == count, f"{count} candidates got {len(one.values)} scores"
        values = [*one.values, 0.0 if one.state_value is None else one.state_value]
        assert all(map(math.isfinite, values)), f"scores must be finite: {values}"
        assert (one.values, one.checkpoint) == (two.values, two.checkpoint), f"{one.values}, and again {two.values}"
        usage = [*one.usage, *(await scorer.prepare(state) if isinstance(scorer, Prefetching) else ())]
        assert not {used.role for used in usage} & {"proposer", "judge"}, f"it counts as another part: {usage}"
        assert all(used.calls >= 1 for used in usage), f"usage without a call: {usage}"


async def check_proposer(proposer: Proposer, state: State = STATE) -> None:
    """Check for one to N distinct actions, first the greedy one whatever is drawn. The same state gives the same."""
    assert isinstance(proposer, Proposer), f"{proposer!r} has no method propose"
    drawn_otherwise = state.model_copy(update={"task": state.task.model_copy(update={"seed": state.task.seed + 7})})
    first = (await proposer.propose(drawn_otherwise, 1)).candidates[0].action
    for n in (1, 2, 3):
        one, two = [await proposer.propose(state, n) for _ in range(2)]
        actions = [candidate.action for candidate in one.candidates]
        assert 1 <= len(actions) <= n, f"of {n} candidates at most it offers {len(actions)}"
        assert len({action.model_dump_json() for action in actions}) == len(actions), f"an action twice: {actions}"
        assert actions[0] == first, f"the first is its greedy choice: {actions[0]} with one seed, {first} with another"
        assert one.candidates == two.candidates, "the same state gives other candidates: draw by State's seed"
        assert {used.role for used in one.usage} <= {"proposer", "critic"}, f"it counts as another part: {one.usage}"


async def check_judge(judge: Judge, episode: Episode = EPISODE) -> None:
    """A known outcome with the reward that fits, under its own name."""
    assert isinstance(judge, Judge), f"{judge!r} lacks name or judge"
    assert judge.name, "it has no name"
    verdict = await judge.judge(episode)
    assert verdict.outcome in get_args(Outcome), f"the outcome {verdict.outcome} is unknown"
    assert (verdict.reward == 1.0) == (verdict.outcome == "success"), f"{verdict.outcome} with reward {verdict.reward}"
    assert verdict.judge in ("", judge.name), f"{judge.name} signs as {verdict.judge}"
    assert {used.role for used in verdict.usage} <= {"judge"}, f"it counts as another part: {verdict.usage}"
