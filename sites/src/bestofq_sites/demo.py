"""`bestofq demo`: sites whose rules no page tells, before and after Q was learned from a frozen model's episodes. With
--agentq the booking site, before and after RFT and one round of search, pairs and DPO (Agent Q, 6.2)."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

from rich.markup import escape
from rich.rule import Rule

from bestofq.cli.options import CommonOptions
from bestofq.cli.shared import models_of
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.loading import extra
from bestofq.core.observation import Split
from bestofq.core.tree import SearchTree
from bestofq.recipes.agent_q import SEARCH_RUN, grow_training_trees
from bestofq.recipes.collect import Play, collect, compare
from bestofq.recipes.policy_training import need_pairs, reinforce, step_pairs, tune
from bestofq.recipes.q_training import train_q
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.searches import search_row, search_table
from bestofq.reports.success import Grouping, agent_results, success_table
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store
from bestofq.viewer.export import export
from bestofq.viewer.server import serve
from bestofq_sites.booking.settings import BookingSettings

HELD_OUT, EXPLORED, WATCHED = "demo", "demo-explored", "demo-chromium"
IN_CHROMIUM = 4  # tasks
RANKED = "best-of-q"

LEARNING = (
    *("model.path=pocket-quirks", "suite.name=quirks", "suite.sites=4", "suite.tasks_per_site=240"),
    *("suite.train_tasks=80", "seed_runs=1"),
)
"""The demo's own settings: as in experiments/quirks, with four of its sites and 80 of its episodes."""

SEARCHING_SETTINGS = (
    *("model.path=pocket-agentq", "model.dialect=composite", "model.samples_per_candidate=2", "model.temperature=1.0"),
    "suite.name=booking",
    *("agent_q.tasks=20", "agent_q.search.iterations=10", "agent_q.search.candidates=4"),
    "agent_q.search.rollout=greedy",
    *("agent_q.rft.lr=5e-5", "agent_q.rft.precision=bfloat16"),
    *("agent_q.alpha=0.85", "agent_q.dpo.lr=5e-5", "agent_q.dpo.epochs=2", "agent_q.dpo.batch_size=8"),
)
"""The settings of --agentq: as in experiments/agentq-booking-pocket, chosen there on dev tasks, with half the trees."""
RFT_RUN = "search-rft"
BEFORE, AFTER, SEARCHING = "zero-shot", "agent-q", "agent-q + mcts"


def demo(given: CommonOptions, tasks: int | None, out: Path | None, *, fresh: bool, agentq: bool) -> None:
    """What the command `bestofq demo` does."""
    console.print(f"A frozen model of 5 million parameters; some {15 if agentq else 5} minutes on two slow cores …")
    if agentq:
        models, out = models_of(given, *SEARCHING_SETTINGS), out or Path("runs/demo-agentq")
        run_interruptible(run_demo_agent_q(models, tasks=tasks or 24, out=out, fresh=fresh))
    else:
        models, out = models_of(given, *LEARNING), out or Path("runs/demo")
        run_interruptible(run_demo(models, tasks=tasks or 40, out=out, fresh=fresh))


async def run_demo(models: Models, *, tasks: int, out: Path, fresh: bool) -> None:
    """Play held-out tasks; explore others of the same sites and learn Q; play again; some in Chromium; report."""
    _ = models.embedder  # a model that is not there is found out before an earlier demo is removed
    if fresh:
        remove_demo(out)
    text, seen = _on(models, env="text"), _on(models, env="browser", screenshots=True, concurrency=IN_CHROMIUM)
    with Store.open(out) as store, _serve_viewer(out):
        async with open_suite(text) as suite:
            console.print(Rule("1. Before: a frozen model, and tasks that it has not seen"))
            await compare(text, suite, store, HELD_OUT, Play(split="test", limit=tasks), ["prompting", "random"])
            console.print(Rule("2. It explores other tasks of the same sites; Q learns from what came of each action"))
            await collect(text, suite, store, EXPLORED, Play("explore", text.settings.seed_runs))
            console.print(Rule("3. After: the same model and tasks, and what it learned chooses"))
            values = train_q(out / "q", text, store, store.summaries(run=EXPLORED))
            await collect(text, suite, store, HELD_OUT, Play(RANKED, 1, values, "test", tasks))
        compared = Selection(runs=[HELD_OUT], baseline=BASELINE)
        results = agent_results(store, compared)
        console.print(success_table(results))
        console.print(_in_words(results, store.catalogue.count(EpisodeFilter(run=EXPLORED))), style="bold")
        console.print(Rule("4. To watch: some of these tasks in a real Chromium"))
        async with open_suite(seen) as suite:
            play = Play(values=values, split="test", limit=IN_CHROMIUM)
            await compare(seen, suite, store, WATCHED, play, ["prompting", RANKED])
        report = export(store, gather(store, compared), out / "report", title="Best-of-Q: the demo")
    console.print(f"\nThe report: [bold]{escape(str(report.resolve()))}[/bold]")
    console.print(f"Look at each step of each episode: [bold]bestofq view {escape(str(out))}[/bold]")


