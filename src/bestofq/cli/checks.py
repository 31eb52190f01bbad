"""The doctor's look at Chromium and PyTorch."""

import asyncio
from collections.abc import Iterator

from starlette.responses import HTMLResponse

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import ENVIRONMENT, find_chromium
from bestofq.browser.session import BrowserSession
from bestofq.cli.findings import Finding
from bestofq.core.errors import BestOfQError
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import KINDS
from bestofq.learning.distributed import choose_device, fast_bfloat16

DEADLINE = 60.0  # seconds Chromium may take to start and show a page
INSTALL_CHROMIUM = f"python -m playwright install --with-deps chromium, or name one in {ENVIRONMENT}"


def examine_tools() -> Iterator[Finding]:
    device = choose_device("auto")
    bfloat16 = "bfloat16 in hardware" if fast_bfloat16(device) else "no bfloat16 in hardware, float32 is used"
    yield Finding(what="PyTorch runs on", found=f"{device}, {bfloat16}")
    try:
        yield Finding(what="Chromium", found=asyncio.run(_render()))
    except (BestOfQError, OSError) as error:
        yield Finding(what="Chromium", found=str(error) or f"none in {DEADLINE:g} s", fix=INSTALL_CHROMIUM)
    if "webshop" not in KINDS:
        yield Finding(what="our sites", found="not installed", fix="pip install bestofq-sites", required=False)


async def _render() -> str:
    executable = find_chromium() or "Playwright's own"
    site = HTMLResponse("<title>doctor</title><button>all is well</button>")  # which answers whatever is asked
    async with asyncio.timeout(DEADLINE), serve_app(site) as root, Browser.launch() as browser:
        session = BrowserSession(browser)
        await session.reset(f"{root}/")
        return f"{executable}; rendered from loopback: {(await session.snapshot()).text}"
