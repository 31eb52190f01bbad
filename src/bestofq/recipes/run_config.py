"""What a run depends on, as it is kept with the run; and the sentence when it is to go on with something else."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.core.identity import Difference, as_set
from bestofq.core.observation import Split
from bestofq.recipes.parts import Parts
from bestofq.recipes.settings import AgentKind, BestOfQSettings
from bestofq.store.configuration import AGENTS, DISCOUNT, SEARCHES
from bestofq.store.records import RunRecord

Searcher = Literal["trees", "mcts"]
"""Who searches in a run: `search_tasks` for trees to learn from, or the agent mcts before each of its steps."""
WEIGHTS, Q = "weights", "q"
_SETTINGS = (  # what the settings of a kept name are called, where they are not called alike
    (r"searches\.\w+\.feedback", "agent_q.feedback"),
    (r"searches\.trees\.(\w+)", r"agent_q.search.\1"),
    (r"asked\.pictures", "suite.screenshots"),
    (r"asked\.(\w+)", r"\1"),
    (r"localizer\.(\w+)", r"localizer_chat.\1"),
    (r"picker\.(\w+)", r"picker_chat.\1"),
    (r"judge\.screenshots", "judge_screenshots"),
    (r"agents\..+\.beams", "model.beams"),
    (r"agents\..+\.beta", "beta"),
)


def run_config(parts: Parts, split: Split) -> dict[str, JsonValue]:
    """What a run's episodes depend on besides the agent's own Q-function; a run refuses to go on with another."""
    kept: dict[str, JsonValue] = parts.settings.model_dump(mode="json", include={"n_candidates", "epsilon", "seed"})
    model = parts.settings.model
    kept["model"] = {
        **model.model_dump(mode="json", include={"path", "temperature", "draws"}),
        "reply_tokens": model.most_tokens,
        **({} if model.dialect == "commands" else {"dialect": model.dialect}),
    }
    suite = parts.settings.suite
    kept["suite"] = {**suite.identity(), "step_limit": parts.step_limit}
    if parts.settings.chat is not None:
        kept["chat"] = parts.settings.chat.model_dump(mode="json", include={"model", "base_url", "temperature"})
        ways = {"by", "chat_screenshots", "localizer"}
        kept["asked"] = {**parts.settings.model_dump(mode="json", include=ways), "pictures": suite.screenshots}
        if parts.settings.localizer_chat is not None:
            finder = parts.settings.localizer_chat
            kept["localizer"] = finder.model_dump(mode="json", include={"model", "base_url"})
    if parts.settings.picker_chat is not None:
        kept["picker"] = parts.settings.picker_chat.model_dump(mode="json", include={"model", "base_url"})
    if parts.settings.judge is not None:
        judge = parts.settings.judge.model_dump(mode="json", include={"model", "base_url"})
        kept["judge"] = {**judge, "screenshots": parts.settings.judge_screenshots}
    return {**kept, "split": split}


def endpoint_of(config: Mapping[str, JsonValue]) -> str | None:
    """The model behind an endpoint that proposed in a run of this configuration, where there was one."""
    for kept in (config.get("chat"), config.get("model")):  # of `run_config`, of a goal on any page
        if isinstance(kept, dict) and "base_url" in kept:
            return str(kept["model"])
    return None


def search_settings(parts: Parts, searcher: Searcher) -> dict[str, JsonValue]:
    """What a search depends on. Trees may go on with more rollouts and more time, so these are not of them; the
    likelihoods in them are of one model's weights, so these are."""
    chosen = parts.settings.agent_q
    if searcher == "trees":
        kept = chosen.search.model_dump(mode="json", exclude={"iterations", "seconds"})
        if parts.settings.chat is None:
            kept[WEIGHTS] = parts.model.revision
    else:
        kept = (chosen.inference or chosen.search).model_dump(mode="json")
    return {**kept, "feedback": chosen.feedback}


def agent_settings(settings: BestOfQSettings, kind: AgentKind, n: int | None = None) -> dict[str, JsonValue]:
    """What only this kind of agent depends on; `n`: candidates a step, none: as the settings say."""
    match kind:
        case "prompting" | "mcts":  # a search keeps its own
            return {}
        case "beam":
            return {"beams": settings.model.beams}
        case "prior":
            return {"n": n or settings.n_candidates, "beta": settings.beta}
        case _:
            return {"n": n or settings.n_candidates}


