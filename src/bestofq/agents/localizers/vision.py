"""An element described in words, found on the screenshot by a vision-language model (Best-of-Q, A.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bestofq.agents.candidates import point_of
from bestofq.agents.prompting import localizer_prompt
from bestofq.core.decision import Usage
from bestofq.core.errors import ConfigError, ContextError, ReplyError
from bestofq.core.location import Located
from bestofq.core.observation import Observation, Screenshot
from bestofq.core.usage import merge_usage
from bestofq.models.chat import ChatModel, ChatReply, ChatRequest, Message
from bestofq.models.images import Picture

POINT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class VisionLocalizer:
    """`Localizer` by any chat endpoint that answers with a click in JSON, `{"x": 352, "y": 348}`, as Holo1.5 does: in
    pixels of the picture it was sent, or in thousandths (`ChatConfig.coordinates`).

    A reply that is none, or a point outside the picture, gets one repair turn; then it is refused.
    """

    model: ChatModel

    async def locate(self, observation: Observation, target: str) -> Located:
        """The point, or a refusal. ModelError when the endpoint gives no reply, ContextError when the smallest picture
        is too large for it, ConfigError when the environment takes no screenshots."""
        shot = observation.screenshot
        if shot is None or not shot.data:
            raise ConfigError(
                "a model can find elements on screenshots only, and there are none: set suite.env=browser and "
                "suite.screenshots=true"
            )
        picture = await self.model.picture(shot)
        usage: list[Usage] = []
        tail: tuple[Message, ...] = ()
        problem = ""
        for _ in ("ask", "repair"):
            reply, picture = await self._fitting(shot, target, picture, tail)
            usage.append(reply.usage("localizer"))
            try:
                return Located(point=point_of(reply.json(), picture), usage=merge_usage(usage))
            except ReplyError as error:
                problem, tail = str(error), reply.repair(str(error))
        return Located(refusal=f'"{target}" was not found on the screenshot: {problem}.', usage=merge_usage(usage))

    async def _fitting(
        self, shot: Screenshot, target: str, picture: Picture, tail: tuple[Message, ...]
    ) -> tuple[ChatReply, Picture]:
        """A reply, and the picture in the size that fitted."""
        while True:
            asked = Message(role="user", text=localizer_prompt(target, picture), screenshots=(shot,))
            try:
                reply = await self.model.reply(
                    ChatRequest(
                        messages=(asked, *tail),
                        schema=POINT,
                        name="click",
                        temperature=0.0,
                        max_tokens=256,
                        pixels=picture.limits.most,
                    )
                )
            except ContextError:
                if picture.half is None:
                    raise
                picture = await self.model.picture(shot, picture.half)
            else:
                return reply, picture
