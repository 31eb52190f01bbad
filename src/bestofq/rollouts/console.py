"""The console of this process, for recipes and commands. `console.quiet = True` silences a program that calls recipes."""

from rich import get_console

console = get_console()
