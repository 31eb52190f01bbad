"""Where an element is that an action names in words (Best-of-Q, A.1)."""

from bestofq.core.actions import Targeted
from bestofq.core.decision import Candidate
from bestofq.core.observation import Observation
from bestofq.core.protocols import Localizer
from bestofq.core.usage import Usage


async def locate_candidate(
    candidate: Candidate, page: Observation, localizer: Localizer
) -> tuple[Candidate, tuple[Usage, ...]]:
    """Add a point to a candidate's target in words, and return what finding it used. A refusal is kept with the words:
    the agent reads it as the error of its next observation."""
    action = candidate.action
    if not isinstance(action, Targeted) or action.target is None:
        return candidate, ()
    found = await localizer.locate(page, action.target)
    there = action.model_copy(update={"point": found.point, "refusal": found.refusal or None})
    return candidate.model_copy(update={"action": there}), found.usage
