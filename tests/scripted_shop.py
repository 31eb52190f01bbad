"""A model that is a script and shops in Agent Q's format, and a localizer of one element."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from bestofq.config.models import Models
from bestofq.config.settings import AgentQSettings, BestOfQSettings, ModelSettings
from bestofq.core.decision import Located
from bestofq.core.language import Request
from bestofq.core.observation import Observation, Point
from bestofq.core.protocols import LanguageModel
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.search.config import SearchConfig
from bestofq.testing.scripted import ScriptedModel
from bestofq_sites.webshop.settings import WebShopSettings


def shopper(request: Request) -> Sequence[str]:
    """Searches for the goal's words, opens results in their order, buys what it opened, or chooses an option; picks the
    first listed, and calls all right."""
    if request.prompt.endswith("best:"):
        return [" 1"]
    if request.prompt.endswith("so:"):
        return [" it fits: right"]
    page = request.prompt.rpartition("page: ")[2].rpartition("user: ")[0]
    goal = request.prompt.rpartition("user: ")[2].partition("\n")[0]
    if "Buy Now" in page:
        buy = re.findall(r"Buy Now.*\[(\d+)\]", page)[0]
        options = re.findall(r"\[(\d+)\]", "\n".join(line for line in page.splitlines() if re.match(r"\w+: ", line)))
        return [said(f"CLICK [{mark}]") for mark in (buy, *options)]
    if "$" in page:
        return [said(f"CLICK [{mark}]") for mark in re.findall(r"\$[^\n]*\[(\d+)\]", page)]
    if 'Search: ""' in page:
        words = re.sub(r"[^a-z ]", "", goal.lower()).split()
        return ["search" + "\nTHOUGHT:" + said(f'TYPE [1] "{" ".join(words[3:9])}"')]
    return [said("CLICK [2]")]


SMALL_RECIPE = BestOfQSettings(
    suite=WebShopSettings(train_tasks=3, step_limit=4, seed=12),
    iql=IQLConfig(steps=10, network=NetworkConfig(hidden=(32,), project=None), batch_size=8, precision="fp32"),
    seed_runs=1,
    cycles=1,
    runs_per_cycle=1,
)
"""Best-of-Q in one cycle over three tasks, of which the script buys one right."""


class SearchField:
    """`Localizer` of the field at the top of each page."""

    async def locate(self, observation: Observation, target: str) -> Located:
        assert target == "the search field"
        box = observation.elements[0].box
        assert box is not None
        return Located(point=Point(box.x + box.width / 2, box.y + box.height / 2))


def said(command: str) -> str:
    return f" so\nCOMMANDS: {command}\nEXPLANATION: then\nSTATUS: CONTINUE"


def answering(reply: Callable[[Request], Sequence[str]]) -> type[Models]:
    """Models of which the proposer replies so."""

    class Answering(Models):
        @cached_property
        def prompted(self) -> LanguageModel:
            return ScriptedModel(reply)

    return Answering


Scripted = answering(shopper)


def small_recipe(weights: str, models: type[Models] = Scripted) -> Models:
    """Of `SMALL_RECIPE`, with a script that proposes and tiny weights that embed."""
    model = ModelSettings(path=weights, dialect="composite", samples_per_candidate=1)
    return models(SMALL_RECIPE.model_copy(update={"model": model}))


def models_with(rollouts: int, candidates: int = 4, *, model: str = "pocket", **agent_q: Any) -> Models:
    search = SearchConfig(iterations=rollouts, candidates=candidates)
    return Scripted(
        BestOfQSettings(
            model=ModelSettings(path=model, dialect="composite", samples_per_candidate=1),
            agent_q=AgentQSettings(search=search, threshold=0.1, **agent_q),
        )
    )
