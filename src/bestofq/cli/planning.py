"""`--dry-run`: what a command would do and cost, and whether what it needs is there. It makes nothing.

The cost of an episode is the mean of those stored, or follows from stated assumptions. It calls no model,
except to see the tokens of a policy to be tuned. It opens the start pages of live sites.
"""

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args
from urllib.parse import urlsplit

from rich.table import Table

from bestofq.cli.findings import Finding, show_findings
from bestofq.config.agents import AGENTS, AgentKind, check_agent, reads_q
from bestofq.config.context import chosen_tasks, step_limit_of
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Episode
from bestofq.core.errors import BestOfQError, SetupError
from bestofq.core.identity import Endpoint
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import EnvFactory, Suite
from bestofq.core.tree import SearchTree
from bestofq.core.usage import Role, Usage, merge_usage
from bestofq.envs.suites import make_suite
from bestofq.models.chat import HERE, ChatConfig, ChatModel
from bestofq.models.prices import price_of
from bestofq.models.shipped import find_model
from bestofq.recipes.collect import Play
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store

MEASURED_EPISODES = 50  # stored ones whose mean is taken
STEPS = 2 / 3  # of the limit: 20 of 30 in Best-of-Q, 300,000 transitions (A.2) of 15,112 episodes (Table 1)
STEP_SECONDS, CALL_SECONDS = 10.0, 5.0  # a step with its page, proposal and localizer; a call of a search
PROMPT, CANDIDATE, COMPOSITE = 800, 100, 120  # tokens: instructions, goal and history; a candidate; a composite action
PIXELS, CHARACTERS = 28 * 28, 4  # a token's, of a picture and of a text
STEP_BYTES, ACTION_BYTES = 150_000, 5_000  # of a step with screenshot and vectors; of a tree's action with its page
ENDPOINT_SECONDS = 15.0  # for its list of models
BATCH_BYTES = 3e9  # of an embedder's batch of pictures, in addition to its weights
ASSUMED = (
    f"Rows without stored episodes are assumed: {STEPS:.0%} of the steps allowed, {STEP_SECONDS:g} s a step, pages as "
    f"long as an observation may be, {CANDIDATE} tokens a candidate. Later the same command uses stored episodes."
)
ASSUMED_TREE = (
    f"Assumed, as no tree is stored: {STEPS:.0%} of the steps allowed in a rollout, each a draw, after K draws and "
    f"K - 1 rankings; {CALL_SECONDS:g} s and {COMPOSITE} tokens a call. Later the same command uses stored trees."
)
_TOTALS = ("M in", "M out", "USD", "hours")


class Use(NamedTuple):
    """What an episode or a tree uses, on average."""

    usage: Sequence[Usage]  # by role; sums over `items`
    items: float
    seconds: float
    steps: float

    @property
    def usd(self) -> float:
        """The part whose price is known."""
        return sum(used.usd or 0.0 for used in self.usage) / self.items

    @property
    def priced(self) -> bool:
        return all(used.usd is not None for used in self.usage if used.tokens_in or used.tokens_out)

    @property
    def tokens(self) -> tuple[float, float]:
        """Read and written."""
        read, written = sum(used.tokens_in for used in self.usage), sum(used.tokens_out for used in self.usage)
        return read / self.items, written / self.items


