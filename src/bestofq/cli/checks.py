"""The doctor's look at Chromium, PyTorch and the models that ship with the package."""

import asyncio
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from starlette.responses import HTMLResponse

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import ENVIRONMENT, find_chromium
from bestofq.browser.session import BrowserSession
from bestofq.cli.findings import DEADLINE, Finding, run_check
from bestofq.core.errors import CheckpointError
from bestofq.core.loading import list_plugins
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import KINDS
from bestofq.learning.checkpoint import load_networks, read_card
from bestofq.learning.distributed import choose_device, fast_bfloat16
from bestofq.models.checkpoints import weights_hash
from bestofq.models.local import LocalModel
from bestofq.models.shipped import find_model, find_q

INSTALL_CHROMIUM = f"python -m playwright install --with-deps chromium, or name one in {ENVIRONMENT}"


def examine_models() -> Iterator[Finding]:
    device = choose_device("auto")
    bfloat16 = "bfloat16 in hardware" if fast_bfloat16(device) else "no bfloat16 in hardware, float32 is used"
    yield Finding(what="PyTorch runs on", found=f"{device}, {bfloat16}")
    yield run_check("Chromium", _chromium, INSTALL_CHROMIUM)
    yield run_check("headless page", lambda: f"rendered from loopback: {asyncio.run(_render())}", INSTALL_CHROMIUM)
    for name in list_plugins("model"):
        folder = Path(find_model(name))
        yield run_check(f"{name} model", partial(_model, folder), f"git checkout -- {folder}")
    for name in list_plugins("q_function"):
        model, _, suite = name.rpartition(".")
        folder = find_q(model, suite) or Path()
        look = partial(_q, Path(find_model(model)), suite, folder)
        yield run_check(f"{model}'s Q-function", look, f"git checkout -- {folder}")
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
    """The text Chromium shows for a page of our own; BrowserError or SetupError when it does not."""
    site = HTMLResponse("<title>doctor</title><button>all is well</button>")  # which answers whatever is asked
    async with asyncio.timeout(DEADLINE), serve_app(site) as root, Browser.launch() as browser:
        session = BrowserSession(browser)
        await session.reset(f"{root}/")
        return (await session.snapshot()).text


def _model(folder: Path) -> str:
    model = LocalModel.load(folder)
    parameters = sum(p.numel() for p in model.model.parameters()) / 1e6
    return f"{parameters:.1f} M parameters, revision {model.revision}"


def _q(model: Path, suite: str, folder: Path) -> str:
    card = read_card(folder)
    load_networks(folder, embed=card.embed)
    if (revision := weights_hash(model)) != card.embed.revision:
        raise CheckpointError(f"made for revision {card.embed.revision} of the {model.name} model, this is {revision}")
    return f"of {suite}, {card.step} steps, N = {card.train_n}, dim {card.embed.dim}"
