"""What this machine has, and what can be set."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from bestofq.cli.options import BaseUrl, Config, Data, Set, console

_PANEL = "With --base-url: compare an endpoint's embeddings with those of the same model here"
EndpointOption = partial(Option, rich_help_panel=_PANEL)


def doctor(
    data: Data = None,
    base_url: BaseUrl = None,
    model: Annotated[str | None, EndpointOption("--model", help="The endpoint's name for its model.")] = None,
    local: Annotated[
        str | None, EndpointOption(help="The same model's directory or hub name. Default: --model.")
    ] = None,
    out: Annotated[Path, EndpointOption(help="File for the agreement: model.embed_agreement.")] = Path(
        "agreement.json"
    ),
    pixels: Annotated[int | None, EndpointOption(min=0, help="Largest picture area it sees; 0: texts only.")] = None,
    pixels_least: Annotated[int | None, EndpointOption(min=0, help="Smallest picture area it sees.")] = None,
    device: Annotated[str, EndpointOption(help="Where the model in this process runs.")] = "auto",
) -> None:
    """Say what is there and what is missing, each with the command that fixes it; or check an embedding endpoint."""
    if base_url is None:
        from bestofq.cli.doctor import doctor as examine

        raise Exit(examine(console, webshop=data))
    from bestofq.cli.embedding import compare_embeddings
    from bestofq.core.errors import ConfigError

    if model is None:
        raise ConfigError(f"--base-url {base_url} needs --model, the name by which the endpoint knows its model")
    compare_embeddings(base_url, model, local, out, pixels=pixels, pixels_least=pixels_least, device=device)


def settings(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="A setting, or a table of them such as iql or suite.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Show every setting with its value, its default and its meaning; --set and --config change the values."""
    from bestofq.build.settings import BestOfQSettings
    from bestofq.cli.config import load_config, settings_table

    console.print(settings_table(load_config(BestOfQSettings, config, set_ or ()), name))
