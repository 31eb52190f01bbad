"""Sites with quirks: what each quirk does, what no page tells, and that the sites stay as they were drawn."""

import hashlib
import random
from collections import Counter

import pytest

from bestofq.core.actions import Click, Write
from bestofq.core.observation import Observation, Task
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.quirks.settings import QuirksSettings
from bestofq_sites.quirks.sites import KINDS, Quirk, site
from bestofq_sites.quirks.suite import Quirks, QuirksVisit
from experiments.oracles.quirks import QuirksOracle

pytestmark = pytest.mark.asyncio
ORDINARY = Quirks(QuirksSettings(quirky=0))
SHOP_TASK = next(task for task in ORDINARY.tasks("train") if task.id.startswith("00/"))
STAGES = [stage.title for stage in KINDS[0].stages]


class OneQuirk(Quirks):
    """Ordinary sites, but for one quirk everywhere."""

    def __init__(self, stage: str, quirk: Quirk) -> None:
        super().__init__(QuirksSettings(quirky=0))
        self.only = {STAGES.index(stage): quirk}

    def visit(self, task: Task) -> QuirksVisit:
        plain = super().visit(task)
        return QuirksVisit(site=plain.site.model_copy(update={"quirks": self.only}))


def at(seen: Observation) -> str:
    """The stage of a page."""
    return seen.title.partition(": ")[2]


async def press(env: TextEnv[QuirksVisit, QuirksVisit], seen: Observation, name: str) -> Observation:
    return (await env.step(Click(mark=next(e.mark for e in seen.elements if e.name == name)))).observation


async def walked(suite: Quirks, to: str, *, way: int = 0) -> tuple[TextEnv[QuirksVisit, QuirksVisit], Observation]:
    """At a stage of the shop, all before it passed by the ways of this number."""
    env: TextEnv[QuirksVisit, QuirksVisit] = TextEnv(suite)
    goal, seen = suite.goals[SHOP_TASK.id], await env.reset(SHOP_TASK, seed=0)
    while at(seen) != to:
        match at(seen):
            case "search":
                text = goal.item if way == 0 else goal.item.split()[-1]
                seen = (await env.step(Write(mark=1, text=text, enter=True))).observation
            case "results":
                seen = await press(env, seen, goal.item)
            case "colour":
                seen = await press(env, seen, goal.value)
            case title:
                seen = await press(env, seen, KINDS[0].stages[STAGES.index(title)].ways[way])
    return env, seen


@pytest.mark.parametrize("way", [0, 1])
async def test_on_an_ordinary_site_every_way_leads_to_the_order(way: int) -> None:
    env, seen = await walked(ORDINARY, "order", way=way)
    last = KINDS[0].stages[-1].ways[way]
    result = await env.step(Click(mark=next(e.mark for e in seen.elements if e.name == last)))
    assert (result.reward, result.terminated) == (1.0, True)


@pytest.mark.parametrize(
    ("stage", "effect", "passed"),
    [
        ("cookies", "dead", ["cookies", "cookies"]),
        ("cookies", "twice", ["cookies", "search"]),
        ("item", "loop", ["search"]),
        ("account", "refuse", ["delivery"]),
        ("item", "forget", ["account"]),
    ],
)
async def test_what_a_quirk_does_at_once(stage: str, effect: str, passed: list[str]) -> None:
    quirk = Quirk(0, effect)  # type: ignore[arg-type]
    env, seen = await walked(OneQuirk(stage, quirk), stage) if stage != "cookies" else await _begun(quirk)
    for title in passed:
        seen = await press(env, seen, KINDS[0].stages[STAGES.index(stage)].ways[0])
        assert at(seen) == title


async def _begun(quirk: Quirk) -> tuple[TextEnv[QuirksVisit, QuirksVisit], Observation]:
    env: TextEnv[QuirksVisit, QuirksVisit] = TextEnv(OneQuirk("cookies", quirk))
    return env, await env.reset(SHOP_TASK, seed=0)


async def test_a_search_that_takes_one_word_finds_nothing_else_and_the_other_way_round() -> None:
    suite = OneQuirk("search", Quirk(0, "dead"))
    env, _ = await walked(suite, "search", way=1)
    item = suite.goals[SHOP_TASK.id].item
    assert "Nothing found." in (await env.step(Write(mark=1, text=item, enter=True))).observation.text
    assert item in (await env.step(Write(mark=1, text=item.split()[-1], enter=True))).observation.text


async def test_what_is_refused_or_forgotten_shows_at_the_end_alone() -> None:
    plain, plain_seen = await walked(ORDINARY, "order")
    for quirk in (Quirk(0, "refuse"), Quirk(0, "forget")):
        env, seen = await walked(OneQuirk("item", quirk), "order")
        assert seen == plain_seen  # nothing on the way tells it
        result = await env.step(Click(mark=next(e.mark for e in seen.elements if e.name == "Place order")))
        assert result.reward == 0
        assert result.terminated == (quirk.effect == "forget")
        if quirk.effect == "refuse":
            assert "refused" in result.observation.text
            assert env.visit.item is None
    assert (await plain.step(Click(mark=plain_seen.elements[0].mark))).reward == 1


async def test_who_knows_the_quirks_earns_every_task_in_the_fewest_steps_and_who_does_not_few() -> None:
    suite, rng = Quirks(QuirksSettings()), random.Random(0)
    earned = Counter[bool]()
    for task in suite.tasks("test")[:60]:
        for knows in (True, False):
            env: TextEnv[QuirksVisit, QuirksVisit] = TextEnv(suite)
            oracle, seen = QuirksOracle(suite, task, knows=knows), await env.reset(task, seed=0)
            for count in range(1, suite.step_limit + 1):
                action = oracle.advise(env.visit, seen, rng).action
                assert oracle.is_right(env.visit, seen, action)
                result = await env.step(action)
                seen = result.observation
                if result.terminated:
                    earned[knows] += bool(result.reward)
                    assert not knows or count == len(STAGES)
                    break
    assert earned[True] == 60
    assert earned[False] < 30


async def test_splits_share_sites_by_task_and_no_site_by_site() -> None:
    def sites(split: str, by: str) -> set[str]:
        suite = Quirks(QuirksSettings(splits=by))  # type: ignore[arg-type]
        return {task.id.partition("/")[0] for task in suite.tasks(split)}  # type: ignore[arg-type]

    assert sites("train", "task") == sites("dev", "task") == sites("test", "task") == sites("train", "site")
    apart = [sites(split, "site") for split in ("train", "dev", "test")]
    assert not apart[0] & apart[1] | apart[1] & apart[2] | apart[0] & apart[2]


async def test_the_sites_are_the_ones_that_were_measured() -> None:
    drawn = "\n".join(f"{s.name} {s.shown} {dict(s.quirks)}" for s in (site(n, 2026, 0.6) for n in range(36)))
    assert hashlib.sha256(drawn.encode()).hexdigest()[:16] == "91d9a85b166a7f32"
