"""The sites as a suite of tasks: what a visit is, what each page shows, what each action does (`local_site`)."""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

from bestofq.core.actions import Action, Click
from bestofq.core.observation import Element, Split, Task
from bestofq.envs.splits import SHARES, split_of
from bestofq_sites.local_site import rules
from bestofq_sites.local_site.page import Button, Field, Form, Line, Page
from bestofq_sites.quirks.settings import QuirksSettings
from bestofq_sites.quirks.sites import KINDS, SEARCH, WHOLE, WORD, Quirk, QuirkySite, site

STEP_LIMIT = 15
SPLITS = tuple(SHARES)
AGAIN = "Start again"
_ENDS = {way for kind in KINDS for way in kind.stages[-1].ways}  # the buttons that place an order


class QuirksGoal(rules.Goal):
    site: int
    item: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QuirksVisit:
    """The site's record of one episode; `stage` is the page that is shown, whatever the address."""

    site: QuirkySite
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


class Quirks(rules.Rules[QuirksGoal, QuirksVisit, QuirksVisit], rules.SiteServer[QuirksVisit, QuirksVisit]):
    """Goals and sites, and their server: a visit knows its site."""

    name = "quirks"
    step_limit = STEP_LIMIT
    style = "body{font:16px/1.5 system-ui,sans-serif;margin:1rem}div{margin:.4rem 0}button,input{font:inherit}"

    def __init__(self, settings: QuirksSettings) -> None:
        self._settings = settings
        sites = range(settings.sites * (len(SPLITS) if settings.splits == "site" else 1))
        super().__init__((goal for number in sites for goal in self._goals_at(number)), settings.seed)

    def goals_of(self, split: Split) -> list[QuirksGoal]:
        count, apart = self._settings.sites, self._settings.splits == "site"
        mine = (g for g in self.goals.values() if not apart or SPLITS[g.site // count] == split)
        return [goal for goal in mine if split_of(goal.id, self.seed) == split]

    def _goals_at(self, number: int) -> Iterator[QuirksGoal]:
        kind, settings = self.site(number).kind, self._settings
        rng = random.Random(f"goals-{settings.seed}-{number}")
        for item, value in rng.sample([*product(kind.items, kind.values)], settings.tasks_per_site):
            name = f"{number:02d}/{item}-{value}".lower().replace(" ", "-")
            text = rng.choice(kind.goals).format(item=item, value=value)
            yield QuirksGoal(id=name, instruction=text, site=number, item=item, value=value)

    def site(self, number: int) -> QuirkySite:
        return site(number, self._settings.seed, self._settings.quirky)

    def server(self, split: Split) -> Self:
        return self

    def visit(self, task: Task) -> QuirksVisit:
        return QuirksVisit(site=self.site(self.goals[task.id].site))

    def is_over(self, visit: QuirksVisit) -> bool:
        return visit.done

    def reward(self, task: Task, visit: QuirksVisit) -> float:
        """1 where the right thing was ordered, else 0."""
        goal = self.goals[task.id]
        return float(visit.done and (visit.item, visit.value) == (goal.item, goal.value))

    def commits(self, action: Action, element: Element) -> bool:
        return isinstance(action, Click) and element.name in _ENDS

    # ---- the server

    def view(self, visit: QuirksVisit, url: str) -> QuirksVisit:
        return visit

    def get(self, visit: QuirksVisit, url: str) -> tuple[QuirksVisit, Page]:
        return visit, _page(visit)

    def post(self, visit: QuirksVisit, url: str, sent: Mapping[str, str]) -> tuple[QuirksVisit, str]:
        """Addresses are those of the buttons of the page that is shown; another one does nothing."""
        controls = _page(visit).controls
        if url in {form.action if form else one.to for one, form in controls if isinstance(one, Button)}:
            match url.rpartition("/")[2]:
                case "again":
                    visit = _reset_visit(visit, "")
                case "find":
                    visit = _search(visit, sent.get("q", ""))
                case number:
                    visit = _press_button(visit, int(number))
        return visit, f"/{visit.site.kind.stages[visit.stage].title}"


def _search(visit: QuirksVisit, text: str) -> QuirksVisit:
    words = text.lower().split()
    way = WORD if len(words) == 1 else WHOLE
    dead = visit.quirk is not None and visit.quirk.way == way
    items = [item for item in visit.site.kind.items if words and set(words) <= set(item.lower().split())]
    if dead or not items:
        return replace(visit, note="Nothing found.")
    return replace(visit, stage=visit.stage + 1, found=tuple(items), note="")


def _press_button(visit: QuirksVisit, number: int) -> QuirksVisit:
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
            return _reset_visit(visit, "")
        case "forget":
            return replace(onwards, value=None)
        case "refuse":
            return replace(onwards, refused=True)
    if visit.stage + 1 < len(site.kind.stages):
        return onwards
    return _reset_visit(visit, "Your order was refused.") if visit.refused else replace(visit, done=True)


def _reset_visit(visit: QuirksVisit, note: str) -> QuirksVisit:
    return QuirksVisit(site=visit.site, stage=SEARCH, tried=visit.tried, note=note)


def _page(visit: QuirksVisit) -> Page:
    site, at = visit.site, visit.stage
    stage = site.kind.stages[at]
    head = f"{site.name}: {stage.title}"
    if visit.done:
        return Page(head, ((head,), ("Thank you. We have your order.",)))
    offered: Iterable[tuple[int, str]] = ()
    match stage.kind:
        case "items":
            offered = enumerate(visit.found)
        case "values":
            offered = enumerate(site.kind.values)
        case "fork":
            offered = ((way, stage.ways[way]) for way in site.shown[at])
    search = Form(f"/{at}/find", ((Field("q", "Search", kind="search"), Button("Search")),), post=True)
    lines: tuple[Line, ...] = (
        (head,),
        *([(visit.note,)] if visit.note else []),
        *([(f"Your choice: {visit.item}",)] if visit.item else []),
        (stage.text,),
        *((Button(name, f"/{at}/{number}"),) for number, name in offered),
    )
    again: tuple[Line, ...] = ((Button(AGAIN, "/again"),),) if at > SEARCH else ()
    return Page(head, (*lines, *([search] if stage.kind == "search" else []), *again))
