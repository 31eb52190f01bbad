"""What each action does to a real page, and what an agent reads when it cannot be done."""

import asyncio
from typing import Any

import pytest

from bestofq.core.actions import Action, Clear, Click, GoBack, Goto, Refresh, Restart, Scroll, Submit, Wait, Write
from bestofq.core.observation import Observation, Point

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOG = """<p id=log style=min-height:1lh></p>
<script>const log = (t) => document.getElementById('log').textContent += t + ' '</script>"""


@pytest.fixture
def show(site: Any, session: Any) -> Any:
    async def show(body: str) -> list[str]:
        await session.reset(site.page(LOG + body))
        return await text(session)

    return show


def log_of(seen: Observation) -> str:
    return seen.text.split("\n")[0]


async def text(session: Any) -> list[str]:
    seen: Observation = await session.snapshot()
    return seen.text.split("\n")


async def test_a_click_is_a_real_one(session: Any, show: Any, do: Any) -> None:
    await show("<button onmousedown=log('down') onclick=\"log(event.isTrusted ? 'click' : 'fake')\">b</button>")
    assert await session.act(Click(mark=1)) is None
    assert await text(session) == ["down click", "b [1]"]
    box = (await session.snapshot()).elements[0].box
    assert log_of(await do(Click(point=Point(box.x + 2, box.y + 2)))) == "down click down click"


async def test_the_links_of_an_image_map_are_clicked_where_they_lie(session: Any, show: Any, do: Any) -> None:
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    await show(f"""<map name="a map"><area coords="0,0,40,40" href=#den alt=Den>
      <area shape=circle coords="60,20,15" href=#hall onclick="log('hall')" alt=Hall>
      <area shape=poly coords="0,50,40,50,0,90,x" href=#attic onclick="log('attic')" alt=Attic>
      <area shape=rect coords="90,0,900,90" href="/plan?room=loft" alt=Loft><area shape=default href=#rest alt=Rest>
      <area coords="0,0,9,9" alt="No link"></map><div style="height:3000px"></div>
      <img usemap="#a map" width=100 height=100 alt=Plan src="{dot}"><img usemap="#a map" src="{dot}">""")
    seen: Observation = await session.snapshot()
    assert seen.text.split("\n")[-1] == "Plan Den [1] Hall [2] Attic [3] Loft [4] Rest [5]"
    assert [(e.role, e.href) for e in seen.elements[2:4]] == [("link", "#attic"), ("link", "/plan?room=loft")]
    corner, boxes = seen.elements[0].box, [element.box for element in seen.elements]
    assert [(b.x - corner.x, b.y - corner.y, b.width, b.height) for b in boxes] == [
        *((0, 0, 40, 40), (45, 5, 30, 30), (0, 50, 40, 40), (90, 0, 10, 90), (0, 0, 100, 100)),
    ]
    for mark in (2, 3):
        seen = await do(Click(mark=mark))
    assert log_of(seen) == "hall attic"
    assert (await do(Click(mark=4))).url.endswith("/plan?room=loft")


async def test_a_click_scrolls_and_avoids_what_covers(show: Any, do: Any) -> None:
    await show("""<div style="height:3000px"></div><div style="position:relative;width:300px">
      <button style="width:300px" onclick=log('hit')>wide</button>
      <div style="position:absolute;left:100px;top:0;width:200px;height:100%;background:red">sign</div></div>""")
    assert log_of(await do(Click(mark=1))) == "hit"


SLIDES = """const begun = performance.now(), timer = setInterval(() => {
  const share = Math.min(1, (performance.now() - begun) / 250);
  b.style.left = 700 * share + 'px';
  if (share == 1) clearInterval(timer);
}, 5)"""


async def test_what_slides_is_clicked_where_it_comes_to_rest(show: Any, do: Any) -> None:
    await show(f"""<style>#b, #c {{ position:absolute; left:0; top:90px; width:10px; height:10px; padding:0 }}
      #c {{ top:120px }} .far {{ transition: left .25s linear; left:700px !important }}</style>
      <button onclick="{SLIDES}">go</button><button onclick="c.className = 'far'">go</button>
      <button id=b onclick=log('timer')>x</button><button id=c onclick=log('transition')>x</button>""")
    for go, sliding in ((1, 3), (2, 4)):
        await do(Click(mark=go))
        seen = await do(Click(mark=sliding))
    assert log_of(seen) == "timer transition"


