"""The solvers by task, and the one function that asks them."""

from collections.abc import Callable, Mapping

from bestofq.core.decision import State
from experiments.oracles.advice import Advice
from experiments.oracles.miniwob import clicking, filling
from experiments.oracles.miniwob.view import Unsolved, View

TASKS: Mapping[Callable[[View], Advice], str] = {
    clicking.button_by_word: "click-test-2 click-test-transfer",
    clicking.buttons_in_turn: "click-button-sequence",
    clicking.checkboxes: "click-checkboxes click-checkboxes-large click-checkboxes-transfer",
    clicking.december: "choose-date-easy",
    clicking.dialog: "click-dialog click-dialog-2",
    clicking.generate_number: "generate-number",
    clicking.greatest: "find-greatest",
    clicking.link_behind_tabs: "click-tab-2 click-tab-2-easy click-tab-2-hard click-tab-2-medium",
    clicking.link_in_sections: "click-collapsible-2 click-collapsible-2-nodelay",
    clicking.mail: "email-inbox-delete email-inbox-important",
    clicking.odd_or_even: "odd-or-even",
    clicking.only_button: "click-test",
    clicking.phone_book: "phone-book",
    clicking.quoted: "click-button click-link unicode-test",
    clicking.radio: "click-option",
    clicking.search_engine: "search-engine",
    clicking.section: "click-collapsible click-collapsible-nodelay",
    clicking.tab: "click-tab",
    clicking.ticket: "buy-ticket",
    clicking.widget: "click-widget",
    filling.a_date: "enter-date",
    filling.a_time: "enter-time",
    filling.algebra: "simple-algebra",
    filling.arithmetic: "simple-arithmetic",
    filling.copy: "copy-paste copy-paste-2",
    filling.focus: "focus-text",
    filling.focus_nth: "focus-text-2",
    filling.from_list: "choose-list click-scroll-list",
    filling.from_table: "read-table",
    filling.from_table_twice: "read-table-2",
    filling.guess: "guess-number",
    filling.last_word: "scroll-text",
    filling.login: "login-user login-user-popup",
    filling.movies: "multi-layouts multi-orderings",
    filling.password_twice: "enter-password",
    filling.quoted_text: "enter-text enter-text-2 enter-text-dynamic",
    filling.radio_and_number: "form-sequence-2",
    filling.spinner: "use-spinner",
    filling.text_below: "text-transform",
    filling.word_by_place: "find-word",
}
SOLVERS = {task: solver for solver, tasks in TASKS.items() for task in tasks.split()}
"""By task. What a solver knows of a task is how its goal is worded and its page laid out, as every reader sees it."""


def advise(state: State) -> Advice:
    """What to do next in a task of `SOLVERS`. Raises Unsolved after the end, KeyError for a task without a solver."""
    name, _, _ = state.task.id.partition("/")
    solver = SOLVERS[name]
    try:
        return solver(View.of(state))
    except (IndexError, StopIteration, ValueError) as error:
        raise Unsolved(f"{name} is not laid out as its solver knows it: {error}") from error
