"""Where an element described in words is (`Located`)."""

from typing import Self

from pydantic import Field, model_validator

from bestofq.core.noun import Noun
from bestofq.core.observation import Point
from bestofq.core.usage import Usage


class Located(Noun):
    """What a localizer says: the point, or why there is none; and what it used, in both cases."""

    point: Point | None = Field(default=None, description="CSS pixels from the viewport's top left corner")
    refusal: str = Field(default="", description="why there is no point, in words for the acting model")
    usage: tuple[Usage, ...] = ()

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.point is None) == (not self.refusal):
            raise ValueError("give a point or a refusal, one of the two")
        return self
