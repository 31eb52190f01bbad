"""`python -m scripts.house`: the sizes that tests/test_house.py holds, as one line each.

A budget is a ratchet: lower it when a number falls, never raise it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
NOUNS = {
    "embed",
    "need",
    "speed",
    "feed",
    "seed",
    "exceed",
    "proceed",
    "shed",
    "bed",
    "red",
    "string",
    "thing",
    "ping",
    "bring",
    "setting",
    "encoding",
    "embedding",
    "padding",
    "heading",
    "rating",
    "ranking",
    "scoring",
    "pooling",
}
"""Words that end in -ed or -ing and name no participle."""
ODD = re.compile(
    r"goes on\b|gone on\b|\bgo on with\b|\bbesides?\b|\bbut for\b|\bby whose\b|\b(?:is|are) told\b|\bwherein\b"
    r"|\btells? (?:them )?apart|\bstands? (?:in|behind|there|beside|for)\b|\bof which\b|\bwhat it is of\b"
    r"|\bdear(?:er)?\b|\bmends?\b|\bunlike outcomes\b|\bthey part\b|\b(?:is|are) asked\b|\b(?:is|are) of\b"
    r"|\bcome down on\b|\bcame out\b|\bso it goes\b|\bnone of them\b.*\bis\b|\ball else\b|\bhave it that\b",
    re.IGNORECASE,
)
LONG_SENTENCE_WORDS = 28
Function = ast.FunctionDef | ast.AsyncFunctionDef


def measure() -> dict[str, int]:
    """Return every size that has a budget, by its name."""
    graph = import_graph(with_local=False)
    texts = list(iterate_prose())
    return {
        "library lines": count_lines(SRC),
        "sites lines": count_lines(ROOT / "sites"),
        "experiments lines": count_lines(ROOT / "experiments"),
        "library, sites and experiments lines": sum(
            count_lines(ROOT / name) for name in ("src", "sites", "experiments")
        ),
        "test lines": count_lines(ROOT / "tests"),
        "import depth": import_depth(graph),
        "modules in import circles": len(find_circle(import_graph(with_local=True))),
        "settings": len(setting_names()),
        "settings that nobody sets": len(unused_settings()),
        "functions named by a participle": len(participle_names()),
        "odd phrases": sum(ODD.search(sentence) is not None for text in texts for sentence in split_sentences(text))
        + sum(ODD.search(text) is not None for text in iterate_messages()),
        "long sentences": sum(
            len(sentence.split()) > LONG_SENTENCE_WORDS for text in texts for sentence in split_sentences(text)
        ),
        "class names with two meanings": len(repeated_classes()),
        "README lines": count_text_lines("README.md"),
        "CHANGELOG lines": count_text_lines("CHANGELOG.md"),
        "results lines": count_text_lines("docs/results.md"),
        "architecture lines": count_text_lines("docs/architecture.md"),
    }


def count_lines(folder: Path) -> int:
    """Return the lines of all Python files below a folder."""
    return sum(path.read_text("utf-8").count("\n") for path in folder.rglob("*.py"))


def count_text_lines(name: str) -> int:
    """Return the lines of a document."""
    return (ROOT / name).read_text("utf-8").count("\n")


@cache
def parse_library() -> dict[str, ast.Module]:
    """Return the syntax tree of every module of the library, by its dotted name."""
    paths = sorted(SRC.rglob("*.py"))
    names = [".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return {name: ast.parse(path.read_text("utf-8")) for name, path in zip(names, paths, strict=True)}


@cache
def nodes_of(tree: ast.AST) -> Sequence[ast.AST]:
    """Return a node and all nodes below it."""
    return [*ast.walk(tree)]


def import_graph(*, with_local: bool) -> dict[str, set[str]]:
    """Return the modules that each module imports at its top level.

    Args:
        with_local: also imports inside functions and "module:object" strings. Imports for types alone never count.
    """
    trees = parse_library()
    graph = {}
    for name, tree in trees.items():
        skipped = {id(node) for branch in nodes_of(tree) if is_typing_branch(branch) for node in nodes_of(branch)}
        if not with_local:
            functions = (node for node in nodes_of(tree) if isinstance(node, Function))
            skipped |= {id(node) for function in functions for node in nodes_of(function)}
        names = {
            target
            for node in nodes_of(tree)
            if id(node) not in skipped
            for target in (*imported_names(node), *(string_imports(node) if with_local else ()))
            if target in trees and target != name
        }
        graph[name] = {a for a in names if not any(b.startswith(f"{a}.") for b in names)}
    return graph


def is_typing_branch(node: ast.AST) -> bool:
    """Tell whether a node is `if TYPE_CHECKING`."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported_names(node: ast.AST) -> Iterator[str]:
    """Yield the modules that an import statement may mean."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def string_imports(node: ast.AST) -> Iterator[str]:
    """Yield the module of a text "module:object"."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"bestofq[\w.]+:\w+", node.value)
    ):
        yield node.value.partition(":")[0]


