"""What real pages do: they listen to keys, scroll in boxes, hide names from the eye and lay fields over pictures."""

import asyncio
import re
from typing import Any

import pytest

from bestofq.core.actions import Clear, Click, Scroll, Write

pytestmark = pytest.mark.asyncio(loop_scope="session")

SUGGESTS = """<label>City <input id=i></label><ul id=u></ul><script>
  i.onkeyup = (event) => { u.innerHTML = event.key && i.value
    ? ['Berlin', 'Bern', 'Paris'].filter((city) => city.startsWith(i.value)).map((city) => `<li>${city}`).join('')
    : '' }
  </script>"""
VIRTUAL = """<h1>Chats</h1><div id=l style="height:200px;overflow:auto">
  <div id=s style="height:20000px;position:relative"></div></div><script>l.onscroll = () => {
  s.innerHTML = ''; for (let i = 0; i < 6; i++) {
    const row = Math.floor(l.scrollTop / 40) + i;
    s.innerHTML += `<button style="position:absolute;top:${row * 40}px">Chat ${row}</button>` } }
  l.onscroll()</script>"""
DRAWER = """<style>#d { position: fixed; inset: 0 0 0 auto; width: 300px; overflow: auto }</style><button>Home</button>
  <div id=d><h2>Filters</h2><div style="height:3000px"></div></div>"""
HIDDEN = "<style>.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip: rect(0,0,0,0) }</style>"
OVERLAID = """<style>.w { position: relative; width: 180px; height: 30px } .w > * { position: absolute; inset: 0;
  width: 100%; height: 100%; opacity: 0 } .w span { pointer-events: none; opacity: 1 }</style>
  <div class=w><span id=s1>Sort: Newest</span><select aria-label=Sort onchange="s1.textContent = 'Sort: ' + this.value">
  <option>Newest<option>Price</select></div><div class=w><span id=s2>Volume 30</span><input type=range value=30
  aria-label=Volume onchange="s2.textContent = 'Volume ' + this.value"></div>"""


async def test_suggestions_that_listen_to_keys_open(session: Any, read: Any) -> None:
    await read(SUGGESTS)
    assert await session.act(Write(mark=1, text="Ber")) is None
    assert (await session.snapshot()).text.split("\n")[1:] == ["Berlin", "Bern"]
    assert await session.act(Write(mark=1, text="word " * 900 + "Paris")) is None
    assert (await session.snapshot()).elements[0].value == "word " * 900 + "Paris"


@pytest.mark.parametrize(("page", "text"), [(VIRTUAL, "Chat 5"), (DRAWER, "Filters")])
async def test_boxes_scroll_when_the_page_cannot(session: Any, read: Any, page: str, text: str) -> None:
    await read(page)
    assert await session.act(Scroll(direction="down")) is None
    seen = await session.snapshot()
    assert text in seen.text
    assert re.fullmatch(r"Scrolled <div#[ld]>.*, \d+\.\d more of its heights can be scrolled\.", seen.notices[0])
    assert await session.act(Scroll(direction="up")) is None


async def test_names_for_screen_readers_name_icons(read: Any) -> None:
    seen = await read(
        f"{HIDDEN}<button><svg width=9 height=9></svg><span class=sr>Search</span></button>"
        "<button><span aria-hidden=true>×</span><span class=sr>Close dialog</span></button>"
        "<label><span class=sr>E-mail address</span><input></label>"
    )
    assert [element.name for element in seen.elements] == ["Search", "Close dialog", "E-mail address"]


async def test_fields_laid_over_pictures_are_offered(session: Any, read: Any) -> None:
    seen = await read(OVERLAID)
    assert [element.name for element in seen.elements] == ["Sort", "Volume"]
    assert await session.act(Write(mark=1, text="Price")) is None
    assert await session.act(Write(mark=2, text="70")) is None
    text = (await session.snapshot()).text
    assert "Sort: Price" in text
    assert "Volume 70" in text


async def test_lists_take_the_beginning_of_an_option_and_take_choices_back(session: Any, read: Any) -> None:
    countries = "".join(f"<option>Country {number}" for number in range(40))
    await read(
        f"<select aria-label=Country>{countries}<option>United Kingdom<option>United States of America (US)</select>"
        "<select multiple aria-label=Toppings><option selected>Ham<option>Onion</select>"
    )
    assert await session.act(Write(mark=1, text="United States")) is None
    error = await session.act(Write(mark=1, text="United"))
    assert 'its options are "United Kingdom", "United States of America (US)"' in error
    assert await session.act(Clear(mark=2)) is None
    values = [element.value for element in (await session.snapshot()).elements]
    assert values == ["United States of America (US)", ""]
    assert await session.act(Click(mark=1)) is not None


async def test_what_is_drawn_anew_meanwhile_is_found_again(session: Any, read: Any) -> None:
    await read(
        "<div id=r></div><p id=out></p><script>const draw = () => { r.innerHTML = [1, 2, 3].map((n) => `<p><button "
        "onclick=\"out.textContent = 'lot ${n}'\">Bid</button>`).join('') }; draw(); setInterval(draw, 150)</script>"
    )
    await asyncio.sleep(0.4)
    assert await session.act(Click(mark=2)) is None
    assert (await session.snapshot()).text.endswith("lot 2")


async def test_a_menu_that_opens_under_the_pointer_is_offered(session: Any, read: Any) -> None:
    seen = await read(
        "<style>.m ul { display: none } .m:hover > ul { display: block }</style><p>Shop<nav class=m>"
        "<span>Products</span><ul><li><a href=#shoes>Shoes</a></ul></nav>"
    )
    assert [(element.role, element.name) for element in seen.elements] == [("clickable", "Products")]
    assert await session.act(Click(mark=1)) is None
    seen = await session.snapshot()
    assert [element.name for element in seen.elements] == ["Shoes"]
    assert await session.act(Click(mark=1)) is None
    assert (await session.snapshot()).url.endswith("#shoes")
