"""How long to wait before the next try: twice as long each time, with jitter."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_ANY = Random()
"""Shared by all that bring none: to make one takes longer than a bind."""


@dataclass(slots=True)
class Backoff:
    """Waiting times of one thing that fails. The jitter spreads those that failed together."""

    first_s: float = 0.1
    most_s: float = 10.0
    random: Random = _ANY
    tries: int = 0

    def next(self, at_least: float | None = None) -> float:
        """Return the seconds to wait now; a server's wish is never undercut."""
        wait = min(self.most_s, self.first_s * 2.0 ** min(self.tries, 30))
        self.tries += 1
        wait *= 0.5 + self.random.random() / 2
        if at_least is not None:
            wait = max(wait, at_least * (1 + self.random.random() / 10))
        return wait

    def reset(self) -> None:
        """Start again with short waits: it worked."""
        self.tries = 0
