"""`python -m experiments results`: one page of all studies, from the folders that hold them."""

import json
import posixpath
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bestofq.core.errors import DataError, InputError

MADE_BY = "make results"
SHOWN = ("What it", "What failed")
"""How the headings of a README.md begin that are taken over."""


def results(
    experiments: Annotated[Path, typer.Option(help="Folder of folders, one a study, each with a README.md.")] = Path(
        "experiments"
    ),
    out: Annotated[Path, typer.Option(help="The page.")] = Path("docs/results.md"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the page is not as it would be.")
    ] = False,
) -> None:
    """Every study's question, command, table, pictures and what it shows, on one page."""
    console = Console()
    page = results_page(experiments, out)
    before = out.read_text("utf-8") if out.exists() else ""
    if check:
        if page != before:
            raise InputError(f"{out} is not what {experiments} says: run `{MADE_BY}` and commit it")
        console.print(f"{out} is up to date")
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, "utf-8")
    console.print(f"written: {out}")


def results_page(experiments: Path, out: Path) -> str:
    """The page as it is to stand at `out`, which opens with the README.md of `experiments`. DataError where the folder
    of a study has none, or that no title."""
    folders = sorted(folder for folder in experiments.glob("[!_]*") if folder.is_dir() and not is_code(folder))
    if not folders:
        raise DataError(f"{experiments} holds no folder of a study")
    titles = [(folder, _title(folder)) for folder in folders]
    lines = [
        f"<!-- Made by `{MADE_BY}` from the folders in {experiments.name}/: change those, not this page. -->",
        "# Results",
        "",
        *_opening(experiments, out.parent),
        "Each study is a folder: settings, the command, unrounded results, tables and pictures drawn from them, and "
        "what they show, what failed included. The commands here are today's; each `result.json` keeps the one that "
        "made it, which an older version may have called by another name.",
        "",
        *(_line(folder, title) for folder, title in titles),
        "",
    ]
    return "\n".join([*lines, *(_section(folder, title, out.parent) for folder, title in titles)]).rstrip() + "\n"


def is_code(folder: Path) -> bool:
    """Whether it is a Python package, not a study."""
    return (folder / "__init__.py").exists()


def _opening(experiments: Path, page: Path) -> list[str]:
    """What all studies say together, where the folder's own README.md says it."""
    readme = experiments / "README.md"
    if not readme.exists():
        return []
    text = re.sub(r"^#+ ", r"#\g<0>", readme.read_text("utf-8"), flags=re.M).rstrip()
    return [_moved(text, experiments, page), "", "## Studies", ""]


def _section(folder: Path, title: str, page: Path) -> str:
    readme = (folder / "README.md").read_text("utf-8")
    body = readme.partition("\n")[2]
    command = re.search(r"^```sh\n.*?^```$", body, re.M | re.S)
    parts = [f"## {title}", _first_paragraph(body)]
    parts += [command.group(0)] if command else []
    table = folder / "table.md"
    if table.exists():
        parts.append(_first_table(table.read_text("utf-8")))
    else:
        parts.append("" if _was_run(folder) else "There is no result yet.")
    parts += [f"![{picture.stem}]({picture.name})" for picture in sorted(folder.glob("*.svg"))]
    parts += [f"### {head}\n\n{text}" for head, text in _sections(body) if head.startswith(SHOWN)]
    parts.append(f"[The whole of it](README.md){_files(folder)}")
    text = "\n\n".join(part for part in parts if part)
    return _moved(text, folder, page) + "\n"


def _title(folder: Path) -> str:
    path = folder / "README.md"
    if not path.exists():
        raise DataError(f"{folder} has no README.md: say in it what is asked and what came out")
    first = path.read_text("utf-8").partition("\n")[0]
    if not first.startswith("# "):
        raise DataError(f"{path} does not begin with a title, `# …`")
    return first.removeprefix("# ").strip()


def _line(folder: Path, title: str) -> str:
    """A link to the study's section, whose anchor is as GitHub makes it."""
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"- [{title}](#{anchor}){'' if _was_run(folder) else ': no result yet'}"


def _was_run(folder: Path) -> bool:
    """Whether there is a result, and it does not say that nothing was run."""
    path = folder / "result.json"
    return path.exists() and "not_run" not in json.loads(path.read_text("utf-8"))


def _first_paragraph(text: str) -> str:
    return next((part.strip() for part in text.split("\n\n") if part.strip()), "")


def _first_table(text: str) -> str:
    """The first table and its notes."""
    table, _, after = text.strip().partition("\n\n")
    notes = _first_paragraph(after)
    return table if notes.startswith("|") else f"{table}\n\n{notes}"


def _sections(text: str) -> list[tuple[str, str]]:
    found = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    bodies = (re.sub(r"^!\[.*\]\(.*\)$\n?", "", body, flags=re.M).strip() for body in found[1::2])
    return list(zip(map(str.strip, found[::2]), bodies, strict=True))


def _files(folder: Path) -> str:
    names = [name for name in ("study.toml", "config.toml", "result.json") if (folder / name).exists()]
    return "".join(f", [{name}]({name})" for name in names)


def _moved(text: str, folder: Path, page: Path) -> str:
    """Relative links as they are from another folder."""
    way = posixpath.relpath(folder.resolve().as_posix(), page.resolve().as_posix())

    def moved(found: re.Match[str]) -> str:
        link = found.group(1)
        whole = "://" in link or link.startswith("#")
        return f"]({link if whole else posixpath.normpath(posixpath.join(way, link))}"

    return re.sub(r"\]\(([^)\s]+)", moved, text)
