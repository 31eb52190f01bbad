"""SVG as PNG and PDF, drawn by Chromium as a browser shows them."""

import re
from collections.abc import Iterable
from pathlib import Path

from playwright.async_api import async_playwright

from bestofq.browser.chromium import start
from bestofq.browser.config import BrowserConfig

FORMATS = (".png", ".pdf")
SCALE = 3  # pixels of a PNG to a unit of the SVG: 1,680 for a figure of 560


async def save_pictures(pictures: Iterable[tuple[Path, str]]) -> None:
    """Write each SVG in the format of the file's ending (`FORMATS`), as large as its viewBox, on white in light
    colours. A PDF's text stays text. SetupError without a Chromium that starts."""
    async with async_playwright() as playwright:
        chromium = await start(playwright, BrowserConfig(arguments=("--no-sandbox",)))  # no script runs in it
        page = await chromium.new_page(device_scale_factor=SCALE, color_scheme="light", java_script_enabled=False)
        for path, svg in pictures:
            size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
            assert size is not None, "a figure has a viewBox"
            width, height = round(float(size[1])), round(float(size[2]))
            await page.set_viewport_size({"width": width, "height": height})
            await page.set_content(f"<style>*{{margin:0}} svg{{display:block;width:{width}px}}</style>{svg}")
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".png":
                await page.screenshot(path=path)
            else:
                await page.pdf(path=path, width=f"{width}px", height=f"{height}px", print_background=True)
        await chromium.close()
