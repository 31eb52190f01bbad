"""What an agent reads of a page."""

from typing import Any

import pytest

from bestofq.core.observation import Observation

pytestmark = pytest.mark.asyncio(loop_scope="session")


def shown(observation: Observation) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    return [(e.role, e.name, e.value, e.states) for e in observation.elements]


async def test_lines_follow_blocks_and_marks_follow_their_elements(read: Any) -> None:
    seen = await read("""<title> A
      page </title><h1>Hello <b>wor</b>ld</h1><p>$24.99 <a href=/m>Acme   mouse</a>, new<br>second line</p>
      <p>   </p><div>one<div>two</div>three</div><ul><li>x<li>y</ul>
      <table><tr><th>Size<th>Price<tr><td>S<td><td>3</table><img alt="a cat" src=data:,><pre>1\n2</pre>""")
    assert seen.title == "A page"
    assert seen.text.split("\n") == [
        *("Hello world", "$24.99 Acme mouse [1] , new", "second line", "one", "two", "three"),
        *("x", "y", "Size | Price", "S | 3", "a cat", "1", "2"),
    ]
    box = seen.elements[0].box
    assert box.width > 20
    assert box.y > 40


async def test_fields_lists_and_buttons(read: Any) -> None:
    seen = await read("""<label>Query <input value="red  shoes"></label><input type=password value=abc aria-label=Key>
      <input type=search placeholder=Find><select title=Size><option>S<option selected>M</select>
      <textarea aria-label=Note disabled></textarea><input type=number aria-label=Age value=3 required readonly>
      <input type=submit><button aria-pressed=true>Bold</button><input type=hidden><input type=range title=Vol value=7>
      <p contenteditable aria-label=Body>text</p><details open><summary>More</summary>x</details><button></button>""")
    assert shown(seen) == [
        ("textbox", "Query", "red  shoes", ()),
        ("textbox", "Key", "•••", ()),
        ("searchbox", "Find", "", ()),
        ("combobox", "Size", "M", ()),
        ("textbox", "Note", "", ("disabled",)),
        ("spinbutton", "Age", "3", ("readonly", "required")),
        ("button", "Submit", None, ()),
        ("button", "Bold", None, ("pressed",)),
        ("slider", "Vol", "7", ()),
        ("textbox", "Body", "text", ()),
        ("button", "More", None, ("expanded",)),
        ("button", "", None, ()),
    ]
    assert seen.text == (
        'Query: "red shoes" [1] Key: "•••" [2] Find: "" [3] Size: "M" [4] Note: "" (disabled) [5] Age: "3" [6] '
        'Submit [7] Bold (pressed) [8] Vol: "7" [9]\nBody: "text" [10]\nMore (expanded) [11]\nx\nbutton [12]'
    )


async def test_a_labels_words_are_written_once(read: Any) -> None:
    seen = await read("""<label><input type=radio name=c checked> Red</label> <label for=b>Blue</label>
      <input type=radio id=b name=c><p><input type=checkbox aria-label=Agree disabled checked>
      <p><label><input type=checkbox style="display:none" checked>Drawn</label>""")
    assert seen.text == "Red (checked) [1] Blue [2]\nAgree (checked, disabled) [3]\nDrawn (checked) [4]"
    assert [e.role for e in seen.elements] == ["radio", "radio", "checkbox", "checkbox"]


async def test_names_follow_the_aria_order(read: Any) -> None:
    seen = await read(f"""<span id=x>Ex</span><span id=y>Why</span><a href=# aria-labelledby="y x" aria-label=no>t</a>
      <a href=# aria-label=Label>t</a><a href=#><img alt=Home src=data:,></a><a href=# title=T></a>
      <a href=# title=T style="display:inline-block;width:9px;height:9px"></a>
      <button>a<span aria-hidden=true>×</span> <span style="display:none">hidden</span>b</button>
      <a href=#>{"long " * 100}</a>""")
    assert [e.name for e in seen.elements[:5]] == ["Why Ex", "Label", "Home", "T", "a b"]
    assert len(seen.elements[5].name) == 199  # 200, less the blank it ends with


async def test_only_what_can_be_seen(read: Any) -> None:
    seen = await read("""<div style="display:none"><button>no</button>no</div><p style="visibility:hidden">no
      <button style="visibility:visible">yes</button></p><p style="opacity:0">no <a href=#>no</a></p>
      <span style="position:absolute;width:1px;height:1px;overflow:hidden">for screen readers</span>
      <noscript>no</noscript><template>no</template><details><summary>S</summary>closed</details>
      <div style="margin-top:3000px"><button>far</button></div>""")
    assert seen.text == "yes [1]\nS [2]\nfar [3]"
    assert seen.elements[2].states == ("offscreen",)


async def test_clickable_things_without_a_role(read: Any) -> None:
    seen = await read("""<div onclick="1">card</div><span style="cursor:pointer"><b>point</b></span>
      <i tabindex=0>tab</i><i tabindex=-1>no</i><div style="cursor:pointer">row <a href=#>link</a></div>
      <div onclick="1">outer <a href=#>inner</a></div><div tabindex=0 role=tabpanel>panel</div><div role=tab>t</div>""")
    assert seen.text.split("\n") == [
        *("card [1]", "point [2] tab [3] no", "row link [4]", "outer inner [5] inner [6]", "panel", "t [7]")
    ]


async def test_a_picture_without_words_is_named_by_its_file(read: Any) -> None:
    seen = await read("""<style>i { display: inline-block; width: 9px; height: 9px; cursor: pointer;
      background: url("/icons/trash%20can.png?x=1") } button { background: url("/send.svg") }</style>
      <i></i><button></button><button>words</button><button aria-label=label></button>""")
    assert [e.name for e in seen.elements] == ["trash can", "send", "words", "label"]


async def test_shadow_roots_slots_and_frames(site: Any, read: Any) -> None:
    site.page("<body style='margin:0'><button>framed</button>", "/frame")
    other = f"http://localhost:{site.port}"
    seen = await read(f"""<my-card><a href=# slot=title>slotted</a>rest</my-card><script>
      customElements.define("my-card", class extends HTMLElement {{
        constructor() {{
          super();
          const inside = "<button>shadow</button> <slot name=title></slot><p><slot></slot></p>";
          this.attachShadow({{mode: "open"}}).innerHTML = inside;
        }}
      }})</script>
      <iframe src=/frame style="margin:50px 0 0 100px;border:5px solid"></iframe>
      <iframe src="{other}/frame"></iframe>""")
    assert seen.text == f"shadow [1] slotted [2]\nrest\nframed [3]\n(frame: {other})\nframed [4]\n(end of the frame)"
    frame = seen.elements[2].box
    assert frame.x == pytest.approx(113, abs=1)  # 8 of the body, 100 of margin, 5 of border


async def test_the_text_is_cut_and_says_so(read: Any) -> None:
    seen = await read("<p>" + "word " * 10_000)
    assert len(seen.text) < 20_050
    assert seen.text.endswith("\n(29999 more characters left out)")


async def test_pages_cannot_break_or_see_the_reader(read: Any) -> None:
    seen = await read("""<button>b</button><p id=found></p><p id=half></p><script>
      Element.prototype.getBoundingClientRect = () => { throw 1 }; JSON.stringify = null; window.Node = null;
      half.textContent = "half a pair \\ud83d"; setTimeout(() => found.textContent = typeof bestofq, 5)</script>""")
    assert seen.text == "b [1]\nundefined\nhalf a pair \ufffd"
