"""What a run is played with, by the settings' own names, and what made it. The store refuses to mix two of these."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import JsonValue

import bestofq
from bestofq.config.agents import AGENTS, AgentKind
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.errors import DataError
from bestofq.core.identity import Difference, Endpoint, flat, identity_of
from bestofq.core.observation import Split
from bestofq.core.secrets import hidden
from bestofq.store.configuration import SEARCHES, refusal
from bestofq.store.records import RunRecord

Searcher = Literal["trees", "mcts"]
"""Who searches in a run: `search_tasks` for trees to learn from, or the agent mcts before each of its steps."""
_ENDPOINT = {"model", "base_url", "temperature"}
_OF_CHAT = ("by", "chat_screenshots", "localizer", "localizer_chat")
_DEFAULTS = BestOfQSettings().model_dump(mode="json", include={*_OF_CHAT})


def run_identity(settings: BestOfQSettings, split: Split, step_limit: int) -> dict[str, JsonValue]:
    """Return what all episodes of a run depend on, apart from the settings of each agent."""
    suite: dict[str, JsonValue] = {**settings.suite.identity(), "step_limit": step_limit}
    if settings.chat is not None:
        suite["screenshots"] = settings.suite.screenshots
    return {**policy_identity(settings), "suite": suite, "split": split}


def policy_identity(settings: BestOfQSettings) -> dict[str, JsonValue]:
    """Return what any agent's actions depend on. How a model with instructions is prompted counts only for such one."""
    kept = identity_of(settings)
    for name in get_args(Endpoint):
        chat = settings.endpoint_of(name)
        kept[name] = None if chat is None else chat.model_dump(mode="json", include=_ENDPOINT)
    kept["judge"] = settings.own_judge or kept["judge"]
    kept["model"] = {**identity_of(settings.model), "reply_tokens": settings.model.most_tokens}
    unused = {"suite", *(name for name in _OF_CHAT if settings.chat is None and kept[name] == _DEFAULTS[name])}
    unused |= {"judge_screenshots", "judge_criteria"} if settings.endpoint_of("judge") is None else set()
    unused |= {"proposer"} if settings.proposer is None else set()
    return {name: hidden(value) for name, value in kept.items() if name not in unused}


def agent_identity(
    settings: BestOfQSettings, kind: AgentKind, n: int | None, q: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return what only this kind of agent depends on. `n`: candidates a step; None: as the settings say."""
    agent = AGENTS[kind]
    return {**({} if agent.single else {"n": n or settings.n_candidates}), **agent.identity(settings, q)}


def search_identity(models: Models, searcher: Searcher) -> dict[str, JsonValue]:
    """Return what a search depends on. Trees may get more rollouts, but not another model's likelihoods."""
    chosen = models.settings.agent_q
    if searcher == "mcts":
        return {"agent_q": {"search": chosen.search.model_dump(mode="json"), "feedback": chosen.feedback}}
    weights = models.local.revision if models.settings.chat is None else None
    searched: dict[str, JsonValue] = {"search": identity_of(chosen.search), "feedback": chosen.feedback}
    return {"agent_q": searched, "weights": weights, "prompts": models.prompts}


def check_tree_run(models: Models, record: RunRecord) -> None:
    """DataError if the trees of a run were grown by other weights, in another dialect, or from other prompts."""
    kept, trees = flat(record.config), f"{SEARCHES}.trees."
    now: dict[str, Callable[[], str]] = {
        "model.dialect": lambda: models.settings.model.dialect,
        f"{trees}prompts": lambda: models.prompts,
        f"{trees}weights": lambda: models.tokens.revision,
    }
    for name, value in now.items():
        if (before := kept.get(name)) is not None and before != value():
            raise DataError(refusal(f"run {record.name!r}", [Difference(name.removeprefix(trees), before, value())]))


def current_provenance(*, prompts: str, seed: int) -> Provenance:
    """Return version, commit, prompts' hash, seed, and the command of this process."""
    return Provenance(
        version=bestofq.__version__, commit=commit(), prompt_hash=prompts, seed=seed, command=this_command()[:2000]
    )


def made_by(settings: BestOfQSettings) -> dict[str, object]:
    """Return what a committed result says of its origin."""
    return {
        "command": this_command(),
        "seed": settings.seed,
        "commit": commit(),
        "machine": {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()},
        "settings": settings.model_dump(mode="json"),
    }


def this_command() -> str:
    """Return the command of this process, to be typed again."""
    path = Path(sys.argv[0])
    program = ["python", "-m", path.parent.name] if path.name == "__main__.py" else [path.name]
    return shlex.join([*program, *sys.argv[1:]])


@cache
def commit() -> str | None:
    """Return HEAD of the checkout that bestofq runs from; None if it is installed from a package."""
    git = ["git", "-C", str(Path(bestofq.__file__).parent)]
    try:  # the first command fails inside another project's checkout
        for words in (["ls-files", "--error-unmatch", "__init__.py"], ["rev-parse", "HEAD"]):
            said = subprocess.run([*git, *words], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip() or None