def check_unkept(parts: Parts, run: str, kind: AgentKind) -> None:
    """DataError where an agent of a run of a bestofq that kept no settings of agents has others than by default."""
    now = agent_settings(parts.settings, kind)
    for name, default in agent_settings(BestOfQSettings(), kind).items():
        if name != "n" and now[name] != default:  # N may have been any: --n was not kept
            setting = _setting(parts, f"{AGENTS}.{kind}.{name}")
            raise DataError(
                f"run {run!r} does not say with which {setting} its agent {kind} began, so {as_set(default)} is taken, "
                f"and this has {as_set(now[name])}: leave it out, or begin another run"
            )


def check_searched(parts: Parts, record: RunRecord) -> None:
    """DataError where the trees of a run were grown by other weights than the parts' model, or from other prompts."""
    run, config = record.name, record.config
    model, dialect = config.get("model"), parts.settings.model.dialect
    before = model.get("dialect", "commands") if isinstance(model, dict) else dialect
    if before != dialect:
        raise refusal(parts, run, [Difference("model.dialect", before, dialect)])
    if record.provenance.prompt_hash not in ("", parts.prompts):
        raise DataError(
            f"the trees of the run {run!r} were grown with prompts {record.provenance.prompt_hash[:8]}, and those of "
            f"this bestofq are {parts.prompts[:8]}: learn from them with the version that searched, or search again in "
            "another run"
        )
    grown = config.get(SEARCHES, {})
    trees = grown.get("trees", {}) if isinstance(grown, dict) else {}
    weights = trees.get(WEIGHTS) if isinstance(trees, dict) else None
    if weights not in (None, parts.model.revision):
        raise refusal(parts, run, [Difference(f"{SEARCHES}.trees.{WEIGHTS}", weights, parts.model.revision)])


def refusal(parts: Parts, run: str, differences: Sequence[Difference]) -> DataError:
    """Why the run cannot go on, by the name of a setting, with what lets it go on. How an endpoint is asked follows
    from there being one, so an endpoint is named first; a discount is its Q-function's, which is named before it."""
    name, before, now = min(differences, key=lambda one: (one.name != "chat.model", one.name.endswith(f".{DISCOUNT}")))
    own = "or begin another run, by another name or in another folder"
    if name == f"{SEARCHES}.trees.{WEIGHTS}":
        path = parts.settings.model.path
        return DataError(
            f"the trees of the run {run!r} were grown by a model of revision {before}, and {path} is of {now}: "
            f"give --model the one that searched, {own}"
        )
    if name == "split":
        return DataError(
            f"run {run!r} was begun on the split {before}, and this is {now}: give --split {before}, {own}"
        )
    if match := re.fullmatch(rf"{AGENTS}\.(.+)\.n", name):
        return DataError(
            f"the agent {match[1]} of the run {run!r} was begun with N = {before} candidates a step, and this is "
            f"{now}: go on with --n {before}, {own}"
        )
    if match := re.fullmatch(rf"(?:{AGENTS}|{SEARCHES})\.(.+)\.({Q}|{DISCOUNT})", name):
        which = "the Q-function" if match[2] == Q else "a Q-function trained with discount"
        return DataError(
            f"{match[1]} of the run {run!r} began with {which} {before}, and this is {now}: "
            f"give --q the folder of the one it began with, {own}"
        )
    setting = _setting(parts, name)
    if before is None:
        return DataError(f"run {run!r} was begun without {setting}, and this has {as_set(now)}: leave it out, {own}")
    return DataError(
        f"run {run!r} was begun with {setting}={as_set(before)}, and this has {as_set(now)}: "
        f"go on with --set {shlex.quote(f'{setting}={as_set(before)}')}, {own}"
    )


def _setting(parts: Parts, name: str) -> str:
    """The setting of a kept name."""
    at_inference = "inference" if parts.settings.agent_q.inference else "search"
    for pattern, setting in (*_SETTINGS, (r"searches\.mcts\.(\w+)", rf"agent_q.{at_inference}.\1")):
        if match := re.fullmatch(pattern, name):
            return match.expand(setting)
    return name
