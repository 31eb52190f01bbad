"""What can be clicked is offered once, under its name, however the page listens for clicks."""

from typing import Any

import pytest

from bestofq.core.actions import Click

pytestmark = pytest.mark.asyncio(loop_scope="session")

DID = "<p id=out></p><script>const did = (what) => { out.textContent = `did ${what}` }</script>"
LISTENING = {  # page → the names of its marks, each of which says its own name when it is clicked
    "rows of a table": (
        "<table id=t><tr data-n=1><td>Invoice<td>10 EUR<tr data-n=2><td>Offer<td>20 EUR</table>"
        "<script>t.addEventListener('click', (e) => did(e.target.closest('tr').innerText))</script>",
        ["Invoice 10 EUR", "Offer 20 EUR"],
    ),
    "cards of a grid": (
        "<main id=m><section><b>Basic</b></section><section><b>Plus</b></section></main>"
        "<script>m.addEventListener('click', (e) => did(e.target.innerText))</script>",
        ["Basic", "Plus"],
    ),
    "what a minified jQuery listens for": (
        "<div id=j><p class=a>One</p><p class=a>Two</p><p>Three</p></div><script>const q = { event: { dispatch: (e) => "
        "did(e.target.innerText) } }; jQuery = { _data: () => ({ click: [{ selector: '.a' }] }) }; j.onclick = "
        "(e) => q.event.triggered !== e.type ? q.event.dispatch.apply(j, [e]) : 0</script>",
        ["One", "Two"],
    ),
    "a card": ("<div id=c>Premium plan</div><script>c.onclick = () => did(c.innerText)</script>", ["Premium plan"]),
    "the whole document": (
        "<div class=row>One</div><div class=row>Two</div><div>Three</div><script>document.addEventListener('click', "
        "(e) => { if (e.target.classList.contains('row')) did(e.target.innerText) })</script>",
        ["One", "Two"],
    ),
    "a pointer on the body": (
        "<style>body { cursor: pointer }</style><div id=a>Basic plan</div><div id=b>Other plan</div><p>text</p>"
        "<script>for (const el of [a, b]) el.onclick = () => did(el.innerText)</script>",
        ["Basic plan", "Other plan"],
    ),
    "a list that takes the focus": (
        "<ul tabindex=0 id=u><li><div tabindex=-1>Java</div><li><div tabindex=-1>Perl</div></ul>"
        "<script>u.addEventListener('click', (e) => did(e.target.innerText))</script>",
        ["Java", "Perl"],
    ),
    "a focus that moves in a box": (
        "<div tabindex=0 id=u><p tabindex=-1>Red</p><p tabindex=-1>Blue</p></div>"
        "<script>document.onclick = (e) => did(e.target.innerText)</script>",
        ["Red", "Blue"],
    ),
    "a focus that moves among items": (
        "<ul><li><i class=a tabindex=0>Red</i><li><i class=a tabindex=-1>Blue</i></ul>"
        "<script>document.onclick = (e) => did(e.target.innerText)</script>",
        ["Red", "Blue"],
    ),
    "a shadow root": (
        "<div id=h></div><script>const root = h.attachShadow({ mode: 'open' });"
        "root.innerHTML = '<div>Inside</div>'; root.firstChild.onclick = () => did('Inside')</script>",
        ["Inside"],
    ),
    "a card around buttons": (
        "<style>.c { cursor: pointer; width: 200px; height: 90px }</style><div class=c id=c>Mug <button>Like</button>"
        "</div><script>c.onclick = (e) => did(e.target.closest('button') ? 'Like' : 'Mug Like')</script>",
        ["Mug Like", "Like"],
    ),
}
SILENT = (  # parts of a page whose listeners close it, keep clicks inside, drag, draw
    "<div id=a><p>Words</div><script>a.onclick = (e) => { if (e.target === a) did(1) }</script>",
    "<div id=b>Words</div><script>b.onclick = (e) => e.stopPropagation()</script>",
    "<ul id=c><li>One<li>Two</ul><script>c.onmousedown = () => did(1)</script>",
    "<svg id=d width=90 height=90></svg><script>d.addEventListener('click', () => did(1))</script>",
)
ONCE = {  # parts of a page → name of their only mark
    "a wrapper around its button": ("<div tabindex=0 style='cursor:pointer'><button>Run</button></div>", "Run"),
    "a label of the wrapper": ("<span title=Save><button><svg width=9 height=9></svg></button></span>", "Save"),
    "a component around its button": (
        "<my-a style='cursor:pointer'>Cut</my-a><script>document.querySelector('my-a').attachShadow({ mode: 'open' })"
        ".innerHTML = '<button><slot></slot></button>'</script>",
        "Cut",
    ),
    "a component around its icon's button": (
        "<my-b aria-label=Cut style='cursor:pointer'></my-b><script>const b = document.querySelector('my-b');"
        "const root = b.attachShadow({ mode: 'open' }); root.innerHTML = '<button aria-label=Cut>'"
        " + '<i style=padding:9px></i>'; "
        "b.onclick = root.querySelector('i').onclick = () => 1</script>",
        "Cut",
    ),
    "a cell of a grid": ("<div role=grid><p role=gridcell tabindex=-1>Ann<p role=gridcell>Bob</div>", "Ann"),
    "a header that sorts": ("<p role=columnheader tabindex=-1 aria-sort=none><i role=presentation>Price</i>", "Price"),
    "a description": ("<p id=d>Save now</p><button aria-describedby=d></button>", "Save now"),
    "an icon by the name of its part": ("<button class=slider-next><svg width=9 height=9></svg></button>", "next"),
    "an icon by its title": ("<button><i title=Settings></i></button>", "Settings"),
    "an icon by its class": ("<button><i class='fa fa-trash'></i></button>", "trash"),
    "an icon by its test's name": ("<button><svg data-testid=MoveDownIcon width=9 height=9/></button>", "Move Down"),
    "an icon by its tool tip": ("<a tabindex=0 data-title=Zoom><svg width=9 height=9></svg></a>", "Zoom"),
    "an icon by its symbol": ("<button><svg width=9 height=9><use href='#icon-cart'/></svg></button>", "cart"),
}


