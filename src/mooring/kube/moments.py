"""Moments as the API server writes them."""

from __future__ import annotations

import time
from datetime import datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def seconds(text: str) -> float | None:
    """Return a moment in seconds since 1970; None: there is none, or it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


class Clock:
    """The time of day when it was made, and from then on a clock that nobody can set.

    Somebody who corrects the clock of the machine by a day must not end all that has a limit.
    """

    def __init__(self) -> None:
        self._ahead = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the moment, in seconds since 1970."""
        return self._ahead + time.monotonic()
