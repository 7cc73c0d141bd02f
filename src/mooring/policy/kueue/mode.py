"""How good a flavor is for a request: it fits, or others must make room, or it is hopeless."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.model.queues import Fungibility


class Mode(IntEnum):
    """What it takes to use a flavor, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Others would have to leave, but nobody may be asked."""
    PREEMPT = 2
    """Some of the victims are of its own queue."""
    RECLAIM = 3
    """All victims are of other queues."""
    FIT = 4


@dataclass(frozen=True, slots=True)
class Grade:
    """A mode, and how far it is to the quota that would be used."""

    mode: Mode
    distance: int

    @property
    def is_preempting(self) -> bool:
        """Return whether victims were found."""
        return self.mode in (Mode.PREEMPT, Mode.RECLAIM)


BEST = Grade(Mode.FIT, 0)
WORST = Grade(Mode.NO_FIT, 1 << 30)


def is_better(one: Grade, other: Grade, rules: Fungibility) -> bool:
    """Return whether a grade is better than another: by mode, then distance, or the reverse."""
    if Mode.NO_FIT in (one.mode, other.mode):
        return one.mode != Mode.NO_FIT and other.mode == Mode.NO_FIT
    hopeless = one.mode == Mode.NO_CANDIDATES, other.mode == Mode.NO_CANDIDATES
    if hopeless[0] != hopeless[1]:
        return hopeless[1]
    if rules.prefer == "preempting":
        return (-one.distance, one.mode) > (-other.distance, other.mode)
    return (one.mode, -one.distance) > (other.mode, -other.distance)


def is_next_tried(grade: Grade, rules: Fungibility) -> bool:
    """Return whether the next flavor is tried although this one is of such a grade."""
    if grade.mode <= Mode.NO_CANDIDATES:
        return True
    if grade.is_preempting and rules.when_preempting == "next":
        return True
    return grade.distance > 0 and rules.when_borrowing == "next"
