"""The doctor's look at Chromium and PyTorch."""

import asyncio
import subprocess
from collections.abc import Iterator

from starlette.responses import HTMLResponse

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import ENVIRONMENT, find_chromium
from bestofq.browser.session import BrowserSession
from bestofq.cli.findings import DEADLINE, Finding, run_check
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import KINDS
from bestofq.learning.distributed import choose_device, fast_bfloat16

INSTALL_CHROMIUM = f"python -m playwright install --with-deps chromium, or name one in {ENVIRONMENT}"


def examine_tools() -> Iterator[Finding]:
    device = choose_device("auto")
    bfloat16 = "bfloat16 in hardware" if fast_bfloat16(device) else "no bfloat16 in hardware, float32 is used"
    yield Finding(what="PyTorch runs on", found=f"{device}, {bfloat16}")
    yield run_check("Chromium", _chromium, INSTALL_CHROMIUM)
    yield run_check("headless page", lambda: f"rendered from loopback: {asyncio.run(_render())}", INSTALL_CHROMIUM)
    if "webshop" not in KINDS:
        yield Finding(what="our sites", found="not installed", fix="pip install bestofq-sites", required=False)


def _chromium() -> str:
    executable = find_chromium()
    if executable is None:
        return "none on PATH; Playwright's own is used"
    command = (str(executable), "--version")
    said = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True).stdout.strip()
    return f"{said}, {executable}"


async def _render() -> str:
    site = HTMLResponse("<title>doctor</title><button>all is well</button>")  # which answers whatever is asked
    async with asyncio.timeout(DEADLINE), serve_app(site) as root, Browser.launch() as browser:
        session = BrowserSession(browser)
        await session.reset(f"{root}/")
        return (await session.snapshot()).text
