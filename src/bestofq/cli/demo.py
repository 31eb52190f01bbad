"""Watch a Q-function learn what no page tells, from a frozen model's episodes: before, after, and in Chromium."""

from typing import Annotated, Any

from typer import Option

from bestofq.cli.options import CommonOptions, Place, takes
from bestofq.core.loading import load_part


@takes("config", "set_", "model")
def demo(
    options: CommonOptions,
    tasks: Annotated[int | None, Option(help="Held-out tasks per agent. Default: 40, with --agentq 24.", min=2)] = None,
    out: Annotated[
        Place, Option(help="Folder of the episodes and the report. Default: runs/demo, with --agentq runs/demo-agentq.")
    ] = None,
    fresh: Annotated[bool, Option(help="Remove an earlier demo in --out, or continue it.")] = True,
    agentq: Annotated[
        bool, Option("--agentq", help="Agent Q instead: search, pairs, DPO, search again, on the booking site.")
    ] = False,
) -> None:
    run_demo: Any = load_part("command", "demo")
    run_demo(options, tasks, out, fresh=fresh, agentq=agentq)
