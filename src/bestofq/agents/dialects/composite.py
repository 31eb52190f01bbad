"""Agent Q's composite action (3.1, Fig. 2): a plan on the first step, then thought, command, explanation and status.

    PLAN: search, pick the table, give the details       (first step only)
    THOUGHT: the date is wrong
    COMMANDS: CLICK [7]
    EXPLANATION: set the date to May 22
    STATUS: CONTINUE

One command a step, of CLICK [7], TYPE [3] "text", SUBMIT [3], CLEAR [3], SCROLL DOWN, GOTO url, ASK USER HELP
"question", or NONE with STATUS: DONE, which ends the episode with the explanation as the answer. A click may say what
it is on, as the page does before the mark: CLICK May 22 [7] (`commands.grounded`). The history h_t is all composite
actions so far and the current page alone, not the pages before.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.dialects.commands import MARK, TEXT, Commands, check_mark, ground_click, read_command
from bestofq.agents.prompting import page_values, render
from bestofq.core.actions import Action, Answer, AskUser, Clear, Click, Goto, Scroll, Submit, Write, action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, strip_thinking
from bestofq.core.observation import Observation
from bestofq.core.picture import Picture

TEMPLATES = ("composite",)
CHAT_TEMPLATES = ("composite_system", "composite_user")  # what a chat endpoint reads instead

_COMMANDS: Commands = (
    (re.compile(rf"CLICK{MARK}"), lambda mark: Click(mark=int(mark))),
    (re.compile(rf"TYPE{MARK} {TEXT}"), lambda mark, text: Write(mark=int(mark), text=text)),
    (re.compile(rf"SUBMIT{MARK}"), lambda mark: Submit(mark=int(mark))),
    (re.compile(rf"CLEAR{MARK}"), lambda mark: Clear(mark=int(mark))),
    (re.compile(r"SCROLL (UP|DOWN)"), lambda direction: Scroll(direction=direction.lower())),
    (re.compile(r"GOTO (\S+)"), lambda url: Goto(url=url)),
    (re.compile(r'ASK USER HELP "(.*)"'), lambda question: AskUser(question=question)),
)
_REPLY = re.compile(
    r"(?:(?:.*^PLAN:)?(?P<plan>.*?)\nTHOUGHT:|(?:THOUGHT:)?)(?P<thought>[^\n]*)\n"
    r"COMMANDS: (?P<command>[^\n]*)\n"
    r"EXPLANATION:(?P<explanation>[^\n]*)\n"
    r"STATUS: (?P<status>CONTINUE|DONE)",
    re.DOTALL | re.MULTILINE,
)


def composite_prompt(state: State) -> str:
    """h_t as a model reads it. It ends where the reply begins: at the plan on the first step, else at the thought."""
    taken = [decision.candidate for decision in state.decisions]
    return render("composite", plan=taken[0].plan if taken else "", history=taken, **page_values(state))


def composite_user(state: State, history: int, pictures: int = 0) -> str:
    """Task, plan, the last `history` composite actions, and the page; `pictures` stand after it."""
    taken = [decision.candidate for decision in state.decisions]
    return render(
        "composite_user",
        plan=taken[0].plan if taken else "",
        history=taken[len(taken) - history :],
        skipped=len(taken) - history,
        pictures=pictures,
        **page_values(state),
    )


def composite_reply(candidate: Candidate, *, first: bool, words: str = "") -> str:
    """The inverse of `parse_composite`: what a model writes after the prompt. `words` stand before a click's mark."""
    plan = f" {candidate.plan}\nTHOUGHT:" if first else ""
    command = "NONE" if isinstance(candidate.action, Answer) else command_text(candidate.action)
    if words and isinstance(candidate.action, Click):
        command = command.replace("[", f"{words} [")
    return (
        f"{plan} {candidate.thought}\nCOMMANDS: {command}\nEXPLANATION: {candidate.explanation}\n"
        f"STATUS: {candidate.status.upper()}"
    )


def parse_composite(reply: str, observation: Observation, log_prob: float | None = None) -> Candidate:
    """The candidate of a reply, less its thinking. ReplyError when a part is missing, or command or mark is none."""
    found = _REPLY.fullmatch(strip_thinking(reply).strip())
    if found is None:
        raise ReplyError(f"{reply[:80]!r} is not thought, COMMANDS, EXPLANATION and STATUS, each on its line")
    plan, thought, explanation = (" ".join((found[part] or "").split()) for part in ("plan", "thought", "explanation"))
    command, status = found["command"].strip(), found["status"]
    action = (
        Answer(text=explanation)
        if command == "NONE" and status == "DONE"
        else parse_command(ground_click(command, observation))
    )
    check_mark(action, command, observation)
    return Candidate(
        action=action,
        label=action_text(action, observation.elements),
        plan=plan,
        thought=thought,
        explanation=explanation,
        status="done" if status == "DONE" else "continue",
        log_prob=log_prob,
        reply=reply,
    )


def parse_command(command: str) -> Action:
    """ReplyError when it is none of the commands, or one with an impossible value."""
    return read_command(command, _COMMANDS, "CLICK, TYPE, SUBMIT, CLEAR, SCROLL, GOTO or ASK USER HELP")


def command_text(action: Action) -> str:
    """The command of an action on a mark. ValueError for an action that Agent Q has no command for."""
    match action:
        case Click(mark=int(mark)):
            return f"CLICK [{mark}]"
        case Write(mark=int(mark), text=text, enter=False):
            return f'TYPE [{mark}] "{text}"'
        case Submit(mark=int(mark)):
            return f"SUBMIT [{mark}]"
        case Clear(mark=int(mark)):
            return f"CLEAR [{mark}]"
        case Scroll(direction="up" | "down" as direction):
            return f"SCROLL {direction.upper()}"
        case Goto(url=url):
            return f"GOTO {url}"
        case AskUser(question=question):
            return f'ASK USER HELP "{question}"'
    raise ValueError(f"Agent Q has no command for {action_text(action)!r}")


@dataclass(frozen=True)
class CompositeDialect:
    """`Dialect` and `ChatDialect`: one composite action a reply. The history is all composite actions so far (3.1)."""

    keeps_ids = True
    single = True
    pointing = False
    repair = "in the form that was asked for, with nothing around it"
    prompt = staticmethod(composite_prompt)
    parse = staticmethod(parse_composite)
    user = staticmethod(composite_user)

    def schema(self, n: int) -> None:
        """Free text."""

    def system(self, state: State, n: int, picture: Picture | None) -> str:
        return render("composite_system", first=not state.decisions)

    def read(self, reply: Reply, observation: Observation, n: int, picture: Picture | None) -> Sequence[Candidate]:
        """Without the empty lines and the fence that chat models put around and between what they are asked for."""
        lines = (line.strip() for line in reply.text.splitlines())
        return [parse_composite("\n".join(line for line in lines if line and not line.startswith("```")), observation)]


COMPOSITE = CompositeDialect()
