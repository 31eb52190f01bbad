"""What a run and a Q-function depend on, by the settings' own names, and what made them.

The store refuses to mix two identities in one run, and a folder of finished work to hold those of another.
"""

import hashlib
import json
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import JsonValue

import bestofq
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.embedding import EmbedSettings
from bestofq.core.errors import DataError
from bestofq.core.files import write_whole
from bestofq.core.frozen import reason_of
from bestofq.core.identity import Difference, Endpoint, as_set, differences, flat, identity_of
from bestofq.core.observation import Split
from bestofq.core.secrets import hidden
from bestofq.core.words import count_of
from bestofq.learning.config import EpisodeSet, IQLConfig
from bestofq.learning.memory import KEYS
from bestofq.store.configuration import AGENTS, TREES, refusal
from bestofq.store.records import EpisodeKey, EpisodeSummary, RunRecord

IDENTITY, DONE = "identity.json", "done"
"""In the folder of finished work: what the work depends on, and that it is finished."""
UNFINISHED = ".training"  # the last checkpoint of a training that has not ended
_ENDPOINT = {"model", "base_url", "temperature"}
_OF_CHAT = ("actions", "by", "candidates", "thoughts", "chat_screenshots", "localizer", "localizer_chat")
_DEFAULTS = {**BestOfQSettings().model_dump(mode="json", include={*_OF_CHAT}), "localizer_chat": None}


def run_identity(settings: BestOfQSettings, split: Split, step_limit: int) -> dict[str, JsonValue]:
    """Return what all episodes of a run depend on, apart from the settings of each agent."""
    suite: dict[str, JsonValue] = {**settings.suite.identity(), "step_limit": step_limit}
    if settings.endpoint_of("chat") is not None:
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
    unused = {name for name in _OF_CHAT if settings.endpoint_of("chat") is None and kept[name] == _DEFAULTS[name]}
    unused |= {"suite", "embedder"}
    unused |= {"judge_screenshots", "judge_criteria"} if settings.endpoint_of("judge") is None else set()
    unused |= {"proposer"} if settings.proposer is None else set()
    return {name: hidden(value) for name, value in kept.items() if name not in unused}


def mcts_identity(settings: BestOfQSettings) -> dict[str, JsonValue]:
    """Return what only the agent mcts depends on, which searches before each of its steps."""
    chosen = settings.agent_q
    return {"agent_q": {"search": chosen.search.model_dump(mode="json"), "feedback": chosen.feedback}}


def tree_identity(models: Models) -> dict[str, JsonValue]:
    """Return what trees to learn from depend on. They may get more rollouts, but not another model's likelihoods."""
    chosen = models.settings.agent_q
    weights = models.local.revision if models.settings.endpoint_of("chat") is None else None
    searched: dict[str, JsonValue] = {"search": identity_of(chosen.search), "feedback": chosen.feedback}
    return {"agent_q": searched, "weights": weights, "prompts": models.prompts}


def q_identity(
    models: Models, episodes: EpisodeSet | None = None, iql: IQLConfig | None = None
) -> dict[str, JsonValue]:
    """All that a Q-function depends on, by the settings' own names; `iql` None: as the settings say."""
    n, learned = models.settings.n_candidates, None if episodes is None else identity_of(episodes)
    if models.settings.value == "memory":
        return {"value": "memory", "keys": KEYS, "n_candidates": n, "episodes": learned}
    config, spec = iql or models.settings.iql, models.embedder.spec
    embed: dict[str, JsonValue] = spec.model_dump(mode="json")
    ways = {name: embed.pop(name) for name in EmbedSettings.model_fields}
    model: dict[str, JsonValue] = {"embed": ways, "embedder": embed}
    return {"iql": identity_of(config.at(spec.dim)), "n_candidates": n, "model": model, "episodes": learned}


def episode_set(episodes: Iterable[EpisodeSummary]) -> EpisodeSet:
    """Identify the decided episodes among these that have a step."""
    taught = [one for one in episodes if one.decided and one.steps]
    facts = json.dumps([(one.id, one.outcome, one.reward, one.steps) for one in taught])
    fingerprint = hashlib.sha256(facts.encode()).hexdigest()[:16]
    tasks = tuple(sorted({task_mark(one.key) for one in taught}))
    return EpisodeSet(count=len(taught), fingerprint=fingerprint, tasks=tasks)


def task_mark(key: EpisodeKey) -> str:
    """Names a task in a checkpoint: 8 hex digits over its suite and id."""
    return hashlib.sha256("/".join(key[:2]).encode()).hexdigest()[:8]


def is_done(folder: Path, identity: Mapping[str, JsonValue], *, advice: str = "give another folder") -> bool:
    """Return whether `folder` holds the finished artifact of `identity`; raise DataError if it holds another's."""
    if changed := _changes(folder, identity):
        changes = ", ".join(f"{name}={as_set(old)} (now {as_set(new)})" for name, old, new in changed[:3])
        more = f", {count_of(len(changed) - 3, 'more setting')}" if len(changed) > 3 else ""
        raise DataError(f"{folder} was made with {changes}{more}: {advice}")
    return (folder / DONE).exists()


def set_begun(folder: Path, identity: Mapping[str, JsonValue]) -> None:
    """Make `folder` the unfinished artifact of `identity`; the unfinished training of another identity is deleted."""
    if _changes(folder, identity) or (folder / DONE).exists():
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    (folder / DONE).unlink(missing_ok=True)
    write_whole(folder / IDENTITY, json.dumps(identity, indent=1))


def _changes(folder: Path, identity: Mapping[str, JsonValue]) -> list[Difference]:
    if not (card := folder / IDENTITY).exists():
        return []
    try:
        return differences(json.loads(card.read_bytes()), json.loads(json.dumps(identity)))
    except (ValueError, AttributeError) as error:
        raise DataError(f"{card} cannot be read ({reason_of(error)}): give another folder, or delete it") from error


def check_tree_run(models: Models, record: RunRecord) -> None:
    """DataError if the trees of a run were grown by other weights, in another dialect, or from other prompts."""
    kept, trees = flat(record.config), f"{AGENTS}.{TREES}."
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
    return {
        "command": this_command(),
        "seed": settings.seed,
        "commit": commit(),
        "machine": {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()},
        "settings": settings.model_dump(mode="json"),
    }


def this_command() -> str:
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
