"""New tasks on new sites from the tasks of another (Best-of-Q, E.1, in the manner of WebRL, Qi et al. 2025).

A chat model is shown a few seeds and what it has written already, and writes several tasks in each reply. What repeats
a task, is too near to a held-out one, names another site or a date that is past is refused, logged and counted. Nobody
tries whether a site can do a task: judges count that as impossible afterwards.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Self

from pydantic import Field, model_validator

from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import TASKS, prompt_hash, render
from bestofq.agents.structured_output import Prompt, Prompts, ask
from bestofq.core.errors import InputError, ReplyError
from bestofq.core.frozen import FrozenModel
from bestofq.core.language import Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel
from bestofq.core.usage import Usage
from bestofq.envs.webvoyager.source import Entry
from bestofq.models.chat import ChatConfig
from experiments.new_tasks.files import Generated, Refused, TaskFile
from experiments.new_tasks.screening import Screen, ScreenedSite, Why
from experiments.new_tasks.similarity import NEAR, Known

SCHEMA = object_schema({"tasks": {"type": "array", "items": {"type": "string"}}})


class GenerationSettings(FrozenModel):
    """How tasks are asked for and screened, and of whom."""

    chat: ChatConfig = Field(description="who writes")
    count: int = Field(default=40, ge=1, description="tasks a site (Table 9)")
    per_request: int = Field(default=10, ge=1, description="tasks per request")
    seeds_shown: int = Field(default=4, ge=1, description="seeds in a request, drawn anew (E.1: a few; WebRL: 10)")
    temperature: float = Field(default=1.0, ge=0, description="of the writer, as in WebRL's scripts/gen_task.py")
    made_shown: int = Field(default=40, ge=0, description="tasks of the same site in a request, drawn where more are")
    near: float = Field(default=NEAR, gt=0, le=1, description="similarity from which on two tasks count as one")
    fruitless: int = Field(default=5, ge=1, description="requests in a row without a new task that end a site")
    date_from: int = Field(default=30, ge=0, description="days from today that the first date in a task lies ahead")
    date_until: int = Field(default=300, ge=0, description="days to the last; flights are sold for about 330")
    seed: int = Field(default=0, description="of what is shown in each request, and sent with it")

    @model_validator(mode="after")
    def _dates_in_order(self) -> Self:
        if self.date_until < self.date_from:
            raise ValueError(f"date_until is {self.date_until}, before date_from, {self.date_from}")
        return self


@dataclass(kw_only=True)
class Tally:
    """What became of one site in one call."""

    site: str
    wanted: int
    before: int  # tasks that the file held already
    accepted: int = 0
    requests: int = 0
    requested: int = 0  # tasks
    unusable: int = 0  # replies without a list of tasks
    problem: str = ""  # with the last of these
    surplus: int = 0  # tasks after the last that was wanted: not looked at
    refused: Counter[Why] = field(default_factory=Counter)
    overlaps: Counter[str] = field(default_factory=Counter)  # by held-out task
    usage: list[Usage] = field(default_factory=list)

    @property
    def has(self) -> int:
        return self.before + self.accepted

    @property
    def lacking(self) -> int:
        return max(0, self.wanted - self.has)


OnTally = Callable[[Tally], None]


async def generate_tasks(
    model: LanguageModel,
    file: TaskFile,
    *,
    sites: Sequence[ScreenedSite],
    seeds: Sequence[Entry],
    held_out: Sequence[Entry],
    settings: GenerationSettings,
    today: date,
    on_reply: OnTally,
) -> None:
    """Until each of `sites` has its tasks in `file`, those before included, or the model brings nothing new any more.
    `on_reply` gets the site's tally at its start and after each reply.

    Raises InputError as `_check` does; ModelError when the endpoint gives no reply, ContextError when not even a
    request without earlier tasks fits, ConfigError as `ChatModel.generate`.
    """
    _check(sites, seeds, held_out, file)
    names = [site.name for site in sites]
    others = {*names, *(seed.web_name for seed in seeds), *(e.web_name for e in held_out if " " in e.web_name)}
    screen = Screen(Known(held_out), Known(file.entries), sorted(others), settings.near, today)
    for site in sites:
        tally = Tally(site=site.name, wanted=settings.count, before=len(file.of(site.name)))
        on_reply(tally)
        await _Writer(model, file, site, seeds, settings, screen, tally).fill(on_reply)


@dataclass(frozen=True)
class _Writer:
    """Of the tasks of one site."""

    model: LanguageModel
    file: TaskFile
    site: ScreenedSite
    seeds: Sequence[Entry]
    settings: GenerationSettings
    screen: Screen
    tally: Tally

    async def fill(self, on_reply: OnTally) -> None:
        tally, fruitless = self.tally, 0
        while tally.lacking and fruitless < self.settings.fruitless:
            before = tally.accepted
            rng = random.Random(f"{self.settings.seed}/{self.site.name}/{tally.has}/{fruitless}")
            shown = rng.sample(self.seeds, min(self.settings.seeds_shown, len(self.seeds)))
            try:
                written, usage = await ask(self.model, self._prompts(shown, rng), _read, "proposer", attempts=1)
                tally.usage += usage
            except ReplyError as error:
                tally.usage += error.usage
                tally.unusable += 1
                tally.problem = str(error)
                unusable = self._written(_line(error.replies[0]), shown)
                self.file.refuse(Refused(**unusable, why="unusable", said=str(error)))
            else:
                for text in written:
                    self._take(text, shown)
            tally.requests += 1
            tally.requested += self.settings.per_request
            fruitless = 0 if tally.accepted > before else fruitless + 1
            on_reply(tally)

    async def _prompts(self, shown: Sequence[Entry], rng: random.Random) -> Prompts:
        """With as many of the earlier tasks as the model's context takes."""
        made = [entry.ques for entry in self.file.of(self.site.name)]
        most, seed = self.settings.made_shown, rng.getrandbits(31)
        if len(made) > most:
            made = rng.sample(made, most)
        yield Prompt(request=self._request(shown, made, seed))
        while made:
            made = made[len(made) // 2 + 1 :]
            yield Prompt(request=self._request(shown, made, seed))

    def _request(self, shown: Sequence[Entry], made: Sequence[str], seed: int) -> Request:
        settings, today = self.settings, self.screen.today
        first, last = (today + timedelta(days=days) for days in (settings.date_from, settings.date_until))
        sites = {"seed_site": shown[0].web_name, "site": self.site.name}
        system = render("tasks_system", url=self.site.url, today=today, first=first, last=last, **sites)
        text = render("tasks_user", n=settings.per_request, seeds=[e.ques for e in shown], made=made, **sites)
        messages = user(text, system=system)
        return Request(
            messages=messages, greedy=False, temperature=settings.temperature, seed=seed, schema=SCHEMA, name="tasks"
        )

    def _take(self, item: object, shown: Sequence[Entry]) -> None:
        """Keep what is written as a task, or note why it is none."""
        tally = self.tally
        if not tally.lacking:
            tally.surplus += 1
            return
        text = _line(item) if isinstance(item, str) else ""
        refusal = self.screen.refusal(text, self.site)
        if refusal is None:
            task = Generated(**self._written(text, shown), id=self._next_id(), web=self.site.url)
            self.file.add(task)
            self.screen.accepted.add(task)
            tally.accepted += 1
            return
        tally.refused[refusal.why] += 1
        if refusal.why == "overlapping":
            tally.overlaps[refusal.near] += 1
        self.file.refuse(Refused(**self._written(text or _line(str(item)), shown), **refusal._asdict()))

    def _next_id(self) -> str:
        taken = [entry.key.rpartition("--")[2] for entry in self.file.of(self.site.name)]
        number = 1 + max((int(number) for number in taken if number.isdecimal()), default=-1)
        return f"{self.site.name}--{number}"

    def _written(self, text: str, shown: Sequence[Entry]) -> dict[str, Any]:
        """What the file and its log have in common."""
        origin = {"model": self.model.name, "prompt": prompt_hash(TASKS), "seeds": tuple(e.key for e in shown)}
        return {"web_name": self.site.name, "ques": text, **origin}


def _read(replies: Sequence[Reply], _: Picture | None) -> list[object]:
    """What a reply lists as tasks. ReplyError where it lists nothing."""
    listed = json_of(replies[0]).get("tasks")
    if not isinstance(listed, list):
        raise ReplyError('"tasks" is no list')
    return listed


def _line(text: str) -> str:
    """On one line, and what is no character replaced."""
    return " ".join(text.encode(errors="replace").decode().split())


def _check(sites: Sequence[ScreenedSite], seeds: Sequence[Entry], held_out: Sequence[Entry], file: TaskFile) -> None:
    if not seeds:
        raise InputError("there are 0 seeds, at least 1 is needed")
    for site in sites:
        if sum(site.name == other.name for other in sites) > 1:
            raise InputError(f"the domain {site.name} is given twice: its tasks' ids would be the same")
        if any(site.name == entry.web_name for entry in held_out):
            raise InputError(
                f"{site.name} is a domain of the held-out tasks, whose ids begin with it: name the new one otherwise"
            )
        if elsewhere := next((entry for entry in file.of(site.name) if entry.web != site.url), None):
            raise InputError(
                f"{file.path} has {elsewhere.key} begin at {elsewhere.web}, not at {site.url}: "
                "give the same address, or another file"
            )
