"""Stored steps on sites with quirks, rated: each where it was played, whatever would have been chosen there."""

import random

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import Click, action_text
from bestofq.core.decision import Candidate, Decision, Episode, Provenance, Step, Verdict
from bestofq.core.observation import Observation
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.quirks.settings import QuirksSettings
from bestofq_sites.quirks.suite import Quirks, QuirksVisit
from experiments.oracles.quirks import QuirksOracle
from experiments.ranking import oracle_steps

SUITE = Quirks(QuirksSettings())
MODELS = Models(BestOfQSettings(suite=QuirksSettings()))


def offered(seen: Observation, action: object) -> tuple[Candidate, ...]:
    """The action, then every button that is another."""
    clicks = [Click(mark=element.mark) for element in seen.elements if element.role == "button"]
    actions = [action, *(click for click in clicks if click != action)]
    return tuple(Candidate(action=a, label=action_text(a, seen.elements)) for a in actions)  # type: ignore[arg-type]


async def played(choose: int) -> Episode:
    """An episode of one who knows the quirks; `choose` is what its decisions say was taken."""
    task = SUITE.tasks("dev")[0]
    env: TextEnv[QuirksVisit, QuirksVisit] = TextEnv(SUITE)
    oracle, seen, rng = QuirksOracle(SUITE, task, knows=True), await env.reset(task, seed=0), random.Random(0)
    steps, ended = [], False
    while not ended:
        candidates = offered(seen, oracle.advise(env.visit, seen, rng).action)
        decision = Decision(candidates=candidates, scores=(0.0,) * len(candidates), chosen=choose)
        result = await env.step(candidates[0].action)
        steps.append(Step(index=len(steps), observation=seen, decision=decision))
        seen, ended = result.observation, result.terminated
    verdict, made = Verdict(outcome="success", reward=1.0), Provenance(version="")
    return Episode(id="e", run="r", agent="a", task=task, steps=tuple(steps), verdict=verdict, provenance=made)


async def test_what_the_oracle_took_is_right_and_starting_again_never() -> None:
    rated = list(oracle_steps(MODELS, [await played(0)]))
    stages = [stage.title for stage in SUITE.site(int(SUITE.tasks("dev")[0].id[:2])).kind.stages]
    assert [step.kind for step in rated] == stages
    assert all(step.good[0] and not all(step.good) for step in rated if step.kind != "search")
