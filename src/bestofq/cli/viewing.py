"""`bestofq view`: the stored runs in a browser."""

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bestofq.store.store import Store
from bestofq.viewer.app import shown_name
from bestofq.viewer.server import serve

console = Console()


def view(
    store: Annotated[Path, typer.Argument(help="Folder of the episodes.")],
    host: Annotated[str, typer.Option(help="Where to listen; any but loopback asks for a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8760,
    open_: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
) -> None:
    """Look at runs in the browser: tasks, episodes, steps, two agents side by side, search trees; live."""

    def ready(address: str) -> None:
        console.print(
            f"{shown_name(store)} at {address} (Ctrl-C ends it)", soft_wrap=True, highlight=False, markup=False
        )
        if open_:
            webbrowser.open(address)

    with Store.open(store, read_only=True) as opened, suppress(KeyboardInterrupt):
        serve(opened, name=shown_name(store), host=host, port=port, ready=ready)


def alone(arguments: Sequence[str]) -> None:
    """The command without the others beside it, and so without the packages that they load."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(view)
    app(list(arguments), prog_name="bestofq view")
