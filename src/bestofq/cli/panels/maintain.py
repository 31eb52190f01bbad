"""Tasks, logs of and for other tools, a local model for others to call; what this machine has, and what can be set."""

from contextlib import suppress
from typing import Annotated

from typer import Argument, Exit, Option

from bestofq.cli.new import NewKind
from bestofq.cli.options import (
    Checkup,
    CommonOptions,
    Config,
    Export,
    Log,
    Model,
    Place,
    Set,
    SuiteTasks,
    Text,
    console,
    refuse_given,
    takes,
)


@takes()
def tasks(wanted: SuiteTasks) -> None:
    """List a suite's tasks. Of WebVoyager the list also names the tasks whose date is past."""
    from bestofq.cli.tasks import list_tasks

    list_tasks(wanted)


@takes()
def import_(wanted: Log) -> None:
    """Read the logs of other tools as episodes, to train on, to report and to look at. Again, it adds what is new.

    What cannot be read is counted and named; what its log does not judge stays unjudged (bestofq judge).
    """
    from bestofq.cli.importing import import_episodes

    import_episodes(wanted)


@takes()
def export(wanted: Export) -> None:
    """Write stored episodes for other tools: steps with all candidates, pairs and conversations for TRL, ATIF.

    What is there already is replaced only by a whole new file.
    """
    from bestofq.cli.exporting import export_episodes

    export_episodes(wanted)


def serve_model(
    model: Model = None,
    port: Annotated[int, Option(min=0, max=65535, help="Of the loopback interface.")] = 8000,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Serve a local model behind an OpenAI-compatible endpoint on loopback; its seeds give the draws made here."""
    import uvicorn

    from bestofq.cli.settings import models_of
    from bestofq.models.serving import model_app
    from bestofq.serve.guard import UpstreamGuard
    from bestofq.viewer.server import listen

    with listen("127.0.0.1", port) as listener, suppress(KeyboardInterrupt):
        app = model_app(models_of(CommonOptions(config=config, set_=set_, model=model)).local)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        console.print(f"{address} serves it (stop it with Ctrl-C)", soft_wrap=True)
        uvicorn.Server(uvicorn.Config(UpstreamGuard(app))).run(sockets=[listener])


def new(
    kind: Annotated[NewKind, Argument(metavar="KIND", help="suite, scorer or learner.")],
    name: Annotated[str, Argument(metavar="NAME", help="Of the package, and by which commands find it.")],
    out: Annotated[Place, Option(help="Its folder. Default: NAME.")] = None,
) -> None:
    """Write a package with a part of your own and a test of it; once installed, every command takes it by name."""
    from bestofq.cli.new import new_part

    new_part(kind, name, out)


@takes()
def doctor(wanted: Checkup) -> None:
    """Say what is there and what is missing, each with the command that fixes it; or check a store, or an embedding
    endpoint."""
    if wanted.store is not None:
        from bestofq.cli.store_check import check_store

        raise Exit(check_store(console, wanted.store, mend=wanted.repair))
    refuse_given(wanted, "without --store", "repair")
    if wanted.base_url is None:
        from bestofq.cli.doctor import doctor as examine

        raise Exit(examine(console, webshop=wanted.data))
    from bestofq.cli.embedding import compare_embeddings

    compare_embeddings(wanted, wanted.base_url)


def settings(
    name: Annotated[Text, Argument(metavar="NAME", help="A setting, or a table of them such as iql or suite.")] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Show every setting with its value, its default and its meaning; --set and --config change the values."""
    from bestofq.cli.config import load_config, settings_table
    from bestofq.config.settings import BestOfQSettings

    console.print(settings_table(load_config(BestOfQSettings, config, set_ or ()), name))