async def test_a_covered_element_names_the_cover(session: Any, show: Any) -> None:
    await show("<button>b</button><div id=veil style='position:fixed;inset:0'>Please wait</div>")
    assert await session.act(Click(mark=1)) == 'Element [1] is covered by <div#veil> "Please wait".'


async def test_writing_replaces_and_is_heard(session: Any, show: Any, do: Any) -> None:
    await show("""<input aria-label=q value=old oninput="log('in')" onchange="log('change')"><textarea>a</textarea>
      <p contenteditable aria-label=rich>old</p><input type=date aria-label=day onchange="log(this.value)">""")
    assert await session.act(Write(mark=1, text="höhe 5\n")) is None
    assert await session.act(Write(mark=2, text="one\ntwo")) is None
    assert await session.act(Write(mark=3, text="new")) is None
    seen = await do(Write(mark=4, text="2024-05-06"))
    assert [e.value for e in seen.elements] == ["höhe 5", "one\ntwo", "new", "2024-05-06"]
    assert seen.text.split("\n")[0] == "in " * 6 + "change 2024-05-06"
    assert await session.act(Clear(mark=1)) is None
    assert [e.value for e in (await do(Clear(mark=3))).elements[:3]] == ["", "one\ntwo", ""]
    long = "word " * 900 + "Paris"
    assert (await do(Write(mark=1, text=long))).elements[0].value == long


async def test_writing_in_a_list_chooses(session: Any, show: Any) -> None:
    await show("""<select aria-label=Size onchange="log(this.value)"><option value=s>Small<option value=l>Large
      <option disabled>None</select>""")
    assert await session.act(Write(mark=1, text="Large")) is None
    assert await session.act(Write(mark=1, text="s")) is None
    assert await text(session) == ["l s", 'Size: "Small" [1]']
    assert await session.act(Write(mark=1, text="XL")) == (
        'Element [1] has no option "XL"; its options are "Small", "Large", "None".'
    )
    assert await session.act(Write(mark=1, text="None")) == 'The option "None" is disabled.'
    told = await session.act(Click(mark=1))
    assert told == 'Element [1] is a list: write one of its options: "Small", "Large", "None".'


async def test_enter_and_submit_send_the_form(session: Any, show: Any, do: Any) -> None:
    await show("<form action=/found><input name=q required><button>Go</button></form>")
    assert await session.act(Submit(mark=1)) == ('The form cannot be submitted: "q": Please fill out this field.')
    assert (await do(Write(mark=1, text="red shoes", enter=True))).text == "page /found?q=red+shoes"
    await do(GoBack())
    assert await session.act(Write(mark=1, text="x")) is None
    assert (await do(Submit(mark=1))).url.endswith("/found?q=x")


IMPOSSIBLE: list[tuple[Action, str]] = [
    (Click(mark=9), "There is no element [9] on this page."),
    (Click(mark=1), "Element [1] is disabled."),
    (Write(mark=2, text="x"), "Element [2] is no text field."),
    (Write(mark=3, text="x"), "Element [3] is a checkbox, no text field."),
    (Write(mark=4, text="x"), "Element [4] is read-only."),
    (Write(mark=5, text="soon"), 'Element [5] takes a date value, YYYY-MM-DD, not "soon".'),
    (Submit(mark=2), "Element [2] belongs to no form."),
    (Click(point=Point(5000, 1)), "The point (5000, 1) is outside the viewport of 1280 x 720 pixels."),
    (Click(target="the cart"), 'There is no localizer to find "the cart"; name a mark.'),
    (Scroll(), "The page cannot scroll further down."),
    (GoBack(), "There is no page to go back to."),
    (Goto(url="file:///etc/passwd"), "file:///etc/passwd is no web address; give one that begins with"),
    (Goto(url="http://[::1"), "http://[::1 is no web address; give one that begins with"),
    (Goto(url="127.0.0.1:99999/"), "127.0.0.1:99999/ is no web address; give one that begins with"),
    (Goto(url="http://127.0.0.1:9/"), "http://127.0.0.1:9/ cannot be loaded: net::ERR_"),
]


async def test_what_cannot_be_done(session: Any, show: Any) -> None:
    await show("<button disabled>a</button><button>b</button><input type=checkbox><input readonly><input type=date>")
    before = await session.snapshot()
    for action, told in IMPOSSIBLE:
        assert (await session.act(action)).startswith(told)
        assert (await session.snapshot()).url == before.url


