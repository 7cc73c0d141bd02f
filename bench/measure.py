"""One measured number, and how to take it."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Result:
    """A number with its name and unit."""

    name: str
    value: float
    unit: str
    better: str
    """`higher` or `lower`."""
    target: float | None = None
    note: str = ""
    rival: float | None = None
    """What another product says it needs for the same."""

    @property
    def meets(self) -> bool | None:
        """Return whether the target is met; None if there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "higher" else self.value <= self.target


class Watch:
    """Seconds between start and stop."""

    seconds = 0.0


@contextmanager
def watch() -> Iterator[Watch]:
    """Time a block, after the garbage of what came before is gone."""
    gc.collect()
    taken = Watch()
    start = time.perf_counter()
    yield taken
    taken.seconds = time.perf_counter() - start
