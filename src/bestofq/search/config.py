"""The settings of a search."""

from typing import Annotated, Literal

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE


class SearchConfig(FrozenModel):
    """One tree. The paper gives no numbers for K, c_exp or the iterations; T, the depth, is the suite's step limit."""

    iterations: Annotated[int, FREE] = Field(default=16, ge=1, description="rollouts a tree")
    candidates: int = Field(default=4, ge=1, description="K, actions proposed at each node (Agent Q, 5.1.1)")
    exploration: float = Field(default=0.5, ge=0, description="c_exp of UCB1 (Eq. 7)")
    rollout: Literal["sample", "greedy"] = Field(
        default="sample", description="what a rollout does: draw from the policy (5.1.2), or take its first choice"
    )
    stop_at_success: bool = Field(default=False, description="begin no rollout after one with R = 1")
