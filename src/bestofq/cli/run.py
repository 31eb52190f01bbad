"""Do one thing on any web page, and show how. Asks before it pays, sends, deletes, books or gives your data."""

import sys
from contextlib import aclosing
from typing import Annotated

from typer import Argument, Exit, Option

from bestofq import __version__
from bestofq.browser.browser import Browser
from bestofq.cli.options import WEB, CommonOptions, Files, N, Place, Stored, Text, takes
from bestofq.cli.shared import kind_of, models_of, store_at, with_values
from bestofq.cli.step_view import StepPrinter
from bestofq.cli.writing import usage_lines
from bestofq.config.agents import AGENTS, keeping_vectors, make_agent
from bestofq.config.models import Models, check_pictures
from bestofq.core.actions import Answer
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import Episode, Provenance
from bestofq.core.errors import ConfigError
from bestofq.core.words import count_of
from bestofq.envs.web import WebEnv
from bestofq.models.shipped import is_shipped
from bestofq.recipes.identity import policy_identity
from bestofq.recipes.run_goal import UserJudge, page_task, visit
from bestofq.rollouts.console import console
from bestofq.rollouts.episode import STEP_LIMIT, EpisodeOptions
from bestofq.store.location import Location


@takes("model", "base_url", "config", "set_", "budget")
def run(
    options: CommonOptions,
    goal: Annotated[str, Argument(help="What you want done, in words.")],
    url: Annotated[str, Option(help="The page to begin on.")],
    agent: Annotated[Text, Option(help="Kind of agent. Default: best-of-q with --q, else prompting.")] = None,
    q: Annotated[Place, Option(help="Folder of a Q-function for this model.")] = None,
    n: N = None,
    store: Stored = WEB,
    files: Files = None,
    hosts: Annotated[str, Option(help="Hosts to allow, also: a.com,*.b.com. The page's own is allowed.")] = "",
    any_host: Annotated[bool, Option("--any-host", help="Allow every host.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do what seems irreversible without asking.")] = False,
    again: Annotated[
        bool, Option("--again", help="Run although an earlier run of this goal may have done what is irreversible.")
    ] = False,
    ask_forms: Annotated[
        bool, Option("--ask-forms", help="Ask before whatever sends a form, too, whatever its button is called.")
    ] = False,
    screenshots: Annotated[bool, Option(help="Keep a picture of every step; chat models see it.")] = True,
) -> None:
    models = models_of(options)
    kind = kind_of(agent or ("prompting" if q is None else "best-of-q"))
    if AGENTS[kind].reads_q(models.settings) and q is None and not _is_pocket(models):
        raise ConfigError(f"the agent {kind} needs --q, the folder of a Q-function: the one that ships is WebShop's")
    models, values = with_values(models, q, [kind])
    if models.settings.by == "words" and models.prompted is not None:
        raise ConfigError("by=words needs a chat model (--model, --base-url): other models name elements by marks")
    chosen = make_agent(kind, models, values, n=n)
    place = Location.of(store, files)
    check_pictures(models.settings, screenshots)
    if _is_pocket(models):
        console.print(
            "[yellow]The models that ship were made for WebShop's and MiniWoB++'s pages: elsewhere give --model and "
            "--base-url.[/]"
        )
    allowed = None if any_host else [host.strip() for host in hosts.split(",") if host.strip()]
    task = page_task(goal, url, hosts=allowed)
    view = StepPrinter(console, interactive=sys.stdin.isatty() and console.is_terminal, yes=yes)
    config = {**policy_identity(models.settings), "q": str(q), "screenshots": screenshots}
    settings = EpisodeOptions(
        judge=UserJudge(view.judge),
        provenance=Provenance(version=__version__, prompt_hash=models.prompts),
        seed=models.settings.seed,
        step_limit=models.settings.suite.step_limit or STEP_LIMIT,
        on_decision=view.show_decision,
        on_step=view.show_step,
    )

    async def work() -> Episode:
        with store_at(place) as opened:
            async with aclosing(models), Browser.launch(models.settings.suite.browser) as browser:
                user = view.reply if view.interactive else None
                env = WebEnv(browser, screenshots=screenshots, user=user, approve=view.approve, forms=ask_forms)
                with view.live(), keeping_vectors(models, kind_of(chosen.name), opened.vectors):
                    episode = await visit(env, chosen, task, store=opened, config=config, options=settings, again=again)
                if refused := sorted(env.session.refused):
                    hint = ("\nThe page requested hosts that are not allowed; allow them by --hosts ", "yellow")
                    view.say(hint, ",".join(refused[:8]), ", or --any-host")
                return episode

    try:
        episode = run_interruptible(work())
    except KeyboardInterrupt:
        console.print(f"\nstopped; the steps so far are in {place}")
        raise Exit(130) from None
    raise Exit(0 if _print_answer(view, episode, place) else 1)


def _is_pocket(models: Models) -> bool:
    return models.settings.endpoint_of("chat") is None and is_shipped(models.settings.model.path)


def _print_answer(view: StepPrinter, episode: Episode, store: Location) -> bool:
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
    view.say((f"{count_of(len(episode.steps), 'step')}, {view.describe_cost(episode.usage)}", "dim"))
    for line in usage_lines(episode.usage):
        view.say((line, "dim"))
    view.say(f"episode {episode.id} in {store}")
    if verdict.outcome == "unjudged":
        view.say(f"Nothing learns from it before bestofq judge --store {store} --run {episode.run} --model …")
    if verdict.outcome != "infra_error":
        view.say(f"see it: bestofq view {store}")
    return answer is not None
