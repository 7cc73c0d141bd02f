"""A token bucket: so much a second, and a little more at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Bucket:
    """Lets `rate` through a second, and up to `burst` at once after a rest."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self.burst = max(burst, 1.0)
        self._clock = clock
        self._tokens = self.burst
        self._at = clock()

    def wait_s(self) -> float:
        """Return after how many seconds there will be a token."""
        now = self._clock()
        self._tokens = min(self.burst, self._tokens + max(now - self._at, 0.0) * self.rate)
        self._at = now
        return max(1.0 - self._tokens, 0.0) / self.rate

    async def take(self) -> None:
        """Return when a token was there, and take it."""
        while (seconds := self.wait_s()) > 1e-9:  # noqa: ASYNC110 (time is awaited)
            await asyncio.sleep(seconds)
        self._tokens -= 1.0
