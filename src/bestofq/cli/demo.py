"""`bestofq demo`, in a real Chromium: a frozen model shops with and without a Q-function; then the loop, small. With
--agentq the booking site, before and after RFT and one round of search, pairs and DPO (Agent Q, 6.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule

from bestofq.build.agents import POCKET_Q
from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.cli.writing import make_room
from bestofq.core.errors import ConfigError
from bestofq.core.loading import extra
from bestofq.core.observation import Split
from bestofq.core.tree import SearchTree
from bestofq.envs.booking.settings import BookingSettings
from bestofq.envs.webshop.settings import WebShopSettings
from bestofq.learning.checkpoint import export_value, load_networks, load_value, read_card
from bestofq.learning.iql import train_iql
from bestofq.recipes.agent_q import SEARCH_RUN, search_training
from bestofq.recipes.best_of_q import transitions
from bestofq.recipes.collect import AGENTS, Play, collect, collected, compare
from bestofq.recipes.policy_training import need_pairs, reinforce, step_pairs, tune
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.diagnosis import Options
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.searches import search_row, search_table
from bestofq.reports.success import agent_results, success_table
from bestofq.search.pairs import node_pairs
from bestofq.store.store import Store
from bestofq.viewer.export import export

HELD_OUT = "demo"
AGAIN = "demo-after-learning"
COLLECTED = "demo-collected"

SETTINGS = (
    *("model.path=pocket-agentq", "model.dialect=composite", "model.samples_per_candidate=2", "model.temperature=1.0"),
    "suite.name=booking",
    *("agent_q.reference=rft", "agent_q.tasks=20", "agent_q.search.iterations=10", "agent_q.search.candidates=4"),
    *("agent_q.inference.iterations=8", "agent_q.inference.candidates=4", "agent_q.inference.stop_at_success=true"),
    *("agent_q.search.rollout=greedy", "agent_q.inference.rollout=greedy"),
    *("agent_q.rft.lr=5e-5", "agent_q.rft.precision=bfloat16"),
    *("agent_q.alpha=0.85", "agent_q.dpo.lr=5e-5", "agent_q.dpo.epochs=2", "agent_q.dpo.batch_size=8"),
)
"""What the demo sets apart from the defaults: as in experiments/agentq-booking-pocket, chosen there on dev tasks, with
half the trees."""
RFT_RUN = "search-rft"
BEFORE, AFTER, SEARCHING = "zero-shot", "agent-q", "agent-q + mcts"


async def run_demo(console: Console, *, tasks: int, out: Path, fresh: bool) -> None:
    """Compare on held-out tasks; collect with ε-greedy; train the shipped Q further; compare again; report."""
    if fresh:
        make_room(out)
    card = read_card(POCKET_Q)
    gently = {"steps": 400, "lr_q": 3e-5, "lr_v": 3e-5, "network": card.network, "log_every": 20}
    learning = card.config.model_copy(update=gently)
    shop = WebShopSettings(env="browser", screenshots=True, concurrency=8, train_tasks=2 * tasks)
    models = Models(BestOfQSettings(suite=shop, iql=learning)).reading(card.embed)
    shipped = load_value(POCKET_Q, embed=models.embedder.spec)
    with Store.open(out) as store:
        async with open_suite(models) as suite:
            context = RunContext(models, suite, store, console)
            console.print(Rule("1. One frozen model, held-out tasks, real Chromium: only the choice differs"))
            console.print(f"{_size(models)} parameters, frozen. {tasks} test tasks for each agent.")
            await compare(context, HELD_OUT, AGENTS, values=shipped, split="test", tasks=tasks, runs=1)
            compared = Selection(runs=[HELD_OUT], baseline=BASELINE)
            console.print(success_table(agent_results(store, compared)))
            console.print(cost_table(agent_costs(store, compared)))
            console.print(Rule("2. The loop at small scale: explore training tasks, learn Q and V from the episodes"))
            await collect(context, COLLECTED, Play("explore"))
            data = transitions(models, store, collected(store, [COLLECTED]), console)
            start = load_networks(POCKET_Q, embed=models.embedder.spec)
            trained = train_iql(data, learning, start=start)
            export_value(out / "q", trained, embed=models.embedder.spec, train_n=shipped.train_n)
            console.print(f"{learning.steps} steps of IQL on {len(data):,} transitions: {out / 'q'}")
            console.print(Rule("3. The same frozen model, with what was learned on top of the shipped Q"))
            learned = load_value(out / "q", embed=models.embedder.spec)
            await compare(context, AGAIN, ["best-of-q"], values=learned, split="test", tasks=tasks, runs=1)
        console.print(success_table(agent_results(store, Selection(runs=[AGAIN]))))
        report = export(store, gather(store, compared), out / "report", title="Best-of-Q: the demo")
    console.print(f"\nReport with replays of the episodes: [bold]{report.resolve()}[/bold]")
    console.print(f"{tasks} tasks are too few to tell agents apart; results on more are in experiments/ladder/.")


async def run_demo_agent_q(
    models: Models, console: Console, *, tasks: int, out: Path, fresh: bool, split: Split = "test"
) -> None:
    """Play held-out tasks in Chromium; search training tasks on the same pages as text; learn from successes and pairs;
    play again, without and with search; report. ConfigError on another suite, SetupError without the extra of DPO."""
    if not isinstance(models.settings.suite, BookingSettings):
        raise ConfigError(f"the demo of Agent Q plays on the booking site, not on {models.settings.suite.name}")
    extra("accelerate")  # before the minutes that the first steps take
    if fresh:
        make_room(out)
    chosen, numbers = models.settings.agent_q, count(1)
    text, seen = _on(models, env="text"), _on(models, env="browser", screenshots=True, concurrency=8)

    def heading(text: str) -> None:
        console.print(Rule(f"{next(numbers)}. {text}"))

    async def play(chosen: Play) -> None:
        """One pass over held-out tasks in Chromium; what searches does so on the site as text."""
        async with open_suite(seen) as suite, open_suite(text) as simulator:
            await collect(RunContext(seen, suite, store, console), chosen.name, chosen, simulator=simulator)

    with Store.open(out) as store:
        heading("Zero-shot: the model as it is, held-out tasks, real Chromium")
        console.print(f"{_size(models)} parameters, Agent Q's composite actions. {tasks} {split} tasks.")
        await play(Play("prompting", split=split, limit=tasks, name=BEFORE))
        console.print(success_table(agent_results(store, Selection(runs=[BEFORE]))))

        heading("Search: a tree for each training task, K actions a node, ranked by the model itself")
        policy, searches = text, [SEARCH_RUN]
        trees = await _search(policy, store, SEARCH_RUN, console, part=0)
        if chosen.reference == "rft":
            heading("RFT: the model learns what succeeded, and searches as many other tasks")
            policy = policy.playing(reinforce(policy, trees, out / "rft", console))
            searches.append(RFT_RUN)
            trees = await _search(policy, store, RFT_RUN, console, part=1)

        heading("Pairs of actions that differ in Q, and DPO on them")
        pairs = list(step_pairs(policy, trees))
        need_pairs(pairs, len(trees))
        console.print(f"{len(pairs)} pairs; the clearest:")
        console.print("\n".join(_clearest(trees, chosen.alpha, chosen.threshold)), highlight=False)
        tuned = tune(policy, pairs, out / "policy", console)
        console.print(f"the tuned model: {tuned}")

        heading("Agent Q: the tuned model on the same held-out tasks, without and with search")
        seen = seen.playing(tuned)
        await play(Play("prompting", split=split, limit=tasks, name=AFTER))
        await play(Play("mcts", split=split, limit=max(1, tasks // 4), name=SEARCHING))
        runs = [BEFORE, AFTER, SEARCHING]
        played = Selection(runs=runs, agents=runs, baseline=BEFORE)
        console.print(success_table(agent_results(store, played)))
        console.print(cost_table(agent_costs(store, played)).titled("Costs: what search takes at each step counts"))
        options = Options(alpha=chosen.alpha, threshold=chosen.threshold)
        found = gather(store, replace(played, runs=[*runs, *searches]), options)
        report = export(store, found, out / "report", title="Agent Q: the demo")
    console.print(f"\nReport with the trees and replays of the episodes: [bold]{escape(str(report.resolve()))}[/bold]")
    console.print(f"{tasks} tasks tell a large difference only: read the intervals, not the means.")


def _size(models: Models) -> str:
    return f"{models.local.name}: {sum(p.numel() for p in models.local.model.parameters()):,}"


def _on(models: Models, **suite: object) -> Models:
    """The same models on the site as text or in Chromium."""
    changed = models.settings.suite.model_copy(update=suite)
    checked = type(changed).model_validate(changed.model_dump())
    return models.replaced(models.settings.model_copy(update={"suite": checked}))


async def _search(policy: Models, store: Store, run: str, console: Console, *, part: int) -> list[SearchTree]:
    """Trees of the training tasks of that part, and a table of them."""
    chosen = policy.settings.agent_q
    async with open_suite(policy) as suite:
        trees = await search_training(RunContext(policy, suite, store, console), run, part=part)
    console.print(search_table([search_row(run, trees, alpha=chosen.alpha, threshold=chosen.threshold)]))
    return trees


def _clearest(trees: Sequence[SearchTree], alpha: float, threshold: float) -> Iterable[str]:
    """Three pairs in words, of as many tasks."""
    found = [
        (max(pairs, key=lambda p: p.margin), tree)
        for tree in trees
        if (pairs := [*node_pairs(tree, alpha=alpha, threshold=threshold)])
    ]
    for pair, tree in sorted(found, key=lambda one: -one[0].margin)[:3]:
        labels = [one.label[:60] for node in (pair.chosen, pair.rejected) if (one := tree.candidate[node])]
        yield escape(f"  {'  rather than  '.join(labels)}: by {pair.margin:.2f} ({tree.task.id})")
