"""Figures as PNG and PDF, by Chromium."""

import io
from pathlib import Path

import pytest
from PIL import Image

from bestofq.browser.chromium import ENVIRONMENT
from bestofq.browser.picture import SCALE, save_pictures
from bestofq.core.errors import SetupError
from bestofq.reports.figures import success_bars_svg
from bestofq.reports.stats import Interval, Measure


async def test_a_figure_is_drawn_as_large_as_it_is_and_its_text_stays_text(tmp_path: Path) -> None:
    rows = [("prompting", Measure(value=0.5, interval=Interval(low=0.4, high=0.6))), ("best-of-q", Measure(value=0.7))]
    svg = success_bars_svg(rows, "prompting")
    await save_pictures([(tmp_path / "new" / f"figure.{ending}", svg) for ending in ("png", "pdf")])
    image = Image.open(io.BytesIO((tmp_path / "new/figure.png").read_bytes())).convert("RGB")
    assert image.width == 560 * SCALE
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert image.getpixel((160 * SCALE, 50 * SCALE)) == (0xB8, 0x3A, 0x22)  # the bar of best-of-q
    pdf = (tmp_path / "new/figure.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in pdf or b"/Font" in pdf
    assert b"/Count 1" in pdf  # one page


async def test_a_chromium_that_does_not_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv(ENVIRONMENT, str(program))
    with pytest.raises(SetupError, match=r"chromium does not start \(.*\); install one with"):
        await save_pictures([(tmp_path / "figure.png", '<svg viewBox="0 0 10 10"></svg>')])
