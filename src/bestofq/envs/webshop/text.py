"""WebShop without a browser: the same observations, rewards and ends as the site in Chromium, in microseconds.

`tests/envs/webshop/test_contract.py` walks both at random and finds no difference in text, reward or end.
"""

from dataclasses import dataclass

from bestofq.core.actions import (
    Action,
    Answer,
    AskUser,
    Clear,
    Click,
    GoBack,
    Goto,
    Refresh,
    Restart,
    Scroll,
    Submit,
    Targeted,
    Wait,
    Write,
)
from bestofq.core.decision import StepResult
from bestofq.core.observation import Element, Observation, Task
from bestofq.envs.webshop.pages import Bought, Link, Page, Results, SearchBox, Shop, Start, View
from bestofq.envs.webshop.suite import Suite
from bestofq.envs.webshop.urls import from_url, to_url


def render(page: Page, fields: dict[int, str], url: str, *, error: str | None = None) -> Observation:
    """The observation a browser makes of the page; `fields` holds what is typed into its fields, by mark."""
    elements: list[Element] = []
    lines = []
    for line in page.lines:
        pieces = []
        for node in line:
            if isinstance(node, str):
                pieces.append(node)
                continue
            mark = len(elements) + 1
            if isinstance(node, SearchBox):
                value = fields.get(mark, "")
                elements.append(Element(mark=mark, role="searchbox", name=node.name, value=value))
                pieces.append(f'{node.name}: "{value}" [{mark}]')
            else:
                states = ("checked",) if node.checked else ()
                elements.append(Element(mark=mark, role=node.role, name=node.name, states=states))
                pieces.append(f"{node.name}{' (checked)' if node.checked else ''} [{mark}]")
        lines.append(" ".join(pieces))
    return Observation(
        url=url, title=page.title, text="\n".join(lines), elements=tuple(elements), tabs=(page.title,), error=error
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """All that the rest of an episode depends on."""

    task: Task
    shop: Shop
    history: tuple[View, ...]
    fields: tuple[tuple[int, str], ...]
    error: str | None


class TextEnv:
    """`Env` and `Checkpointable` over the pages themselves. One episode at a time."""

    def __init__(self, suite: Suite, *, shop: Shop | None = None) -> None:
        self._suite = suite
        self._shop = shop
        self._task: Task | None = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Start at the search page. The shop does not depend on the seed."""
        self._task = task
        self._here = self._shop or self._suite.shop(task.split)
        self._history: list[View] = [Start()]
        self._fields: dict[int, str] = {}
        self._error: str | None = None
        return self._observe()

    @property
    def view(self) -> View:
        """Where the visitor is."""
        return self._history[-1]

    async def step(self, action: Action) -> StepResult:
        """Carry out one action; Buy Now and an answer end the episode, only Buy Now can earn a reward."""
        if self._task is None:
            raise RuntimeError("step before reset")
        self._error = None
        if isinstance(action, Answer):
            return StepResult(observation=self._observe(), terminated=True)
        self._error = self._act(action)
        observation = self._observe()
        if isinstance(self.view, Bought):
            reward = self._suite.reward(self._task, self.view.item)
            return StepResult(observation=observation, reward=reward, terminated=True)
        return StepResult(observation=observation)

    async def save(self) -> Saved:
        if self._task is None:
            raise RuntimeError("save before reset")
        return Saved(
            task=self._task,
            shop=self._here,
            history=tuple(self._history),
            fields=tuple(self._fields.items()),
            error=self._error,
        )

    async def restore(self, saved: object) -> Observation:
        assert isinstance(saved, Saved)
        self._task, self._here, self._error = saved.task, saved.shop, saved.error
        self._history, self._fields = list(saved.history), dict(saved.fields)
        return self._observe()

    async def close(self) -> None:
        self._task = None

    def _observe(self) -> Observation:
        return render(self._here.page(self.view), self._fields, to_url(self.view), error=self._error)

    def _nodes(self) -> list[Link | SearchBox]:
        return [n for line in self._here.page(self.view).lines for n in line if not isinstance(n, str)]

    def _visit(self, view: View) -> None:
        if view != self.view:
            self._history.append(view)
        self._fields = {}

    def _act(self, action: Action) -> str | None:
        match action:
            case Click() | Write() | Submit() | Clear():
                return self._act_on(action)
            case GoBack():
                if len(self._history) == 1:
                    return "There is no earlier page to go back to."
                self._history.pop()
                self._fields = {}
            case Refresh():
                self._fields = {}
            case Restart():
                self._visit(Start())
            case Goto(url=url):
                view = from_url(url, self._here.catalogue)
                if view is None:
                    return f"{url} is not a page of this shop."
                self._visit(view)
            case Scroll() | Wait() | AskUser():
                pass
        return None

    def _act_on(self, action: Targeted) -> str | None:
        nodes = self._nodes()
        if action.mark is None:
            return action.refusal or "A text page has no points: name an element by its mark."
        if action.mark > len(nodes):
            return f"There is no element [{action.mark}] on this page; marks go from 1 to {len(nodes)}."
        node = nodes[action.mark - 1]
        match action, node:
            case Click(), Link():
                self._visit(self._search() if node.to == self.view and node.role == "button" else node.to)
            case Write(text=text, enter=enter), SearchBox():
                self._fields[action.mark] = text
                if enter:
                    self._visit(self._search())
            case Clear(), SearchBox():
                self._fields[action.mark] = ""
            case Submit(), SearchBox():
                self._visit(self._search())
            case (Write() | Clear(), _):
                return f"[{action.mark}] {node.name} is a {_role(node)}, not a field."
            case Submit(), _:
                return f"[{action.mark}] {node.name} belongs to no form."
        return None

    def _search(self) -> Results:
        return Results(query=" ".join(next(iter(self._fields.values()), "").split()))


def _role(node: Link | SearchBox) -> str:
    return node.role if isinstance(node, Link) else "searchbox"
