"""Before what seems irreversible the user is asked, on real pages."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from one_room import OneRoom
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Answer, AskUser, Click, Goto, Press, Refresh, Submit, Wait, Write
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Point, Task
from bestofq.core.protocols import Env
from bestofq.core.repeating import DivergedError, repeat
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.safety.irreversible import seems_irreversible

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = """<title>Shop</title><form action=/search><input type=search name=q aria-label=Search></form>
<form method=post action=/login><input name=user aria-label=User><input type=password name=secret aria-label=Secret>
<button>Go on</button><button type=button>Show</button></form>
<form method=post action=/order><div style="padding:20px" onclick="">A kettle <button>Buy now</button></div></form>
<a href="\\account\\delete">Next</a>"""


CHANGING = """<script>const becomes = (what) => { b.textContent = what; b.onclick = () => fetch("/order") }</script>
<div style="padding:20px" role=link>A kettle<br><br><button id=b onclick="fetch('/look')">Look</button></div>"""
"""A button that is another at the press."""
CHANGES = {
    "when it is hovered": "b.onmouseover = () => becomes('Buy now')",
    "while the agent thinks": "becomes('Buy now')",
    "when the pointer comes, and flees": "onmousemove = () => { becomes('Buy now'); b.style.marginLeft = '300px' }",
}


@dataclass
class Site:
    """Remembers what was sent to it, and what the user was asked; `allows` is the user's answer."""

    url: str = ""
    sent: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    allows: bool = False

    async def page(self, request: Request) -> HTMLResponse:
        if request.url.path not in ("/", "/favicon.ico", "/changing"):
            self.sent.append(f"{request.method} {request.url.path}")
        return HTMLResponse(CHANGING if request.url.path == "/changing" else PAGE)

    async def approve(self, question: str) -> bool:
        self.asked.append(question)
        return self.allows


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    made = Site()
    async with serve_app(Starlette(routes=[Route("/{path:path}", made.page, methods=["GET", "POST"])])) as made.url:
        yield made


