"""Asking a model for a reply that can be read: repair turns for what cannot, a shorter prompt for too long ones.

Each user gives its prompts, from the longest to the shortest (`state_prompts` for a question about a state), and a
reader that raises ReplyError.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bestofq.core.counted import attach_usage
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, ContextError, ReplyError
from bestofq.core.language import Generation, Message, Reply, Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import LanguageModel, VisionModel
from bestofq.core.usage import Role, Usage, merge_usage

T = TypeVar("T")
SHOWN = 30  # past actions, the last ones, to a model with instructions


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A request in one of its lengths."""

    request: Request
    picture: Picture | None = None  # the one that points of the reply are on, as it is sent


Prompts = AsyncGenerator[Prompt, None]
"""The same request from its longest to its shortest: the next one is taken where the model has no room for the last."""

Reader = Callable[[Sequence[Reply], Picture | None], T]
"""What replies to a prompt with this picture say. ReplyError, in words that help the model to correct it."""


async def only(request: Request) -> Prompts:
    """A request that cannot be made shorter."""
    yield Prompt(request=request)


async def ask(
    model: LanguageModel,
    prompts: Prompts,
    read: Reader[T],
    role: Role,
    *,
    attempts: int = 2,
    n: int | None = None,
    repair: str = "with JSON only",
) -> tuple[T, tuple[Usage, ...]]:
    """What the reader reads, and all that was used.

    The first attempt is one reply, or `n` replies, the first of them greedy. The second is a repair turn that says
    what was wrong and how to reply (`repair`), or a fresh sample where no such turn fits. The third is a fresh sample.
    A prompt that was too long is never sent again.

    Raises, with what was used: ReplyError, with the first reply of each attempt, when none of the `attempts` can be
    read; ContextError when not even the shortest prompt fits; ModelError when the endpoint gives no reply.
    """
    usage: list[Usage] = []
    first_replies: list[str] = []
    fresh = max(1, n or 1)  # seeds after the first: an endpoint may take one for each reply of the first attempt
    async with aclosing(prompts):
        prompt = await anext(prompts)

        async def generate(tail: Sequence[Message] = (), later: int = 0, **changes: Any) -> Sequence[Reply]:
            nonlocal prompt
            while True:
                request = prompt.request
                seed = None if request.seed is None else request.seed + later
                try:
                    found: Generation = await model.generate(
                        replace(request, messages=(*request.messages, *tail), seed=seed, role=role, **changes)
                    )
                except ContextError as error:
                    if tail:  # no room for a repair turn: a sample of its own
                        tail, later = (), fresh + 1
                    elif shorter := await anext(prompts, None):
                        prompt = shorter
                    else:
                        raise
                    usage.extend(error.usage)
                else:
                    usage.append(found.usage(role))
                    return found.replies

        tail: Sequence[Message] = ()
        with attach_usage(usage):
            for attempt in range(attempts):
                if attempt == 0 and n is not None:
                    replies = await generate(greedy=True)
                    if n > 1:
                        replies = (*replies, *await generate(later=1, n=n - 1))
                else:
                    replies = await (generate(later=fresh) if attempt > 1 else generate(tail))
                first_replies.append(replies[0].text)
                try:
                    return read(replies, prompt.picture), merge_usage(usage)
                except ReplyError as error:
                    problem, tail = error, _repair(replies[0], str(error), repair)
            raise ReplyError(str(problem), replies=first_replies) from problem


def _repair(reply: Reply, problem: str, how: str) -> tuple[Message, Message]:
    """The turns that ask for another reply because of what was wrong with this one; `how` it should be."""
    return (
        Message(role="assistant", text=reply.text or "(nothing)"),
        Message(role="user", text=f"That cannot be used: {problem}. Reply again, {how}."),
    )


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
    """The `request` with messages about the state. `text`: of so many past actions and pictures shown.

    Includes the last `screenshots` images, the current page last. Pictures are halved down to `core.picture.FLOOR`
    pixels, then those of earlier steps go, the oldest first, then the older half of the history, again and again, then
    the picture of the current page, which stays where elements are points on it (`pointing`).

    ConfigError when elements are points and there is no picture.
    """
    shot = state.observation.screenshot if screenshots else None
    if shot is not None and not shot.data:
        shot = None
    if pointing and shot is None:
        raise ConfigError(
            "elements named by points need pictures, and there are none: set suite.env=browser and "
            "suite.screenshots=true, or name them by marks"
        )
    earlier = tuple(one for one in state.screenshots if one.data and shot)[::-1][: max(0, screenshots - 1)][::-1]
    picture = await model.picture(shot) if shot else None
    history = min(SHOWN, len(state.decisions))

    def prompt() -> Prompt:
        shots = (*earlier, *((shot,) if shot and picture else ()))
        asked = replace(
            request,
            messages=user(text(history, len(shots)), shots, system=system(picture)),
            seed=state.step_seed,
            pixels=picture.limits.most if picture else None,
        )
        return Prompt(request=asked, picture=picture)

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
