"""A local site without a browser: the same observations, rewards and ends as in Chromium, in microseconds."""

from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from bestofq.core import actions as act
from bestofq.core.actions import Action, Targeted
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq_sites.local_site.page import Button, Field, Form, Link, Page, SelectField, render
from bestofq_sites.local_site.rules import Rules, SiteServer, ViewT, VisitT

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPlace(Generic[VisitT]):
    """All that the rest of an episode depends on. `pages`: the addresses visited, the current one last."""

    task: Task
    visit: VisitT
    pages: tuple[str, ...]
    page: Page
    typed: tuple[tuple[int, str], ...] = ()  # (mark, text) written and not sent
    error: str | None = None
    notices: tuple[str, ...] = ()


class TextEnv(Generic[VisitT, ViewT]):
    """`Env` and `Checkpointable` over the pages themselves. One episode at a time."""

    def __init__(self, rules: Rules[Any, VisitT, ViewT], *, server: SiteServer[VisitT, ViewT] | None = None) -> None:
        """`server`: instead of the one of the task's split."""
        self._rules = rules
        self._fixed = server
        self._place: TextPlace[VisitT] | None = None

    @property
    def place(self) -> TextPlace[VisitT]:
        """RuntimeError before the first reset."""
        if self._place is None:
            raise RuntimeError("the environment has no episode; reset it first")
        return self._place

    @property
    def visit(self) -> VisitT:
        return self.place.visit

    @property
    def view(self) -> ViewT:
        return self._server.view(self.place.visit, self.place.pages[-1])

    @property
    def _server(self) -> SiteServer[VisitT, ViewT]:
        return self._fixed or self._rules.server(self.place.task.split)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """A new visit at the start page. The site does not depend on the seed."""
        server = self._fixed or self._rules.server(task.split)
        visit, page = server.get(self._rules.visit(task), task.start_url)
        return await self.restore(TextPlace(task=task, visit=visit, pages=(task.start_url,), page=page))

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. What ends the visit ends the episode, and so does an answer, which earns nothing."""
        place = self.place
        self._set(error=None, notices=())
        match action:
            case act.Answer():
                return StepResult(observation=self._observe(), terminated=True)
            case act.AskUser():
                answer = self._rules.reply(place.task, action.question)
                self._set(notices=() if answer is None else (f"The user replied: {answer}",))
            case _:
                self._set(error=self._act(action))
        visit = self.place.visit
        return StepResult(
            observation=self._observe(),
            reward=self._rules.reward(place.task, visit),
            terminated=self._rules.is_over(visit),
        )

    async def save(self) -> TextPlace[VisitT]:
        return self.place

    async def restore(self, saved: object) -> Observation:
        assert isinstance(saved, TextPlace)
        self._place = saved
        return self._observe()

    async def close(self) -> None:
        self._place = None

    def _set(self, **changes: Any) -> None:
        self._place = replace(self.place, **changes)

    def _observe(self) -> Observation:
        place = self.place
        seen = render(place.page, dict(place.typed), place.pages[-1])
        return seen.model_copy(update={"error": place.error, "notices": place.notices})

    def _load(self, url: str, *, before: tuple[str, ...] | None = None) -> None:
        """Show a page after those `before`; None: after all visited, or in the place of the same address."""
        pages = self.place.pages
        url = self._server.address(url) or url
        if before is None:
            before = pages[:-1] if pages[-1] == url else pages
        visit, page = self._server.get(self.place.visit, url)
        self._set(visit=visit, page=page, pages=(*before, url), typed=())

    def _act(self, action: Action) -> str | None:
        pages = self.place.pages
        match action:
            case act.Press() | act.Upload() | act.SwitchTab():
                return f"A text page has no keys, files or tabs, so `{action.kind}` does nothing here."
            case Targeted():
                return self._act_on(action)
            case act.GoBack() if len(pages) == 1:
                return "There is no page to go back to."
            case act.GoBack():
                self._load(pages[-2], before=pages[:-2])
            case act.Refresh():
                self._load(pages[-1])
            case act.Restart():
                self._load(self.place.task.start_url)
            case act.Goto(url=url) if self._server.address(url) is None:
                return f"{url} is not on this site: its addresses begin with /."
            case act.Goto(url=url):
                self._load(url)
            case act.Other():
                return f"{action.text} is an action of another tool."
            case _:
                pass  # scroll, wait: a text has no layout and no unrest
        return None

    def _act_on(self, action: Targeted) -> str | None:
        mark, controls = action.mark, self.place.page.controls
        if mark is None:
            return action.refusal or "A text page has no points: name an element by its mark."
        if mark > len(controls):
            return f"There is no element [{mark}] on this page."
        node, form = controls[mark - 1]
        match action, node:
            case act.Click(), Link(to=to):
                self._load(to)
            case act.Click(), Button(to=to) if to:
                self._post(to, {})
            case (act.Click(), Button()) | (act.Submit(), Field() | SelectField()):
                assert form is not None
                self._send(form)
            case act.Submit(), Button() if form is not None and form.numbered:
                self._send(form)
            case act.Submit(), _:
                return f"Element [{mark}] belongs to no form."
            case act.Click(), SelectField(options=options):
                return f"Element [{mark}] is a list: write one of its options: {_join_options(options)}."
            case ((act.Write() | act.Clear()), SelectField()):
                assert form is not None
                return self._choose(mark, node, form, action.text if isinstance(action, act.Write) else "")
            case ((act.Write() | act.Clear()), Field()):
                text = " ".join(action.text.splitlines()) if isinstance(action, act.Write) else ""
                self._set(typed=(*self.place.typed, (mark, text.strip() if node.kind == "email" else text)))
                if isinstance(action, act.Write) and action.enter:
                    assert form is not None
                    self._send(form)
            case ((act.Write() | act.Clear()), _):
                return f"Element [{mark}] is no text field."
        return None

    def _choose(self, mark: int, node: SelectField, form: Form, text: str) -> str | None:
        wanted = " ".join(text.split())
        value = next((v for v, shown in node.options if shown == wanted), None)
        value = value or next((v for v, _ in node.options if v == text), None)
        value = value or next((v for v, shown in node.options if shown.lower() == wanted.lower()), None)
        if value is None:
            return f'Element [{mark}] has no option "{wanted}"; its options are {_join_options(node.options)}.'
        self._load(_with_query(form.again, self._fields(form) | {node.key: value}))
        return None

    def _send(self, form: Form) -> None:
        if form.post:
            self._post(form.action, self._fields(form))
        else:
            self._load(_with_query(form.action, self._fields(form)))

    def _post(self, url: str, fields: dict[str, str]) -> None:
        visit, url = self._server.post(self.place.visit, url, fields)
        self._set(visit=visit)
        self._load(url, before=self.place.pages)  # what answers a sent form is a page of its own, even there

    def _fields(self, form: Form) -> dict[str, str]:
        typed, fields = dict(self.place.typed), dict(form.hidden)
        for mark, (node, its) in enumerate(self.place.page.controls, start=1):
            if its == form and isinstance(node, Field | SelectField):
                fields[node.key] = typed.get(mark, node.value)
        return fields


def _with_query(path: str, fields: dict[str, str]) -> str:
    return f"{path}?{urlencode(fields, safe='*').replace('~', '%7E')}"  # as browsers write it


def _join_options(options: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f'"{shown}"' for _, shown in options)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, as those of `TextEnv`. It works inside an event loop too."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a text site waited for something")
