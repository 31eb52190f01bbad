"""Two localizers, the second for what the first refuses."""

from dataclasses import dataclass

from bestofq.core.location import Located
from bestofq.core.observation import Observation
from bestofq.core.protocols import Localizer
from bestofq.core.usage import merge_usage


@dataclass(frozen=True)
class FallbackLocalizer:
    """`Localizer`: `first`, and `second` where it refuses: the page, which costs nothing, then a model (A.1)."""

    first: Localizer
    second: Localizer

    async def locate(self, observation: Observation, target: str) -> Located:
        """The first point found; where both refuse, the first's words, which name what the page holds."""
        found = await self.first.locate(observation, target)
        if found.point is not None:
            return found
        other = await self.second.locate(observation, target)
        usage = merge_usage((*found.usage, *other.usage))
        return (found if other.point is None else other).model_copy(update={"usage": usage})
