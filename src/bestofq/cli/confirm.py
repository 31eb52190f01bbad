"""What a user at a terminal is asked while an episode runs. Without one nobody is asked: the answer is no, or none."""

import asyncio
import sys
from dataclasses import dataclass, field

from bestofq.cli.step_view import StepView
from bestofq.core.decision import Episode


@dataclass
class Terminal:
    """The questions of one episode. `yes`: what seems irreversible is allowed without asking."""

    view: StepView
    interactive: bool
    yes: bool = False
    refused: int = field(default=0, init=False)

    async def approve(self, question: str) -> bool:
        """`envs.web.Approve`."""
        if not self.yes and self.interactive:
            said = (await self._ask(f"{question} Allow it? [y]es, [N]o, yes to [a]ll: ")).lower()
            self.yes = said in {"a", "all"}
            if self.yes or said in {"y", "yes"}:
                return True
        if self.yes:
            self.view.say((f"    {question} Allowed.", "yellow"))
            return True
        self.refused += 1
        if not self.interactive:
            self.view.say((f"    {question} Refused: nobody is here to ask; --yes allows it.", "yellow"))
        return False

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
        with self.view.paused():
            self.view.ask(question)
            return (await _line()).strip()


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
