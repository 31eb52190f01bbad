"""Agent Q's composite action, written and read."""

import pytest

from bestofq.agents.dialects.composite import composite_prompt, parse_command, parse_composite
from bestofq.core.actions import Answer, AskUser, Clear, Click, GoBack, Goto, Scroll, Submit, Write
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Element, Observation, Task
from experiments.pocket_models.composite import composite_reply

PAGE = Observation(
    url="https://tables.example/",
    title="Tables",
    text='City: "Rome" [1]\nFind a table [2]',
    elements=(
        Element(mark=1, role="textbox", name="City", value="Rome"),
        Element(mark=2, role="button", name="Find a table"),
    ),
    notices=("user: outside, please",),
)
TASK = Task(id="t", suite="s", goal="a table for 2", start_url="https://tables.example/")
STATE = State(task=TASK, observation=PAGE)
FIRST = """ set the city; find a table
THOUGHT: it says Rome
COMMANDS: TYPE [1] "Pisa "on" Arno"
EXPLANATION: set the city
STATUS: CONTINUE"""


def test_the_first_reply_has_a_plan_and_the_prompt_asks_for_it() -> None:
    assert composite_prompt(STATE).endswith("user: a table for 2\nPLAN:")
    candidate = parse_composite(FIRST, PAGE)
    assert candidate.plan == "set the city; find a table"
    assert candidate.thought == "it says Rome"
    assert candidate.action == Write(mark=1, text='Pisa "on" Arno')
    assert candidate.label == 'write textbox City "Pisa "on" Arno"'
    assert (candidate.explanation, candidate.status) == ("set the city", "continue")
    assert composite_reply(candidate, first=True) == FIRST


def test_the_history_is_all_composite_actions_and_the_current_page_alone() -> None:
    taken = parse_composite(FIRST, PAGE)
    decision = Decision(candidates=(taken, Candidate(action=GoBack(), label="back")), scores=(1, 0), chosen=0)
    after = PAGE.model_copy(update={"text": "Where to? [2]", "notices": ()})
    prompt = composite_prompt(STATE.model_copy(update={"decisions": (decision,), "observation": after}))
    assert prompt == (
        "user: a table for 2\nplan: set the city; find a table\n"
        'did: write textbox City "Pisa "on" Arno" | it says Rome | set the city\n'
        "page: Tables\nWhere to? [2]\nuser: a table for 2\nTHOUGHT:"
    )


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("CLICK [2]", Click(mark=2)),
        ("SUBMIT [1]", Submit(mark=1)),
        ("CLEAR [1]", Clear(mark=1)),
        ("SCROLL UP", Scroll(direction="up")),
        ("GOTO https://tables.example/rome", Goto(url="https://tables.example/rome")),
        ('ASK USER HELP "inside or outside?"', AskUser(question="inside or outside?")),
    ],
)
def test_every_command_is_read_as_it_is_written(command: str, action: object) -> None:
    reply = f" so\nCOMMANDS: {command}\nEXPLANATION: then\nSTATUS: CONTINUE"
    candidate = parse_composite(reply, PAGE)
    assert candidate.action == action
    assert composite_reply(candidate, first=False) == reply


@pytest.mark.parametrize("before", ["<think>\nMy plan is:\nto look\n</think>\n\nPLAN:", "Sure!\nPLAN:", "PLAN:"])
def test_what_stands_before_the_plan_is_no_part_of_it(before: str) -> None:
    candidate = parse_composite(before + FIRST, PAGE)
    assert (candidate.plan, candidate.thought) == ("set the city; find a table", "it says Rome")
    assert candidate.reply == before + FIRST


def test_thinking_without_an_end_is_no_plan() -> None:
    with pytest.raises(ReplyError):
        parse_composite(f"<think>\nPLAN:{FIRST}", PAGE)


def test_white_space_in_a_text_stays() -> None:
    reply = FIRST.replace('"on"', "  on  ")
    assert parse_composite(reply, PAGE).action == Write(mark=1, text="Pisa   on   Arno")


def test_done_ends_the_episode_with_the_explanation() -> None:
    reply = " all set\nCOMMANDS: NONE\nEXPLANATION: booked for 7 PM\nSTATUS: DONE"
    candidate = parse_composite(reply, PAGE)
    assert candidate.action == Answer(text="booked for 7 PM")
    assert composite_reply(candidate, first=False) == reply


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ("CLICK [2]", "is not thought, COMMANDS"),
        (" so\nCOMMANDS: CLICK [2]\nEXPLANATION: then", "is not thought, COMMANDS"),
        (" so\nCOMMANDS: CLICK [9]\nEXPLANATION: then\nSTATUS: CONTINUE", "names mark 9: the page has 2 marks"),
        (" so\nCOMMANDS: HOVER [1]\nEXPLANATION: then\nSTATUS: CONTINUE", "'HOVER \\[1\\]' is no command"),
        (" so\nCOMMANDS: CLICK [1]; CLICK [2]\nEXPLANATION: then\nSTATUS: CONTINUE", "is no command"),
        (' so\nCOMMANDS: TYPE [1] "a"; TYPE [2] "b"\nEXPLANATION: then\nSTATUS: CONTINUE', "is no command"),
        (" so\nCOMMANDS: NONE\nEXPLANATION: then\nSTATUS: CONTINUE", "'NONE' is no command"),
        (" so\nCOMMANDS: CLICK [0]\nEXPLANATION: then\nSTATUS: CONTINUE", "greater than or equal to 1"),
    ],
)
def test_what_is_no_composite_action_is_refused_in_words(reply: str, complaint: str) -> None:
    with pytest.raises(ReplyError, match=complaint):
        parse_composite(reply, PAGE)


def test_actions_without_a_command_are_refused() -> None:
    with pytest.raises(ValueError, match="no command for 'back'"):
        composite_reply(Candidate(action=GoBack(), label="back"), first=False)
    with pytest.raises(ReplyError):
        parse_command("BACK")
