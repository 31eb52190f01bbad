"""Ask a model for a reply that can be read: repair turns for what cannot, a shorter prompt if one is too long.

The caller gives its prompts from the longest to the shortest (`state_prompts` for a question about a state), and a
reader that raises ReplyError.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from bestofq.agents.json_replies import json_of
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, ContextError, ReplyError
from bestofq.core.language import Message, Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel, VisionModel
from bestofq.core.usage import Role, Usage, attach_usage, merge_usage

T = TypeVar("T")
SHOWN = 30  # past actions, the last ones, to a model with instructions

Prompts = AsyncGenerator[tuple[Request, Picture | None], None]
"""The same request from its longest to its shortest, with the picture that points of the reply are on, as it is sent.
The next one is taken if the model has no room for the last."""

Reader = Callable[[Sequence[Reply], Picture | None], T]
"""What replies to a prompt with this picture mean. ReplyError, in words that help the model to correct it."""


async def ask_json(
    model: LanguageModel,
    prompts: Prompts,
    read: Callable[[dict[str, Any]], T],
    role: Role,
    otherwise: Callable[[ReplyError], T],
    *,
    attempts: int = 2,
) -> tuple[T, tuple[Usage, ...]]:
    """Return what `read` makes of the JSON object of one reply, and all usage. `otherwise` answers if none of the
    `attempts` can be read. ContextError and ModelError as `ask`."""
    try:
        return await ask(model, prompts, lambda replies, _: json_of(replies[0], read), role, attempts=attempts)
    except ReplyError as error:
        return otherwise(error), error.usage


async def ask(
    model: LanguageModel,
    prompts: Prompts,
    read: Reader[T],
    role: Role,
    *,
    attempts: int = 2,
    n: int | None = None,
    greedy: bool = False,
    repair: str = "with JSON only",
) -> tuple[T, tuple[Usage, ...]]:
    """Return what the reader makes of the replies, and all usage.

    The first attempt is one reply, or `n` replies, the first of them `greedy` or not. The second is a repair turn that
    says what was wrong and how to reply (`repair`), or a fresh sample if no such turn fits. The third is a fresh
    sample. A prompt that was too long is never sent again.

    ReplyError, with the first reply of each attempt, if none of the `attempts` can be read. ContextError if not even
    the shortest prompt fits. ModelError if the endpoint gives no reply. All carry the usage.
    """
    usage: list[Usage] = []
    first_replies: list[str] = []
    fresh = max(1, n or 1)  # seeds after the first: an endpoint may take one for each reply of the first attempt
    async with aclosing(prompts):
        request, picture = await anext(prompts)

        async def generate(tail: Sequence[Message] = (), later: int = 0, **changes: Any) -> Sequence[Reply]:
            nonlocal request, picture
            while True:
                messages, seed = (*request.messages, *tail), None if request.seed is None else request.seed + later
                asked = replace(request, messages=messages, seed=seed, role=role, **changes)
                try:
                    generation = await model.generate(asked)
                except ContextError as error:
                    if tail:  # no room for a repair turn: a sample of its own
                        tail, later = (), fresh + 1
                    elif shorter := await anext(prompts, None):
                        request, picture = shorter
                    else:
                        raise
                    usage.extend(error.usage)
                else:
                    usage.append(generation.usage)
                    return generation.replies

        tail: Sequence[Message] = ()
        with attach_usage(usage):
            for attempt in range(attempts):
                if attempt == 0 and n is not None:
                    replies = await generate(n=1 if greedy else n, greedy=greedy)
                    if greedy and n > 1:
                        replies = (*replies, *await generate(later=1, n=n - 1))
                else:
                    replies = await (generate(later=fresh) if attempt > 1 else generate(tail))
                first_replies.append(replies[0].text)
                try:
                    return read(replies, picture), merge_usage(usage)
                except ReplyError as error:
                    problem = error
                    if replies[0].finish == "refused":  # and would be again
                        break
                    tail = (
                        Message(role="assistant", text=replies[0].text or "(nothing)"),
                        Message(role="user", text=f"That cannot be used: {problem}. Reply again, {repair}."),
                    )
            raise ReplyError(str(problem), replies=first_replies) from problem


async def state_prompts(
    model: VisionModel,
    state: State,
    request: Request,
    *,
    system: Callable[[Picture | None], str],
    text: Callable[[int, int], str],
    screenshots: int,
    pointing: bool = False,
) -> Prompts:
    """Add messages about the state to the `request`: the last `screenshots` pictures, the current page last.

    Each next prompt is shorter. Pictures are halved down to `core.picture.FLOOR` pixels. Then those of earlier steps
    go, the oldest first. Then the older half of the history goes, again and again. The current page's picture is last.

    Args:
        text: the user's turn with so many past actions, before so many pictures.
        pointing: elements are points on the current page's picture, which stays. ConfigError if there is none.
    """
    seen = state.observation.screenshot
    shot = seen if screenshots and seen and seen.data else None
    if pointing and shot is None:
        raise ConfigError(
            "elements named by points need pictures, and there are none: set suite.env=browser and "
            "suite.screenshots=true, or name them by marks"
        )
    earlier = [picture for picture in state.screenshots if picture.data and shot]
    earlier = earlier[max(0, len(earlier) + 1 - max(1, screenshots)) :]
    picture = await model.picture(shot) if shot else None
    history = min(SHOWN, len(state.decisions))

    def prompt() -> tuple[Request, Picture | None]:
        shots = (*earlier, *((shot,) if shot and picture else ()))
        changed = replace(
            request,
            messages=user(text(history, len(shots)), shots, system=system(picture)),
            seed=state.step_seed,
            pixels=picture.limits.most if picture else None,
        )
        return changed, picture

    yield prompt()
    while shot and picture and picture.half is not None:
        picture = await model.picture(shot, picture.half)
        yield prompt()
    while earlier:
        earlier = earlier[1:]
        yield prompt()
    while history:
        history //= 2
        yield prompt()
    if picture and not pointing:
        picture = None
        yield prompt()
