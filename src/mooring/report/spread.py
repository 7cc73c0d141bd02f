"""A value over several runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_T95 = (inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t for 95 % by degrees of freedom; beyond, a series."""
_Z95 = 1.959964
"""The same of the normal distribution."""


def student_t(degrees: int) -> float:
    """Return the factor of a 95 % interval, to a thousandth."""
    if degrees < len(_T95):
        return _T95[degrees]
    z, n = _Z95, degrees
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + (z**3 + z) / 4 / n + second / n**2 + third / n**3


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
        return cls(fmean(values), student_t(count - 1) * stdev(values) / sqrt(count))

    @classmethod
    def over(cls, rows: Iterable[Mapping[str, object]], key: str) -> Spread | None:
        """Return it of one column; None: no row has a number there."""
        values = [value for row in rows if isinstance(value := row.get(key), int | float)]
        return cls.of(values) if values else None

    def told(self, form: str) -> str:
        """Return it in words; of a mean with an interval the unit stands last."""
        if not self.half:
            return form.format(self.mean)
        return f"{form.format(self.mean).removesuffix(' s')} ± {form.format(self.half)}"

    def as_data(self) -> dict[str, float]:
        """Return it as plain data."""
        return {"mean": self.mean, "half_ci95": self.half}
