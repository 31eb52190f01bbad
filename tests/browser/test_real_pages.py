"""What real pages do: they listen to keys, scroll in boxes, hide names from the eye and lay fields over pictures."""

import re
from pathlib import Path
from typing import Any

import pytest

from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Clear, Click, Press, Refresh, Scroll, SwitchTab, Upload, Write

pytestmark = pytest.mark.asyncio(loop_scope="session")

VIRTUAL = """<h1>Chats</h1><div id=l style="height:200px;overflow:auto">
  <div id=s style="height:20000px;position:relative"></div></div><script>l.onscroll = () => {
  s.innerHTML = ''; for (let i = 0; i < 6; i++) {
    const row = Math.floor(l.scrollTop / 40) + i;
    s.innerHTML += `<button style="position:absolute;top:${row * 40}px">Chat ${row}</button>` } }
  l.onscroll()</script>"""
DRAWER = """<style>#d { position: fixed; inset: 0 0 0 auto; width: 300px; overflow: auto }</style><button>Home</button>
  <div id=d><h2>Filters</h2><div style="height:3000px"></div></div>"""


@pytest.mark.parametrize(("page", "text"), [(VIRTUAL, "Chat 5"), (DRAWER, "Filters")])
async def test_boxes_scroll_when_the_page_cannot(session: Any, read: Any, page: str, text: str, do: Any) -> None:
    await read(page)
    seen = await do(Scroll(direction="down"))
    assert text in seen.text
    assert re.fullmatch(r"Scrolled <div#[ld]>.*, \d+\.\d more of its heights can be scrolled\.", seen.notices[0])
    assert await session.act(Scroll(direction="up")) is None


async def test_lists_take_the_beginning_of_an_option(session: Any, read: Any, do: Any) -> None:
    countries = "".join(f"<option>Country {number}" for number in range(40))
    await read(f"<select>{countries}<option>United Kingdom<option>United States of America (US)</select>")
    seen = await do(Write(mark=1, text="United States"))
    assert seen.elements[0].value == "United States of America (US)"
    error = await session.act(Write(mark=1, text="United"))
    assert 'its options are "United Kingdom", "United States of America (US)"' in error


KEYED = """<input id=i aria-label=City><ul id=u></ul><p id=out></p><script>
  const cities = ['Bern', 'Bonn', 'Brno']; let at = -1
  const draw = () => { u.innerHTML = cities.map((city, n) => `<li${n === at ? ' class=on' : ''}>${city}`).join('') }
  i.onkeydown = (event) => {
    if (event.key === 'ArrowDown') at += 1
    if (event.key === 'Enter') out.textContent = 'chose ' + cities[at]
    if (event.key === 'Escape') out.textContent = 'closed'
    draw()
  }</script>"""


async def test_keys_are_pressed_on_an_element(read: Any, do: Any) -> None:
    await read(
        f"{KEYED}<textarea aria-label=Note>old words</textarea>"
        "<button onclick=\"document.title = 1, this.textContent = 'sent'\">Send</button>"
    )
    for mark, keys, text in (
        (1, "ArrowDown ArrowDown Enter", "chose Bonn"),
        (1, "down enter", "chose Brno"),
        (1, "Esc", "closed"),
        (2, "Control+a Delete n e w", 'Note: "new" [2]'),
        (3, "Space", "sent [3]"),
    ):
        assert text in (await do(Press(mark=mark, keys=keys))).text


async def test_keys_go_to_what_has_the_focus(read: Any, do: Any) -> None:
    await read("<dialog id=d><p>Hello<button>OK</button></dialog><script>d.showModal()</script><p tabindex=-1>x")
    assert "Hello" not in (await do(Press(keys="Escape"))).text
    await read("<label>Name <input></label><label>City <input></label>")
    assert [element.value for element in (await do(Press(mark=1, keys="Tab B e r n"))).elements] == ["", "Bern"]


async def test_the_box_around_an_element_scrolls(session: Any, read: Any) -> None:
    box = "<div style='height:100px;overflow:auto'>{}<p style='height:900px'>{}<p>end</div>"
    await read(box.format("<button>A</button>", "") + box.format("<button>B</button>", "") + box.format("", ""))
    assert await session.act(Scroll(mark=2, pages=1)) is None
    tops = await session.evaluate("Array.from(document.querySelectorAll('div'), (box) => box.scrollTop)")
    assert tops == [0, 100, 0]


