"""A chat model is asked about a state: with its page, pictures and history, then with less and less of them."""

from collections.abc import Callable
from dataclasses import replace

from bestofq.agents.structured_output import Prompt, Prompts
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError
from bestofq.core.language import Request, user
from bestofq.core.picture import Picture
from bestofq.core.protocols import VisionModel


async def state_prompts(
    model: VisionModel,
    state: State,
    request: Request,
    *,
    system: Callable[[Picture | None], str],
    text: Callable[[int, int], str],
    screenshots: int,
    history: int,
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
    history = min(history, len(state.decisions))

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
