"""The pocket model's commands: its reply is a candidate by the inverse of `core.actions.action_text` for marks.

A reply is a thought (any number of lines, or none) and a last line with one command:

    click [7]   write [1] "text"   write [1] "text" enter   submit [3]   clear [3]   scroll down   scroll down [3]

    press Escape   press Enter [3]   upload [3] "file"   goto URL   back   tab 2   refresh   restart   wait 2
    answer "text"   ask "text"

A click may repeat the words that the page has before the mark: `click extra large [7]`. If exactly one mark of the page
follows these words, the click is on it, whatever its number: small models copy words better than numbers. Otherwise the
number counts. Texts go from the first to the last quotation mark of the line, so they may hold quotation marks. A line
with several commands is refused.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from bestofq.agents.prompting import propose_prompt
from bestofq.core import actions as act
from bestofq.core.actions import Action, Marked, action_text
from bestofq.core.decision import Candidate
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Observation

MARK = r" \[(\d{1,9})\]"
TEXT = r'"(?!.*"\W{1,3}(?i:click|type|write|submit|clear) \[\d)(.*)"'
Commands = Sequence[tuple[re.Pattern[str], Callable[..., Action]]]
_NAMED = re.compile(r"(click|CLICK) (?!.*\[\d+\].)(.*) \[(\d{1,9})\]")
_COMMANDS: Commands = (
    (re.compile(rf"click{MARK}"), lambda mark: act.Click(mark=int(mark))),
    (
        re.compile(rf"write{MARK} {TEXT}( enter)?"),
        lambda mark, text, enter: act.Write(mark=int(mark), text=text, enter=enter is not None),
    ),
    (re.compile(rf"submit{MARK}"), lambda mark: act.Submit(mark=int(mark))),
    (re.compile(rf"clear{MARK}"), lambda mark: act.Clear(mark=int(mark))),
    (
        re.compile(rf"scroll (\w+)(?:{MARK})?"),
        lambda direction, mark: act.Scroll(direction=direction, mark=mark and int(mark)),
    ),
    (re.compile(rf"press (.+?)(?:{MARK})?"), lambda keys, mark: act.Press(keys=keys, mark=mark and int(mark))),
    (re.compile(rf'upload{MARK} "(.+)"'), lambda mark, file: act.Upload(mark=int(mark), file=file)),
    (re.compile(r"tab (\d{1,4})"), lambda tab: act.SwitchTab(tab=int(tab))),
    (re.compile(r"goto (\S+)"), lambda url: act.Goto(url=url)),
    (re.compile(r"back"), act.GoBack),
    (re.compile(r"refresh"), act.Refresh),
    (re.compile(r"restart"), act.Restart),
    (re.compile(r"wait (\d+(?:\.\d+)?(?:e-?\d+)?)"), lambda seconds: act.Wait(seconds=float(seconds))),
    (re.compile(r'answer "(.*)"'), lambda text: act.Answer(text=text)),
    (re.compile(r'ask "(.*)"'), lambda question: act.AskUser(question=question)),
)


def parse_action(command: str) -> Action:
    """The action of one line. ReplyError when it is no command, or one with an impossible value."""
    return read_command(command, _COMMANDS, "click, write, submit, clear, scroll, goto, back, …")


def read_command(command: str, commands: Commands, expected: str) -> Action:
    """The action of the first pattern that fits the whole command. ReplyError that names what was `expected`."""
    for pattern, make in commands:
        if match := pattern.fullmatch(command):
            try:
                return make(*match.groups())
            except ValidationError as error:
                raise ReplyError(f"{command!r}: {error.errors()[0]['msg']}") from error
    raise ReplyError(f"{command!r} is no command: expected {expected}")


def read_on_page(command: str, parse: Callable[[str], Action], observation: Observation) -> Action:
    """The action of a command, a click with words on the one mark after them. ReplyError for a mark not on the page."""
    action = parse(ground_click(command, observation))
    mark = action.mark if isinstance(action, Marked) else None
    if mark is not None and all(element.mark != mark for element in observation.elements):
        raise ReplyError(f"{command!r} names mark {mark}: the page has {len(observation.elements)} marks")
    return action


def ground_click(command: str, observation: Observation) -> str:
    """A click with words, on the one mark that follows them, else on its own number. Other commands stay."""
    match = _NAMED.fullmatch(command)
    if match is None:
        return command
    click, words, mark = match.groups()
    fitting = [e.mark for e in observation.elements if words_before(e.mark, observation) == words.strip()]
    return f"{click} [{fitting[0] if len(fitting) == 1 else mark}]"


def words_before(mark: int, observation: Observation) -> str:
    """The last three words before a mark on its line of the page. None if another mark is right before it."""
    before = observation.text.partition(f"[{mark}]")[0].rpartition("\n")[2].rpartition("]")[2].split()
    return " ".join(before[-3:])


def parse_reply(reply: str, observation: Observation) -> Candidate:
    """The candidate of a whole reply. ReplyError when its last line is no command, or names a mark not on the page."""
    thought, _, command = reply.strip().rpartition("\n")
    action = read_on_page(command.strip(), parse_action, observation)
    label = action_text(action, observation.elements)
    return Candidate(action=action, label=label, thought=thought.strip(), reply=reply)


@dataclass(frozen=True)
class CommandsDialect:
    """A thought and a command."""

    keeps_ids = False  # no policy is tuned on the tokens of such replies
    prompt = staticmethod(propose_prompt)
    parse = staticmethod(parse_reply)


COMMANDS = CommandsDialect()
