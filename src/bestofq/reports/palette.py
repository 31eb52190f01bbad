"""The colours of every page of ours, light and dark."""

from importlib.resources import files

PALETTE = files("bestofq.reports").joinpath("templates/palette.css").read_text("utf-8")
