"""Agent Q's composite action (3.1, Fig. 2): a plan on the first step, then thought, command, explanation and status.

    PLAN: search, pick the table, give the details       (first step only)
    THOUGHT: the date is wrong
    COMMANDS: CLICK [7]
    EXPLANATION: set the date to May 22
    STATUS: CONTINUE

One command a step, of CLICK [7], TYPE [3] "text", SUBMIT [3], CLEAR [3], SCROLL DOWN, GOTO url, ASK USER HELP
"question". NONE with STATUS: DONE ends the episode with the explanation as the answer. A click may repeat the words
before its mark: CLICK May 22 [7] (`commands.ground_click`). The history h_t is all composite actions so far and the
current page alone, not the pages before.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.dialects.commands import MARK, TEXT, Commands, read_command, read_on_page
from bestofq.agents.prompting import page_values, render
from bestofq.core.actions import Action, Answer, AskUser, Clear, Click, Goto, Scroll, Submit, Write, action_text
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, remove_thoughts
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
    """h_t as a model reads it. The reply continues it: with the plan on the first step, else with the thought."""
    taken = [decision.candidate for decision in state.decisions]
    return render("composite", plan=taken[0].plan if taken else "", history=taken, **page_values(state))


def composite_user(state: State, history: int, pictures: int = 0) -> str:
    """Task, plan, the last `history` composite actions, and the page. `pictures` follow it."""
    taken = [decision.candidate for decision in state.decisions]
    return render(
        "composite_user",
        plan=taken[0].plan if taken else "",
        history=taken[len(taken) - history :],
        skipped=len(taken) - history,
        pictures=pictures,
        **page_values(state),
    )


def parse_composite(reply: str, observation: Observation) -> Candidate:
    """The candidate of a reply, without its thinking. ReplyError for a missing part, an unknown command or mark."""
    match = _REPLY.fullmatch(remove_thoughts(reply).strip())
    if match is None:
        raise ReplyError(f"{reply[:80]!r} is not thought, COMMANDS, EXPLANATION and STATUS, each on its line")
    plan, thought, explanation = (" ".join((match[part] or "").split()) for part in ("plan", "thought", "explanation"))
    command, done = match["command"].strip(), match["status"] == "DONE"
    if command == "NONE" and done:
        action: Action = Answer(text=explanation)
    else:
        action = read_on_page(command, parse_command, observation)
    return Candidate(
        action=action,
        label=action_text(action, observation.elements),
        plan=plan,
        thought=thought,
        explanation=explanation,
        status="done" if done else "continue",
        reply=reply,
    )


def parse_command(command: str) -> Action:
    """ReplyError for anything that is none of the commands, and for an impossible value."""
    return read_command(command, _COMMANDS, "CLICK, TYPE, SUBMIT, CLEAR, SCROLL, GOTO or ASK USER HELP")


@dataclass(frozen=True)
class CompositeDialect:
    """One composite action a reply. The history is all composite actions so far (3.1)."""

    keeps_ids = True  # a candidate keeps the tokens of its reply: policies are tuned on them
    single = True  # a reply holds one action only
    pointing = False
    repair = "in the form that was asked for, with nothing around it"
    prompt = staticmethod(composite_prompt)
    parse = staticmethod(parse_composite)
    user = staticmethod(composite_user)

    def schema(self, n: int, page: Observation) -> None:
        """Free text."""

    def system(self, state: State, n: int, picture: Picture | None) -> str:
        return render("composite_system", first=not state.decisions)

    def read(self, reply: Reply, observation: Observation, n: int, picture: Picture | None) -> Sequence[Candidate]:
        """Empty lines and a fence, which chat models add, do not count."""
        lines = (line.strip() for line in reply.text.splitlines())
        return [parse_composite("\n".join(line for line in lines if line and not line.startswith("```")), observation)]


COMPOSITE = CompositeDialect()
