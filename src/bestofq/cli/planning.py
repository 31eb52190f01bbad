"""`--dry-run`: what a command would do, and an estimate of its steps, tokens and dollars. It makes nothing and calls no
model; it asks each endpoint for its list of models."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import get_args

from bestofq.browser.config import TEXT_LIMIT
from bestofq.cli.findings import Finding, show_findings
from bestofq.cli.writing import check_folder
from bestofq.config.agents import AGENTS, AgentKind, embeds
from bestofq.config.context import chosen_tasks, step_limit_of
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import BestOfQError, SetupError
from bestofq.core.identity import Endpoint
from bestofq.core.observation import Split
from bestofq.core.protocols import Suite
from bestofq.core.usage import Role
from bestofq.core.words import count_of
from bestofq.envs.suites import make_suite
from bestofq.models.chat import HERE, ChatConfig, ChatModel
from bestofq.models.prices import Price, price_of
from bestofq.recipes.collect import Play
from bestofq.reports.costs import Spent
from bestofq.reports.table import Table, columns
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store

STEPS = 2 / 3  # of the limit: 20 of 30 in Best-of-Q, 300,000 transitions (A.2) of 15,112 episodes (Table 1)
PROMPT, CANDIDATE, COMPOSITE = 800, 100, 120  # tokens: instructions, goal and history; a candidate; a composite action
PIXELS, CHARACTERS = 28 * 28, 4  # a token's, of a picture and of a text
ENDPOINT_SECONDS = 15.0  # for its list of models
ASSUMED = (
    f"Assumed: {STEPS:.0%} of the steps allowed, pages as long as an observation may be, {CANDIDATE} tokens a "
    f"candidate ({COMPOSITE} a composite action). In a search each rollout draws K actions, ranks them and plays on. "
    "After the first episodes `bestofq report STORE --table costs` has the measured costs."
)
_COSTS = ("M in", "M out", "USD")
Assumed = Mapping[Role, Spent]


def plan_episodes(models: Models, store: Location, plays: Sequence[tuple[str, Play]]) -> None:
    """Print a row for each agent of each run: its episodes, how many are stored, and what the others may cost. Then
    print whether what they need is there. SetupError if something is missing, ConfigError as `AgentConfig.check`."""
    for _, play in plays:
        AGENTS[play.kind].check(models.settings)
    settings = models.settings
    suite, limit = make_suite(settings.suite), step_limit_of(settings)
    rows: list[tuple[str, ...]] = []
    every: list[tuple[int, Assumed]] = []
    with _open_if_there(store) as opened:
        for run, play in plays:
            most = play.limit or settings.suite.train_tasks
            tasks = asyncio.run(chosen_tasks(suite, settings.suite.only, play.split, most))
            keys = {(task.suite, task.id) for task in tasks}
            stored = opened.summaries(run=run, agent=play.agent, status="finished") if opened else []
            done = sum(one.key[:2] in keys and one.key.repeat < play.repeats for one in stored)
            left = len(tasks) * play.repeats - done
            every.append((left, assume_usage(settings, play.kind, limit, judged=suite.needs_judge, n=play.n)))
            sizes = (f"{len(tasks):,}×{play.repeats}", f"{done:,}", f"{left:,}", f"{left * _steps(limit):,}")
            rows.append((run, play.agent, play.split, *sizes, *_cost(every[-1:])))
    if len(rows) > 1:
        left = sum(left for left, _ in every)
        rows.append(("all", "", "", "", "", f"{left:,}", f"{left * _steps(limit):,}", *_cost(every)))
    _show(models, store, ("run", "agent", "split", "tasks", "stored", "to play", "steps", *_COSTS), rows)
    _require(models, suite, learns=any(play.split == "train" for _, play in plays))


def plan_searches(models: Models, store: Location, runs: Sequence[str], split: Split, tasks: int) -> None:
    """Print a row for each run of searches: its trees, their rollouts, how many are finished, and what the others may
    cost. Then print whether what they need is there. SetupError if something is missing."""
    settings, config = models.settings, models.settings.agent_q.search
    suite = make_suite(settings.suite)
    chosen = asyncio.run(chosen_tasks(suite, settings.suite.only, split, tasks * len(runs)))
    usage, rows = assume_search(settings, step_limit_of(settings)), []
    with _open_if_there(store) as opened:
        for number, run in enumerate(runs):
            part = chosen[number * tasks : (number + 1) * tasks]
            stored = {tree.task: tree.rollouts for tree in opened.trees.summaries(run=run)} if opened else {}
            done = sum(stored.get(task.id, 0) >= config.iterations for task in part)
            sizes = (len(part), config.iterations, config.candidates, done)
            rows.append((run, split, *(f"{size:,}" for size in sizes), *_cost([(len(part) - done, usage)])))
    _show(models, store, ("run", "split", "tasks", "rollouts", "K", "stored", *_COSTS), rows)
    _require(models, suite, learns=False)


def print_training_plan(models: Models, store: Location, runs: Sequence[str], episodes: int | None, out: Path) -> None:
    """Print how many episodes teach, and for how many steps. DataError without a store, or with too few in it."""
    from bestofq.recipes.q_training import select_episodes  # with PyTorch

    with Store.open(store, read_only=True) as opened:
        chosen = [e for e in select_episodes(opened, runs, episodes) if e.decided and e.steps]
    iql, memory = models.settings.iql, models.settings.value == "memory"
    won, steps = sum(episode.success for episode in chosen), sum(episode.steps for episode in chosen)
    count, transitions = count_of(len(chosen), "episode"), count_of(steps, "transition")
    training = f": {iql.steps:,} steps of {iql.batch_size}, discount {iql.discount:g}, expectile {iql.expectile:g}"
    console.print(
        f"{'The memory' if memory else 'IQL'} would learn from {count} of {', '.join(runs)} in "
        f"{store}, {won:,} of them successes, with {transitions}{'' if memory else training}; into {out}"
    )


def assume_usage(
    settings: BestOfQSettings, kind: AgentKind, limit: int, *, judged: bool, n: int | None = None
) -> Assumed:
    """What an episode will use, by role; nothing if a model in this process proposes."""
    chat, suite, steps = settings.endpoint_of("chat"), settings.suite, _steps(limit)
    if chat is None:
        return {}
    if kind == "mcts":  # a search before each step
        return {role: used * steps for role, used in assume_search(settings, limit).items()}
    n = 1 if kind == "prompting" else n or settings.n_candidates
    single = AGENTS[kind].log_probs or AGENTS[kind].votes or settings.model.dialect == "composite"
    calls = steps * (min(n, 2) if single else 1)  # a candidate each reply: the greedy one, then the others together
    page = PROMPT + (TEXT_LIMIT // CHARACTERS if suite.in_browser else 1000)

    def pictures(config: ChatConfig, number: int) -> int:
        wide, high = config.limits.size(suite.browser.width, suite.browser.height)
        return number * wide * high // PIXELS if suite.screenshots and config.base_url != HERE else 0

    seen = page + pictures(chat, settings.chat_screenshots)
    usage: dict[Role, Spent] = {"proposer": assume_calls(chat.price(), calls, seen, steps * n * CANDIDATE // calls)}
    if settings.localizer != "none":
        finder = settings.endpoint_of("localizer_chat") or chat
        usage["localizer"] = assume_calls(finder.price(), steps, 150 + pictures(finder, 1), 20)
    if kind == "picker":
        picker = settings.endpoint_of("picker_chat") or chat
        read = page + n * CANDIDATE + pictures(picker, 1)
        usage["critic"] = assume_calls(picker.price(), steps, read, CANDIDATE)
    if kind == "verifier":
        usage["critic"] = assume_calls(chat.price(), steps * n, seen + CANDIDATE, CANDIDATE)
    if embeds(settings, kind):
        embed = settings.model.embed
        area = suite.browser.width * suite.browser.height if suite.screenshots else 0
        state = page if embed.state == "page" else PROMPT
        read = state + min(embed.pixels, area) // PIXELS + n * CANDIDATE
        usage["embedder"] = assume_calls(price_of(settings.model.embedder or ""), steps, read, 0)
    if judged and (judge := settings.endpoint_of("judge")):
        seen = PROMPT + pictures(judge, min(settings.judge_sees, steps))
        usage["judge"] = assume_calls(judge.price(), 1, seen, CANDIDATE)
    return usage


def assume_search(settings: BestOfQSettings, limit: int) -> Assumed:
    """What a tree will use, with `limit` steps an episode; nothing if a model in this process proposes."""
    chat, chosen, page = settings.endpoint_of("chat"), settings.agent_q.search, PROMPT + 1000
    if chat is None:
        return {}
    drawn = chosen.iterations * (chosen.candidates + round(limit * STEPS))
    ranked = chosen.iterations * (chosen.candidates - 1) if settings.agent_q.feedback == "model" else 0
    price = chat.price()
    return {"proposer": assume_calls(price, drawn, page, COMPOSITE), "critic": assume_calls(price, ranked, page, 10)}


def assume_calls(price: Price, calls: int, read: int, written: int) -> Spent:
    """Return what so many calls use. Each reads and writes so many tokens."""
    usd = price.usd(calls * read, calls * written)
    unpriced = calls * (read + written) if usd is None else 0
    return Spent(calls * read, calls * written, calls, usd=usd or 0.0, unpriced=unpriced)


def _steps(limit: int) -> int:
    return max(1, round(limit * STEPS))


def _cost(uses: Sequence[tuple[int, Assumed]]) -> tuple[str, ...]:
    """Millions of tokens in and out, and USD (≥: a price is unknown) of so many episodes each; –: unknown."""
    used = [spent * left for left, usage in uses for spent in usage.values()]
    if not used:
        return ("–",) * len(_COSTS)
    total = sum(used, Spent())
    return (*(f"{tokens / 1e6:,.1f}" for tokens in (total.tokens_in, total.tokens_out)), total.dollars())


def _show(models: Models, store: Location, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    settings, chat = models.settings, models.settings.endpoint_of("chat")
    who = chat.model if chat else settings.proposer or settings.model.path
    console.print(f"{settings.suite.name}, proposals by {who}, kept in {store}", highlight=False, markup=False)
    notes = [ASSUMED] if chat else []
    console.print(Table.of("plan", "--dry-run: nothing is played", columns(*headings), rows, *notes))


def _open_if_there(store: Location) -> AbstractContextManager[Store | None]:
    check_folder(store.folder if store.is_folder else None)
    return Store.open(store, read_only=True) if store.exists else nullcontext()


def _require(models: Models, suite: Suite, *, learns: bool) -> None:
    findings = asyncio.run(preflight(models, suite, learns=learns))
    if findings and (missing := show_findings(findings, "Before the first call")):
        raise SetupError(f"{len(missing)} of the things that this needs are missing: the table says how to fix each")


async def preflight(models: Models, suite: Suite, *, learns: bool) -> list[Finding]:
    """Check endpoints, keys and the judge. `learns`: whether the run is learned from."""
    chosen = models.settings
    names = dict.fromkeys(chosen.judge if role == "judge" else role for role in get_args(Endpoint))
    used = {name: chosen.endpoints[name] for name in names if name in chosen.endpoints}
    away = {name: chat for name, chat in used.items() if chat.base_url != HERE}
    findings = list(await asyncio.gather(*(_endpoint(name, chat) for name, chat in away.items())))
    if suite.needs_judge and suite.judge is None and chosen.judge is None:
        why = "nobody says how episodes ended: they stay unjudged, and teach nothing"
        findings.append(Finding(what="judge", found=why, fix="--set endpoints.judge.model=…", required=learns))
    return findings


async def _endpoint(name: str, chat: ChatConfig) -> Finding:
    what = f"{name}: {chat.model}"
    try:
        async with ChatModel(chat.model_copy(update={"deadline": 2 * ENDPOINT_SECONDS})) as model:
            offered = await model.list_models()
    except BestOfQError as error:
        fix = f"start it there, --set endpoints.{name}.base_url=…, or export {chat.key_variable}=…"
        return Finding(what=what, found=str(error), fix=fix)
    if offered is not None and not {chat.model, f"models/{chat.model}", f"{chat.model}:latest"} & {*offered}:
        some = ", ".join(offered[:5])
        return Finding(what=what, found=f"{chat.base_url} has {some}", fix=f"--set endpoints.{name}.model={offered[0]}")
    key = "is set" if os.environ.get(chat.key_variable, "").strip() else "is not set"
    return Finding(what=what, found=f"{chat.base_url} answers; {chat.key_variable} {key}")
