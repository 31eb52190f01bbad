"""The doctor's look at Chromium, PyTorch, the models that ship with the package, and WebShop's real files."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import ENVIRONMENT, find_chromium
from bestofq.build.agents import SHIPPED_Q
from bestofq.cli.doctor import Finding
from bestofq.core.errors import BestOfQError, CheckpointError
from bestofq.envs.webshop.source import load_catalogue
from bestofq.learning.checkpoint import load_networks, read_card
from bestofq.learning.distributed import choose_device, fast_bfloat16
from bestofq.models.local import SHIPPED, LocalModel, weights_hash

DEADLINE = 60.0  # seconds Chromium may take to start and show a page
INSTALL_CHROMIUM = f"python -m playwright install --with-deps chromium, or name one in {ENVIRONMENT}"


def examine(webshop: Path | None) -> Iterator[Finding]:
    yield _compute()
    yield _chromium()
    yield _rendering()
    yield from map(_model, SHIPPED)
    for model, suite in SHIPPED_Q:
        yield _q(model, suite)
    yield _webshop(webshop)


def _compute() -> Finding:
    device = choose_device("auto")
    bfloat16 = "bfloat16 in hardware" if fast_bfloat16(device) else "no bfloat16 in hardware, float32 is used"
    return Finding(what="PyTorch runs on", found=f"{device}, {bfloat16}")


def _chromium() -> Finding:
    try:
        executable = find_chromium()
        if executable is None:
            return Finding(what="Chromium", found="none on PATH; Playwright's own is used")
        command = (str(executable), "--version")
        said = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True).stdout.strip()
    except (BestOfQError, OSError, subprocess.SubprocessError) as error:
        return Finding(what="Chromium", found=str(error), fix=INSTALL_CHROMIUM)
    return Finding(what="Chromium", found=f"{said}, {executable}")


def _rendering() -> Finding:
    try:
        seen = asyncio.run(_render())
    except (BestOfQError, TimeoutError) as error:
        return Finding(what="headless page", found=str(error) or f"none in {DEADLINE:g} s", fix=INSTALL_CHROMIUM)
    return Finding(what="headless page", found=f"rendered from loopback: {seen}")


async def _render() -> str:
    """The text Chromium shows for a page of our own; BrowserError or SetupError when it does not."""

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse("<title>doctor</title><button>all is well</button>")

    server = uvicorn.Server(uvicorn.Config(Starlette(routes=[Route("/", page)]), port=0, log_level="critical"))
    async with asyncio.timeout(DEADLINE):
        listening = server.config.bind_socket()
        serving = asyncio.create_task(server.serve([listening]))
        try:
            async with Browser.launch() as browser:
                session = browser.page()
                await session.reset(f"http://127.0.0.1:{listening.getsockname()[1]}/")
                return (await session.snapshot()).text
        finally:
            server.should_exit = True
            await serving


def _model(name: str) -> Finding:
    what, folder = f"{name} model", SHIPPED[name]
    try:
        model = LocalModel.load(folder)
    except BestOfQError as error:
        return Finding(what=what, found=str(error), fix=f"git checkout -- {folder}")
    parameters = sum(p.numel() for p in model.model.parameters()) / 1e6
    return Finding(what=what, found=f"{parameters:.1f} M parameters, revision {model.revision}")


def _q(model: str, suite: str) -> Finding:
    what, folder = f"{model}'s Q-function", SHIPPED_Q[model, suite]
    try:
        card = read_card(folder)
        load_networks(folder, embed=card.embed)
        if (revision := weights_hash(SHIPPED[model])) != card.embed.revision:
            raise CheckpointError(f"made for revision {card.embed.revision} of the {model} model, this is {revision}")
    except BestOfQError as error:
        return Finding(what=what, found=str(error), fix=f"git checkout -- {folder}")
    return Finding(what=what, found=f"of {suite}, {card.step} steps, N = {card.train_n}, dim {card.embed.dim}")


def _webshop(folder: Path | None) -> Finding:
    if folder is None:
        found, fix = "no folder given", "bestofq doctor --data FOLDER"
        return Finding(what="WebShop's real files", found=found, fix=fix, required=False)
    try:
        products = load_catalogue(folder, seed=0)
    except BestOfQError as error:
        return Finding(what="WebShop's real files", found=str(error), fix="see docs/how-to.md", required=False)
    return Finding(what="WebShop's real files", found=f"{len(products)} products in {folder}")
