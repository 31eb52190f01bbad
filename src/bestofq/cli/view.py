"""Look at runs in the browser: tasks, episodes, steps, two agents side by side, search trees; live."""

import webbrowser
from contextlib import suppress
from typing import Annotated

from typer import Option

from bestofq.cli.options import A_STORE, RUNS, Files, StoreArgument, Stored, StorePlace
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.viewer.server import serve


def view(
    where: Annotated[StorePlace, StoreArgument(metavar="STORE", help=f"{A_STORE} Default: --store.")] = None,
    store: Stored = RUNS,
    files: Files = None,
    host: Annotated[str, Option(help="Where to listen; any but loopback asks for a token.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any free one.")] = 8760,
    open_: Annotated[bool, Option("--open", help="Open it in this machine's browser.")] = False,
) -> None:
    place = Location.of(where or store, files)

    def ready(address: str) -> None:
        said = f"{place.title} at {address} (stop it with Ctrl-C)"
        console.print(said, soft_wrap=True, highlight=False, markup=False)
        if open_:
            webbrowser.open(address)

    with Store.open(place, read_only=True) as opened, suppress(KeyboardInterrupt):
        serve(opened, name=place.title, host=host, port=port, ready=ready)
