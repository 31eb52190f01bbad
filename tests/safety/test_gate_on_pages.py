"""What seems irreversible is asked about however the page names it, also where only a picture is seen."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Click
from bestofq.envs.serving import serve_app
from bestofq.safety.irreversible import irreversible

STYLE = """<style>.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip: rect(0,0,0,0) }
.in { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden }
i { display: inline-block; width: 9px; height: 9px }</style>"""
LONG = "A long story about a kettle. " * 12
ICON = "<svg width=9 height=9></svg>"
ASKED = (
    "<button>Delete account</button>",
    f"<button aria-label='Delete account'>{ICON}</button>",
    f"<button>{ICON}<span class=sr>Delete account</span></button>",
    f"<button>{ICON}<span class=in>Place order</span></button>",
    "<button><i title='Delete row'></i></button>",
    f"<button aria-labelledby=n>{ICON}</button><div hidden id=n><span>Pay now</span></div>",
    "<button><svg width=9 height=9><title>Delete file</title></svg></button>",
    "<button><img alt='Delete photo' width=9 height=9></button>",
    "<input type=image alt='Buy now'>",
    "<button><svg data-testid=DeleteIcon width=9 height=9></svg></button>",
    f"<button data-tooltip='Delete account'>{ICON}</button>",
    f"<a href=# title='Pay now'>{ICON}</a>",
    "<div role=button tabindex=0><span class=sr>Place order</span></div>",
    f"<button><span style='font-size:0'>Delete account</span>{ICON}</button>",
    "<button style='text-indent:-999px;overflow:hidden;width:20px;height:20px'>Delete account</button>",
    "<button><i class='fa fa-trash'></i></button>",
    "<button><svg width=9 height=9><use href='#icon-trash-can'/></svg></button>",
    "<button>Info<span class=sr>Delete account</span></button>",
    "<button><i title='Delete row'></i>Info</button>",
    f"<button>{LONG} Pay now</button>",
    f"<a href=#>{LONG}<p>Pay now</p></a>",
    "<svg role=button tabindex=0 aria-label=Info width=90 height=30><text y=20>Pay now</text></svg>",
    "<input type=button aria-label=Info value='Pay now'>",
    "<label>Pay now<input type=checkbox aria-label=Info style='display:none'></label>",
    f"<form action=/order><button>{ICON}</button></form>",
)
NOT_ASKED = (
    "<button>Show details</button><a href=#t>Trash</a><button><i class='fa fa-search'></i></button>"
    f"<form><input type=search><button>{ICON}</button></form>"
)


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_named_for_some_is_asked_about(browser: Browser) -> None:
    async def page(_: Any) -> HTMLResponse:
        return HTMLResponse(f"<!doctype html>{STYLE}{''.join(ASKED)}{NOT_ASKED}")

    async with serve_app(Starlette(routes=[Route("/", page)])) as url:
        session = BrowserSession(browser)
        await session.reset(url)
        seen = await session.snapshot()
        await session.close()
    names = [(one.name, irreversible(Click(mark=one.mark), seen) is not None) for one in seen.elements]
    assert [asked for _, asked in names] == [True] * len(ASKED) + [False] * 5, names
