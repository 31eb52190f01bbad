"""`bestofq run`: an agent does one thing on a web page, and how is shown."""

import sys
from contextlib import aclosing

import typer

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.browser.browser import Browser
from bestofq.cli.options import PageRun, console
from bestofq.cli.settings import kind_of, models_of, store_at, with_values
from bestofq.cli.step_view import StepPrinter
from bestofq.config.agents import check_pictures, keeping_vectors, make_agent
from bestofq.config.models import Models
from bestofq.core.actions import Answer
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import Episode, Provenance
from bestofq.core.errors import ConfigError
from bestofq.envs.web import WebEnv
from bestofq.models.shipped import is_shipped
from bestofq.recipes.run_config import policy_config
from bestofq.recipes.run_goal import UserJudge, page_task, visit
from bestofq.rollouts.episode import STEP_LIMIT, EpisodeOptions
from bestofq.store.location import Location


def run_on_page(wanted: PageRun) -> bool:
    """Do one thing on a web page, and show how; whether the agent answered."""
    models, chosen = _agent(wanted)
    check_pictures(models.settings, wanted.screenshots)
    if _is_pocket(models):
        console.print(
            "[yellow]The models that ship were made for WebShop's and MiniWoB++'s pages: elsewhere give --model and "
            "--base-url.[/]"
        )
    hosts = [host.strip() for host in wanted.hosts.split(",") if host.strip()]
    task = page_task(wanted.goal, wanted.url, hosts=None if wanted.any_host else hosts)
    view = StepPrinter(console, interactive=sys.stdin.isatty() and console.is_terminal, yes=wanted.yes)
    config = {**policy_config(models.settings), "q": str(wanted.q), "screenshots": wanted.screenshots}
    options = EpisodeOptions(
        judge=UserJudge(view.judge),
        provenance=Provenance(version=__version__, prompt_hash=models.prompts),
        seed=models.settings.seed,
        step_limit=wanted.steps or models.settings.suite.step_limit or STEP_LIMIT,
        on_decision=view.show_decision,
        on_step=view.show_step,
    )
    browsing = models.settings.suite.browser
    if wanted.headed:
        browsing = browsing.model_copy(update={"headless": False})

    async def work() -> Episode:
        with store_at(wanted.store) as store:
            async with aclosing(models), Browser.launch(browsing) as browser:
                user = view.reply if view.interactive else None
                env = WebEnv(
                    browser, screenshots=wanted.screenshots, user=user, approve=view.approve, forms=wanted.ask_forms
                )
                env.simulated_user = models.user
                with view.live(), keeping_vectors(models, kind_of(chosen.name), store.vectors):
                    episode = await visit(env, chosen, task, store=store, config=config, options=options)
                view.show_end(episode)
                if refused := sorted(env.session.refused):
                    hint = ("\nThe page requested hosts that are not allowed; allow them by --hosts ", "yellow")
                    view.say(hint, ",".join(refused[:8]), ", or --any-host")
                return episode

    try:
        episode = run_interruptible(work())
    except KeyboardInterrupt:
        console.print(f"\nstopped; the steps so far are in {wanted.store}")
        raise typer.Exit(130) from None
    return _print_answer(view, episode, wanted.store)


def _agent(wanted: PageRun) -> tuple[Models, Agent]:
    """The agent asked for. ConfigError where it lacks a Q-function, or cannot name elements as the settings say."""
    words = ("by=words", f"localizer={wanted.localizer}") if wanted.localizer else ()
    models = models_of(wanted, *words)
    kind = kind_of(wanted.agent or ("prompting" if wanted.q is None else "best-of-q"))
    if models.settings.reads_q(kind) and wanted.q is None and not _is_pocket(models):
        raise ConfigError(f"the agent {kind} needs --q, the folder of a Q-function: the one that ships is WebShop's")
    models, values = with_values(models, wanted.q, [kind])
    if models.settings.by == "words" and models.prompted is not None:
        raise ConfigError("--localizer needs a chat model (--model, --base-url): others name elements by marks")
    return models, make_agent(kind, models, values, n=wanted.n)


def _is_pocket(models: Models) -> bool:
    return models.settings.chat is None and is_shipped(models.settings.model.path)


def _print_answer(view: StepPrinter, episode: Episode, store: Location) -> bool:
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
            view.show_outcome(episode.final)
    view.say((f"{len(episode.steps)} steps, {view.cost}", "dim"))
    for line in view.by_role:
        view.say((line, "dim"))
    view.say(f"episode {episode.id} in {store}")
    if verdict.outcome == "unjudged":
        view.say(f"Nothing learns from it before bestofq judge --store {store} --run {episode.run} --model …")
    if verdict.outcome != "infra_error":
        view.say(f"see it: bestofq view {store}")
    return answer is not None