def _in_words(found: Grouping, episodes: int) -> str:
    """What was gained, and whether by more than chance."""
    rows = {row.agent: row for row in found.rows}
    before, gain = rows[BASELINE].success, rows[RANKED].difference
    assert before is not None
    assert gain is not None
    return (
        f"The frozen model alone solves {100 * before.mean:.0f} % of these tasks. If what {episodes} episodes taught "
        f"chooses among its candidates, the change in points is {100 * gain.mean:+.0f} "
        f"[{100 * gain.low:+.0f}, {100 * gain.high:+.0f}]: {'' if gain.clear else 'not '}more than chance."
    )


@contextmanager
def _serve_viewer(out: Path) -> Iterator[None]:
    """Serve the viewer on any free port, as long as this process lives."""

    def ready(address: str) -> None:
        console.print(f"Watch it live: [bold]{address}[/bold]")

    with Store.open(out, read_only=True) as seen:
        show = partial(serve, seen, name=Location.of(out).title, host="127.0.0.1", port=0, ready=ready)
        Thread(target=show, daemon=True).start()
        yield


async def run_demo_agent_q(models: Models, *, tasks: int, out: Path, fresh: bool, split: Split = "test") -> None:
    """Play held-out tasks in Chromium; search training tasks on the same pages as text; learn from successes and pairs;
    play again, without and with search; report. ConfigError on another suite, SetupError without the extra of DPO."""
    if not isinstance(models.settings.suite, BookingSettings):
        raise ConfigError(f"the demo of Agent Q plays on the booking site, not on {models.settings.suite.name}")
    extra("accelerate")  # before the minutes that the first steps take
    if fresh:
        remove_demo(out)
    chosen = models.settings.agent_q
    text, seen = _on(models, env="text"), _on(models, env="browser", screenshots=True, concurrency=8)

    async def play(chosen: Play) -> None:
        """One pass over held-out tasks in Chromium; what searches does so on the site as text."""
        async with open_suite(seen) as suite, open_suite(text) as simulator:
            await collect(seen, replace(suite, simulator=simulator), store, chosen.name, chosen)

    with Store.open(out) as store:
        console.print(Rule("1. Zero-shot: the model as it is, held-out tasks, real Chromium"))
        size = sum(parameter.numel() for parameter in models.local.model.parameters())
        console.print(f"{models.local.name}: {size:,} parameters, composite actions. {tasks} {split} tasks.")
        await play(Play("prompting", split=split, limit=tasks, name=BEFORE))
        console.print(success_table(agent_results(store, Selection(runs=[BEFORE]))))

        console.print(Rule("2. Search: a tree for each training task, K actions a node, ranked by the model itself"))
        trees = await _search(text, store, SEARCH_RUN, part=0)
        console.print(Rule("3. RFT: the model learns what succeeded, and searches as many other tasks"))
        policy = text.with_model(reinforce(text, trees, out / "rft"))
        trees = await _search(policy, store, RFT_RUN, part=1)

        console.print(Rule("4. Pairs of actions that differ in Q, and DPO on them"))
        pairs = list(step_pairs(policy, trees))
        need_pairs(pairs, len(trees))
        console.print(f"{len(pairs)} pairs")
        tuned = tune(policy, pairs, out / "policy")
        console.print(f"the tuned model: {tuned}")

        console.print(Rule("5. Agent Q: the tuned model on the same held-out tasks, without and with search"))
        seen = seen.with_model(tuned)
        await play(Play("prompting", split=split, limit=tasks, name=AFTER))
        search = chosen.search.model_copy(update={"iterations": 8, "stop_at_success": True})
        agent_q = chosen.model_copy(update={"search": search})
        seen = seen.with_settings(seen.settings.model_copy(update={"agent_q": agent_q}))
        await play(Play("mcts", split=split, limit=max(1, tasks // 4), name=SEARCHING))
        runs = [BEFORE, AFTER, SEARCHING]
        played = Selection(runs=runs, agents=runs, baseline=BEFORE)
        console.print(success_table(agent_results(store, played)))
        console.print(cost_table(agent_costs(store, played)).with_title("Costs: what search takes at each step counts"))
        everything = replace(played, runs=[*runs, SEARCH_RUN, RFT_RUN])
        found = gather(store, everything, alpha=chosen.alpha, threshold=chosen.threshold)
        report = export(store, found, out / "report", title="Agent Q: the demo")
    console.print(f"\nReport with the trees and replays of the episodes: [bold]{escape(str(report.resolve()))}[/bold]")
    console.print(f"{tasks} tasks tell a large difference only: read the intervals, not the means.")


def _on(models: Models, **suite: object) -> Models:
    """The same models on the site as text or in Chromium."""
    changed = models.settings.suite.model_copy(update=suite)
    checked = type(changed).model_validate(changed.model_dump())
    return models.with_settings(models.settings.model_copy(update={"suite": checked}))


async def _search(policy: Models, store: Store, run: str, *, part: int) -> list[SearchTree]:
    """Trees of the training tasks of that part, and a table of them."""
    chosen = policy.settings.agent_q
    async with open_suite(policy) as suite:
        trees = await grow_training_trees(policy, suite, store, run, part=part)
    console.print(search_table([search_row(run, trees, alpha=chosen.alpha, threshold=chosen.threshold)]))
    return trees


def remove_demo(out: Path) -> None:
    """Remove an earlier demo. InputError if the folder holds something else."""
    if out.exists():
        if not (out / "store.sqlite").exists() and any(out.iterdir()):
            raise InputError(f"{out} holds something that is no demo: give --out another folder")
        shutil.rmtree(out)
