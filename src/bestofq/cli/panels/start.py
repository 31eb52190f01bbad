"""A goal on any page, and the demo."""

from typing import Annotated, Any

from typer import Exit, Option

from bestofq.cli.options import CommonOptions, PageRun, Place, takes


@takes("config", "set_", "budget")
def run(wanted: PageRun) -> None:
    """Do one thing on any web page, and show how. Asks before it pays, sends, deletes, books or gives your data."""
    from bestofq.cli.running import run_on_page

    raise Exit(0 if run_on_page(wanted) else 1)


@takes("config", "set_", "model")
def demo(
    given: CommonOptions,
    tasks: Annotated[
        int | None, Option(help="Held-out tasks per agent. Default: 160, with --agentq 24.", min=2)
    ] = None,
    out: Annotated[
        Place, Option(help="Folder of the episodes and the report. Default: runs/demo, with --agentq runs/demo-agentq.")
    ] = None,
    fresh: Annotated[bool, Option(help="Remove an earlier demo in --out, or continue it.")] = True,
    agentq: Annotated[
        bool, Option("--agentq", help="Agent Q instead: search, pairs, DPO, search again, on the booking site.")
    ] = False,
) -> None:
    """Watch a Q-function learn what no page tells, from a frozen model's episodes: before, after, and in Chromium."""
    from bestofq.core.plugins import load_part

    run_demo: Any = load_part("command", "demo")
    run_demo(given, tasks, out, fresh=fresh, agentq=agentq)
