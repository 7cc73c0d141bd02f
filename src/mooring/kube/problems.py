"""What cannot be understood of an object, as values: a field, what it holds, what to do."""

from __future__ import annotations

from dataclasses import dataclass

SHOWN = 80
"""So many characters of a value are told."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, or something that is not supported yet."""

    field: str
    """Path of the field, like `spec.containers[0].resources.requests.cpu`."""
    value: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value}: {self.fix}" if self.value else self.in_short

    @property
    def in_short(self) -> str:
        """Return field and fix only."""
        return f"{self.field}: {self.fix}" if self.field else self.fix


@dataclass(frozen=True, slots=True)
class Problems:
    """Everything that cannot be understood of one object, in the order of its fields."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def show(value: object) -> str:
    """Return a value as a problem tells it: printable, and short."""
    words = value if isinstance(value, str) else repr(value)
    if not words.isprintable():
        words = ascii(words)
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"
