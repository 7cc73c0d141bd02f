"""Until when others are protected without whom one could start.

Whoever may be asked at a time may be asked later too, and one more who leaves never hurts; so the
first time at which all who may be asked then make room is found by halves.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import product
from math import inf
from typing import TYPE_CHECKING

from mooring.policy.standing.rights import Rights
from mooring.policy.victims.displace import Choice, CutShortSearchError, Steps

if TYPE_CHECKING:
    from mooring.policy.desk import Desk
    from mooring.policy.queues.offers import Offer
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.standing.line import Line
    from mooring.policy.standing.roll import Roll
    from mooring.policy.victims.displace import Wish

PROOFS = 64
"""So many times are tried for one workload."""


# wide: who wants what of whom, by which shares, and not before when
def protected_until(
    desk: Desk, roll: Roll, yardstick: Yardstick, wish: Wish, since: float
) -> float:
    """Return when a workload could start by asking others, not before a time; or never."""
    line, steps = roll.line(yardstick), Steps(PROOFS)
    boldness = (False,) if wish.entry.past.is_bold else (False, True)
    found: list[float] = []
    try:
        for is_bold, offer in product(boldness, wish.offers()):
            asking = Asking(desk, roll, line, wish, offer, steps, is_bold)
            found += asking.first(since, min(found, default=inf))
    except CutShortSearchError:
        pass  # what was found until then is true, though there may be an earlier one
    return min(found, default=inf)


class Asking:
    """One way to ask others."""

    # wide: who wants what of whom, and how
    def __init__(
        self,
        desk: Desk,
        roll: Roll,
        line: Line,
        wish: Wish,
        offer: Offer,
        steps: Steps,
        is_bold: bool,
    ) -> None:
        self._desk, self._line = desk, line
        self._is_due = wish.entry.workload.name in desk.due
        self._is_early = wish.early_until > desk.now
        self._owed_s = desk.promises.owed_to(wish.entry, offer)
        self._newcomer = wish.newcomer(roll, offer)
        self._choice = Choice(roll, wish.entry, offer, steps)
        self._is_bold = is_bold
        self._ends: dict[float, None] = {}

    def first(self, since: float, before: float) -> list[float]:
        """Return the first time at which that makes room, if it is before another."""
        if not self._is_enough(inf):
            return []
        times = sorted({since, *(time for time in self._ends if since < time < before)})
        if not self._is_enough(times[-1]):
            return []
        return [times[bisect_left(times[:-1], True, key=self._is_enough)]]

    def _is_enough(self, time: float) -> bool:
        """Return whether all whom it may ask then make room."""
        turn = self._is_due, self._owed_s, self._is_early
        rights = Rights(self._desk, self._line, self._newcomer, *turn, at=time)
        rights.look(is_bold=self._is_bold)
        found = self._choice.could(rights)
        self._ends.update(rights.ends)
        return found
