"""Every error that bestofq raises on purpose. A message names the value, the limit, and the command that fixes it.

An action that cannot be carried out is no error: it is `Observation.error`, data for the agent.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line's help needs errors, and loads no pydantic
    from bestofq.core.usage import Usage


class BestOfQError(Exception):
    """Base of all; its message is a sentence fit for the terminal. `usage`: what models had used in vain by then."""

    exit_code = 1
    usage: "tuple[Usage, ...]" = ()


class InputError(BestOfQError):
    """What the user gave is wrong."""

    exit_code = 2


class ConfigError(InputError):
    """A setting has an unknown name or an impossible value."""


class DataError(InputError):
    """A data file is missing, malformed or of another kind."""


class DamageError(DataError):
    """What a store holds is not what was written; the message names the store, what is damaged, and the remedy."""

    @classmethod
    def of(cls, what: str, store: object) -> "DamageError":
        return cls(f"{what} is damaged: `bestofq doctor --store {store}` says what is lost and what can be recovered")


class SupersededError(DataError):
    """Another process plays this episode now, or grows this tree; what this one had committed is kept."""


class SetupError(BestOfQError):
    """Something this machine lacks; the message names the command that fixes it."""

    exit_code = 3


class BudgetError(BestOfQError):
    """The endpoints' replies cost what the command may cost; what was finished before is kept."""


class CheckpointError(BestOfQError):
    """A checkpoint that is damaged, or does not fit what it is loaded for."""


class InfraError(BestOfQError):
    """The machinery failed, not the agent; the episode is truncated and left out of training."""


class BrowserError(InfraError):
    """Chromium crashed, or a browser call passed its deadline."""


class ModelError(InfraError):
    """The model could not reply."""


class ContextError(ModelError):
    """The request is longer than the model's context: send less, never the same again."""


class ReplyError(BestOfQError):
    """A model's reply holds no valid action. `replies`: all that came, as written."""

    def __init__(self, message: str, *, usage: "Sequence[Usage]" = (), replies: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.usage, self.replies = tuple(usage), tuple(replies)
