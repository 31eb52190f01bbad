"""Models and Q-functions that installed packages ship, by name.

A package names a model's folder in the entry points `bestofq.models`. It names the folder of a Q-function for a model
and a suite as `model.suite` in `bestofq.q_functions`.
"""

from pathlib import Path

from bestofq.core.loading import SITES, list_plugins, load_part


def find_model(path: str | Path) -> str | Path:
    """Return the folder of a shipped model, and any other path as it is. ConfigError if its package is missing."""
    if isinstance(path, str) and (is_shipped(path) or (path in SITES["model"] and not Path(path).exists())):
        return Path(str(load_part("model", path)))
    return path


def is_shipped(name: str) -> bool:
    return name in list_plugins("model")


def find_q(model: str, suite: str) -> Path | None:
    """Return the folder of the Q-function that ships for a model and a suite."""
    name = f"{model}.{suite}"
    return Path(str(load_part("q_function", name))) if name in list_plugins("q_function") else None
