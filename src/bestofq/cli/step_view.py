"""An episode as it happens, in the terminal: each step's page, its candidates with their scores, and the choice.

The user is asked what only a person may decide."""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from bestofq.core.decision import Decision, Episode, State, Step
from bestofq.core.observation import Observation
from bestofq.core.usage import Usage, merge_usage
from bestofq.core.words import count_of
from bestofq.reports.costs import Spent
from bestofq.reports.svg import shorten
from bestofq.viewer.steps import ScoreTable, candidate_views, verdict

BAR = 10  # characters
LABEL = 48  # characters


class StepPrinter:
    """Print lines that stay, above one that moves if the console is a terminal; ask the questions of one episode.
    Unless it is `interactive` the answer is no, or none. `yes`: what seems irreversible is allowed."""

    def __init__(self, console: Console, *, interactive: bool = False, yes: bool = False) -> None:
        self._console, self.interactive, self._yes = console, interactive, yes
        self._began = self._since = time.monotonic()
        self._usage: tuple[Usage, ...] = ()
        self._status: Status | None = None
        self._decided = False  # whether a decision was shown

    @contextmanager
    def live(self) -> Iterator[None]:
        with self._console.status("opening the page …") as self._status:
            yield
        self._status = None

    def say(self, *parts: str | tuple[str, str]) -> None:
        clean = (shown(part) if isinstance(part, str) else (shown(part[0]), part[1]) for part in parts)
        self._console.print(Text.assemble(*clean), soft_wrap=not self._console.is_terminal, highlight=False)

    def show_decision(self, state: State, decision: Decision) -> None:
        seen = state.observation
        if state.decisions and not self._decided:
            steps = count_of(len(state.decisions), "step")
            self.say((f"going on after {steps} of an episode whose process ended", "yellow"))
        self._decided = True
        self.say((f"\n{len(state.decisions) + 1}. {seen.title or '(no title)'}", "bold"), (f"  {seen.url}", "dim"))
        self.show_outcome(seen)
        scores = ScoreTable.of([decision])
        for view in candidate_views(decision, seen, scores):
            style = "bold green" if view.chosen else ""
            label = f"  {'▸' if style else ' '} {view.candidate.label}"
            if scores.informative:
                score = view.bars[0]
                full = "█" * round((score.share or 0.0) * BAR)
                bar = (full.ljust(BAR, "░"), "green" if style else "blue")
                self.say((shorten(label, LABEL).ljust(LABEL), style), f"{score.words:>8} ", bar)
            else:
                self.say((label, style))
            if view.candidate.thought:
                self.say((f"      {view.candidate.thought}", "dim"))
        if decision.state_value is not None:
            self.say((f"    V(s) = {decision.state_value:.3f}", "dim"))
        if scores.informative:
            self.say((f"    {verdict(decision, scores)}", "dim"))
        self._wait(decision.candidate.label)

    def show_step(self, step: Step) -> None:
        self._usage = merge_usage((*self._usage, *step.decision.usage))
        now = time.monotonic()
        self.say((f"    {now - self._since:.1f} s; so far {self.describe_cost(self._usage)}", "dim"))
        self._since = now
        self._wait("thinking")

    def show_outcome(self, seen: Observation) -> None:
        for notice in seen.notices:
            self.say((f"    {notice}", "cyan"))
        if seen.error is not None:
            self.say((f"    not done: {seen.error}", "yellow"))

    def describe_cost(self, usages: Iterable[Usage]) -> str:
        """`12.3 s, 4,210 tokens in, 96 out, $0.0031`, all so far; without dollars where a price is not known."""
        total, seconds = sum(map(Spent.of, usages), Spent()), time.monotonic() - self._began
        dollars = f", ${total.usd:.4f}" if total.usd and not total.unpriced else ""
        return f"{seconds:.1f} s, {total.tokens_in:,} tokens in, {total.tokens_out:,} out{dollars}"

    def _wait(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(f"{shown(text)} …", overflow="ellipsis", no_wrap=True))

    async def approve(self, question: str) -> bool:
        """`envs.web.Approve`."""
        if self.interactive and not self._yes:
            said = (await self._ask(f"{question} Allow it? [y]es, [N]o, yes to [a]ll: ")).lower()
            self._yes = said in {"a", "all"}
            return self._yes or said in {"y", "yes"}
        end = "Allowed." if self._yes else "Refused: nobody is here to ask; --yes allows it."
        self.say((f"    {question} {end}", "yellow"))
        return self._yes

    async def reply(self, question: str) -> str:
        """`envs.web.User`: what the agent asks."""
        return await self._ask(f"The agent asks: {question}\n> ")

    async def judge(self, _: Episode) -> bool | None:
        """Whether the agent did what was wanted; None: left open."""
        if not self.interactive:
            return None
        said = (await self._ask("Did it do what you wanted? [y]es, [n]o, Enter to leave it open: ")).lower()
        return {"y": True, "yes": True, "n": False, "no": False}.get(said)

    async def _ask(self, question: str) -> str:
        """What is typed behind the question, while no line moves."""
        if self._status is not None:
            self._status.stop()
        self._console.print(Text(shown(question), "bold"), end="", soft_wrap=True)
        self._console.file.flush()
        said = (await _line()).strip()
        if self._status is not None:
            self._status.start()
        return said


async def _line() -> str:
    """A line of standard input; waiting for it can be cancelled, unlike a thread that reads."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


def shown(text: str) -> str:
    """Without what could steer a terminal: the words of pages and models may hold escape codes."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
