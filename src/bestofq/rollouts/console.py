"""The console of this process: where recipes and commands report what they do. It writes to `sys.stdout`."""

from rich import get_console

console = get_console()
"""Set `console.quiet = True` to silence a program that calls recipes."""
