"""A value over several runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_T95 = (inf, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t for 95 % by degrees of freedom; beyond, that of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over seeds: mean, and half the width of its 95 % confidence interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return it of at least one value."""
        count = len(values)
        if count < 2:
            return cls(values[0], 0.0)
        t = _T95[count - 1] if count <= len(_T95) else 1.96
        return cls(fmean(values), t * stdev(values) / sqrt(count))

    @classmethod
    def over(cls, rows: Iterable[Mapping[str, object]], key: str) -> Spread | None:
        """Return it of one column; None: no row has a number there."""
        values = [value for row in rows if isinstance(value := row[key], int | float)]
        return cls.of(values) if values else None

    def told(self, form: str) -> str:
        """Return it in words."""
        half = f" ± {form.format(self.half).removesuffix(' s')}" if self.half else ""
        return form.format(self.mean).removesuffix(" s" if half else "\0") + half

    def as_data(self) -> dict[str, float]:
        """Return it as plain data."""
        return {"mean": self.mean, "half_ci95": self.half}
