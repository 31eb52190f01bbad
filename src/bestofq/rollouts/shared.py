"""What the processes of a command on a cluster have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bestofq.core.usage import Usage
from bestofq.models.prices import Budget

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.model_actors import ModelActors


@dataclass(frozen=True)
class Shared:
    """What a process of a cluster has in common with the others of its command."""

    models: "ModelActors | None" = None  # that hold the local models; None: each process its own
    budget: Budget = field(default_factory=Budget)  # of this process, and what it knows of the others' spending
    steps: list[Sequence[Usage]] = field(default_factory=list)  # that it made, of which the command has not heard yet
