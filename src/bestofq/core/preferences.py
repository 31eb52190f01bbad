"""What Agent Q learns from: composite actions with the likelihoods they were drawn with, in preferred pairs."""

from typing import Self

from pydantic import Field, model_validator

from bestofq.core.frozen import FrozenModel


class Turn(FrozenModel):
    """One composite action of a model: h_t as the prompt's tokens, a_t as the reply's, and log π_ref(a_t | h_t)."""

    prompt_ids: tuple[int, ...] = Field(min_length=1)
    reply_ids: tuple[int, ...] = Field(min_length=1, description="as drawn, the end of the reply included")
    log_prob: float = Field(description="natural log, of the whole reply, under the model that drew it")


class PreferencePair(FrozenModel):
    """Two continuations, the first preferred: of a node by one turn each (Agent Q, Eq. 5), or of a task (Eq. 6)."""

    chosen: tuple[Turn, ...] = Field(min_length=1)
    rejected: tuple[Turn, ...] = Field(min_length=1)
    margin: float = Field(ge=0, description="Q(h, a_w) - Q(h, a_l), Eq. 10; 1 between a success and a failure")
    task: str = Field(description="Task.id")
    node: int = Field(default=0, description="index of the node in its search tree; 0: the whole task")

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if self.chosen == self.rejected:
            raise ValueError(f"task {self.task}, node {self.node}: chosen and rejected are the same")
        return self
