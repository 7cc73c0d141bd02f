"""Who would get room soon anyway waits for it, rather than make those leave who borrow.

How soon is expected from what became free lately (`flow`). Only rights between queues are put off:
what a workload may ask of its own queue, of overtakers once it is due and of guests on room that
was promised to its queue holds at once, and so does everything where no room is expected.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from mooring.policy.queues.offers import kinds_of
from mooring.policy.standing.spans import BETWEEN_QUEUES, Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.standing.roll import Roll
    from mooring.policy.victims.displace import Wish
    from mooring.policy.victims.evict import Victim

AT_ONCE = -inf
LONGER = 2
"""So many times the expected wait is waited."""
LEAST_S = 10.0
"""Waits are not told apart below this."""


# wide: who wants what of whom, by which shares
def patient_until(
    desk: Desk, roll: Roll, yardstick: Yardstick, wish: Wish, victims: Sequence[Victim]
) -> float:
    """Return until when a workload lets victims stay since room is expected to become free."""
    entry, most_s = wish.entry, desk.policy.eviction.patience_s
    if most_s <= 0 or wish.group or entry.workload.name in desk.due:
        return AT_ONCE
    if any(victim.cause not in BETWEEN_QUEUES for victim in victims):
        return AT_ONCE
    patience_s = _rounded(LONGER * _expected_s(desk, wish.ask), most_s)
    until = waits_since(entry) + patience_s
    if patience_s == 0 or until <= desk.now or _has_other_rights(desk, roll, yardstick, wish):
        return AT_ONCE
    return until


def waits_since(entry: Entry) -> float:
    """Return when a workload began to wait: it was submitted, or had to leave."""
    began = entry.workload.submitted_at
    evicted_at = entry.past.evicted_at
    return began if evicted_at is None else max(began, evicted_at)


def _expected_s(desk: Desk, ask: Ask) -> float:
    """Return how long it takes until as many devices are free as are asked for; 0: none are."""
    kinds = [kind for kind in kinds_of(desk, ask) if kind not in ask.barred]
    flavors = [desk.books.flavor_name(kind) for kind in kinds]
    found = 0.0
    for leaf in ask.leaves:
        assert leaf.demand is not None
        milli = leaf.demand.weight - 1
        if milli:
            found = max(found, desk.flow.wait_s(flavors, milli, leaf.count, desk.now))
    return found


def _rounded(wait_s: float, most_s: float) -> float:
    """Return a patience, by halves of the longest, so that it hardly changes; 0: it is too long."""
    if not 0 < wait_s <= most_s:
        return 0.0
    while most_s / 2 >= max(wait_s, LEAST_S):
        most_s /= 2
    return most_s


def _has_other_rights(desk: Desk, roll: Roll, yardstick: Yardstick, wish: Wish) -> bool:
    """Return whether a workload might ask some of its own queue, or was promised room."""
    for offer in wish.offers():
        if desk.policy.headroom and desk.promises.owed_to(wish.entry, offer) is not None:
            return True
        newcomer = wish.newcomer(roll, offer)
        if Spans(desk, roll.line(yardstick), newcomer).bold().spans:
            return True
    return False