async def test_an_element_that_has_gone(session: Any, show: Any) -> None:
    await show("<button onclick='this.remove()'>b</button>")
    assert await session.act(Click(mark=1)) is None
    assert await session.act(Click(mark=1)) == "Element [1] is no longer on the page."


async def test_navigation(site: Any, session: Any, show: Any, do: Any) -> None:
    await show("<a href=/slow/next>next</a>")
    assert (await do(Click(mark=1))).url == f"http://{site.host}/slow/next"
    assert (await do(Goto(url=f"{site.host}/third"))).title == "/third"
    assert (await do(GoBack())).title == "/slow/next"
    before = site.count("/slow/next")
    assert await session.act(Refresh()) is None
    assert site.count("/slow/next") == before + 1
    assert await session.act(Restart()) is None
    assert await text(session) == ["next [1]"]


async def test_scrolling(session: Any, show: Any, do: Any) -> None:
    await show("<div style='height:2000px'></div><button>end</button>")
    assert (await do(Scroll(pages=5))).elements[0].states == ()
    assert await session.act(Scroll(pages=5)) == "The page cannot scroll further down."
    assert await session.act(Scroll(direction="up")) is None


async def test_frames_and_shadow_roots_are_clicked_where_they_lie(site: Any, do: Any, read: Any) -> None:
    site.page("<body style='margin:0'><button onclick=\"parent.log.textContent='framed'\">f</button>", "/frame")
    await read("<p id=log></p><p style='height:900px'></p><iframe src=/frame></iframe>")
    assert log_of(await do(Click(mark=1))) == "framed"


async def test_a_frame_s_padding_is_no_part_of_its_page(site: Any, session: Any, do: Any) -> None:
    button = "<button style='display:block;height:30px' onclick=\"parent.document.title = '{0}'\">{0}</button>"
    site.page("<body style='margin:0'>" + button.format("A") + button.format("B"), "/frame")
    await session.reset(site.page("<body style='margin:0'><iframe src=/frame style='padding:30px;border:5px solid'>"))
    box = (await session.snapshot()).elements[1].box
    assert (box.x, box.y) == (35, 65)
    assert (await do(Click(mark=2))).title == "B"
    assert (await do(Click(point=Point(40, 40)))).title == "A"


TRANSFORMS = [  # of what lies around a frame, and of the frame
    ("", "transform:scale(.5)"),
    ("transform:translate(40px, 9px) scale(.5, 2)", ""),
    ("scale:.5", "zoom:2"),
    ("rotate:90deg;transform-origin:150px 90px", "transform:scale(-.7, .7) skew(9deg)"),
]


async def test_a_frame_s_page_is_clicked_where_transforms_put_it(site: Any, session: Any, do: Any) -> None:
    button = "<button style='display:block;height:30px' onclick=\"top.document.title = '{0}'\">{0}</button>"
    site.page("<body style='margin:0'>" + button.format("A") + button.format("B"), "/inner")
    for outside, own in TRANSFORMS:
        site.page(f"<body style='margin:0'><iframe src=/inner style='padding:9px;{own}'></iframe>", "/frame")
        page = site.page(f"<body style='margin:0'><p style='{outside}'><iframe src=/frame style='{own}'>")
        await session.reset(page)
        box = (await session.snapshot()).elements[0].box
        assert (await do(Click(mark=2))).title == "B", own
        assert (await do(Click(point=Point(box.x + box.width / 2, box.y + box.height / 2)))).title == "A", own


async def test_nothing_is_offered_in_a_frame_that_stands_in_perspective(site: Any, read: Any) -> None:
    site.page("<button>b</button>", "/frame")
    seen: Observation = await read("<p style='perspective:99px'><iframe src=/frame style='transform:rotateY(20deg)'>")
    assert (seen.elements, seen.text) == ((), f"(frame: http://{site.host})")


async def test_waiting_ends_when_the_page_changes(session: Any, show: Any) -> None:
    session.config = session.config.model_copy(update={"settle": "instant"})
    await show("<button onclick=\"setTimeout(() => log('late'), 300)\">b</button>")
    await session.act(Click(mark=1))
    clock = asyncio.get_running_loop().time
    begun = clock()
    assert await session.act(Wait(seconds=5)) is None
    assert clock() - begun < 3
    assert (await text(session))[0] == "late"
