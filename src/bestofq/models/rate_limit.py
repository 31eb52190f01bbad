"""How fast an endpoint may be asked: calls in flight follow how it bears them, and a failing endpoint is left alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

AGAIN = 60.0  # seconds after which a pause is reported again


class RateLimit:
    """Adaptive concurrency (additive increase, multiplicative decrease). After `trip_after` failures in a row one call
    in `cooldown` seconds probes: the run pauses instead of burning episodes, until one succeeds."""

    def __init__(self, most: int, *, trip_after: int = 20, cooldown: float = 15.0) -> None:
        self._most = most
        self._allowed = float(most)
        self._trip_after = trip_after
        self._cooldown = cooldown
        self._in_flight = 0
        self._failures = 0
        self._paused_until = 0.0
        self._report_at = 0.0
        self._cut_at = 0  # calls begun when the allowance was last halved
        self._begun = 0
        self._changed = asyncio.Condition()

    @property
    def allowed(self) -> int:
        """Calls that may be in flight now."""
        return 1 if self.paused else max(1, int(self._allowed))

    @property
    def paused(self) -> bool:
        """Whether the breaker is open: only probes go through."""
        return self._failures >= self._trip_after

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        """Waits for a free place; yields the call's number, which `overloaded` wants back."""
        loop = asyncio.get_running_loop()
        async with self._changed:
            while True:
                wait = self._paused_until - loop.time() if self.paused else 0.0
                if wait <= 0 and self._in_flight < self.allowed:
                    break
                try:
                    async with asyncio.timeout(wait if wait > 0 else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue
                except asyncio.CancelledError:
                    self._changed.notify()  # the place it may have been woken for is another's
                    raise
            self._in_flight += 1
            self._begun += 1
            number = self._begun
        try:
            yield number
        finally:
            async with self._changed:
                self._in_flight -= 1
                self._changed.notify(max(1, self.allowed - self._in_flight))

    def record_success(self) -> None:
        """One more call in flight for about every full round of successes."""
        self._failures, self._report_at = 0, 0.0
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)

    def record_overload(self, number: int) -> None:
        """Half as many calls in flight; calls that were under way at the last cut do not cut again."""
        if number > self._cut_at:
            self._allowed = max(1.0, self._allowed / 2)
            self._cut_at = self._begun

    def record_failure(self) -> bool:
        """A call that got no reply. Enough of them in a row open the breaker: whether that is to be reported, now and
        then while it is open."""
        self._failures += 1
        if not self.paused:
            return False
        now = asyncio.get_running_loop().time()
        self._paused_until = now + self._cooldown
        report = now >= self._report_at
        if report:
            self._report_at = now + AGAIN
        return report