Visit = Callable[..., Awaitable[tuple[WebEnv, Observation]]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def room(browser: Browser) -> AsyncIterator[OneRoom]:
    made = OneRoom(browser)
    yield made
    await made.close()


@pytest.fixture
def visit(room: OneRoom, browser: Browser, site: Site) -> Visit:
    async def visit(path: str = "/", *, forms: bool = False) -> tuple[WebEnv, Observation]:
        env = WebEnv(browser, screenshots=False, approve=site.approve, forms=forms)
        env.session = room
        task = Task(id="t", suite="s", goal="g", start_url=f"{site.url}{path}")
        return env, await env.reset(task, seed=0)

    return visit


async def test_the_snapshot_tells_forms_apart_and_what_their_fields_ask_for(visit: Visit, site: Site) -> None:
    _, seen = await visit()
    assert [(e.name, e.form, e.asks) for e in seen.elements if e.role != "clickable"] == [
        ("Search", 1, None),
        ("User", 2, None),
        ("Secret", 2, "password"),
        ("Go on", 2, None),
        ("Show", None, None),
        ("Buy now", 3, None),
        ("Next", None, None),
    ]


async def test_a_refusal_is_told_and_nothing_is_sent(visit: Visit, site: Site) -> None:
    env, seen = await visit()
    buy = next(e for e in seen.elements if e.name == "Buy now")
    ways: list[Action] = [
        Click(mark=buy.mark),
        Click(point=Point(buy.box.x + 3, buy.box.y + 3)),
        Click(target="the Buy now button"),
        Submit(mark=buy.mark),
        Goto(url=f"{site.url}/unsubscribe"),
        Goto(url=f"{site.url}/unsub\tscribe"),
        Click(mark=next(e.mark for e in seen.elements if e.name == "Next")),
    ]
    for way in ways:
        result = await env.step(way)
        assert result.observation.error.startswith("The user did not allow ")
        assert not result.terminated
    assert len(site.asked) == len(ways)
    assert site.asked[0] == 'The next action, click button Buy now, seems to buy or pay for something ("Buy now").'
    assert site.sent == []


async def test_what_is_allowed_is_done_once(visit: Visit, site: Site) -> None:
    env, seen = await visit()
    site.allows = True
    bought = await env.step(Click(mark=next(e.mark for e in seen.elements if e.name == "Buy now")))
    assert bought.observation.error is None
    again = await env.step(Refresh())
    assert again.observation.error == "The page answers a form that was sent; to refresh it would send the form again."
    assert site.sent == ["POST /order"]
    assert len(site.asked) == 1
    await env.step(Goto(url=f"{site.url}/order"))
    assert (await env.step(Refresh())).observation.error is None
    assert site.sent == ["POST /order", "GET /order", "GET /order"]


async def test_a_password_is_not_sent_by_enter_and_a_search_is(visit: Visit, site: Site) -> None:
    env, _ = await visit()
    assert (await env.step(Write(mark=3, text="hunter2"))).observation.error is None
    refused = await env.step(Write(mark=2, text="ann", enter=True))
    assert refused.observation.error is not None
    assert "submit personal data (a password)" in refused.observation.error
    assert site.sent == []
    assert (await env.step(Write(mark=1, text="kettle", enter=True))).observation.url == f"{site.url}/search?q=kettle"
    assert len(site.asked) == 1


async def test_every_form_can_be_asked_about(visit: Visit, site: Site) -> None:
    env, _ = await visit(forms=True)
    for way in (Write(mark=1, text="kettle", enter=True), Click(mark=4), Submit(mark=1)):
        refused = await env.step(way)
        assert "send a form" in (refused.observation.error or "")
    assert (await env.step(Click(mark=5))).observation.error is None
    assert site.sent == []


@pytest.mark.parametrize("how", CHANGES)
async def test_what_has_changed_at_the_press_is_asked_about_or_refused(visit: Visit, site: Site, how: str) -> None:
    env, seen = await visit("/changing")
    look = next(element for element in seen.elements if element.name == "Look")
    await env.session.evaluate(f"{CHANGES[how]}; 0")
    refused = await env.step(Click(mark=look.mark))
    assert refused.observation.error is not None
    assert len(site.asked) == (0 if "flees" in how else 1)
    assert site.sent == []


async def test_what_has_not_changed_is_pressed_without_a_question(visit: Visit, site: Site) -> None:
    env, seen = await visit("/changing")
    await env.step(Click(mark=next(element.mark for element in seen.elements if element.name == "Look")))
    assert (site.asked, site.sent) == ([], ["GET /look"])


async def test_what_lies_in_an_element_is_what_a_click_on_it_presses(visit: Visit, site: Site) -> None:
    env, seen = await visit()
    row = next(element for element in seen.elements if element.role == "clickable")
    buy = next(element for element in seen.elements if element.name == "Buy now")
    await env.session.evaluate("document.querySelector('div[onclick]').style.cssText = 'width:70px; text-indent:-50px'")
    assert row.mark != buy.mark
    await env.step(Click(mark=row.mark))
    assert (len(site.asked), site.sent) == (1, [])


async def test_enter_is_asked_about_where_the_focus_has_moved(visit: Visit, site: Site) -> None:
    env, _ = await visit()
    await env.session.evaluate("document.querySelector('[name=q]').oninput = () => document.forms[2][0].focus()")
    await env.step(Write(mark=1, text="kettle", enter=True))
    assert (len(site.asked), site.sent) == (1, [])


async def test_a_key_on_what_buys_is_asked_about(visit: Visit, site: Site) -> None:
    env, seen = await visit()
    buy = next(element for element in seen.elements if element.name == "Buy now")
    for way in (Press(mark=buy.mark, keys="Enter"), Press(keys="Enter")):  # the second where the focus is
        await env.session.evaluate("document.forms[2][0].focus()")
        await env.step(way)
    assert (len(site.asked), site.sent) == (2, [])


async def test_accepting_a_question_is_asked_about(visit: Visit, site: Site) -> None:
    env, seen = await visit("/changing")
    look = Click(mark=next(element.mark for element in seen.elements if element.name == "Look"))
    await env.session.evaluate("b.onclick = () => { if (confirm('Delete all orders?')) fetch('/delete') }; 0")
    await env.step(look)
    refused = await env.step(look)
    assert "delete" in (refused.observation.error or "")
    assert (len(site.asked), site.sent) == (1, [])


async def looked(env: WebEnv, site: Site, script: str) -> StepResult:
    """The Look button pressed as a search does it, once the page has changed by the script."""
    seen = await env.reset(Task(id="t", suite="s", goal="g", start_url=f"{site.url}/changing"), seed=0)
    look = Click(mark=next(element.mark for element in seen.elements if element.name == "Look"))
    await env.session.evaluate(f"{script}; 0")
    return await repeat(env, look, seen, seen, seems_irreversible)


@pytest.mark.parametrize("how", [how for how in CHANGES if "flees" not in how])
async def test_a_search_holds_back_what_changes_at_the_press(
    room: OneRoom, browser: Browser, site: Site, how: str
) -> None:
    env = WebEnv(browser, screenshots=False)  # nobody is asked
    env.session = room
    with pytest.raises(DivergedError, match="Buy now"):
        await looked(env, site, CHANGES[how])
    assert site.sent == []
    assert (await looked(env, site, "")).observation.error is None
    assert site.sent == ["GET /look"]


HELD = {
    "a frame of another site": "<iframe src='OTHER/changing' style='position:absolute;left:0;top:0;width:90px'>",
    "a closed shadow root": "<p id=h></p><script>h.attachShadow({mode: 'closed'}).innerHTML = "
    "'<button onclick=\"fetch(`/order`)\">Pay now</button>'</script>",
    "a style": "<style>@media screen { #b::before { content: 'Pay' attr(title) } }</style>"
    "<button id=b title=' now' onclick='fetch(`/order`)'>Info</button>",
    "an option": "<select onchange='fetch(`/order`)'><option>Info<option value=x>Place order</select>",
}


@pytest.mark.parametrize("what", HELD)
async def test_what_no_name_shows_is_asked_about(site: Site, visit: Visit, what: str) -> None:
    env, _ = await visit("/changing")
    html = json.dumps(HELD[what].replace("OTHER", site.url.replace("127.0.0.1", "localhost")))
    await env.session.evaluate(f"document.write({html}); document.close()")
    await env.step(Wait(seconds=0.2))
    site.sent.clear()
    refused = await env.step(Write(mark=1, text="x") if what == "an option" else Click(point=Point(25, 20)))
    assert "did not allow" in (refused.observation.error or "")
    assert (len(site.asked), site.sent) == (1, [])


@pytest_asyncio.fixture(loop_scope="session")
async def task() -> AsyncIterator[Task]:
    async with serve_app(HTMLResponse("<title>Shop</title><a href=/bought>Buy now</a>")) as root:
        yield Task(id="t", suite="s", goal="buy", start_url=f"{root}/", allowed_hosts=(root.removeprefix("http://"),))


async def test_an_episode(browser: Browser, task: Task) -> None:
    async def bought(of: Task, action: Action, seen: Observation) -> tuple[float, bool]:
        done = seen.url == f"{of.start_url}bought"
        return float(done), done

    env: Env = WebEnv(browser, screenshots=True, evaluate=bought)
    seen = await env.reset(task, seed=0)
    assert (seen.title, seen.text) == ("Shop", "Buy now [1]")
    assert seen.screenshot is not None
    result = await env.step(Goto(url="https://elsewhere.example/"))
    assert (result.reward, result.terminated) == (0.0, False)
    told = f"elsewhere.example is not among the task's allowed hosts ({task.allowed_hosts[0]})."
    assert result.observation.error == told
    result = await env.step(Click(mark=1))
    assert (result.observation.error, result.reward, result.terminated) == (None, 1.0, True)
    await env.close()


async def test_answers_questions_and_refused_targets(browser: Browser, task: Task) -> None:
    async def user(question: str) -> str:
        return f"{question} Blue."

    env = WebEnv(browser, screenshots=False, user=user)
    await env.reset(task, seed=0)
    asked = await env.step(AskUser(question="Which colour?"))
    assert asked.observation.notices == ("The user replied: Which colour? Blue.",)
    assert not asked.terminated
    refused = await env.step(Click(target="the gift card", refusal="There is no gift card."))
    assert refused.observation.error == "There is no gift card."
    clicked = await env.step(Click(mark=1))
    assert clicked.observation.url.endswith("/bought")
    assert clicked.observation.screenshot is None
    ended = await env.step(Answer(text="done"))
    assert (ended.terminated, ended.reward) == (True, None)  # a judge must say
    alone = WebEnv(browser, screenshots=False)
    await alone.reset(task, seed=0)
    assert (await alone.step(AskUser(question="Who?"))).observation.error == "There is no user to ask."
    assert (await alone.step(Click(target="Buy now"))).observation.error is not None
    await env.close()
    await alone.close()
