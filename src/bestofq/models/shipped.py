"""The models that ship with the package."""

from pathlib import Path

POCKET = Path(__file__).parent / "pocket"  # the checkpoint that ships with the package
SHIPPED = {
    "pocket": POCKET,
    "pocket-web": POCKET.parent / "pocket_web",  # knows MiniWoB++ too
    "pocket-agentq": POCKET.parent / "pocket_agentq",  # writes Agent Q's format, in the shop and on the booking site
    "pocket-quirks": POCKET.parent / "pocket_quirks",  # knows shops and restaurants without quirks
}  # by name
