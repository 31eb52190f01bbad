import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop_page import PAGE

from bestofq.agents.dialects.commands import parse_action, parse_reply
from bestofq.core import actions as act
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Element, Observation

marks = st.integers(1, 2)
texts = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)
actions = st.one_of(
    st.builds(act.Click, mark=marks),
    st.builds(act.Write, mark=marks, text=texts, enter=st.booleans()),
    st.builds(act.Submit, mark=marks),
    st.builds(act.Clear, mark=marks),
    st.builds(act.Scroll, direction=st.sampled_from(["up", "down", "left", "right"]), mark=st.none() | marks),
    st.builds(act.Press, keys=st.sampled_from(["Escape", "Control+a Delete", "x", "+"]), mark=st.none() | marks),
    st.builds(act.Upload, mark=marks, file=texts.filter(bool)),
    st.builds(act.SwitchTab, tab=marks),
    st.builds(act.Goto, url=st.from_regex(r"https?://[a-z]{1,9}(/[a-z?=&]{0,9}){0,2}", fullmatch=True)),
    st.sampled_from([act.GoBack(), act.Refresh(), act.Restart()]),
    st.builds(act.Wait, seconds=st.integers(1, 1000).map(lambda n: n / 100)),
    st.builds(act.Answer, text=texts),
    st.builds(act.AskUser, question=texts),
)


@pytest.mark.slow
@given(actions, st.text(st.characters(codec="ascii"), max_size=40))
def test_a_reply_is_read_back_as_the_action_it_was_written_from(action: act.Action, thought: str) -> None:
    reply = f"{thought}\n{act.action_text(action)}"
    candidate = parse_reply(reply, PAGE)
    assert candidate.action == action
    assert candidate.label == act.action_text(action, PAGE.elements)
    assert candidate.thought == thought.strip()
    assert candidate.reply == reply


def test_a_command_needs_no_thought() -> None:
    candidate = parse_reply('  write [1] "red "kettle"" enter\n', PAGE)
    assert candidate.action == act.Write(mark=1, text='red "kettle"', enter=True)
    assert candidate.thought == ""


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "is no command"),
        ("click 2", "is no command"),
        ("click [2] please", "is no command"),
        ("I would\nclick [2]\nI think", "is no command"),
        ('write "kettle"', "is no command"),
        ("click [1]; click [2]", "is no command"),
        ("click Search [1], not [2]", "is no command"),
        ('write [1] "red"; write [2] "blue"', "is no command"),
        ("click [7]", "names mark 7: the page has 2 marks"),
        ("click [0]", "greater than or equal to 1"),
        ("scroll sideways", "'up', 'down', 'left' or 'right'"),
        ("wait 99", "less than or equal to 10"),
    ],
)
def test_what_is_no_action_is_refused_in_words(reply: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        parse_reply(reply, PAGE)


def test_a_command_alone_may_name_any_mark() -> None:
    assert parse_action("click [7]") == act.Click(mark=7)


def test_a_click_may_say_what_it_is_on() -> None:
    """The words count where they stand before exactly one mark; else the number does."""
    lines = "color: black [1] royal blue [2] blue [3]\nDeep royal blue [4]\nOther\nmore [5] more [6]"
    names = ("black", "royal blue", "blue", "Deep royal blue", "more", "more")
    links = tuple(Element(mark=i, role="link", name=name) for i, name in enumerate(names, 1))
    page = Observation(url="http://shop/", title="", text=lines, elements=links)

    for command, mark in (
        ("click royal blue [6]", 2),
        ("click blue [99]", 3),
        ("click Deep royal blue [1]", 4),
        ("click color: black [2]", 1),
        ("click more [6]", 6),  # two have these words
        ("click green [5]", 5),  # none has
        ("click [sold out] blue [3]", 3),
        ("click [3]", 3),
    ):
        assert parse_reply(command, page).action == act.Click(mark=mark), command
    with pytest.raises(ReplyError, match="names mark 9"):
        parse_reply("click green [9]", page)
    with pytest.raises(ReplyError, match="no command"):
        parse_reply("clicking blue [3]", page)


@pytest.mark.parametrize(
    ("written", "keys"),
    [("esc", "Escape"), ("CTRL+A", "Control+A"), ("down  return", "ArrowDown Enter"), ("Control++", "Control++")],
)
def test_keys_have_one_name(written: str, keys: str) -> None:
    assert act.Press(keys=written).keys == keys


@pytest.mark.parametrize("keys", ["", "Enterr", "Control+foo", "é", "a " * 21])
def test_what_is_no_key_is_refused(keys: str) -> None:
    with pytest.raises(ReplyError, match="key"):
        parse_action(f"press {keys}" if keys else "press  ")
