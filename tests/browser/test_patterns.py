"""Patterns of real pages, each used from start to end: keys, menus, boxes that scroll, lists, names, redrawing."""

from typing import Any

import pytest

from tests.browser.acting import Step, follow

pytestmark = pytest.mark.asyncio(loop_scope="session")

DID = "<p id=out></p><script>const did = (what) => { out.textContent = `did ${what}` }</script>"
SR = "<style>.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip: rect(0,0,0,0) }</style>"
PAGES: dict[str, tuple[str, list[Step]]] = {
    # keys
    "a button that a key enables": (
        "<input type=password aria-label=Password id=i><button id=b disabled onclick='did(1)'>Sign in</button>"
        "<script>i.onkeyup = () => { b.disabled = i.value.length < 4 }</script>",
        [("write", "Password", "abcdef"), ("click", "Sign in"), ("sees", "did 1")],
    ),
    "a button that a field enables when it is left": (
        "<input aria-label=Mail id=i><button id=b disabled onclick='did(1)'>Join</button><script>i.onchange = () => "
        "{ b.disabled = !i.value }</script>",
        [("write", "Mail", "a@b.ch"), ("click", "Join"), ("sees", "did 1")],
    ),
    "a counter of keys": (
        "<textarea aria-label=Text id=i></textarea><script>i.onkeydown = () => did(++i.n); i.n = 0</script>",
        [("write", "Text", "four"), ("sees", "did 4")],
    ),
    "a search at Enter": (
        "<input aria-label=Find id=i><script>i.onkeypress = (e) => { if (e.keyCode === 13) did(i.value) }</script>",
        [("enter", "Find", "mug"), ("sees", "did mug")],
    ),
    "suggestions chosen by arrows": (
        "<input aria-label=City id=i><ul id=u></ul><script>let at = -1; const all = ['Berlin', 'Bern', 'Paris']; "
        "const li = (one) => `<li>${one}`; i.onkeydown = (e) => { if (e.key === 'ArrowDown') at++; "
        "if (e.key === 'Enter') did(all[at]) }; i.onkeyup = (e) => { u.innerHTML = "
        "all.filter((one) => e.key && one.startsWith(i.value)).map(li).join('') }</script>",
        [("write", "City", "Be"), ("sees", "Berlin\nBern(?!.*Paris)"), ("press", "City", "ArrowDown ArrowDown Enter"),
         ("sees", "did Bern")],
    ),
    "a code of single digits": (
        "<div id=d></div><script>for (let n = 1; n < 7; n++) { const one = document.createElement('input'); "
        "one.maxLength = 1; one.ariaLabel = `Digit ${n}`; one.oninput = () => { one.nextSibling?.focus(); "
        "did([...d.children].map((each) => each.value).join('')) }; d.append(one) }</script>",
        [("write", "Digit 1", "123456"), ("sees", "did 123456")],
    ),
    "a number with a mask": (
        "<input aria-label=Card id=i><script>i.oninput = () => { i.value = i.value.replace(/\\D/g, '')"
        ".replace(/(.{4})(?=.)/g, '$1 '); did(i.value) }</script>",
        [("write", "Card", "4111111111111111"), ("sees", "did 4111 1111 1111 1111")],
    ),
    # menus
    "a menu under the pointer, by script": (
        "<nav id=m><a href=#top>Shop</a><ul id=u hidden><li><a href=#x onclick='did(1)'>Shoes</a></ul></nav>"
        "<script>m.onmouseenter = () => { u.hidden = false }; m.onmouseleave = () => { u.hidden = true }</script>",
        [("click", "Shop"), ("click", "Shoes"), ("sees", "did 1")],
    ),
    "a menu of the focus": (
        "<style>ul { visibility: hidden } nav:focus-within ul { visibility: visible }</style><nav><button>Account"
        "</button><ul><li><a href=#x onclick='did(1)'>Orders</a></ul></nav>",
        [("click", "Account"), ("click", "Orders"), ("sees", "did 1")],
    ),
    "menus under the pointer, by nested styles, beside their heads and by script": (
        "<style>i { display: none; position: absolute } @supports (top: 0) { .a { &:hover > i { display: block } } } "
        ".b:hover + i { display: block } @layer t { .t { opacity: 0; &:is(:where(.g):hover *) { @media (hover) { "
        "opacity: 1 } } } }</style><p class=a>Shop<i><button>Shoes</button></i><p><u class=b>Help</u><i><button>Call"
        "</button></i><p class=g>Mail <button class=t>File</button><p id=m>More<i id=n><button>About</button></i>"
        "<script>m.onmouseenter = () => { n.style.display = 'block' }</script>",
        [("sees", r"Shop \[1\](?!.*Shoes)"), ("click", "Shop"), ("sees", r"Shoes \["), ("click", "Help"),
         ("sees", r"Call \["), ("click", "Mail"), ("sees", r"File \["), ("click", "More"), ("sees", r"About \[")],
    ),
    "buttons of a card under the pointer": (
        "<style>li ul { visibility: hidden } li:hover ul { visibility: visible }</style><ol><li>Mugs <input value=u "
        "aria-label=Address><ul><li><button onclick='did(1)'>Delete</button></ul><li>Lamps<ul><li><button "
        "onclick='did(2)'>Delete</button></ul></ol>",
        [("click", "Mugs"), ("click", "Delete"), ("sees", "did 1")],
    ),
    "a list that comes later": (
        "<div role=combobox tabindex=0 id=c>Choose country</div><div id=h></div><script>c.onclick = () => setTimeout("
        "() => { h.innerHTML = ['France', 'Spain'].map((one) => `<div role=option onclick=\"did('${one}')\">${one}"
        "</div>`).join('') }, 250)</script>",
        [("click", "Choose country"), ("click", "Spain"), ("sees", "did Spain")],
    ),
    "a dialog and a popover": (
        "<button onclick='d.showModal()'>Open</button><dialog id=d><button popovertarget=p>More</button><div id=p "
        "popover><button onclick='did(1); d.close()'>Archive</button></div></dialog>",
        [("click", "Open"), ("click", "More"), ("click", "Archive"), ("sees", "did 1")],
    ),
    # boxes that scroll
    "a list beside the page": (
        "<style>body { margin: 0; display: flex; height: 100vh } #l { width: 260px; overflow: auto }</style><div id=l>"
        "</div><h1>Pick one</h1><script>l.innerHTML = Array.from({ length: 90 }, (_, n) => "
        "`<button style='display:block' onclick='did(${n})'>Chat ${n}</button>`).join('')</script>",
        [("scroll", "Chat 3"), ("click", "Chat 80"), ("sees", "did 80")],
    ),
    "a strip": (
        "<div id=s style='width:300px;overflow-x:auto;white-space:nowrap'></div><script>s.innerHTML = Array.from("
        "{ length: 30 }, (_, n) => `<button onclick='did(${n})'>Day ${n}</button>`).join('')</script>",
        [("click", "Day 27"), ("sees", "did 27")],
    ),
    "pages that a wheel turns": (
        "<style>html, body { overflow: hidden; margin: 0 } #v { position: absolute } p { height: 720px }</style><div "
        "id=v><p>One<p>Two</div><script>onwheel = (e) => { v.style.top = '-9px'; did(Math.sign(e.deltaY)) }</script>",
        [("scroll", ""), ("sees", "did 1")],
    ),
    "more at the end": (
        "<div id=l></div><script>let n = 0; const more = () => { for (let i = 0; i < 20; i++) l.insertAdjacentHTML("
        "'beforeend', `<p style='height:60px'>Item ${n++}`) }; more(); onscroll = () => { if (innerHeight + scrollY > "
        "document.body.scrollHeight - 400 && n < 40) fetch('/slow/x').then(more) }</script>",
        [("scroll", ""), ("scroll", ""), ("sees", "Item 39")],
    ),
    # lists and fields
    "groups of choices": (
        "<select multiple aria-label=Toppings onchange='did([...selectedOptions].map((o) => o.text))'><optgroup "
        "label=Veg><option>Onion<option>Pepper</optgroup><option selected>Ham</select>",
        [("write", "Toppings", "Onion"), ("sees", "did Onion,Ham"), ("clear", "Toppings"), ("sees", r'Toppings: ""')],
    ),
    "a choice by a part of its words": (
        "<select aria-label=Size onchange='did(value)'><option value=s>Small<option value=l>Large (30 cm)</select>",
        [("write", "Size", "large"), ("sees", "did l")],
    ),
    "fields over pictures": (
        "<style>.w { position: relative; width: 180px; height: 30px } .w > * { position: absolute; inset: 0; opacity: 0"
        " } .w span { pointer-events: none; opacity: 1 }</style><div class=w><input aria-label=Name oninput="
        "'did(value)'></div><div class=w><input type=date aria-label=Day onchange='did(value)'></div><div class=w>"
        "<span>Newest</span><select aria-label=Sort onchange='did(value)'><option>Newest<option>Price</select></div>"
        "<div class=w><span>30</span><input type=range value=30 aria-label=Volume onchange='did(value)'></div>",
        [("write", "Name", "Ann"), ("sees", "did Ann"), ("write", "Day", "24 December 2026"),
         ("sees", "did 2026-12-24"), ("write", "Sort", "Price"), ("sees", "did Price"), ("write", "Volume", "70"),
         ("sees", "did 70")],
    ),
    "a drawn check box": (
        "<style>i { display: inline-block; width: 20px; height: 20px; background: #ccc }</style><label><input "
        "type=checkbox style='display:none' onchange='did(checked)'><i></i>Accept</label><label><input type=checkbox "
        "style='position:absolute;left:-9999px'><i></i>Agree</label>",
        [("click", "Accept"), ("sees", "did true"), ("click", "Agree"), ("sees", r"Agree \(checked\) \[2\]")],
    ),
    "a switch and a slider whose fields are clipped away": (
        f"{SR}<label><span class=sr><input type=checkbox style='width:13px' onchange='did(checked)'></span>Turbo"
        "</label><p><b style='display:inline-block;width:20px;height:20px'><b class=sr style='display:block'><input "
        "type=range max=50 aria-labelledby='r k' id=r aria-label=Rows onchange='did(value)'></b></b><b id=k>now</b>",
        [("click", "Turbo"), ("sees", r"did true.*Turbo \(checked\) \[1\]"), ("write", "Rows now", "20"),
         ("sees", "did 20"), ("press", "Rows now", "ArrowRight"), ("sees", 'Rows now: "21"')],
    ),
    "boxes that a script or a label presses in their place": (
        "<style>.u { position: absolute; opacity: 0; width: 0; height: 0; margin: 0 } i { display: inline-block; "
        "padding: 9px } .c { position: absolute; clip: rect(0,0,0,0); pointer-events: none }</style><div id=s><input "
        "type=checkbox role=switch class=u id=c aria-label=Turbo><i></i></div><input type=radio class=c id=r><label "
        "for=r>Large</label><input type=radio hidden id=x><label for=x title='2 stars'>★</label><script>"
        "s.onclick = () => { c.checked = true; did('turbo') }</script>",
        [("sees", r"Turbo \[1\]\s+Large \[2\]\s+★ \[3\](?!.*\[4\])"), ("click", "Turbo|switch"),
         ("sees", r"did turbo\s+Turbo \(checked\)"), ("click", "Large"), ("sees", r"Large \(checked\)")],
    ),
    "an editor that keeps its field unseen": (
        "<div onmousedown='setTimeout(() => t.focus())'><div style='overflow:hidden;width:3px;height:0'><textarea "
        "id=t></textarea></div><pre id=s>old\nwords</pre></div><script>let all = false; t.onkeydown = (e) => { all ||= "
        "e.ctrlKey && e.key === 'a' }; t.oninput = () => { did(s.textContent = (all ? '' : s.textContent) + t.value); "
        "all = false; t.value = '' }</script>",
        [("sees", r'"old words" \[1\]'), ("write", "textbox", "new"), ("sees", "did new")],
    ),
    "a slider that takes its keys within": (
        "<div role=slider aria-valuenow=5 aria-label=Level><div tabindex=0 onkeydown='did(event.key)' "
        "style='height:20px'></div></div>",
        [("sees", r'Level: "5" \[1\](?!.*\[2\])'), ("press", "Level", "ArrowUp"), ("sees", "did ArrowUp")],
    ),
    "a slider that takes a value at the end of a move": (
        "<input type=range aria-label=Volume id=i><script>i.onkeydown = (e) => { e.preventDefault(); i.value = "
        "+i.value + (e.key === 'ArrowUp' ? 1 : -1); did(i.value) }</script>",
        [("write", "Volume", "55"), ("sees", "did 55"), ("write", "Volume", "100"), ("sees", "did 100")],
    ),
    "drawn cards": (
        "<style>input { appearance: none; position: absolute; inset: 0 } label { position: relative; display: block }"
        "</style><label><input type=radio name=p onchange='did(5)'>Basic</label><label><input type=radio name=p "
        "onchange='did(9)'>Plus</label>",
        [("click", "Plus"), ("sees", "did 9")],
    ),
    # names
    "icons with unseen words": (
        f"{SR}<button onclick='did(1)'><svg width=9 height=9></svg><span class=sr>Search</span></button><a href=#c>"
        "<svg width=9 height=9></svg><span class=sr>Cart, 3 items</span></a><label for=q class=sr>E-mail</label>"
        "<input id=q><button aria-labelledby=n><svg width=9 height=9></svg></button><p hidden id=n>Pay <b>now</b></p>"
        "<label><span class=sr>Code</span><input></label><button><span aria-hidden=true>×</span><span class=sr>Close"
        "</span></button>",
        [("sees", r'Search \[1\] Cart, 3 items \[2\] E-mail: "" \[3\] Pay now \[4\].*Code: "" \[5\] Close \[6\]'),
         ("click", "Search"), ("sees", "did 1")],
    ),
    "icons with titles": (
        "<button><svg width=9 height=9><title>Delete file</title></svg></button><button><img title=Print width=9 "
        "height=9></button><button><i title=Save style='display:inline-block;width:9px;height:9px'></i></button>",
        [("sees", r"Delete file \[1\] Print \[2\] Save \[3\]")],
    ),
    "signs with titles": (
        "<a href=#n title='Create a calendar'><img alt='➕' width=9 height=9></a><button title=Close>×</button>"
        "<button title=Bold>B</button><button><i aria-hidden=true>menu</i></button>",
        [("sees", r"Create a calendar \[1\] Close \[2\] B \[3\] menu \[4\]")],
    ),
    "a label whose field has a hidden twin": (
        "<form hidden><label for=t>Title:</label><input id=t></form><form><label for=t>Title:</label><input id=t "
        "oninput='did(value)'></form>",
        [("sees", r'Title:: "" \[1\](?!.*\[2\])'), ("write", "Title:", "Mugs"), ("sees", "did Mugs")],
    ),
    "a label of no field": (
        "<label for=x>City:</label><input id=y oninput='did(value)'><label>Size:</label> <select><option>S</select>",
        [("sees", r'City:: "" \[1\].*Size:: "S" \[2\]'), ("write", "City:", "Bern"), ("sees", "did Bern")],
    ),
    # what is redrawn
    "a button that is made anew": (
        "<div id=r></div><script>const draw = () => { r.innerHTML = '<button>Save</button>'; "
        "r.firstChild.onclick = () => did('save') }; draw(); setInterval(draw, 120)</script>",
        [("click", "Save"), ("sees", "did save"), ("click", "Save")],
    ),
    "rows that change places": (
        "<table id=t></table><script>let k = 0; const draw = () => { k++; t.innerHTML = [1, 2, 3].map((_, i) => "
        "(i + k) % 3 + 1).map((n) => `<tr><td><button onclick='did(${n})'>Bid on lot ${n}</button>`).join('') };"
        "draw(); setInterval(draw, 300)</script>",
        [("click", "Bid on lot 2"), ("sees", "did 2"), ("click", "Bid on lot 3"), ("sees", "did 3")],
    ),
    "rows that change places under the pointer": (
        "<table id=t></table><script>let k = 0; const draw = () => { t.innerHTML = [1, 2, 3].map((_, i) => "
        "(i + k) % 3 + 1).map((n) => `<tr><td><button onclick='did(${n})'>Bid on lot ${n}</button>`).join('') };"
        "draw(); t.onmouseover = () => { if (k < 2) { k++; draw() } }</script>",
        [("click", "Bid on lot 2"), ("sees", "did 2")],
    ),
    "a drawer that is closed": (
        "<div id=d style='position:fixed;top:0;left:0;transform:translateX(100vw)'><a href=#a>Account</a></div><div "
        "style='position:fixed;bottom:-90px;height:80px'><button>Accept</button></div><p style='height:2000px'>"
        "<button onclick=\"d.style.transform = ''\">Menu</button><p><button>Below</button>",
        [("sees", r"Menu \[1\].*Below \[2\](?!.*(Account|Accept))"), ("click", "Menu"), ("sees", "Account")],
    ),
    "prices that tick": (
        "<table id=t></table><script>const draw = () => { t.innerHTML = [1, 2].map((n) => `<tr><td>${Date.now()}<td>"
        "<button onclick='did(${n})'>Buy ${n}</button>`).join('') }; draw(); setInterval(draw, 200)</script>",
        [("click", "Buy 2"), ("sees", "did 2")],
    ),
    # frames and roots
    "frames in frames": (
        "<script>const out2 = out; window.say = (what) => did(what)</script><iframe sandbox='allow-scripts "
        "allow-same-origin' srcdoc=\"<iframe srcdoc='<button onclick=top.say(2)>Inner</button>'></iframe>\"></iframe>",
        [("click", "Inner"), ("sees", "did 2")],
    ),
    "roots in roots": (
        "<x-a></x-a><script>let root = document.querySelector('x-a').attachShadow({ mode: 'open' }); for (let n = 0; "
        "n < 4; n++) { const el = document.createElement('x-b'); root.append(el); root = el.attachShadow("
        "{ mode: 'open' }) } root.innerHTML = '<button>Order now</button><slot></slot>'; "
        "root.firstChild.onclick = () => did('deep')</script>",
        [("click", "Order now"), ("sees", "did deep")],
    ),
    "words in a slot, beside a notice": (
        "<x-a id=x>Order now</x-a><div role=dialog>Cookies</div><script>x.attachShadow({ mode: 'open' }).innerHTML = "
        "'<a href=#x><slot></slot></a>'; x.onclick = () => did(1)</script>",
        [("click", "Order now"), ("sees", "did 1")],
    ),
    "a dialog in a root": (
        "<button>Under</button><x-a id=x>Sure?</x-a><script>x.attachShadow({ mode: 'open' }).innerHTML = "
        "'<div role=dialog style=\"position: fixed; inset: 0\"><slot></slot></div>'</script>",
        [("sees", "Under\nSure")],
    ),
    "a shape with gaps": (
        "<svg><g role=button aria-label=Bars onclick='did(1)'><path d='M0 0h9v9h-9zM99 0h9v9h-9z'/></g></svg>",
        [("click", "Bars"), ("sees", "did 1")],
    ),
    "a button that covers its card under the pointer": (
        "<style>div { position: relative; width: 9em } a, button { display: block; width: 9em; height: 3em } button { "
        "position: absolute; top: 0; height: 2em } div:not(:hover) button { visibility: hidden }</style><div><a "
        "href=#x onclick='did(1)'>Card</a><button onclick='did(2)'>Buy</button></div>",
        [("click", "Card"), ("sees", "did 1")],
    ),
    "a page that scrolls within the page": (
        "<main tabindex=0 style='height: 90vh; overflow: auto'><button>Send</button><div aria-label='By Ann'>Hello"
        "</div></main>",
        [("sees", "Hello"), ("click", "Send")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
async def test_a_pattern_is_used_from_start_to_end(site: Any, session: Any, name: str) -> None:
    page, steps = PAGES[name]
    await session.reset(site.page(f"<title>-</title>{DID}{page}", "/pattern"))
    await follow(session, steps)
