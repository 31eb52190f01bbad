"""`bestofq run` and `bestofq collect`: an agent plays, and what came of it is shown."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import typer

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.browser.browser import Browser
from bestofq.build.agents import check_pictures, keeping_vectors, make_agent
from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.cli.options import console
from bestofq.cli.settings import kind_of, warned, with_values
from bestofq.cli.step_view import StepView, Terminal
from bestofq.core.actions import Answer
from bestofq.core.decision import Episode, Provenance
from bestofq.core.errors import ConfigError
from bestofq.envs.web import WebEnv
from bestofq.models.shipped import SHIPPED
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.run_config import policy_config
from bestofq.recipes.run_goal import UserJudge, page_task, visit
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.rows import Selection
from bestofq.rollouts.episode import EpisodeOptions
from bestofq.store.store import Store


def play_and_show(models: Models, store: Path, run: str, play: Play) -> None:
    """Play the settings' suite and keep the episodes; then what they cost."""
    named = warned(models)

    async def work() -> None:
        async with open_suite(models, named) as suite:
            with Store.open(store) as opened:
                await collect(RunContext(models, suite, opened, console), run, play)
                console.print(cost_table(agent_costs(opened, Selection(runs=[run], agents=[play.agent]))))

    asyncio.run(work())


@dataclass(frozen=True, kw_only=True)
class PageRun:
    goal: str
    url: str
    hosts: list[str] | None  # allowed besides the page's own; None: every host
    agent: str | None  # kind; None: best-of-q with `q`, else prompting
    q: Path | None
    n: int | None
    steps: int  # at most
    screenshots: bool
    headed: bool
    yes: bool  # what seems irreversible is done without asking
    interactive: bool  # there is somebody to ask


def run_on_page(models: Models, options: PageRun, store: Path) -> bool:
    """Do one thing on a web page, and show how; whether the agent answered."""
    models, chosen = _agent(models, options)
    check_pictures(models.settings, options.screenshots)
    if _is_pocket(models):
        console.print(
            "[yellow]The models that ship were made for WebShop's and MiniWoB++'s pages: elsewhere give --model and "
            "--base-url.[/]"
        )
    task = page_task(options.goal, options.url, hosts=options.hosts)
    view = StepView(console)
    terminal = Terminal(view=view, interactive=options.interactive, yes=options.yes)

    config = {**policy_config(models.settings), "q": str(options.q), "screenshots": options.screenshots}
    playing = EpisodeOptions(
        judge=UserJudge(terminal.judge),
        provenance=Provenance(version=__version__, prompt_hash=models.prompts),
        seed=models.settings.seed,
        step_limit=options.steps,
        on_decision=view.decided,
        on_step=view.stepped,
    )

    browsing = models.settings.suite.browser
    if options.headed:
        browsing = browsing.model_copy(update={"headless": False})

    async def work() -> Episode:
        with Store.open(store) as opened:
            try:
                async with Browser.launch(browsing) as browser:
                    user = terminal.reply if terminal.interactive else None
                    env = WebEnv(browser, screenshots=options.screenshots, user=user, approve=terminal.approve)
                    with view.live(), keeping_vectors(models, kind_of(chosen.name), opened.vectors):
                        episode = await visit(env, chosen, task, store=opened, config=config, options=playing)
                    view.ended(episode)
                    if refused := sorted(env.session.refused):
                        hint = ("\nThe page requested hosts that are not allowed; allow them by --hosts ", "yellow")
                        view.say(hint, ",".join(refused[:8]), ", or --any-host")
                    return episode
            finally:
                await models.close()

    try:
        episode = asyncio.run(work())
    except KeyboardInterrupt:
        console.print(f"\nstopped; the steps so far are in {store}")
        raise typer.Exit(130) from None
    return _answered(view, episode, store)


def _agent(models: Models, options: PageRun) -> tuple[Models, Agent]:
    """The agent asked for. ConfigError where it lacks a Q-function, or cannot name elements as the settings say."""
    kind = kind_of(options.agent or ("prompting" if options.q is None else "best-of-q"))
    if models.settings.reads_q(kind) and options.q is None and not _is_pocket(models):
        raise ConfigError(f"the agent {kind} needs --q, the folder of a Q-function: the one that ships is WebShop's")
    models, values = with_values(models, options.q, [kind])
    if models.settings.by == "words" and models.endpoint is None:
        raise ConfigError("--localizer needs a chat model (--model, --base-url): others name elements by marks")
    return models, make_agent(kind, models, values, n=options.n)


def _is_pocket(models: Models) -> bool:
    return models.settings.chat is None and models.settings.model.path in SHIPPED


def _answered(view: StepView, episode: Episode, store: Path) -> bool:
    """The end in words; whether the agent answered."""
    last = episode.steps[-1].decision.candidate.action if episode.steps else None
    answer = last if isinstance(last, Answer) and episode.steps[-1].terminated else None
    verdict = episode.verdict
    view.say("")
    if answer is not None:
        view.say(("answer: ", "bold green"), answer.text)
        view.say(("verdict: ", "bold"), verdict.reason or verdict.outcome)
    else:
        view.say(("no answer: ", "bold red"), verdict.reason)
        if episode.final is not None:
            view.happened(episode.final)
    view.say((f"{len(episode.steps)} steps, {view.cost}", "dim"))
    for line in view.by_role:
        view.say((line, "dim"))
    view.say(f"episode {episode.id} in {store}")
    if verdict.outcome == "unjudged":
        view.say(f"Nothing learns from it before bestofq judge --store {store} --run {episode.run} --model …")
    if verdict.outcome != "infra_error":
        view.say(f"see it: bestofq view {store}")
    return answer is not None
