"""What a run was begun with, and where another configuration differs from it."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.core.identity import Difference, differences, flat

SEARCHES, AGENTS = "searches", "agents"
DISCOUNT = "discount"
"""Among an agent's settings: that its Q-function was trained with."""
Owned = Mapping[str, Mapping[str, JsonValue]]
"""Settings of the searches made in a run, by who searches; or of its agents, by the kind of agent."""


class OtherConfigurationError(DataError):
    """A run was begun with another configuration than it is to go on with."""

    def __init__(self, run: str, differences: Sequence[Difference]) -> None:
        name, before, now = differences[0]
        super().__init__(
            f"run {run!r} was begun with {name} = {before}, and this is {now}: "
            "choose another name for the run, or go back to its configuration"
        )
        self.differences = differences


def going_on(
    run: str, before: Mapping[str, JsonValue], config: Mapping[str, JsonValue], searches: Owned, agents: Owned
) -> dict[str, JsonValue]:
    """The configuration of a run begun with `before` that goes on with `config`, `searches` and `agents`.

    What of a search or an agent the run does not know yet is added: it had none, or is of a bestofq that did not keep
    it. All else must be the same: OtherConfigurationError.
    """
    owned: dict[str, Owned] = {SEARCHES: searches, AGENTS: agents}
    known: dict[str, JsonValue] = {part: before.get(part, {}) for part in owned}
    new: dict[str, JsonValue] = {
        part: {who: dict(settings) for who, settings in own.items()} for part, own in owned.items()
    }
    in_both = flat(known).keys() & flat(new).keys()
    found = differences({name: value for name, value in before.items() if name not in owned}, config)
    found += [one for one in differences(known, new) if one.name in in_both]
    if found:
        raise OtherConfigurationError(run, sorted(found))
    after = dict(before)
    for part, own in owned.items():
        kept = _table(before.get(part))
        if merged := {**kept, **{who: {**settings, **_table(kept.get(who))} for who, settings in own.items()}}:
            after[part] = merged
    return after


def agree(stored: JsonValue, wanted: JsonValue) -> bool:
    """Whether both say the same, as far as both say something: older stores know fewer settings."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        return all(agree(stored[name], wanted[name]) for name in stored if name in wanted)
    return stored == wanted


def _table(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}