async def test_several_options_of_a_list_are_chosen_in_one_act(session: Any, read: Any, do: Any) -> None:
    await read(
        "<label>Toppings <select multiple><optgroup label=Veg><option>Onion<option>Pepper</optgroup><option>Ham"
        "<option>Cheese, grated</select></label>"
    )
    for text in ("Onion, Ham", "Onion\nHam", "onion; HAM"):
        assert (await do(Write(mark=1, text=text))).elements[0].value == "Onion, Ham"
        assert await session.act(Clear(mark=1)) is None
    assert '"Fish"' in await session.act(Write(mark=1, text="Pepper, Fish"))
    assert await session.act(Write(mark=1, text="Onion, Ham")) is None
    assert (await do(Write(mark=1, text="Cheese, grated"))).elements[0].value == "Onion, Ham, Cheese, grated"


DATES: list[tuple[str, str, str | None]] = [
    ("date", "3 March 2026", "2026-03-03"),
    ("date", "Tuesday, March 3rd, 2026", "2026-03-03"),
    ("date", "03/03/2026", "2026-03-03"),
    ("date", "25/12/2026", "2026-12-25"),
    ("date", "12/25/2026", "2026-12-25"),
    ("date", "4.3.2026", "2026-03-04"),
    ("date", "2026/3/4", "2026-03-04"),
    ("date", "04/03/2026", None),
    ("date", "31 February 2026", None),
    ("date", "tomorrow", None),
    ("month", "March 2026", "2026-03"),
    ("month", "3/2026", "2026-03"),
    ("time", "3 pm", "15:00"),
    ("time", "12:05 a.m.", "00:05"),
    ("time", "15:30", "15:30"),
    ("time", "at three", None),
    ("datetime-local", "3 March 2026 at 3:30 pm", "2026-03-03T15:30"),
    ("datetime-local", "2026-03-03 09:00", "2026-03-03T09:00"),
    ("datetime-local", "3 March 2026", None),
]


async def test_dates_are_taken_as_people_write_them(session: Any, read: Any) -> None:
    await read("".join(f"<input type={kind} aria-label=When>" for kind, *_ in DATES))
    for mark, (_, text, value) in enumerate(DATES, 1):
        error = await session.act(Write(mark=mark, text=text))
        assert (error is None) == (value is not None), text
        assert value is not None or "YYYY" in error or "HH:MM" in error, text
    values = [element.value for element in (await session.snapshot()).elements]
    assert values == [value or "" for *_, value in DATES]


async def test_tabs_are_switched_by_their_number(session: Any, read: Any, site: Any, do: Any) -> None:
    site.page("<title>Second</title><p>the second", "/second")
    await read("<title>First</title><a href=/second target=_blank>Open</a>")
    assert (await do(Click(mark=1))).tabs == ("Second", "First")
    seen = await do(SwitchTab(tab=2))
    assert (seen.title, seen.tabs) == ("First", ("First", "Second"))
    assert "2 open" in await session.act(SwitchTab(tab=3))


CHOOSERS = """<label>CV <input type=file id=f onchange="out.textContent = `got ${this.files[0].name}`"></label>
  <button onclick="f.click()">Upload a file</button><button>Nothing</button><p id=out></p>"""


async def test_files_come_from_the_folder_that_the_user_names(
    browser: Browser, read: Any, session: Any, site: Any, tmp_path: Path, do: Any
) -> None:
    await read(CHOOSERS)
    for mark in (1, 2):
        assert "browser.uploads" in await session.act(Upload(mark=mark, file="cv.pdf"))
        assert "browser.uploads" in (await do(Click(mark=mark))).notices[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "cv.pdf").write_bytes(b"%PDF")
    (tmp_path / "secret").write_bytes(b"")
    allowed = BrowserSession(browser)
    allowed.config = browser.config.model_copy(update={"uploads": tmp_path / "mine"})
    await allowed.reset(site.page(CHOOSERS))
    allowed.tab.uploads = tmp_path / "mine"
    for mark in (1, 2):
        await allowed.snapshot()
        assert "there are cv.pdf" in (await allowed.act(Upload(mark=mark, file="../secret")) or "")
        assert await allowed.act(Upload(mark=mark, file="cv.pdf")) is None
        assert "got cv.pdf" in (await allowed.snapshot()).text
        await allowed.act(Refresh())
    await allowed.snapshot()
    assert "file chooser" in (await allowed.act(Upload(mark=3, file="cv.pdf")) or "")
    await allowed.close()


