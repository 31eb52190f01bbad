"""The README as PyPI shows it, where no files lie beside it. Links to them lead into the repository that `project.urls`
names as Source, or, where it names none, only their words stay."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?:|#)([^)\s]+)\)")


def pypi_readme(text: str, source: str | None) -> str:
    """`source`: the web address of the repository at this version, whose files are at `/blob/` and `/raw/` of it."""

    def elsewhere(link: re.Match[str]) -> str:
        image, words, path = link.groups()
        if source is None:
            return "" if image else words
        return f"{image}[{words}]({source}/{'raw' if image else 'blob'}/HEAD/{path})"

    return LINK.sub(elsewhere, text)


class PyPIReadme(MetadataHookInterface):
    """Called by hatchling, for wheel and sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put it into the metadata."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": pypi_readme(text, source)}