def plan_episodes(models: Models, store: Location, plays: Sequence[tuple[str, Play]]) -> None:
    """Print a row for each agent of each run: its episodes, how many are stored, and what the others may cost. Then
    print whether what they need is there. SetupError if something is missing, ConfigError as `check_agent`."""
    for _, play in plays:
        check_agent(play.kind, models)
    settings = models.settings
    suite, limit = make_suite(settings.suite), step_limit_of(settings)
    rows: list[tuple[str, ...]] = []
    wanted: dict[str, Task] = {}
    uses: list[tuple[int, Use]] = []
    assumed = False
    with _open_if_there(store) as opened:
        for run, play in plays:
            tasks = _tasks(models, play.split, play.limit or settings.suite.train_tasks)
            wanted |= {task.id: task for task in tasks}
            keys = {(task.suite, task.id) for task in tasks}
            stored = opened.summaries(run=run, agent=play.agent, status="finished") if opened else []
            done = [episode for episode in stored if episode.key[:2] in keys and episode.key.repeat < play.repeats]
            left, use = len(tasks) * play.repeats - len(done), None
            if opened and (some := done[:MEASURED_EPISODES]):
                seconds = sum(episode.seconds or 0.0 for episode in some) / len(some)
                use = measure_use([opened.episode(episode.id) for episode in some], seconds)
            elif use := assume_use(settings, play.kind, limit, judged=suite.needs_judge, n=play.n):
                assumed = True
            here = [(left, use)] if use else []
            uses += here
            sizes = (f"{len(tasks):,}×{play.repeats}", f"{len(done):,}", f"{left:,}")
            rows.append((run, play.agent, play.split, *sizes, *_cost(settings, here)))
    if len(uses) > 1:
        rows.append(("all", "", "", "", "", f"{sum(left for left, _ in uses):,}", *_cost(settings, uses)))
    _show(models, store, ("run", "agent", "split", "tasks", "stored", "to play", *_TOTALS), rows)
    if uses:
        at_once = f"hours of play, {_at_once(settings)} episodes at once"
        console.print(f"Millions of tokens; {at_once}: learning takes more.", highlight=False)
    if assumed:
        console.print(ASSUMED, highlight=False)
    learns = any(play.split == "train" for _, play in plays)
    embeds = any(reads_q(settings, play.kind) for _, play in plays)
    room = sum(left * use.steps * STEP_BYTES for left, use in uses) if settings.suite.screenshots else 0.0
    _require(
        asyncio.run(preflight(models, suite, [*wanted.values()], store, stored=room, learns=learns, embeds=embeds))
    )


def plan_searches(models: Models, store: Location, runs: Sequence[str], split: Split, tasks: int) -> None:
    """Print a row for each run of searches: its trees, their rollouts, how many are stored, and what the others may
    cost. Then print whether what they need is there. SetupError if something is missing."""
    settings, config = models.settings, models.settings.agent_q.search
    suite, chosen = make_suite(settings.suite), _tasks(models, split, tasks * len(runs))
    parts = {run: chosen[number * tasks : (number + 1) * tasks] for number, run in enumerate(runs)}
    with _open_if_there(store) as opened:
        trees = {
            run: [tree for task in part if opened and (tree := opened.trees.load(run, task.suite, task.id))]
            for run, part in parts.items()
        }
    known = [tree for some in trees.values() for tree in some]
    use = measure_trees(known, config.iterations) or assume_tree(settings, step_limit_of(settings))
    rows, room = [], 0.0
    for run, part in parts.items():
        left = len(part) - len(trees[run])
        sizes = (len(part), config.iterations, config.candidates, len(trees[run]))
        rows.append((run, split, *(f"{size:,}" for size in sizes), *_cost(settings, [(left, use)] if use else [])))
        room += left * config.iterations * config.candidates * ACTION_BYTES
    _show(models, store, ("run", "split", "tasks", "rollouts", "K", "stored", *_TOTALS), rows)
    if settings.chat is None:
        return
    console.print(f"By the {len(known):,} trees stored." if known else ASSUMED_TREE, highlight=False)
    checks = asyncio.run(preflight(models, suite, chosen, store, stored=room, learns=False, embeds=False))
    _require([*checks, *asyncio.run(check_tuning(models))])


def print_training_plan(models: Models, store: Location, runs: Sequence[str], episodes: int | None, out: Path) -> None:
    """Print how many episodes teach, and for how many steps. DataError without a store, or with too few in it."""
    from bestofq.recipes.q_training import select_episodes  # with PyTorch

    with Store.open(store, read_only=True) as opened:
        chosen = [e for e in select_episodes(opened, runs, episodes) if e.decided and e.steps]
    iql = models.settings.iql
    won, steps = sum(episode.success for episode in chosen), sum(episode.steps for episode in chosen)
    console.print(
        f"IQL would learn from {len(chosen):,} episodes of {', '.join(runs)} in {store}, {won:,} of them successes, "
        f"with {steps:,} transitions: {iql.steps:,} steps of {iql.batch_size}, discount {iql.discount:g}, expectile "
        f"{iql.expectile:g}; into {out}"
    )


