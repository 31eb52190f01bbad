"""`make site`: the documents as a site in build/site, with all that they link to. A link that leads nowhere fails."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.api import api
from scripts.notebook import as_ipynb, as_page

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def linked(pages: list[Path]) -> Iterator[Path]:
    """These pages and whatever of the repository they link to, those that are pages with their own links."""
    todo, seen = pages, set[Path]()
    while todo:
        page = todo.pop().resolve()
        if page in seen:
            continue
        seen.add(page)
        yield page
        if page.suffix == ".md":
            links = LINK.findall(page.read_text("utf-8"))
            todo += [found for link in links if "://" not in link and (found := page.parent / link).is_file()]


def main() -> None:
    """The pages lie in build/pages as in the repository, so that their links hold."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for path in linked([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        copy = PAGES / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path.suffix == ".md":  # a notebook is a page here
            copy.write_text(re.sub(r"(notebooks/\w+)\.py\)", r"\1.md)", path.read_text("utf-8")), "utf-8")
    (PAGES / "docs" / "api.md").write_text(api(), "utf-8")
    for script in (ROOT / "docs" / "notebooks").glob("*.py"):
        source, page = script.read_text("utf-8"), PAGES / "docs" / "notebooks" / f"{script.stem}.md"
        page.parent.mkdir(exist_ok=True)
        page.with_suffix(".ipynb").write_text(as_ipynb(source), "utf-8")
        said = as_page(source, page.with_suffix(".svg"))
        page.write_text(f"{said}\n[The notebook]({script.stem}.ipynb), as a file for Jupyter.\n", "utf-8")
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
