"""The solvers by task, and the one function that asks them."""

from collections.abc import Callable, Mapping

from bestofq.core.decision import State
from experiments.oracles.advice import Advice
from experiments.oracles.miniwob import clicking, filling
from experiments.oracles.miniwob.view import Unsolved, View

SOLVERS: Mapping[str, Callable[[View], Advice]] = {
    "buy-ticket": clicking.ticket,
    "choose-date-easy": clicking.december,
    "choose-list": filling.from_list,
    "click-button": clicking.quoted,
    "click-button-sequence": clicking.buttons_in_turn,
    "click-checkboxes": clicking.checkboxes,
    "click-checkboxes-large": clicking.checkboxes,
    "click-checkboxes-transfer": clicking.checkboxes,
    "click-collapsible": clicking.section,
    "click-collapsible-2": clicking.link_in_sections,
    "click-collapsible-2-nodelay": clicking.link_in_sections,
    "click-collapsible-nodelay": clicking.section,
    "click-dialog": clicking.dialog,
    "click-dialog-2": clicking.dialog,
    "click-link": clicking.quoted,
    "click-option": clicking.radio,
    "click-scroll-list": filling.from_list,
    "click-tab": clicking.tab,
    "click-tab-2": clicking.link_behind_tabs,
    "click-tab-2-easy": clicking.link_behind_tabs,
    "click-tab-2-hard": clicking.link_behind_tabs,
    "click-tab-2-medium": clicking.link_behind_tabs,
    "click-test": clicking.only_button,
    "click-test-2": clicking.button_by_word,
    "click-test-transfer": clicking.button_by_word,
    "click-widget": clicking.widget,
    "copy-paste": filling.copy,
    "copy-paste-2": filling.copy,
    "email-inbox-delete": clicking.mail,
    "email-inbox-important": clicking.mail,
    "enter-date": filling.a_date,
    "enter-password": filling.password_twice,
    "enter-text": filling.quoted_text,
    "enter-text-2": filling.quoted_text,
    "enter-text-dynamic": filling.quoted_text,
    "enter-time": filling.a_time,
    "find-greatest": clicking.greatest,
    "find-word": filling.word_by_place,
    "focus-text": filling.focus,
    "focus-text-2": filling.focus_nth,
    "form-sequence-2": filling.radio_and_number,
    "generate-number": clicking.generate_number,
    "guess-number": filling.guess,
    "login-user": filling.login,
    "login-user-popup": filling.login,
    "multi-layouts": filling.movies,
    "multi-orderings": filling.movies,
    "odd-or-even": clicking.odd_or_even,
    "phone-book": clicking.phone_book,
    "read-table": filling.from_table,
    "read-table-2": filling.from_table_twice,
    "scroll-text": filling.last_word,
    "search-engine": clicking.search_engine,
    "simple-algebra": filling.algebra,
    "simple-arithmetic": filling.arithmetic,
    "text-transform": filling.text_below,
    "unicode-test": clicking.quoted,
    "use-spinner": filling.spinner,
}
"""By task. What a solver knows of a task is how its goal is worded and its page laid out, as every reader sees it."""


def advise(state: State) -> Advice:
    """What to do next in a task of `SOLVERS`. Raises Unsolved after the end, KeyError for a task without a solver."""
    name, _, _ = state.task.id.partition("/")
    solver = SOLVERS[name]
    try:
        return solver(View.of(state))
    except (IndexError, StopIteration, ValueError) as error:
        raise Unsolved(f"{name} is not laid out as its solver knows it: {error}") from error


__all__ = ["SOLVERS", "Advice", "Unsolved", "advise"]
