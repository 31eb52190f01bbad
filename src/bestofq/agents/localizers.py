"""An element described in words becomes a point (Best-of-Q, A.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.dialects.json import point_of
from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import picture_unit, render
from bestofq.agents.structured_output import Prompts, ask
from bestofq.core.decision import Located
from bestofq.core.errors import ConfigError, ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Observation, Point, Screenshot
from bestofq.core.picture import Picture
from bestofq.core.protocols import VisionModel

POINT = object_schema({"x": {"type": "integer"}, "y": {"type": "integer"}})


@dataclass(frozen=True)
class VisionLocalizer:
    """`Localizer` by a chat endpoint that answers with a click in JSON, `{"x": 352, "y": 348}`, as Holo1.5 does.

    The point is in pixels of the picture as it was sent, or in thousandths (`ChatConfig.coordinates`). An unreadable
    reply, or a point outside the picture, gets one repair turn and then is a refusal.
    """

    model: VisionModel

    async def locate(self, observation: Observation, target: str) -> Located:
        """The point, or a refusal. ModelError if the endpoint gives no reply, ContextError if the smallest picture is
        too large for it, ConfigError if the environment takes no screenshots."""
        shot = observation.screenshot
        if shot is None or not shot.data:
            raise ConfigError(
                "a model can find elements on screenshots only, and there are none: set suite.env=browser and "
                "suite.screenshots=true"
            )

        def read(replies: Sequence[Reply], picture: Picture | None) -> Point:
            assert picture is not None
            return json_of(replies[0], lambda data: point_of(data, picture))

        try:
            point, usage = await ask(self.model, self._prompts(shot, target), read, "localizer")
        except ReplyError as error:
            return Located(refusal=f'"{target}" was not found on the screenshot: {error}.', usage=error.usage)
        return Located(point=point, usage=usage)

    async def _prompts(self, shot: Screenshot, target: str) -> Prompts:
        pixels: int | None = None
        while True:
            picture = await self.model.picture(shot, pixels)
            text = render("localizer", target=target, unit=picture_unit(picture))
            request = Request(messages=user(text, (shot,)), schema=POINT, name="click", pixels=picture.limits.most)
            yield request, picture
            if picture.half is None:
                return
            pixels = picture.half
