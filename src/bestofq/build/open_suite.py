"""A suite while it is open: where episodes are played."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bestofq.core.actions import Action
from bestofq.core.irreversible import irreversible
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import EnvFactory, Judge

Tasks = Callable[[Split, int | None], Awaitable[Sequence[Task]]]
"""(split, how many at most) → the first of its tasks, in an order that makes them a fair sample."""


def seems_irreversible(observation: Observation, action: Action) -> bool:
    """Guessed from what the page says, where the suite does not know."""
    return irreversible(action, observation) is not None


@dataclass(frozen=True)
class OpenSuite:
    """Where episodes are played."""

    make_env: EnvFactory
    tasks: Tasks
    step_limit: int  # steps an episode may take
    judge: Judge | None = None  # where the environment has no reward of its own
    sandboxed: bool = True  # irreversible actions harm nobody: the site is ours
    irreversible: Callable[[Observation, Action], bool] = seems_irreversible  # what search must not carry out
