"""Stored runs: as pages, as tables and figures, as a judge sees them."""

from typing import Annotated

from typer import Option

from bestofq.cli.options import (
    A_STORE,
    RUNS,
    Files,
    Judging,
    Reporting,
    StoreArgument,
    Stored,
    StorePlace,
    console,
    refuse_given,
    takes,
)
from bestofq.store.location import Location


def view(
    where: Annotated[StorePlace, StoreArgument(metavar="STORE", help=f"{A_STORE} Default: --store.")] = None,
    store: Stored = RUNS,
    files: Files = None,
    host: Annotated[str, Option(help="Where to listen; any but loopback asks for a token.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any free one.")] = 8760,
    open_: Annotated[bool, Option("--open", help="Open it in this machine's browser.")] = False,
) -> None:
    """Look at runs in the browser: tasks, episodes, steps, two agents side by side, search trees; live."""
    import webbrowser
    from contextlib import suppress

    from bestofq.store.store import Store
    from bestofq.viewer.server import serve

    place = Location.of(where or store, files)

    def ready(address: str) -> None:
        console.print(
            f"{place.title} at {address} (stop it with Ctrl-C)", soft_wrap=True, highlight=False, markup=False
        )
        if open_:
            webbrowser.open(address)

    with Store.open(place, read_only=True) as opened, suppress(KeyboardInterrupt):
        serve(opened, name=place.title, host=host, port=port, ready=ready)


@takes()
def report(wanted: Reporting) -> None:
    """Tables and figures with intervals from stored runs: pages, CSV, JSON, LaTeX, or the terminal.

    The pages hold every table and figure, and episodes and search trees to step through. With --by, or of several
    stores, success by any setting: an ablation (Best-of-Q, Tables 3, 4, 10, 11 and 12).
    """
    from bestofq.cli.reporting import check_folders, compare_stores, report_store

    check_folders(wanted)
    compared = wanted.by or len(wanted.stores or ()) > 1
    if compared:
        why = "with --by or several stores"
        refuse_given(wanted, why, "html", "table", "episode", "price")
    else:
        refuse_given(wanted, "without --by or several stores", "svg", "reference")
    (compare_stores if compared else report_store)(wanted)


@takes()
def judge(wanted: Judging) -> None:
    """Let a model say how stored episodes ended. Resumable."""
    from bestofq.cli.judging import judge_episodes

    judge_episodes(wanted)
