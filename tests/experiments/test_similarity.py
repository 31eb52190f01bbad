"""When two tasks count as one."""

import pytest

from bestofq.envs.webvoyager.source import Entry
from experiments.new_tasks.similarity import NEAR, Known, shape_of, similarity


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Book a table on May 3rd, 2025 at 7 pm.", "book a TABLE on Sept. 14, 2027 at 9 pm"),
        ("Compare Sky cabins under $400.", "Compare Other cabins under $1,250."),
        ("Fly", "Fly!"),
    ],
)
def test_dates_numbers_case_and_the_site_make_no_other_task(a: str, b: str) -> None:
    assert similarity(shape_of(a, "Sky"), shape_of(b, "Other")) == 1


def test_likeness_is_the_share_of_word_pairs_in_common() -> None:
    a, b = "flights from Rome to Oslo", "flights from Oslo to Rome"
    assert similarity(shape_of(a, "Sky"), shape_of(b, "Sky")) == pytest.approx(
        1 / 7
    )  # of 4 pairs each, `flights from` is both's
    assert similarity(shape_of("one two", "Sky"), shape_of("three four", "Sky")) == 0
    assert similarity(shape_of("1 2", "Sky"), shape_of("Sky", "Sky")) == 1


def test_the_likest_is_found() -> None:
    known = Known(
        Entry(web_name="Sky", id=str(n), ques=text, web="http://a/")
        for n, text in enumerate(("Find a soup on Sky", "Find a warm coat", "Find a warm soup"))
    )
    key, alike = known.nearest("Find a warm soup for two.", "Desk")
    assert (key, alike) == ("Sky--2", pytest.approx(3 / 5))
    assert alike >= NEAR
    assert Known().nearest("Find a soup", "Desk").similarity == 0
