"""The models that come with the sites, and the Q-function of the shop."""

from pathlib import Path

_MODELS = Path(__file__).parent / "models"
POCKET = _MODELS / "pocket"
POCKET_WEB = _MODELS / "pocket_web"
"""It knows MiniWoB++ too."""
POCKET_AGENTQ = _MODELS / "pocket_agentq"
"""It writes Agent Q's format, in the shop and on the booking site."""
POCKET_QUIRKS = _MODELS / "pocket_quirks"
"""It knows shops and restaurants without quirks."""
POCKET_Q = _MODELS / "pocket_q"
"""What the actions of `pocket` are worth in the shop."""
