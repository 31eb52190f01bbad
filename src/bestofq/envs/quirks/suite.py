"""The sites as a suite of tasks: what a visit is, what each page shows, what each action does (`local_site`)."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from bestofq.core.actions import Action, Click
from bestofq.core.irreversible import element_of
from bestofq.core.noun import Noun
from bestofq.core.observation import Observation, Split, Task
from bestofq.envs.local_site.page import Button, Field, Form, Line, Page
from bestofq.envs.local_site.rules import Wording
from bestofq.envs.quirks.settings import QuirksSettings
from bestofq.envs.quirks.sites import KINDS, SEARCH, WHOLE, WORD, Quirk, Site, site
from bestofq.envs.splits import split_of

STEP_LIMIT = 15
AGAIN = "Start again"
_ENDS = {way for kind in KINDS for way in kind.stages[-1].ways}  # the buttons that place an order


class Goal(Noun):
    """What a task asks for; rewards and oracles read it, agents never."""

    site: int
    item: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """The site's record of one episode; `stage` is the page that is shown, whatever the address."""

    site: Site
    stage: int = 0
    found: tuple[str, ...] = ()  # items of the last search
    item: str | None = None
    value: str | None = None
    tried: frozenset[int] = frozenset()  # stages at which a way that works only twice was tried
    refused: bool = False  # the last page will refuse the order
    done: bool = False
    note: str = ""

    @property
    def quirk(self) -> Quirk | None:
        """Of the stage that is shown."""
        return self.site.quirks.get(self.stage)


class Quirks:
    """Goals and sites (`local_site.rules.Rules`), and their server: a visit knows its site."""

    name = "quirks"
    step_limit = STEP_LIMIT
    style = "body{font:16px/1.5 system-ui,sans-serif;margin:1rem}div{margin:.4rem 0}button,input{font:inherit}"
    wording = Wording()

    def __init__(self, settings: QuirksSettings) -> None:
        self._settings = settings
        self._goals: dict[str, Goal] = {}

    def tasks(self, split: Split) -> list[Task]:
        """Of the split's sites, in a fixed shuffled order, so that the first k are a fair sample."""
        seed, count = self._settings.seed, self._settings.sites
        apart = ("train", "dev", "test").index(split) if self._settings.splits == "site" else 0
        tasks = [
            task
            for number in range(apart * count, (apart + 1) * count)
            for task in self._tasks_of(number, split)
            if split_of(task.id, seed) == split
        ]
        random.Random(f"tasks-{seed}-{split}").shuffle(tasks)
        return tasks

    def _tasks_of(self, number: int, split: Split) -> list[Task]:
        seed, kind = self._settings.seed, self.site(number).kind
        rng = random.Random(f"goals-{seed}-{number}")
        wanted = rng.sample([(i, v) for i in kind.items for v in kind.values], self._settings.tasks_per_site)
        tasks = []
        for item, value in wanted:
            name = f"{number:02d}/{item}-{value}".lower().replace(" ", "-")
            self._goals[name] = Goal(site=number, item=item, value=value)
            text = rng.choice(kind.goals).format(item=item, value=value)
            tasks.append(Task(id=name, suite=self.name, goal=text, start_url="/", seed=seed, split=split))
        return tasks

    def site(self, number: int) -> Site:
        return site(number, self._settings.seed, self._settings.quirky)

    def goal(self, task: Task) -> Goal:
        if task.id not in self._goals:
            self._tasks_of(int(task.id.partition("/")[0]), task.split)
        return self._goals[task.id]

    def server(self, split: Split) -> "Quirks":
        return self

    def visit(self, task: Task) -> Visit:
        return Visit(site=self.site(self.goal(task).site))

    def ended(self, visit: Visit) -> bool:
        return visit.done

    def reward(self, task: Task, visit: Visit) -> float:
        """1 where the right thing was ordered, else 0."""
        goal = self.goal(task)
        return float(visit.done and (visit.item, visit.value) == (goal.item, goal.value))

    def reply(self, task: Task, question: str) -> None:
        """Nobody stands beside the buyer."""

    def irreversible(self, observation: Observation, action: Action) -> bool:
        """Whether the action places the order."""
        element = element_of(action, observation) if isinstance(action, Click) else None
        return element is not None and element.name in _ENDS

    # ---- the server

    def address(self, url: str) -> str | None:
        return url if url.startswith("/") else None

    def view(self, visit: Visit, url: str) -> Visit:
        return visit

    def get(self, visit: Visit, url: str) -> tuple[Visit, Page]:
        return visit, _page(visit)

    def post(self, visit: Visit, url: str, sent: Mapping[str, str]) -> tuple[Visit, str]:
        """Addresses are those of the buttons of the page that is shown; another one does nothing."""
        controls = _page(visit).controls
        if url in {form.action if form else one.to for one, form in controls if isinstance(one, Button)}:
            match url.rpartition("/")[2]:
                case "again":
                    visit = _emptied(visit, "")
                case "find":
                    visit = _searched(visit, sent.get("q", ""))
                case number:
                    visit = _pressed(visit, int(number))
        return visit, f"/{visit.site.kind.stages[visit.stage].title}"


