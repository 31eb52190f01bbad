"""What a run was begun with, and the sentence if it would continue with something else."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.core.identity import Difference, Endpoint, as_set, differences

AGENTS, TREES = "agents", "trees"
"""In a run's configuration: settings of its agents by their names; under `trees` those of its searches for trees."""
Q, DISCOUNT, GATE = "q", "discount", "gate"
"""Among an agent's settings: the name of its Q-function, and the discount that this was trained with."""
Owned = Mapping[str, Mapping[str, JsonValue]]  # settings of agents by their names
_FIRST = ("chat.model", Q)  # what other differences follow from
_WAYS = {  # how to go back to what is no setting
    "split": "--split {}",
    "importer": "`bestofq import {}`",
    "n": "--n {0}, in Python n_candidates={0}",
    **{f"{part}_class": f"a {part} of the class {{}}" for part in ("proposer", "scorer", "selector", "localizer")},
    Q: "--q and the folder of the Q-function {}",
    "weights": "--model and the model of the weights {}",
    "prompts": "the prompts {}",
}


def going_on(
    run: str, before: Mapping[str, Any], config: Mapping[str, JsonValue], agents: Owned, played: Collection[str]
) -> dict[str, JsonValue]:
    """Return the configuration of a run that continues. New agents are added, and those that have not `played` are
    replaced, except those that search and keep trees. DataError if another setting differs."""
    if differing := differences({name: value for name, value in before.items() if name != AGENTS}, config):
        raise DataError(refusal(f"run {run!r}", differing))
    kept = {**before.get(AGENTS, {})}
    for who, settings in agents.items():
        if who in kept and who in (TREES, "mcts", *played) and (differing := differences(kept[who], settings)):
            raise DataError(refusal(f"{who} in run {run!r}", differing))
        kept[who] = dict(settings)
    return {**before, AGENTS: kept} if kept else {**before}


def refusal(who: str, differing: Sequence[Difference]) -> str:
    """Say why a run cannot continue: a setting, its value then and now, and the way back."""
    name, before, now = min(differing, key=lambda each: each.name not in _FIRST)
    own = "or begin another run, by another name or in another folder"
    if before is None:
        return f"{who} was begun without {name}, and this has {as_set(now)}: leave it out, {own}"
    table = "endpoints." if name.partition(".")[0] in get_args(Endpoint) else ""
    setting = f"--set {shlex.quote(f'{table}{name}={as_set(before)}')}"
    way = _WAYS[name].format(as_set(before)) if name in _WAYS else setting
    return f"{who} was begun with {name}={as_set(before)}, and this has {as_set(now)}: continue with {way}, {own}"
