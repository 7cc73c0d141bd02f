"""What cannot be understood of an object, told so that its author can mend it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what is there, and what to do."""

    field: str
    """Path of the field, or name of the label or annotation."""
    value: str
    fix: str

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.field, self.value, self.fix]))
