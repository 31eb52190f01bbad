"""An element described in words, found among the page's elements by a language model that sees no pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.localizers.page import PageLocalizer, middle_of
from bestofq.agents.prompting import render
from bestofq.agents.structured_output import Prompt, Prompts, ask
from bestofq.core.decision import Located
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Element, Observation
from bestofq.core.page_text import page_words
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel

_ELEMENT = object_schema({"element": {"type": "integer"}})


@dataclass(frozen=True)
class TextLocalizer:
    """`Localizer` by any model with instructions, greedy: it names one of the page's elements. Of too many it reads
    those that fit the words best. An unreadable reply gets one repair turn; then it is refused."""

    model: LanguageModel

    async def locate(self, observation: Observation, target: str) -> Located:
        """The middle of the element, or a refusal. ModelError without a reply, ContextError when no element fits."""
        refusal = f'No element of the page fits "{target}".'
        if not observation.elements:
            return Located(refusal=refusal)

        def read(replies: Sequence[Reply], _: Picture | None) -> Element | None:
            mark = json_of(replies[0]).get("element")
            found = next((element for element in observation.elements if element.mark == mark), None)
            if found is None and mark != 0:
                raise ReplyError(f'"element" is {mark!r}: it must be the number of an element, or 0')
            return found

        try:
            found, usage = await ask(self.model, _prompts(observation, target), read, "localizer")
        except ReplyError as error:
            return Located(refusal=f'"{target}" was not found on the page: {error}.', usage=error.usage)
        if found is None:
            return Located(refusal=refusal, usage=usage)
        try:
            return Located(point=middle_of(found, target), usage=usage)
        except ReplyError as error:
            return Located(refusal=str(error), usage=usage)


async def _prompts(observation: Observation, target: str) -> Prompts:
    shown = [found.element for found in PageLocalizer().rank(observation, target)]  # the best first
    while shown:
        elements = [
            element.model_copy(update={"value": page_words(element.value or "")})
            for element in sorted(shown, key=lambda element: element.mark)
        ]
        text = render("localizer_text", title=observation.title, elements=elements, target=target)
        yield Prompt(request=Request(messages=user(text), schema=_ELEMENT, name="element"))
        shown = shown[: len(shown) // 2]