def _searched(visit: Visit, text: str) -> Visit:
    words = text.lower().split()
    way = WORD if len(words) == 1 else WHOLE
    dead = visit.quirk is not None and visit.quirk.way == way
    items = [item for item in visit.site.kind.items if words and set(words) <= set(item.lower().split())]
    if dead or not items:
        return replace(visit, note="Nothing found.")
    return replace(visit, stage=visit.stage + 1, found=tuple(items), note="")


def _pressed(visit: Visit, number: int) -> Visit:
    """After the button of this number, which the page shows."""
    site, stage = visit.site, visit.site.kind.stages[visit.stage]
    onwards = replace(visit, stage=visit.stage + 1, note="")
    match stage.kind:
        case "items":
            return replace(onwards, item=visit.found[number])
        case "values":
            return replace(onwards, value=site.kind.values[number])
    effect = visit.quirk.effect if visit.quirk is not None and visit.quirk.way == number else None
    match effect:
        case "dead":
            return visit
        case "twice" if visit.stage not in visit.tried:
            return replace(visit, tried=visit.tried | {visit.stage})
        case "loop":
            return _emptied(visit, "")
        case "forget":
            return replace(onwards, value=None)
        case "refuse":
            return replace(onwards, refused=True)
    if visit.stage + 1 < len(site.kind.stages):
        return onwards
    return _emptied(visit, "Your order was refused.") if visit.refused else replace(visit, done=True)


def _emptied(visit: Visit, note: str) -> Visit:
    return Visit(site=visit.site, stage=SEARCH, tried=visit.tried, note=note)


def _page(visit: Visit) -> Page:
    site, at = visit.site, visit.stage
    stage = site.kind.stages[at]
    head = f"{site.name}: {stage.title}"
    if visit.done:
        return Page(head, ((head,), ("Thank you. We have your order.",)))
    buttons: list[Line] = []
    match stage.kind:
        case "items":
            buttons = [(Button(item, f"/{at}/{n}"),) for n, item in enumerate(visit.found)]
        case "values":
            buttons = [(Button(value, f"/{at}/{n}"),) for n, value in enumerate(site.kind.values)]
        case "fork":
            buttons = [(Button(stage.ways[way], f"/{at}/{way}"),) for way in site.shown[at]]
    search = Form(f"/{at}/find", ((Field("q", "Search", kind="search"), Button("Search")),), post=True)
    lines: tuple[Line, ...] = (
        (head,),
        *([(visit.note,)] if visit.note else []),
        *([(f"Your choice: {visit.item}",)] if visit.item else []),
        (stage.text,),
        *buttons,
    )
    again: tuple[Line, ...] = ((Button(AGAIN, "/again"),),) if at > SEARCH else ()
    return Page(head, (*lines, *([search] if stage.kind == "search" else []), *again))


def quirks(settings: QuirksSettings) -> Quirks:
    return _made(settings)


@lru_cache(4)
def _made(settings: QuirksSettings) -> Quirks:
    """It never changes: all that use it share it."""
    return Quirks(settings)