def measure_use(episodes: Sequence[Episode], seconds: float) -> Use:
    """What one or more stored episodes used, of `seconds` on average."""
    judging = (used for episode in episodes if episode.verdict.judge for used in episode.verdict.usage)
    usage = merge_usage([*(used for episode in episodes for used in episode.usage), *judging])
    return Use(usage, len(episodes), seconds, sum(len(episode.steps) for episode in episodes) / len(episodes))


def assume_use(
    settings: BestOfQSettings, kind: AgentKind, limit: int, *, judged: bool, n: int | None = None
) -> Use | None:
    """What an episode will use; None if a model in this process proposes, whose speed is unknown."""
    chat, suite, steps = settings.endpoint_of("chat"), settings.suite, max(1, round(limit * STEPS))
    if chat is None:
        return None
    if kind == "mcts" and (tree := assume_tree(settings, limit)):  # before each step
        return tree._replace(items=1 / steps, seconds=steps * tree.seconds, steps=steps)
    n = 1 if kind == "prompting" else n or settings.n_candidates
    single = AGENTS[kind].log_probs or AGENTS[kind].votes or settings.model.dialect == "composite"
    calls = steps * (min(n, 2) if single else 1)  # a candidate each reply: the greedy one, then the others together
    page = PROMPT + (suite.browser.text_limit // CHARACTERS if suite.in_browser else 1000)
    usage = list[Usage]()

    def pictures(config: ChatConfig, number: int) -> int:
        wide, high = config.limits.size(suite.browser.width, suite.browser.height)
        return number * wide * high // PIXELS if suite.screenshots and config.base_url != HERE else 0

    def add(role: Role, config: ChatConfig, read: int, written: int, calls: int) -> None:
        usage.append(count_usage(role, config, calls * read, calls * written, calls))

    add("proposer", chat, page + pictures(chat, settings.chat_screenshots), steps * n * CANDIDATE // calls, calls)
    if settings.localizer not in ("none", "page"):
        finder, sees = settings.endpoint_of("localizer_chat") or chat, settings.localizer.endswith("vision")
        add("localizer", finder, 150 + pictures(finder, 1) if sees else page, 20, steps)
    if kind == "picker":
        picker = settings.endpoint_of("picker_chat") or chat
        add("critic", picker, page + n * CANDIDATE + pictures(picker, 1), CANDIDATE, steps)
    if kind == "verifier":
        add("critic", chat, page + CANDIDATE + pictures(chat, settings.chat_screenshots), CANDIDATE, steps * n)
    if reads_q(settings, kind):
        embed = settings.model.embed
        area = suite.browser.width * suite.browser.height if suite.screenshots else 0
        state = page if embed.state == "page" else PROMPT
        read = steps * (state + min(embed.pixels, area) // PIXELS + n * CANDIDATE)
        usd = price_of(settings.model.embedder or "").usd(read, 0)
        usage.append(Usage(role="embedder", tokens_in=read, tokens_out=0, calls=steps, usd=usd))
    if judged and (judge := settings.endpoint_of("judge")):
        add("judge", judge, PROMPT + pictures(judge, min(settings.judge_sees, steps)), CANDIDATE, 1)
    return Use(usage, 1, steps * STEP_SECONDS, steps)


def measure_trees(trees: Sequence[SearchTree], rollouts: int) -> Use | None:
    """What a tree of so many rollouts uses, by stored ones; None without any rollout."""
    done = sum(tree.visits[0] for tree in trees) / rollouts
    usage = merge_usage([used for tree in trees for used in tree.usage])
    return Use(usage, done, sum(used.seconds for used in usage) / done, 0) if done else None


def assume_tree(settings: BestOfQSettings, limit: int) -> Use | None:
    """What a tree will use, with `limit` steps an episode; None if a model in this process proposes."""
    chat, chosen, page = settings.endpoint_of("chat"), settings.agent_q.search, PROMPT + 1000
    if chat is None:
        return None
    drawn = chosen.iterations * (chosen.candidates + round(limit * STEPS))
    ranked = chosen.iterations * (chosen.candidates - 1) if settings.agent_q.feedback == "model" else 0
    proposing = count_usage("proposer", chat, drawn * page, drawn * COMPOSITE, drawn)
    ranking = count_usage("critic", chat, ranked * page, ranked * 10, ranked)
    return Use([proposing, ranking], 1, (drawn + ranked) * CALL_SECONDS, 0)


def count_usage(role: Role, config: ChatConfig, read: int, written: int, calls: int) -> Usage:
    return Usage(role=role, tokens_in=read, tokens_out=written, calls=calls, usd=config.price().usd(read, written))


def _cost(settings: BestOfQSettings, uses: Sequence[tuple[int, Use]]) -> tuple[str, str, str, str]:
    """Millions of tokens in and out, USD (≥: a price is unknown) and hours of so many episodes each; –: unknown."""
    if not uses:
        return ("–",) * 4
    read, written = (sum(left * use.tokens[way] for left, use in uses) / 1e6 for way in (0, 1))
    usd, hours = sum(left * use.usd for left, use in uses), sum(left * use.seconds for left, use in uses) / 3600
    shown = f"{usd:,.0f}" if usd > 100 else f"{usd:.2g}"
    dollars = shown if all(use.priced for _, use in uses) else f"≥{shown}" if usd else "–"
    millions = [f"{tokens:,.{0 if tokens > 100 else 1}f}" for tokens in (read, written)]
    return millions[0], millions[1], dollars, f"{hours / _at_once(settings):,.1f}"


def _at_once(settings: BestOfQSettings) -> int:
    """Episodes that are played at the same time."""
    chat = settings.endpoint_of("chat")
    return min(settings.suite.at_once, chat.concurrency if chat else settings.suite.at_once)


def _show(models: Models, store: Location, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title="--dry-run: nothing is played", title_justify="left", padding=(0, 0, 0, 1))
    for heading in headings:
        word = heading in ("run", "agent", "split")
        table.add_column(heading, justify="left" if word else "right", overflow="fold", no_wrap=word)
    for row in rows:
        table.add_row(*row)
    settings = models.settings
    chat = settings.endpoint_of("chat")
    who = chat.model if chat else settings.model.path
    console.print(f"{settings.suite.name}, proposals by {who}, kept in {store}", highlight=False, markup=False)
    console.print(table)


def _tasks(models: Models, split: Split, limit: int) -> Sequence[Task]:
    suite = models.settings.suite
    return asyncio.run(chosen_tasks(make_suite(suite), suite.only, split, limit))


def _open_if_there(store: Location) -> AbstractContextManager[Store | None]:
    return Store.open(store, read_only=True) if store.exists else nullcontext()


def _require(findings: Sequence[Finding]) -> None:
    if findings and (missing := show_findings(findings, "Before the first call")):
        raise SetupError(f"{len(missing)} of the things that this needs are missing: the table says how to fix each")


async def preflight(
    models: Models, suite: Suite, tasks: Sequence[Task], store: Location, *, stored: float, learns: bool, embeds: bool
) -> list[Finding]:
    """Check endpoints and keys, sites and their hosts, disk and memory. `stored`: bytes to be kept. `learns`: whether
    the run is learned from. `embeds`: whether an embedder is loaded."""
    chosen = models.settings
    names = dict.fromkeys(chosen.judge if role == "judge" else role for role in get_args(Endpoint))
    used = {name: chosen.endpoints[name] for name in names if name in chosen.endpoints}
    away = {name: chat for name, chat in used.items() if chat.base_url != HERE}
    findings = list(await asyncio.gather(*(_endpoint(name, chat) for name, chat in away.items())))
    findings += [_room(name, chat.model, chosen.model.device) for name, chat in used.items() if name not in away]
    if suite.needs_judge and suite.judge is None and chosen.judge is None:
        why = "nobody says how episodes ended: they stay unjudged, and teach nothing"
        findings.append(Finding(what="judge", found=why, fix="--set endpoints.judge.model=…", required=learns))
    if not suite.sandboxed:
        findings += await _sites(suite, tasks, chosen.suite.at_once)
    if stored:
        findings.append(_disk(store, stored))
    if embeds and chosen.model.embedder and ":" not in chosen.model.embedder:
        findings.append(_room("embedder", chosen.model.embedder, chosen.model.device))
    return findings


async def check_tuning(models: Models) -> list[Finding]:
    """Check by a few calls whether the endpoint gives the tokens that tuning needs, if it sets `token_ids`."""
    chosen = models.settings
    chat = chosen.endpoint_of("chat")
    if chat is None or not chat.token_ids:
        return []
    tokens = replace(await _endpoint("chat", chat), what="token ids")
    if not tokens.fix:  # else nobody answers, and would be asked for a minute
        try:
            async with aclosing(models):
                await models.check_token_ids()
            tokens = replace(tokens, found="come with their log-probabilities, at temperature 1")
        except BestOfQError as error:
            tokens = replace(tokens, found=str(error), fix="see docs/how-to/agent-q.md")
    return [tokens]


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


async def _sites(suite: Suite, tasks: Sequence[Task], at_once: int) -> list[Finding]:
    """A row for each start page that does not open, or asked for other hosts; one for all others."""
    first = {urlsplit(task.start_url).netloc: task for task in reversed(tasks)}
    turns = asyncio.Semaphore(at_once)

    async def look(host: str, task: Task, make_env: EnvFactory) -> Finding | None:
        async with turns:
            env = await make_env()
            try:
                refused = (await env.reset(task, seed=task.seed)).refused or ()
            except BestOfQError as error:
                fix = f"leave it out: --set suite.only=…, or open {host}"
                return Finding(what=f"site {host}", found=str(error), fix=fix)
            finally:
                await env.close()
        more = ", ".join(f"'{name}'" for name in refused[:6])
        what = f"opens; {len(refused)} hosts it asked for are not allowed"
        fix = f'--set "suite.allow=[{more}]", if the page lacks them'
        return Finding(what=f"site {host}", found=what, fix=fix, required=False) if refused else None

    try:
        async with suite.open() as make_env:
            rows = await asyncio.gather(*(look(host, task, make_env) for host, task in sorted(first.items())))
    except BestOfQError as error:
        return [Finding(what="sites", found=str(error), fix="bestofq doctor")]
    opened = sum(row is None or not row.required for row in rows)
    free = sum(not task.allowed_hosts for task in tasks)
    held = f"{len(tasks) - free:,} tasks are held to their hosts, {free:,} to none"
    return [Finding(what="sites", found=f"{opened} of {len(rows)} start pages open; {held}"), *filter(None, rows)]


def _disk(store: Location, needed: float) -> Finding:
    place = next(folder for folder in (store.folder.absolute(), *store.folder.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    fix = f"free {(needed - free) / 1e9:,.1f} GB there, or give another folder" if free < needed else ""
    sizes = f"{free / 1e9:,.1f} GB free in {place}, about {needed / 1e9:,.1f} needed"
    return Finding(what="disk", found=sizes, fix=fix)


def _room(role: str, name: str, device: str) -> Finding:
    from bestofq.models.checkpoints import room_for  # with PyTorch

    what = f"{role}: {name}"
    try:
        room = room_for(str(find_model(name)), device)
    except (RuntimeError, AssertionError) as error:  # PyTorch's own, of a device that is not there
        return Finding(what=what, found=str(error).partition("\n")[0], fix="--set model.device=cpu")
    has = f"{room.device} has {room.free / 1e9:,.1f} GB"
    if room.needed is None:
        return Finding(what=what, found=f"{has}; its size is unknown until it is there")
    needed = room.needed + BATCH_BYTES
    fix = "--set model.device=…, or another model" if needed > room.free else ""
    return Finding(what=what, found=f"{has}, about {needed / 1e9:,.1f} needed", fix=fix)
