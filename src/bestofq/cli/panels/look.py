"""Stored runs: as pages, as tables and figures, as a judge sees them."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from bestofq.cli.options import RUNS, BaseUrl, Budget, DryRun, Set, SplitName, Stored, console, refuse_given

ByOption = partial(Option, rich_help_panel="With --by or several stores")
PriceOption = partial(Option, rich_help_panel="Costs and judges")
TreeOption = partial(Option, rich_help_panel="Search trees")
GoldenOption = partial(Option, rich_help_panel="With --golden")


def view(
    where: Annotated[Path | None, Argument(metavar="STORE", help="Folder of the episodes. Default: --store.")] = None,
    store: Stored = RUNS,
    host: Annotated[str, Option(help="Where to listen; any but loopback asks for a token.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any free one.")] = 8760,
    open_: Annotated[bool, Option("--open", help="Open it in this machine's browser.")] = False,
) -> None:
    """Look at runs in the browser: tasks, episodes, steps, two agents side by side, search trees; live."""
    import webbrowser
    from contextlib import suppress

    from bestofq.store.store import Store
    from bestofq.viewer.app import shown_name
    from bestofq.viewer.server import serve

    folder = where or store

    def ready(address: str) -> None:
        console.print(
            f"{shown_name(folder)} at {address} (stop it with Ctrl-C)", soft_wrap=True, highlight=False, markup=False
        )
        if open_:
            webbrowser.open(address)

    with Store.open(folder, read_only=True) as opened, suppress(KeyboardInterrupt):
        serve(opened, name=shown_name(folder), host=host, port=port, ready=ready)


def report(
    stores: Annotated[
        list[Path] | None,
        Argument(metavar="STORE...", help="Folders of episodes; several are compared. Default: --store."),
    ] = None,
    store: Stored = RUNS,
    html: Annotated[
        Path | None, Option(help="Folder for the pages, which open from disk. Default: report in the store.")
    ] = None,
    csv: Annotated[Path | None, Option(help="Folder for the tables as CSV, unrounded.")] = None,
    json: Annotated[Path | None, Option(help="Folder for the tables as JSON, unrounded.")] = None,
    latex: Annotated[Path | None, Option(help="Folder for the tables as LaTeX (booktabs).")] = None,
    markdown: Annotated[Path | None, Option(help="Folder for the tables as Markdown.")] = None,
    table: Annotated[
        list[str] | None, Option(help="Print it: agents, domains, reliability, … or all. Repeatable.")
    ] = None,
    run: Annotated[list[str] | None, Option(help="Only this run. Repeatable.")] = None,
    agent: Annotated[list[str] | None, Option(help="Only this agent or row. Repeatable.")] = None,
    split: Annotated[SplitName | None, Option(help="Only this split.")] = None,
    baseline: Annotated[
        str | None,
        Option(help="Agent or row, such as 'test, prompting', to compare with. Default: prompting, or the first."),
    ] = None,
    episode: Annotated[
        list[str] | None, Option(help="Id of one whose values to draw (Fig. 12). Default: two that differ clearly.")
    ] = None,
    title: Annotated[str, Option(help="Of the pages.")] = "Best-of-Q",
    by: Annotated[
        list[str] | None,
        ByOption(
            help="Rows by store, run, agent, suite, split, N, model (who proposes), or a setting such as epsilon. "
            "Repeatable; two make a grid too, the first down, the second across."
        ),
    ] = None,
    svg: Annotated[Path | None, ByOption(help="File for the bars (Agent Q, Figs. 3 and 6).")] = None,
    reference: Annotated[list[str] | None, ByOption(help="NAME=PERCENT, a line among the bars: human=50.")] = None,
    discount: Annotated[
        float | None, Option(min=0, max=1, help="Of the outcome Q is compared with. Default: Q's own, if known.")
    ] = None,
    price: Annotated[
        list[str] | None, PriceOption(help="ROLE=IN,OUT in USD per million tokens, where none is stored.")
    ] = None,
    judge: Annotated[str | None, PriceOption(help="Correct success for this judge's measured error.")] = None,
    judge_run: Annotated[str | None, PriceOption(help="Run in which it judged beside the environment.")] = None,
    judge_store: Annotated[Path | None, PriceOption(help="Folder of that run. Default: the same.")] = None,
    alpha: Annotated[
        float | None, TreeOption(min=0, max=1, help="Weight of the searched Q against feedback's (Agent Q, Eq. 10).")
    ] = None,
    threshold: Annotated[
        float | None, TreeOption(min=0, help="Least difference in Q of a preference pair (Algorithm 1).")
    ] = None,
) -> None:
    """Tables and figures with intervals from stored runs: pages, CSV, JSON, LaTeX, or the terminal.

    The pages hold every table and figure, and episodes and search trees to step through. With --by, or of several
    stores, success by any setting: an ablation (Best-of-Q, Tables 3, 4, 10, 11 and 12).
    """
    from bestofq.cli.reporting import Written, compare_stores, judge_error_of, prices_of, report_store
    from bestofq.reports.diagnosis import DEFAULTS, Options
    from bestofq.reports.rows import Selection

    folders = stores or [store]
    compared = bool(by) or len(folders) > 1
    if compared:
        why = "with --by or several stores"
        refuse_given(why, html=html, table=table, episode=episode, price=price, judge=judge, judge_run=judge_run)
    else:
        refuse_given("without --by or several stores", svg=svg, reference=reference)
    if judge is None:
        refuse_given("without --judge", judge_run=judge_run, judge_store=judge_store)
    written = Written(csv=csv, json=json, latex=latex, markdown=markdown)
    selection = Selection(runs=run, agents=agent, split=split, baseline=baseline)
    if compared:
        compare_stores(folders, by, selection, svg=svg, references=reference or (), written=written)
        return
    options = Options(
        prices=prices_of(price or ()),
        discount=discount,
        error=judge_error_of(judge, judge_run, judge_store or folders[0]),
        shown=episode or (),
        alpha=DEFAULTS.alpha if alpha is None else alpha,
        threshold=DEFAULTS.threshold if threshold is None else threshold,
    )
    report_store(folders[0], selection, options, html=html, printed=table or (), title=title, written=written)


def judge(
    run: Annotated[str, Option(help="The run to judge.")],
    model: Annotated[str, Option("--model", help="The judge: the endpoint's name for it.")],
    base_url: BaseUrl = None,
    store: Stored = RUNS,
    agent: Annotated[str | None, Option(help="Only this agent's episodes. With --golden: best-of-q.")] = None,
    screenshots: Annotated[int | None, Option(min=0, help="Shown, the last ones; 0: text only.")] = None,
    against_env: Annotated[
        bool, Option("--against-env", help="Beside the environment's verdicts, and how well they agree.")
    ] = False,
    again: Annotated[bool, Option("--again", help="Also what a judge has judged already.")] = False,
    limit: Annotated[int | None, Option(min=1, help="So many episodes at most.")] = None,
    concurrency: Annotated[int, Option(min=1, help="Episodes judged at once.")] = 16,
    set_: Set = None,
    out: Annotated[Path | None, Option(help="JSON file for the result.")] = None,
    budget: Budget = None,
    dry_run: DryRun = False,
    golden: Annotated[
        bool,
        GoldenOption(
            "--golden",
            help="Compare failures with a golden episode of their task: was the right step not proposed, or not chosen "
            "(Fig. 3 and 10)?",
        ),
    ] = False,
    golden_agent: Annotated[str | None, GoldenOption(help="Whose successes are golden. Default: anyone's.")] = None,
    golden_run: Annotated[str | None, GoldenOption(help="Run of golden episodes. Default: all.")] = None,
    golden_store: Annotated[Path | None, GoldenOption(help="Folder of golden episodes. Default: --store.")] = None,
    golden_episode: Annotated[
        list[str] | None,
        GoldenOption(help="Id of a golden episode. Repeatable. Default: each task's shortest success."),
    ] = None,
    all_: Annotated[bool, GoldenOption("--all", help="Successful episodes too, not failures alone.")] = False,
    svg: Annotated[Path | None, GoldenOption(help="File for the picture (Fig. 3).")] = None,
) -> None:
    """Let a model say how stored episodes ended, or at which step they went wrong. Resumable."""
    from bestofq.cli.judging import Judging, judge_episodes, judge_steps
    from bestofq.cli.settings import chat_config
    from bestofq.recipes.golden import Golden

    config = chat_config(model, base_url, set_)
    options = Judging(store=store, run=run, agent=agent, limit=limit, out=out, budget=budget)
    if not golden:
        refuse_given("without --golden", golden_agent=golden_agent, golden_run=golden_run, golden_store=golden_store)
        refuse_given("without --golden", golden_episode=golden_episode, all_=all_, svg=svg)
        which: Literal["open", "all", "beside"] = "beside" if against_env else "all" if again else "open"
        judge_episodes(options, config, screenshots=screenshots, which=which, at_once=concurrency, dry_run=dry_run)
    else:
        refuse_given("with --golden", dry_run=dry_run, against_env=against_env, again=again, screenshots=screenshots)
        wanted = Golden(run=golden_run, agent=golden_agent, ids=golden_episode or ())
        judge_steps(options, config, wanted, golden_store, failures=not all_, svg=svg)
