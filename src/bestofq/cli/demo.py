"""`bestofq demo`: in a real Chromium, a frozen model shops with and without a Q-function; then the loop, small."""

from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from bestofq.build.agents import pocket_q
from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.cli.writing import make_room
from bestofq.envs.webshop.settings import WebShopSettings
from bestofq.learning.checkpoint import export_value, load_networks, load_value, read_card
from bestofq.learning.iql import train_iql
from bestofq.recipes.best_of_q import transitions
from bestofq.recipes.collect import AGENTS, Play, collect, compare
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import agent_results, success_table
from bestofq.store.store import Store
from bestofq.viewer.export import export

HELD_OUT = "demo"
AGAIN = "demo-after-learning"
COLLECTED = "demo-collected"


async def run_demo(console: Console, *, tasks: int, out: Path, fresh: bool) -> None:
    """Compare on held-out tasks; collect with ε-greedy; train the shipped Q further; compare again; report."""
    if fresh:
        make_room(out)
    card = read_card(pocket_q())
    gently = {"steps": 400, "lr_q": 3e-5, "lr_v": 3e-5, "network": card.network, "log_every": 20}
    learning = card.config.model_copy(update=gently)
    shop = WebShopSettings(env="browser", screenshots=True, concurrency=8, train_tasks=2 * tasks)
    models = Models(BestOfQSettings(suite=shop, iql=learning)).reading(card.embed)
    shipped = load_value(pocket_q(), embed=models.embedder.spec)
    with Store.open(out) as store:
        async with open_suite(models) as suite:
            context = RunContext(models, suite, store, console)
            console.print(Rule("1. One frozen model, held-out tasks, real Chromium: only the choice differs"))
            console.print(
                f"{models.local.name}: {sum(p.numel() for p in models.local.model.parameters()):,} parameters, frozen. "
                f"{tasks} test tasks for each agent."
            )
            await compare(context, HELD_OUT, AGENTS, values=shipped, split="test", tasks=tasks, runs=1)
            compared = Selection(runs=[HELD_OUT], baseline=BASELINE)
            console.print(success_table(agent_results(store, compared)))
            console.print(cost_table(agent_costs(store, compared)))
            console.print(Rule("2. The loop at small scale: explore training tasks, learn Q and V from the episodes"))
            await collect(context, COLLECTED, Play("explore"))
            data = transitions(models, store, [COLLECTED], console)
            start = load_networks(pocket_q(), embed=models.embedder.spec)
            trained = train_iql(data, learning, start=start)
            export_value(out / "q", trained, embed=models.embedder.spec, train_n=shipped.train_n)
            console.print(f"{learning.steps} steps of IQL on {len(data):,} transitions: {out / 'q'}")
            console.print(Rule("3. The same frozen model, with what was learned on top of the shipped Q"))
            learned = load_value(out / "q", embed=models.embedder.spec)
            await compare(context, AGAIN, ["best-of-q"], values=learned, split="test", tasks=tasks, runs=1)
        console.print(success_table(agent_results(store, Selection(runs=[AGAIN]))))
        report = export(store, gather(store, compared), out / "report", title="Best-of-Q: the demo")
    console.print(f"\nReport with replays of the episodes: [bold]{report.resolve()}[/bold]")
    console.print(
        f"{tasks} tasks are too few to tell agents apart; results on more of them are in experiments/ladder/."
    )
