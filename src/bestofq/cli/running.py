"""`bestofq run`: one goal on any web page."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.build.agents import check_pictures, keeping_vectors, make_agent
from bestofq.build.models import Models
from bestofq.cli.asking import Asking
from bestofq.cli.choices import kind_of, models_of, with_values
from bestofq.cli.step_view import StepView
from bestofq.core.actions import Answer
from bestofq.core.decision import Episode, Provenance
from bestofq.core.errors import ConfigError
from bestofq.envs.web import WebEnv
from bestofq.models.local import SHIPPED
from bestofq.recipes.benchmark import AGENTS
from bestofq.recipes.run_config import policy_config
from bestofq.recipes.run_goal import UserJudge, page_task, visit
from bestofq.rollouts.episode import STEP_LIMIT, EpisodeOptions
from bestofq.store.store import Store


def run(
    goal: Annotated[str, typer.Argument(help="What you want done, in words.")],
    url: Annotated[str, typer.Option(help="The page to begin on.")],
    model: Annotated[
        str | None, typer.Option(help="Who proposes: with --base-url the endpoint's name, else a directory.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible endpoint, with its /v1.")] = None,
    agent: Annotated[
        str | None, typer.Option(help=f"{', '.join(AGENTS)}; none: best-of-q with --q, else prompting.")
    ] = None,
    q: Annotated[Path | None, typer.Option(help="Folder of a Q-function for this model.")] = None,
    n: Annotated[int | None, typer.Option(min=1, help="Candidates a step; none: n_candidates.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps at most.")] = STEP_LIMIT,
    store: Annotated[Path, typer.Option(help="Folder of the episodes.")] = Path("runs/web"),
    hosts: Annotated[str, typer.Option(help="Hosts to allow besides the page's own: a.com,*.b.com")] = "",
    any_host: Annotated[bool, typer.Option("--any-host", help="Allow every host.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do what seems irreversible without asking.")] = False,
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser's window.")] = False,
    localizer: Annotated[
        str | None,
        typer.Option(help="page, vision or page+vision: elements are named in words and found so."),
    ] = None,
    screenshots: Annotated[bool, typer.Option(help="Keep a picture of every step; chat models see it.")] = True,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="One setting, a.b=c; may be given again.")] = None,
) -> None:
    """Do one thing on any web page, and show how. Asks before it pays, sends, deletes, books or gives your data."""
    console = Console()
    words = ("by=words", f"localizer={localizer}") if localizer else ()
    models, chosen = _agent(models_of(config, set_, model, base_url, *words), agent, q, n)
    check_pictures(models.settings, screenshots)
    if _is_pocket(models):
        console.print(
            "[yellow]The models that ship were made for WebShop's and MiniWoB++'s pages: elsewhere give --model and "
            "--base-url.[/]"
        )
    wanted = None if any_host else [host.strip() for host in hosts.split(",") if host.strip()]
    task = page_task(goal, url, hosts=wanted)
    view = StepView(console)
    asking = Asking(view=view, interactive=sys.stdin.isatty() and console.is_terminal, yes=yes)

    async def work() -> Episode:
        with Store.open(store) as opened:
            try:
                async with Browser.launch(BrowserConfig(headless=not headed)) as browser:
                    env = WebEnv(
                        browser,
                        screenshots=screenshots,
                        user=asking.reply if asking.interactive else None,
                        approve=asking.approve,
                    )
                    with view.live(), keeping_vectors(models, kind_of(chosen.name), opened.vectors):
                        episode = await visit(
                            env,
                            chosen,
                            task,
                            store=opened,
                            config={
                                **policy_config(models.settings),
                                "q": str(q),
                                "screenshots": screenshots,
                            },
                            options=EpisodeOptions(
                                judge=UserJudge(asking.judge),
                                provenance=Provenance(version=__version__, prompt_hash=models.prompts),
                                seed=models.settings.seed,
                                step_limit=steps,
                                on_decision=view.decided,
                                on_step=view.stepped,
                            ),
                        )
                    view.ended(episode)
                    _hint(view, env.session.refused)
                    return episode
            finally:
                await models.close()

    try:
        episode = asyncio.run(work())
    except KeyboardInterrupt:
        console.print(f"\nstopped; the steps so far are in {store}")
        raise typer.Exit(130) from None
    raise typer.Exit(0 if _told(view, episode, store) else 1)


def _agent(models: Models, name: str | None, q: Path | None, n: int | None) -> tuple[Models, Agent]:
    """The agent asked for. ConfigError where it lacks a Q-function, or cannot name elements as it is told to."""
    kind = kind_of(name or ("prompting" if q is None else "best-of-q"))
    if models.settings.reads_q(kind) and q is None and not _is_pocket(models):
        raise ConfigError(f"the agent {kind} needs --q, the folder of a Q-function: the one that ships is WebShop's")
    models, values = with_values(models, q, [kind])
    if models.settings.by == "words" and models.endpoint is None:
        raise ConfigError("--localizer needs a chat model (--model, --base-url): others name elements by marks")
    return models, make_agent(kind, models, values, n=n)


def _is_pocket(models: Models) -> bool:
    return models.settings.chat is None and models.settings.model.path in SHIPPED


def _hint(view: StepView, refused: set[str]) -> None:
    if refused:
        some = ",".join(sorted(refused)[:8])
        view.say(
            ("\nThe page asked for other hosts in vain; allow them by --hosts ", "yellow"), some, ", or --any-host"
        )


def _told(view: StepView, episode: Episode, store: Path) -> bool:
    """The end in words; whether the agent answered."""
    last = episode.steps[-1].decision.candidate.action if episode.steps else None
    answer = last if isinstance(last, Answer) and episode.steps[-1].terminated else None
    verdict = episode.verdict
    view.say("")
    view.say(("answer: ", "bold green"), answer.text) if answer else view.say(
        ("no answer: ", "bold red"), verdict.reason
    )
    if answer is None and episode.final is not None:
        view.happened(episode.final)
    if answer is not None:
        view.say(("verdict: ", "bold"), verdict.reason or verdict.outcome)
    view.say((f"{len(episode.steps)} steps, {view.cost}", "dim"))
    for line in view.by_role:
        view.say((line, "dim"))
    view.say(f"episode {episode.id} in {store}")
    if verdict.outcome == "unjudged":
        view.say(f"It teaches nothing until it is judged: bestofq judge --store {store} --run {episode.run} --model …")
    if verdict.outcome != "infra_error":
        view.say(f"see it: bestofq view {store}")
    return answer is not None
