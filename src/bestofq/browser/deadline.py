"""A limit on every call to the browser: Playwright has none on `evaluate` and on raw protocol calls."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from playwright.async_api import Error as PlaywrightError

from bestofq.core.errors import BrowserError

T = TypeVar("T")


async def within(seconds: float, call: str, awaitable: Awaitable[T]) -> T:
    """The awaitable's result. Raises BrowserError naming the call, when it takes longer or the browser has gone."""
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError as error:
        raise BrowserError(f"The browser did not finish {call} within {seconds:g} s.") from error
    except PlaywrightError as error:
        if is_gone(error):
            raise BrowserError(f"The browser or its page was gone during {call}.") from error
        raise


def is_gone(error: PlaywrightError) -> bool:
    """Whether the error says that page, context or browser no longer exist."""
    gone = ("has been closed", "Target closed", "Target crashed", "Page crashed", "Connection closed", "not attached")
    return any(words in error.message for words in gone)