def import_depth(graph: dict[str, set[str]]) -> int:
    """Return the number of modules in the longest chain of imports."""
    depth: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        depth[name] = 1 + max((depth[target] for target in graph[name]), default=0)
    return max(depth.values())


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports, without any an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])[1:]
    return []


def iterate_functions() -> Iterator[Function]:
    """Yield every function of the library."""
    for tree in parse_library().values():
        yield from (node for node in nodes_of(tree) if isinstance(node, Function))


def participle_names() -> list[str]:
    """Return the functions whose last word is a participle or a gerund. Properties and predicates may have one."""
    names = []
    for function in iterate_functions():
        last = function.name.rpartition("_")[2]
        is_property = any("property" in ast.dump(decorator) for decorator in function.decorator_list)
        is_predicate = re.match(r"_*(?:is|has|can|on|test)_", function.name)
        if re.search(r"(?:ed|ing)$", last) and last not in NOUNS and not is_property and not is_predicate:
            names.append(function.name)
    return names


def repeated_classes() -> list[str]:
    """Return the class names that the library uses more than once."""
    nodes = (node for tree in parse_library().values() for node in nodes_of(tree))
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return [name for name, count in counts.items() if count > 1]


def iterate_prose() -> Iterator[str]:
    """Yield every docstring of the library, the README and the documents that people wrote."""
    for tree in parse_library().values():
        for node in nodes_of(tree):
            if isinstance(node, Function | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node)):
                yield text
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if path.name != "reference.md":
            yield path.read_text("utf-8")


def iterate_messages() -> Iterator[str]:
    """Yield the longer texts in the library's code."""
    for tree in parse_library().values():
        for node in nodes_of(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if len(text) > 40 and " " in text and "\n" not in text:
                    yield text


def split_sentences(text: str) -> Iterable[str]:
    """Return the sentences of a text without its code and tables."""
    text = re.sub(r"\|.*\|", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    return filter(None, map(str.strip, re.split(r"(?<=[.!?])\s+|\n\s*\n|\n\s*[-*] ", text)))


def setting_names() -> set[str]:
    """Return the dotted names of all settings, from the reference page."""
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    names = set()
    for section in page.partition("\n## Settings\n")[2].partition("\n## ")[0].split("\n### ")[1:]:
        head, _, body = section.partition("\n")
        places = re.findall(r"`([\w.]+)`", head.partition(" with ")[0]) or [""]
        rows = re.findall(r"^\| `(\w+)` ", body, flags=re.MULTILINE)
        names |= {f"{place}.{row}".removeprefix(".") for place in places for row in rows}
    return names


def unused_settings() -> list[str]:
    """Return the settings that no document, experiment, example or benchmark sets; the last word of a name decides."""
    folders = ("docs", "experiments", "examples", "benchmarks", "deploy", "sites")
    paths = [ROOT / "README.md", *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    kinds = {".md", ".py", ".toml", ".sh", ".yaml"}
    texts = [path.read_text("utf-8") for path in paths if path.suffix in kinds and path.name != "reference.md"]
    words = set(re.findall(r"(\w+)\"?\s*[=:]|`[\w.]*?(\w+)`", "\n".join(texts)))
    set_words = {word for pair in words for word in pair}
    return sorted(name for name in setting_names() if name.rpartition(".")[2] not in set_words)


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:40} {value:>7,}")  # noqa: T201