async def test_what_validation_swallows_is_reported(read: Any, do: Any) -> None:
    await read("<form><label>E-mail <input type=email required></label><button>Join</button></form>")
    for act in (Click(mark=2), Write(mark=1, text="", enter=True)):
        assert 'The page does not take "E-mail"' in (await do(act)).notices[0]


READ = {  # pages, one below the other, and how they are read
    "<style>#a::before { content: 'Price: $' }</style><p id=a>12": "Price: $12",
    "<style>#b::after { content: 'Add' }</style><button id=b></button>": "Add [1]",
    "<style>@media screen { i { &::before { content: attr(alt) ': ' } } }</style><i alt=Sum>9</i>": "Sum: 9",
    "<style>#c::before { content: '\\f00c' }</style><p id=c>Done": "Done",  # of an icon font
    "<div id=h></div><script>h.attachShadow({ mode: 'closed' }).innerHTML = '<button>Yes'</script>": "Yes [2]",
    "<div inert><button>Dead</button></div>": "Dead",
    "<button style='pointer-events:none'>Dead</button>": "Dead",
    "<button style='pointer-events:none' disabled>Off</button>": "Off (disabled) [3]",
    "<table><tr><th aria-sort=ascending>Name<th>Size</table>": "Name (sorted ascending) | Size",
    "<a href=/ aria-current=page>Home</a><input aria-invalid=true aria-label=Mail>": (
        'Home (current) [4] Mail: "" (invalid) [5]'
    ),
    "<input list=l aria-label=Tool autofocus><datalist id=l><option>Saw<option>Axe</datalist>": (
        'Tool: "" [6] (suggestions: Saw, Axe)'
    ),
}


async def test_what_people_see_is_read(read: Any) -> None:
    assert (await read("".join(f"<section>{page}</section>" for page in READ))).text.split("\n") == [*READ.values()]


async def test_an_editor_in_a_frame_is_written(read: Any, do: Any) -> None:
    await read("<iframe srcdoc=\"<body contenteditable aria-label=Body style='height:90px'></body>\"></iframe>")
    assert (await do(Write(mark=1, text="hello"))).text == 'Body: "hello" [1]'


@pytest.mark.parametrize(("asks", "does"), [("confirm('Sure?')", "true"), ("prompt('Name?', 'Ann')", "Ann")])
async def test_a_dialog_is_accepted_by_the_same_act_again(read: Any, asks: str, does: str, do: Any) -> None:
    await read(f'<button onclick="out.textContent = {asks}">Go</button><button>No</button><p id=out>')
    for mark, accepted in ((1, False), (2, False), (1, False), (1, True), (1, False)):
        assert ((await do(Click(mark=mark))).text == f"Go [1] No [2]\n{does}") == accepted


async def test_what_a_field_does_not_take_leaves_it_as_it_was(session: Any, read: Any) -> None:
    await read("<input type=number aria-label=Count value=4><input maxlength=4 aria-label=Code value=4>")
    assert "four" in await session.act(Write(mark=1, text="four"))
    assert "5" in await session.act(Write(mark=2, text="12345"))
    assert [element.value for element in (await session.snapshot()).elements] == ["4", "4"]


async def test_a_file_that_the_page_makes_is_refused(click: Any) -> None:
    seen = await click(
        "<button onclick=\"const a = document.createElement('a'); a.href = window.URL.createObjectURL(new Blob(['x']));"
        "a.download = 'r.csv'; a.click()\">Export</button>"
    )
    assert "r.csv" in seen.notices[0]


async def test_an_editor_makes_its_own_lines_of_a_text(read: Any, do: Any) -> None:
    await read(
        "<div contenteditable aria-label=Body>old</div><p id=out><script>const body = document.querySelector('div');"
        "body.onpaste = (event) => { event.preventDefault(); out.textContent = "
        "event.clipboardData.getData('text/plain').split('\\n').length + ' lines' }</script>"
    )
    assert (await do(Write(mark=1, text="Dear Ann,\nthank you."))).text.endswith("2 lines")


async def test_a_page_that_hides_what_overflows_cannot_be_scrolled(session: Any, read: Any) -> None:
    await read("<style>html { overflow: hidden }</style><p style='height:3000px'>One")
    assert "cannot scroll" in await session.act(Scroll(direction="down"))
