"""Elements described in words."""

import json
import re

import pytest

from bestofq.agents.localizers import PageLocalizer, TextLocalizer
from bestofq.core.decision import Located
from bestofq.core.observation import Box, Element, Observation, Point
from bestofq.models.chat import ChatModel
from bestofq.testing.fault_server import FaultServer


def page(*elements: tuple[str, str]) -> Observation:
    """Elements under each other, each 20 by 10 pixels, the first at the top left corner."""
    return Observation(
        url="",
        title="",
        text="",
        elements=tuple(
            Element(mark=n + 1, role=role, name=name, box=Box(0, 10 * n, 20, 10))
            for n, (role, name) in enumerate(elements)
        ),
    )


SHOP = page(
    ("searchbox", "Search products"),
    ("button", "Search"),
    ("link", "Blue mug with handle"),
    ("link", "Red mug with handle"),
    ("button", "Add to cart"),
    ("checkbox", "Gift wrap"),
    ("link", "Terms of service"),
)


@pytest.mark.parametrize(
    ("target", "mark"),
    [
        ("the search button", 2),
        ("search field for products", 1),
        ("blue mug", 3),
        ("link to the red mug with handle", 4),
        ('"Add to cart" button', 5),
        ("add to the cart", 5),
        ("checkbox for gift wrapping", 6),
        ("terms of servise", 7),
    ],
)
async def test_the_element_meant(target: str, mark: int) -> None:
    assert await PageLocalizer().locate(SHOP, target) == Located(point=Point(10, 10 * (mark - 1) + 5))


@pytest.mark.parametrize(
    ("target", "said"),
    [("mug with handle", "fits several elements: link (Red|Blue) mug"), ("checkout", "No element"), ("", "No element")],
)
async def test_it_refuses_rather_than_guesses(target: str, said: str) -> None:
    assert re.search(said, (await PageLocalizer().locate(SHOP, target)).refusal)


async def test_same_names_are_told_apart_by_role_only() -> None:
    twins = page(("button", "Delete"), ("button", "Delete"))
    assert "[1]; button Delete [2]" in (await PageLocalizer().locate(twins, "Delete button")).refusal
    mixed = page(("checkbox", "Subscribe"), ("button", "Subscribe"))
    assert (await PageLocalizer().locate(mixed, "Subscribe button")).point == Point(10, 15)


@pytest.mark.parametrize(
    ("elements", "target", "mark"),
    [
        ([("searchbox", "Search"), ("button", "Search")], "the search box", 1),
        ([("searchbox", "Search"), ("button", "Search")], "search input field", 1),
        ([("searchbox", "Search"), ("button", "Search")], "the search button", 2),
        ([("searchbox", "Search"), ("button", "Search")], 'the "Search" button', 2),
        ([("button", "Search"), ("searchbox", "Search products")], "the search bar", 2),
        ([("button", "Search"), ("searchbox", "Search products")], "searchbox", 2),
        ([("button", "Search"), ("textbox", "E-mail"), ("searchbox", "What do you need?")], "the search box", 3),
        ([("button", "Search"), ("textbox", "What do you need?")], "the search box", None),
        ([("textbox", "Name"), ("link", "Gift box")], "gift box", 2),
        ([("button", "Add"), ("link", "Menu")], "the menu link", 2),
        ([("link", "Shop"), ("button", "Reviews")], "the reviews tab", 2),
    ],
)
async def test_the_kind_of_element_that_is_said(elements: list[tuple[str, str]], target: str, mark: int | None) -> None:
    located = await PageLocalizer().locate(page(*elements), target)
    assert located.point == (None if mark is None else Point(10, 10 * (mark - 1) + 5)), located.refusal


async def test_an_element_without_a_place_cannot_be_pointed_at() -> None:
    nowhere = Observation(url="", title="", text="", elements=(Element(mark=1, role="button", name="Go"),))
    assert "no place" in (await PageLocalizer().locate(nowhere, "Go button")).refusal


@pytest.mark.parametrize(
    ("replies", "found", "calls"),
    [
        ([4], Point(10, 35), 1),
        ([0], "No element of the page fits", 1),
        ([99, 4], Point(10, 35), 2),
        ([99, "mug"], "was not found", 2),
        ([[4], 4], Point(10, 35), 2),
        ([{"number": 4}, [4]], "was not found", 2),
    ],
)
async def test_a_model_that_reads_names_the_element(replies: list[object], found: object, calls: int) -> None:
    said = iter([json.dumps({"element": one}) for one in replies])
    async with FaultServer(lambda _: next(said)) as server, ChatModel.at(server.base_url, "any") as model:
        located = await TextLocalizer(model).locate(SHOP, "the red one")
    assert located.point == found or str(found) in located.refusal
    assert [(used.role, used.calls) for used in located.usage] == [("localizer", calls)]
    asked = server.requests[0]["messages"][0]["content"]
    assert "the red one" in asked
    assert all(f"{e.role} {e.name} [{e.mark}]" in asked for e in SHOP.elements)


async def test_of_a_page_that_is_too_long_it_reads_what_fits_the_words_best() -> None:
    async with (
        FaultServer(lambda _: '{"element": 4}', script=["overflow", "overflow"]) as server,
        ChatModel.at(server.base_url, "any") as model,
    ):
        assert (await TextLocalizer(model).locate(SHOP, "red mug")).point == Point(10, 35)
    shown = [request["messages"][0]["content"].count("[") - 1 for request in server.requests]
    assert shown == [7, 3, 1]


async def test_a_page_without_elements_or_layout_is_refused() -> None:
    async with FaultServer(lambda _: '{"element": 1}') as server, ChatModel.at(server.base_url, "any") as model:
        localizer = TextLocalizer(model)
        assert (await localizer.locate(page(), "a mug")).refusal
        assert server.requests == []
        bare = SHOP.model_copy(update={"elements": (Element(mark=1, role="link", name="Mug"),)})
        assert "no place" in (await localizer.locate(bare, "a mug")).refusal
