"""A goal on any page, and the demo."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from bestofq.cli.options import BaseUrl, Budget, Config, Given, Model, N, Set, Stored, console


def run(
    goal: Annotated[str, Argument(help="What you want done, in words.")],
    url: Annotated[str, Option(help="The page to begin on.")],
    model: Model = None,
    base_url: BaseUrl = None,
    agent: Annotated[str | None, Option(help="Kind of agent. Default: best-of-q with --q, else prompting.")] = None,
    q: Annotated[Path | None, Option(help="Folder of a Q-function for this model.")] = None,
    n: N = None,
    steps: Annotated[int, Option(min=1, help="Steps at most.")] = 30,
    store: Stored = Path("runs/web"),
    hosts: Annotated[str, Option(help="Hosts to allow besides the page's own: a.com,*.b.com")] = "",
    any_host: Annotated[bool, Option("--any-host", help="Allow every host.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do what seems irreversible without asking.")] = False,
    headed: Annotated[bool, Option("--headed", help="Show the browser's window.")] = False,
    localizer: Annotated[
        str | None, Option(help="page, vision or page+vision: the model names elements in words, this finds them.")
    ] = None,
    screenshots: Annotated[bool, Option(help="Keep a picture of every step; chat models see it.")] = True,
    config: Config = None,
    set_: Set = None,
    budget: Budget = None,
) -> None:
    """Do one thing on any web page, and show how. Asks before it pays, sends, deletes, books or gives your data."""
    from bestofq.cli.running import PageRun, run_on_page
    from bestofq.cli.settings import models_of

    words = ("by=words", f"localizer={localizer}") if localizer else ()
    models = models_of(Given(config=config, set_=set_, model=model, base_url=base_url, budget=budget), *words)
    options = PageRun(
        goal=goal,
        url=url,
        hosts=None if any_host else [host.strip() for host in hosts.split(",") if host.strip()],
        agent=agent,
        q=q,
        n=n,
        steps=steps,
        screenshots=screenshots,
        headed=headed,
        yes=yes,
        interactive=sys.stdin.isatty() and console.is_terminal,
    )
    raise Exit(0 if run_on_page(models, options, store) else 1)


def demo(
    tasks: Annotated[int, Option(help="Held-out tasks per agent.", min=2)] = 24,
    out: Annotated[
        Path | None,
        Option(help="Folder of the episodes and the report. Default: runs/demo, with --agentq runs/demo-agentq."),
    ] = None,
    fresh: Annotated[bool, Option(help="Remove an earlier demo in --out, or continue it.")] = True,
    agentq: Annotated[
        bool, Option("--agentq", help="Agent Q instead: search, pairs, DPO, search again, on the booking site.")
    ] = False,
    config: Config = None,
    set_: Set = None,
    model: Model = None,
) -> None:
    """Watch the frozen pocket model shop in Chromium, with and without a Q-function; then learn and compare again."""
    import asyncio

    from bestofq.cli.demo import run_demo
    from bestofq.cli.demo_agent_q import SETTINGS, run_demo_agent_q
    from bestofq.cli.settings import models_of
    from bestofq.core.errors import ConfigError

    if agentq:
        models = models_of(Given(config=config, set_=set_, model=model), *SETTINGS)
        asyncio.run(run_demo_agent_q(models, console, tasks=tasks, out=out or Path("runs/demo-agentq"), fresh=fresh))
    elif config or set_ or model:
        raise ConfigError("the demo of Best-of-Q has its own settings: --config, --set and --model go with --agentq")
    else:
        asyncio.run(run_demo(console, tasks=tasks, out=out or Path("runs/demo"), fresh=fresh))
