"""What made a run, as far as the running process can tell."""

import platform
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import bestofq
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance


def current_provenance(*, prompts: str, seed: int) -> Provenance:
    """Version, commit, prompts' hash, seed, and the command of this process."""
    return Provenance(
        version=bestofq.__version__, commit=commit(), prompt_hash=prompts, seed=seed, command=this_command()[:2000]
    )


def made_by(settings: BestOfQSettings) -> dict[str, object]:
    """What a committed result says of where it comes from."""
    return {
        "command": this_command(),
        "seed": settings.seed,
        "commit": commit(),
        "machine": {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()},
        "settings": settings.model_dump(mode="json"),
    }


def this_command() -> str:
    """The command of this process, as it is typed again."""
    path = Path(sys.argv[0])
    program = ["python", "-m", path.parent.name] if path.name == "__main__.py" else [path.name]
    return shlex.join([*program, *sys.argv[1:]])


@cache
def commit() -> str | None:
    """HEAD of the checkout that bestofq runs from; None where it is installed from a package."""
    folder = Path(bestofq.__file__).parent
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:  # perhaps inside another's checkout
        return None
    return _git(folder, "rev-parse", "HEAD")


def _git(folder: Path, *words: str) -> str | None:
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
