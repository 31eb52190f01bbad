"""The command line: its commands by panel, each with its module and an example.

A command's module is loaded when the command runs. Until then its source is only read: the docstring and the signature
of its function are enough for help and for parsing.
"""

import ast
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from bestofq import __version__
from bestofq.rollouts.console import console

_BOOKING = "booking --model pocket-agentq --set model.dialect=composite"
_ENDPOINT = "--model gpt-4.1 --base-url https://api.openai.com/v1"

PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "run": ("run:run", f'bestofq run "Find the opening hours" --url https://example.org {_ENDPOINT}'),
        "demo": ("demo:demo", "bestofq demo --tasks 8"),
    },
    "Best-of-Q": {
        "collect": ("collect:collect", "bestofq collect webshop --tasks 200"),
        "train": ("train:train", "bestofq train --run seed --out runs/webshop/q0"),
        "estimate": ("estimate:estimate", "bestofq estimate --q runs/webshop/q0"),
        "improve": ("improve:improve", "bestofq improve webshop --set cycles=2"),
        "eval": ("eval:evaluate", "bestofq eval webshop --agents prompting,best-of-q --tasks 100"),
    },
    "Agent Q": {
        "agent-q": ("agent_q:agent_q", f"bestofq agent-q {_BOOKING} --rounds 2"),
        "search": ("search:search", f"bestofq search {_BOOKING}"),
        "pairs": ("pairs:pairs", f"bestofq pairs {_BOOKING} --out pairs.parquet"),
        "tune": ("tune:tune", f"bestofq tune {_BOOKING} --pairs pairs.parquet --out policy-1"),
    },
    "Any agent": {"serve": ("serve:serve", "bestofq serve --upstream https://api.openai.com/v1")},
    "Look": {
        "view": ("view:view", "bestofq view runs/demo --open"),
        "report": ("report:report", "bestofq report runs/webshop --table agents"),
        "judge": ("judge:judge", "bestofq judge --store runs/web --run web --model gpt-4.1"),
    },
    "Data": {
        "tasks": ("tasks:tasks", "bestofq tasks booking --split dev --tasks 10"),
        "import": ("import_:import_", "bestofq import jsonl logs.jsonl --store runs/logs --run logs"),
        "export": ("export:export", "bestofq export steps runs/webshop --out steps.parquet"),
    },
    "Maintain": {
        "new": ("new:new", "bestofq new suite my_suite"),
        "doctor": ("doctor:doctor", "bestofq doctor"),
        "settings": ("settings:settings", "bestofq settings iql"),
    },
}
LIGHT = ("collections.abc", "functools", "pathlib", "typing", "typer", "bestofq.cli.options", "bestofq.store.location")
"""Modules that a command's signature may use before the command's own module is loaded."""
PLACES = {name: (place, panel, example) for panel in PANELS for name, (place, example) in PANELS[panel].items()}


def function_of(name: str) -> Callable[..., None]:
    """Load the module of a command; its function, whose parameters are the options."""
    module, _, function = PLACES[name][0].partition(":")
    return cast(Callable[..., None], getattr(import_module(f"bestofq.cli.{module}"), function))


@cache
def read_source(name: str) -> tuple[ast.Module, str]:
    tree = ast.parse(Path(__file__).with_name(f"{PLACES[name][0].partition(':')[0]}.py").read_text("utf-8"))
    return tree, ast.get_docstring(tree) or ""


def signature_of(name: str, tree: ast.Module) -> Callable[..., None]:
    """Return a function with the signature of a command's function. Called, it loads the module and runs the command.

    The signature may use what `LIGHT` modules export, and options like `partial(Option, …)` of its own module.
    """
    wanted, scope, nodes = PLACES[name][0].partition(":")[2], dict[str, Any](), list[ast.stmt]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            node.body = [ast.Pass()]
            nodes.append(node)
        elif (isinstance(node, ast.ImportFrom) and node.module in LIGHT) or (
            isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("partial(Option")
        ):
            nodes.append(node)
    exec(compile(ast.fix_missing_locations(ast.Module(nodes, [])), f"<signature of {name}>", "exec"), scope)

    @wraps(scope[wanted])
    def run(*args: Any, **options: Any) -> None:
        function_of(name)(*args, **options)

    return run


@cache
def load_command(name: str) -> TyperCommand:
    """Return a command, which parses its options. The docstring of its module is the help."""
    _, panel, example = PLACES[name]
    single, (tree, text) = typer.Typer(add_completion=False), read_source(name)
    single.command(name, help=text, rich_help_panel=panel, epilog=f"Example: {example}")(signature_of(name, tree))
    return cast(TyperCommand, typer.main.get_command(single))


class _LazyGroup(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, (_, panel, _) in PLACES.items():
            about = read_source(name)[1].partition("\n\n")[0]
            self.commands[name] = TyperCommand(name, help=about, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and command else command, rest


app = typer.Typer(
    name="bestofq",
    cls=_LazyGroup,
    help="Make a frozen web agent better at inference: of N proposed actions, take the one a learned Q values most.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"bestofq {__version__}", highlight=False)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None: ...
