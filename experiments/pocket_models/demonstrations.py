"""Demonstrations: what the oracle does in states that a fallible visitor reaches, as prompts and replies.

Only tasks of the train split are walked, in shops whose results are shuffled within each page, so that the place of a
result tells nothing. With chance `noise` the visitor does something else than the oracle says; the oracle's advice is
what is learned in every state, so the model sees how to recover. MiniWoB++'s: `miniwob/demonstrations.py`.

Three prompts are taught: propose (a thought and an action), pick (the best of listed candidates) and review (what of
the goal one candidate meets), several reviews in one text.
"""

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from pydantic import Field

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, State
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Task
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.pages import (
    BUY,
    PAGE_SIZE,
    Item,
    Search,
    Shop,
    ShopResults,
    View,
    buy_name,
    choose,
    link_name,
)
from bestofq_sites.webshop.products import Product
from bestofq_sites.webshop.settings import Splits, WebShopSettings
from bestofq_sites.webshop.suite import WebShop, real_suite, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig
from experiments.oracles.webshop import Oracle
from experiments.pocket_models.composite import CompositeDemonstrations, walk_booking, walk_shop
from experiments.pocket_models.examples import (
    Example,
    after,
    candidate,
    looking_up,
    picking,
    proposing,
    reviewing,
    some_candidates,
    verdict,
)
from experiments.pocket_models.miniwob_demonstrations import MiniWobDemonstrations, demonstrate_miniwob
from experiments.pocket_models.quirks_demonstrations import QuirksDemonstrations, walk_quirks
from experiments.pocket_models.visitors import stray

REVIEWS, LOOKUPS = 4, 16  # candidates reviewed, and marks found, after one state at most
EASY_SHARE = 0.35  # the chance to keep a start or sub-page state
MAX_STEPS, WALKS = 12, 200  # of a walk; in one shop, before another may be drawn


class DemonstrationConfig(FrozenModel):
    """How demonstrations are made."""

    catalogue_seeds: tuple[int, ...] = Field(default=(1, 2, 3, 4, 5, 6), description="shops; not the suite's own")
    data: Path | None = Field(default=None, description="folder of WebShop's real files: its train goals instead")
    data_splits: tuple[Splits, ...] = Field(
        default=(),
        description="only goals that are train goals in all these splits, in the first's shop. Default: as published",
    )
    noise: float = Field(default=0.3, ge=0, le=1, description="chance of a step that is not the oracle's")
    pick_share: float = Field(default=0.3, ge=0, le=1, description="chance that a state also teaches picking")
    review_share: float = Field(default=1.0, ge=0, le=1, description="chance that it also teaches reviewing")
    lookup_share: float = Field(default=0.0, ge=0, le=1, description="chance that it also teaches finding marks")
    named: bool = Field(default=False, description="clicks say what they are on: `click large [7]` for `click [7]`")
    miniwob: MiniWobDemonstrations = MiniWobDemonstrations()
    composite: CompositeDemonstrations = CompositeDemonstrations()
    quirks: QuirksDemonstrations = QuirksDemonstrations()


async def demonstrate(config: DemonstrationConfig, count: int, seed: int) -> Sequence[Example]:
    """At least `count` examples, in random order; `config.miniwob.share` of `count` from MiniWoB++, or as many as there
    are, `config.quirks.share` from ordinary sites of quirks, and `config.composite.share` in Agent Q's format.

    Raises SetupError where MiniWoB++'s are wanted and its package or Chromium is missing.
    """
    rng = random.Random(f"demonstrations-{seed}")
    wanted = round(config.miniwob.share * count)
    examples: list[Example] = []
    if wanted:
        found = await demonstrate_miniwob(config.miniwob, seed)
        examples = random.Random(f"mixture-{seed}").sample(found, min(wanted, len(found)))
    ordinary = len(examples) + round(config.quirks.share * count)
    while len(examples) < ordinary:
        examples.extend([example async for example in walk_quirks(config.quirks, rng, named=config.named)])
    if config.data is None:
        shops = [synthetic_suite(SyntheticConfig(seed=s)) for s in config.catalogue_seeds]
        suites = [(suite, suite.tasks("train")) for suite in shops]
    else:
        settings = WebShopSettings(data=config.data)
        parts = [real_suite(settings.model_copy(update={"splits": split})) for split in config.data_splits or (None,)]
        shared = set.intersection(*({task.id for task in part.tasks("train")} for part in parts))
        suites = [(parts[0], [task for task in parts[0].tasks("train") if task.id in shared])]
    composite = round(config.composite.share * count)
    while len(examples) < count:
        suite, tasks = rng.choice(suites)
        plain = suite.server("train")
        shop = Shop(plain.catalogue, partial(_shuffled, plain.results, rng))
        for task in rng.sample(tasks, WALKS):
            if composite and len(examples) >= count - composite:
                walk = _composite(config.composite, suite, shop, task, rng)
            else:
                walk = _walk(config, suite, shop, task, rng)
            examples.extend([example async for example in walk])
    rng.shuffle(examples)
    return examples


def _shuffled(search: Search, rng: random.Random, query: str) -> list[Product]:
    """The products of each results page in random order, so that a model cannot learn to take the first unread."""
    found = search(query)
    pages = [found[i : i + PAGE_SIZE] for i in range(0, len(found), PAGE_SIZE)]
    return [product for page in pages for product in rng.sample(page, len(page))]


def _composite(
    config: CompositeDemonstrations, suite: WebShop, shop: Shop, task: Task, rng: random.Random
) -> AsyncIterator[Example]:
    if rng.random() >= config.booking:
        return walk_shop(config, suite, shop, task, rng)
    booking = _booking(rng.choice(config.booking_seeds))
    return walk_booking(config, booking, rng.choice(booking.tasks("train")), rng)


