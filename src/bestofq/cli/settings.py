"""Show every setting with its value, its default and its meaning; --set and --config change the values."""

from typing import Annotated

from typer import Argument

from bestofq.cli.config import load_config, settings_table
from bestofq.cli.options import Config, Set, Text
from bestofq.config.settings import BestOfQSettings
from bestofq.rollouts.console import console


def settings(
    name: Annotated[Text, Argument(metavar="NAME", help="A setting, or a table of them such as iql or suite.")] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    console.print(settings_table(load_config(BestOfQSettings, config, set_ or ()), name))
