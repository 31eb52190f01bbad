"""A goal on any page, and the demo."""

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from bestofq.cli.options import Given, PageRun, Place, console, takes


@takes("config", "set_", "budget")
def run(wanted: PageRun) -> None:
    """Do one thing on any web page, and show how. Asks before it pays, sends, deletes, books or gives your data."""
    from bestofq.cli.running import run_on_page

    raise Exit(0 if run_on_page(wanted) else 1)


@takes("config", "set_", "model")
def demo(
    given: Given,
    tasks: Annotated[int, Option(help="Held-out tasks per agent.", min=2)] = 24,
    out: Annotated[
        Place, Option(help="Folder of the episodes and the report. Default: runs/demo, with --agentq runs/demo-agentq.")
    ] = None,
    fresh: Annotated[bool, Option(help="Remove an earlier demo in --out, or continue it.")] = True,
    agentq: Annotated[
        bool, Option("--agentq", help="Agent Q instead: search, pairs, DPO, search again, on the booking site.")
    ] = False,
) -> None:
    """Watch the frozen pocket model shop in Chromium, with and without a Q-function; then learn and compare again."""
    import asyncio

    from bestofq.cli.demo import SETTINGS, run_demo, run_demo_agent_q
    from bestofq.cli.settings import models_of
    from bestofq.core.errors import ConfigError

    if agentq:
        models = models_of(given, *SETTINGS)
        asyncio.run(run_demo_agent_q(models, console, tasks=tasks, out=out or Path("runs/demo-agentq"), fresh=fresh))
    elif given.config or given.set_ or given.model:
        raise ConfigError("the demo of Best-of-Q has its own settings: --config, --set and --model go with --agentq")
    else:
        asyncio.run(run_demo(console, tasks=tasks, out=out or Path("runs/demo"), fresh=fresh))
