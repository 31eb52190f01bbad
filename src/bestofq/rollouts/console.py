"""The console of this process, for recipes and commands. `console.quiet = True` silences the recipes of a program."""

from rich import get_console

console = get_console()
