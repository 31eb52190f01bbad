"""What a run depends on, by the settings' own names, as it is stored with the run."""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from pydantic import JsonValue

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
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


def run_config(settings: BestOfQSettings, split: Split, step_limit: int) -> dict[str, JsonValue]:
    """What a run's episodes depend on besides the agent's own settings; a run refuses to continue with another."""
    suite: dict[str, JsonValue] = {**settings.suite.identity(), "step_limit": step_limit}
    if settings.chat is not None:
        suite["screenshots"] = settings.suite.screenshots
    return {**policy_config(settings), "suite": suite, "split": split}


def policy_config(settings: BestOfQSettings) -> dict[str, JsonValue]:
    """What any agent's actions depend on; how a model with instructions is asked only where that matters."""
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


def search_config_of(models: Models, searcher: Searcher) -> dict[str, JsonValue]:
    """What a search depends on. Trees may get more rollouts and time, but not another model's likelihoods."""
    chosen = models.settings.agent_q
    if searcher == "mcts":
        return {"agent_q": {"search": chosen.search.model_dump(mode="json"), "feedback": chosen.feedback}}
    weights = models.local.revision if models.settings.chat is None else None
    searched: dict[str, JsonValue] = {"search": identity_of(chosen.search), "feedback": chosen.feedback}
    return {"agent_q": searched, "weights": weights, "prompts": models.prompts}


def endpoint_of(config: Mapping[str, JsonValue]) -> str | None:
    """The model behind an endpoint that proposed in a run of this configuration, where there was one."""
    chat = config.get("chat")
    return str(chat["model"]) if isinstance(chat, dict) else None


def check_tree_run(models: Models, record: RunRecord) -> None:
    """DataError where the trees of a run were grown by other weights, in another dialect, or from other prompts."""
    kept, trees = flat(record.config), f"{SEARCHES}.trees."
    now: dict[str, Callable[[], str]] = {
        "model.dialect": lambda: models.settings.model.dialect,
        f"{trees}prompts": lambda: models.prompts,
        f"{trees}weights": lambda: models.tokens.revision,
    }
    for name, value in now.items():
        if (before := kept.get(name)) is not None and before != value():
            raise DataError(refusal(f"run {record.name!r}", [Difference(name.removeprefix(trees), before, value())]))
