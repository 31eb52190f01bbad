"""Frames of other origins: in the same process, in a process of their own, sandboxed, and one within another."""

from collections.abc import Callable
from typing import Any

import pytest

from bestofq.core.actions import Action, Click, Press, Scroll, Write

pytestmark = pytest.mark.asyncio(loop_scope="session")

SAY = "parent.postMessage('{}', '*')"
LOG = "<p id=log></p><script>onmessage = (event) => log.textContent += event.data</script>"
INNER = f"""<body style='margin:0'><h2>Cookies</h2><button onclick="{SAY.format("accepted")}">Accept all</button>
  <form onsubmit="event.preventDefault();{SAY.format("sent")}"><input aria-label=Code
  oninput="parent.postMessage('code=' + value + ' ', '*')"></form>"""


def origins(site: Any) -> dict[str, Callable[[str], str]]:
    """How a page at a path gets into a frame, by the kind of the frame."""
    site.page(INNER, "/inner")
    return {
        "same process": lambda path: f"<iframe sandbox='allow-scripts allow-forms' src={path} {{}}></iframe>",
        "own process": lambda path: f"<iframe src='http://localhost:{site.port}{path}' {{}}></iframe>",
    }


async def act(session: Any, seen: Any, name: str, make: Callable[[int], Action]) -> Any:
    mark = next(element.mark for element in seen.elements if element.name == name)
    error = await session.act(make(mark))
    return error or await session.snapshot()


@pytest.mark.parametrize("kind", ["same process", "own process"])
async def test_a_frame_of_another_origin_is_read_and_used(site: Any, read: Any, session: Any, kind: str) -> None:
    frame = origins(site)[kind]("/inner").format("style='margin:900px 0 0 40px;height:200px'")
    seen = await read(f"<button>Before</button>{LOG}{frame}<button>After</button>")
    assert [element.name for element in seen.elements] == ["Before", "After", "Accept all", "Code"]
    assert 'Cookies\nAccept all [3]\nCode: "" [4]' in seen.text
    assert seen.text.endswith("After [2]")
    assert "offscreen" in seen.elements[2].states
    assert seen.elements[2].box.x == pytest.approx(50, abs=1)
    seen = await act(session, seen, "Accept all", lambda mark: Click(mark=mark))
    assert "accepted" in seen.text
    seen = await act(session, seen, "Code", lambda mark: Write(mark=mark, text="1234", enter=True))
    assert "code=1234 sent" in seen.text
    assert "1234" in seen.elements[3].value
    seen = await act(session, seen, "Code", lambda mark: Press(mark=mark, keys="End 5 Enter"))
    assert seen.text.count("sent") == 2
    assert "code=12345" in seen.text
    seen = await act(session, seen, "After", lambda mark: Click(mark=mark))
    assert "code=12345" in seen.text


@pytest.mark.parametrize("kind", ["same process", "own process"])
async def test_who_decides_at_the_press_sees_what_lies_in_the_frame(
    site: Any, read: Any, session: Any, kind: str
) -> None:
    asked = []

    async def may(action: Any, page: Any) -> bool:
        asked.append(page.elements[action.mark - 1].name)
        return True

    seen = await read(f"<button>Before</button>{LOG}{origins(site)[kind]('/inner').format('')}")
    marks = {element.name: element.mark for element in seen.elements}
    await session.act(Click(mark=marks["Accept all"]), may)
    await session.act(Write(mark=marks["Code"], text="1", enter=True), may)
    await session.act(Press(mark=marks["Code"], keys="Enter"), may)
    assert asked == ["Accept all", "Code", "Code"]


async def test_frames_within_frames(site: Any, read: Any, session: Any) -> None:
    in_process = origins(site)["same process"]("/inner").format("style='border:7px solid;padding:9px;width:70%'")
    relay = "<script>onmessage = (event) => parent.postMessage(event.data, '*')</script>"
    site.page(f"<button>Middle</button>{relay}{in_process}", "/middle")
    seen = await read(
        f"{LOG}<div style='zoom:1.5'>{origins(site)['own process']('/middle').format('height=400')}</div>"
    )
    assert [element.name for element in seen.elements] == ["Middle", "Accept all", "Code"]
    seen = await act(session, seen, "Accept all", lambda mark: Click(mark=mark))
    assert "accepted" in seen.text
    assert "code=7" in (await act(session, seen, "Code", lambda mark: Write(mark=mark, text="7"))).text


@pytest.mark.parametrize("kind", ["same process", "own process"])
async def test_what_covers_a_frame_covers_its_elements(site: Any, read: Any, session: Any, kind: str) -> None:
    frame = origins(site)[kind]("/inner").format("")
    cover = "<div id=cover style='position:fixed;inset:0;background:#0008' onclick=remove()>Close</div>"
    seen = await read(f"{LOG}{frame}{cover}")
    error = await act(session, seen, "Accept all", lambda mark: Click(mark=mark))
    assert "cover" in str(error)
    consent = origins(site)[kind]("/inner").format("style='position:fixed;inset:0;width:100%;height:100%'")
    seen = await read(f"{LOG}<button>Read</button>{consent}")
    assert "covered" in await act(session, seen, "Read", lambda mark: Click(mark=mark))
    assert "accepted" in (await act(session, seen, "Accept all", lambda mark: Click(mark=mark))).text


async def test_a_frame_that_is_replaced_or_hangs_is_said(site: Any, read: Any, session: Any) -> None:
    frame = origins(site)["own process"]("/inner").format("id=f")
    seen = await read(f"{LOG}{frame}<button onclick=\"f.src='http://localhost:{site.port}/other'\">Move</button>")
    await act(session, seen, "Move", lambda mark: Click(mark=mark))
    assert "page /other" in (await session.snapshot()).text
    busy = "const end = Date.now() + 5000; while (Date.now() < end);"
    site.page(f"<button onclick='setTimeout(() => {{ {busy} }}, 50)'>Hang</button>", "/hang")
    other = origins(site)["same process"]("/inner")
    seen = await read(f"<p>Outside</p>{origins(site)['own process']('/hang')}{other}".format("", ""))
    await act(session, seen, "Hang", lambda mark: Click(mark=mark))
    assert "Accept all" in (await session.snapshot()).text


async def test_a_list_in_a_frame_scrolls(site: Any, read: Any, session: Any) -> None:
    site.page("<div style='height:90px;overflow:auto' tabindex=0 aria-label=Rows role=button>"
              + "".join(f"<p>Row {n}</p>" for n in range(40)) + "</div>", "/rows")  # fmt: skip
    seen = await read(origins(site)["own process"]("/rows").format(""))
    seen = await act(session, seen, "Rows", lambda mark: Scroll(mark=mark, direction="down"))
    assert seen.notices  # what has moved, and how much is left


async def test_page_words_make_no_room_for_a_frame(site: Any, read: Any) -> None:
    frame = origins(site)["own process"]("/inner").format("")
    assert (await read(f"<p>one \ufdd1 two</p>{frame}")).text.startswith("one two\n(frame: http://localhost")