_booking = cache(Booking)


async def _walk(
    config: DemonstrationConfig, suite: WebShop, shop: Shop, task: Task, rng: random.Random
) -> AsyncIterator[Example]:
    env = TextEnv(suite, server=shop)
    oracle = Oracle(suite, suite.goals[task.id])
    state = State(task=task, observation=await env.reset(task, seed=0))
    for _ in range(MAX_STEPS):
        advice = oracle.advise(shop, env.view, state.observation)
        best = candidate(advice.action, state.observation, advice.thought)
        if isinstance(env.view, ShopResults | Item) or rng.random() < EASY_SHARE:
            yield proposing(state, best, named=config.named)
            others = partial(stray, shop, env.view, oracle, state.observation, rng, ending=True)
            if rng.random() < config.pick_share:
                listed = some_candidates([best], state.observation, others, rng, count=3)
                yield picking(state, listed, best)
            if config.lookup_share and rng.random() < config.lookup_share:
                marks = [element.mark for element in state.observation.elements]
                if drill := looking_up(state, rng.sample(marks, min(LOOKUPS, len(marks)))):
                    yield drill
            if isinstance(env.view, ShopResults | Item) and rng.random() < config.review_share:
                telling = _telling(shop, env.view, state, oracle, rng)
                listed = some_candidates([best], state.observation, others, rng, count=REVIEWS - len(telling))
                reviewed = [*telling, *((env.view, c) for c in listed)]
                rng.shuffle(reviewed)
                yield reviewing(state, [(c, review(oracle, shop, view, state, c)) for view, c in reviewed])
        action = stray(shop, env.view, oracle, state.observation, rng) if rng.random() < config.noise else advice.action
        result = await env.step(action)
        if result.terminated:
            return
        state = after(state, candidate(action, state.observation), result.observation)


def _telling(shop: Shop, view: View, state: State, oracle: Oracle, rng: random.Random) -> list[tuple[View, Candidate]]:
    """Candidates that reviews go wrong on, each with the view it is of: what was clicked before; Buy Now, here and as
    it would stand on the page of a like product with some options chosen."""
    elements = state.observation.elements
    if isinstance(view, ShopResults):
        seen = {decision.candidate.label for decision in state.decisions}
        links = [candidate(Click(mark=e.mark), state.observation) for e in elements if e.role == "link"]
        again = [(view, link) for link in links if link.label in seen and "$" in link.label]
        return rng.sample(again, min(1, len(again)))
    if isinstance(view, Item):
        mark = next(e.mark for e in elements if e.name.startswith(BUY))
        alike = [p for p in shop.shown(view.results) if p.query == oracle.type] or [shop.catalogue[view.product_id]]
        product = rng.choice(alike)
        wanted = dict(oracle.goal.options)
        imagined = Item(product_id=product.id, results=view.results)
        for option in product.options:
            if rng.random() < 0.8:
                right = option.name in wanted and wanted[option.name] in option.values and rng.random() < 0.5
                imagined = choose(
                    imagined, product, option.name, wanted[option.name] if right else rng.choice(option.values)
                )
        label = f"click button {buy_name(product, imagined)}"
        there = Candidate(action=Click(mark=mark), label=label)
        return [(view, candidate(Click(mark=mark), state.observation)), (imagined, there)]
    return []


def review(oracle: Oracle, shop: Shop, view: View, state: State, candidate: Candidate) -> str:
    """A line on one candidate in one state: what of the goal the action meets, by what can be read in its own label.

    An exercise in reading, not advice. It goes through the words of the goal in their order, says for each whether the
    label has it, and closes with one word for the whole: `waterproof fits, lamp fits, under 60 not: wrong`. Hidden
    attributes are not looked up. The list comes before the verdict because a model this small compares two texts only
    word by word.
    """
    checks: list[tuple[str, bool]] = []
    match view, candidate.action:
        case ShopResults(), Click(mark=int(mark)):
            name = state.observation.elements[mark - 1].name
            product = next((p for p in shop.shown(view) if link_name(p) == name), None)
            if product is not None:
                seen = {decision.candidate.label for decision in state.decisions}
                checks = [*_as_asked(oracle, product, {}), ("new", candidate.label not in seen)]
        case Item(product_id=product_id, chosen=chosen), Click(mark=int(mark)):
            element = state.observation.elements[mark - 1]
            product = shop.catalogue[product_id]
            if element.name.startswith(BUY):
                checks = _as_asked(oracle, product, {f"{n} {v}": (n, v) in chosen for n, v in oracle.goal.options})
            elif element.role == "radio":
                wanted = {value for _, value in oracle.goal.options}
                checks = [(element.name, element.name in wanted), ("new", "checked" not in element.states)]
    if not checks:
        return "moves on"
    return verdict(checks)


def _as_asked(oracle: Oracle, product: Product, options: Mapping[str, bool]) -> list[tuple[str, bool]]:
    """What the goal asks of a product, in the order of its words."""
    name, goal = product.name.lower(), oracle.goal
    checks = {attribute: attribute in name for attribute in goal.attributes}
    checks |= {oracle.type: product.query == oracle.type, **options}
    words = {what: what for what in checks} | {f"{n} {v}": v for n, v in goal.options}
    ordered = sorted(checks.items(), key=lambda check: goal.instruction.rfind(words[check[0]]))
    return [*ordered, (f"under {goal.price_limit:.0f}", product.price <= goal.price_limit)]
