"""Find and start Chromium."""

import os
import shutil
import tomllib
from importlib.resources import files
from pathlib import Path

from playwright.async_api import Browser as Chromium
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright

from bestofq.browser.config import BrowserConfig
from bestofq.core.errors import SetupError

ENVIRONMENT = "BESTOFQ_CHROMIUM"
SHELL = "chromium-headless-shell"  # as Playwright takes it too without a window: starts pages faster
NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")  # the last is a stub on Ubuntu
_STARTED_WITH = tomllib.loads(files(__package__).joinpath("chromium.toml").read_text("utf-8"))


def find_chromium(*, headless: bool = True) -> Path | None:
    """`$BESTOFQ_CHROMIUM`, else on PATH. None: Playwright's own. SetupError: no program."""
    if given := os.environ.get(ENVIRONMENT):
        if not os.access(given, os.X_OK) or Path(given).is_dir():
            raise SetupError(f"{given} is no program; give a Chromium by {ENVIRONMENT}.")
        return Path(given)
    names = (SHELL, *NAMES) if headless else NAMES
    on_path = next((path for name in names if (path := shutil.which(name))), None)
    return Path(on_path) if on_path else None


def switches(config: BrowserConfig) -> list[str]:
    """Command line switches, added to Playwright's own."""
    features = ",".join(_STARTED_WITH["disabled_features"])
    return [f"--disable-features={features}", *_STARTED_WITH["switches"], *config.arguments]


async def start(playwright: Playwright, config: BrowserConfig) -> Chromium:
    """A Chromium of our own. SetupError if there is none or it does not start."""
    executable = find_chromium(headless=config.headless)
    try:
        return await playwright.chromium.launch(
            executable_path=executable,
            headless=config.headless,
            chromium_sandbox=os.geteuid() != 0,  # root cannot have it
            args=switches(config),
            timeout=4 * config.deadline * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except PlaywrightError as error:
        what = executable or "Playwright's own Chromium"
        if "No usable sandbox" in error.message:
            raise SetupError(
                f"{what} finds no usable sandbox on this machine; allow unprivileged user namespaces "
                "(`sysctl kernel.apparmor_restrict_unprivileged_userns=0`) or leave the sandbox out: "
                '--set suite.browser.arguments=["--no-sandbox"]'
            ) from error
        raise SetupError(
            f"{what} does not start ({error.message.splitlines()[0]}); install one with "
            "`python -m playwright install --with-deps chromium` or your system's package manager."
        ) from error
