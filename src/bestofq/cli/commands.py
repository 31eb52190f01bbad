"""The command line: its commands by panel, each with an example. Nothing that a command needs is imported here."""

import logging
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from bestofq import __version__
from bestofq.cli.options import console
from bestofq.cli.panels import agent_q, best_of_q, look, maintain, other_agents, start
from bestofq.core.errors import InputError
from bestofq.core.json_lines import JsonHandler, JsonLines

_BOOKING = "booking --model pocket-agentq --set model.dialect=composite"
_ENDPOINT = "--model gpt-4.1 --base-url https://api.openai.com/v1"

PANELS: dict[str, tuple[tuple[str, Callable[..., Any], str], ...]] = {
    "Start": (
        ("run", start.run, f'bestofq run "Find the opening hours" --url https://example.org {_ENDPOINT}'),
        ("demo", start.demo, "bestofq demo --tasks 8"),
    ),
    "Best-of-Q": (
        ("collect", best_of_q.collect, "bestofq collect webshop --tasks 200"),
        ("train", best_of_q.train, "bestofq train --run seed --out runs/webshop/q0"),
        ("estimate", best_of_q.estimate, "bestofq estimate --q runs/webshop/q0"),
        ("improve", best_of_q.improve, "bestofq improve webshop --set cycles=2"),
        ("eval", best_of_q.evaluate, "bestofq eval webshop --agents prompting,best-of-q --tasks 100"),
    ),
    "Agent Q": (
        ("agent-q", agent_q.agent_q, f"bestofq agent-q {_BOOKING} --rounds 2"),
        ("search", agent_q.search, f"bestofq search {_BOOKING}"),
        ("pairs", agent_q.pairs, f"bestofq pairs {_BOOKING} --out pairs.parquet"),
        ("tune", agent_q.tune, f"bestofq tune {_BOOKING} --pairs pairs.parquet --out policy-1"),
    ),
    "Any agent": (("serve", other_agents.serve, "bestofq serve --upstream https://api.openai.com/v1"),),
    "Look": (
        ("view", look.view, "bestofq view runs/demo --open"),
        ("report", look.report, "bestofq report runs/webshop --table agents"),
        ("judge", look.judge, "bestofq judge --store runs/web --run web --model gpt-4.1"),
    ),
    "Data": (
        ("tasks", maintain.tasks, "bestofq tasks booking --split dev --tasks 10"),
        ("import", maintain.import_, "bestofq import jsonl logs.jsonl --store runs/logs --run logs"),
        ("export", maintain.export, "bestofq export steps runs/webshop --out steps.parquet"),
        ("serve-model", maintain.serve_model, "bestofq serve-model --model pocket --port 8000"),
    ),
    "Maintain": (
        ("new", maintain.new, "bestofq new suite my_suite"),
        ("doctor", maintain.doctor, "bestofq doctor"),
        ("settings", maintain.settings, "bestofq settings iql"),
    ),
}


class _Command(TyperCommand):
    """A command that says where an option of all commands stands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(one.partition("=")[0] == "--log-format" for one in args):
            raise InputError(f"--log-format stands before the command: bestofq --log-format json {self.name} …")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="bestofq",
    help="Make a frozen web agent better at inference: of N proposed actions, take the one a learned Q values most.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, commands in PANELS.items():
    for name, command, example in commands:
        app.command(name, cls=_Command, rich_help_panel=panel, epilog=f"Example: {example}")(command)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"bestofq {__version__}", highlight=False)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(
            envvar="BESTOFQ_LOG_FORMAT", help="json: messages and progress as one JSON object a line, on stderr."
        ),
    ] = "text",
) -> None:
    if log_format == "json":
        console.file, console.width = JsonLines(), 1000  # no message is broken into lines
        logging.basicConfig(level=logging.WARNING, handlers=[JsonHandler()], force=True)