@pytest.mark.parametrize("kind", LISTENING)
async def test_what_listens_to_clicks_is_offered(read: Any, kind: str, do: Any) -> None:
    page, names = LISTENING[kind]
    assert [element.name for element in (await read(DID + page)).elements] == names
    for mark, name in enumerate(names, 1):
        assert "did " + name in " ".join((await do(Click(mark=mark))).text.split())


async def test_what_listens_for_something_else_is_no_mark(read: Any) -> None:
    assert (await read(DID + "".join(SILENT))).elements == ()


async def test_what_does_the_same_is_offered_once(read: Any) -> None:
    seen = await read("".join(f"<section>{part}</section>" for part, _ in ONCE.values()))
    assert [element.name for element in seen.elements] == [name for _, name in ONCE.values()]


async def test_a_named_part_is_offered_and_a_trap_of_a_form_is_not(read: Any) -> None:
    part = "<b tabindex=0 aria-label=Red style='display:block;width:20px;height:20px'></b>"
    trap = "<p>Notes <span style='position:absolute;clip-path:inset(50%)'><textarea name=trap></textarea></span></p>"
    seen = await read(f"<div tabindex=0 style='cursor:pointer'>Card {part}</div><form>{trap}</form>")
    assert [f"{one.role} {one.name}" for one in seen.elements] == ["clickable Card Red", "clickable Red"]


async def test_the_words_of_a_row_are_written_once(read: Any) -> None:
    seen = await read("<div tabindex=0>Mail from Ann <p><button>Star</button> <button>Delete</button></div>")
    assert seen.text.split("\n") == ["Mail from Ann Star Delete [1]", "Star [2] Delete [3]"]


BEHIND = "<main {}><button>Behind</button><div style='height:2000px'></div><button>Below</button></main>"
COVER = "<style>.back { position: fixed; inset: 0 }</style>"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (BEHIND + "<dialog id=d><button>OK</button></dialog><script>d.showModal()</script>", ["OK"]),
        (BEHIND + COVER + "<div class=back><p role=dialog aria-modal=true><button>OK</button></div>", ["OK"]),
        (BEHIND + "<p role=dialog><button>OK</button></p>", ["Behind", "Below", "OK"]),  # a banner
        (BEHIND + "<p role=dialog aria-modal=true hidden><button>OK</button></p>", ["Behind", "Below"]),
    ],
)
async def test_what_a_dialog_covers_is_not_offered(read: Any, page: str, names: list[str]) -> None:
    assert [element.name for element in (await read(page.replace("{}", "aria-hidden=true"))).elements] == names
