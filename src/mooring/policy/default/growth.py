"""A workload that runs and gets one more unit: beside the others, charged as they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.policy.placing.beside import growth
from mooring.policy.placing.why import why
from mooring.policy.queues.offers import (
    Offer,
    gate,
    over_quota,
    place_beside,
    shortage_of,
    variants,
)
from mooring.policy.queues.tree import NOBODY
from mooring.policy.victims.displace import Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.default.displacing import Displacing
    from mooring.policy.default.hall import Hall
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask, Part
    from mooring.policy.placing.beside import Beside
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.lines import Line


class Growth:
    """Lets those in a hall grow who run already."""

    def __init__(self, desk: Desk, hall: Hall, displacing: Displacing) -> None:
        self.desk = desk
        self.hall = hall
        self.displacing = displacing

    def attempt(self, entry: Entry, line: Line, group: str, reasons: list[Reason]) -> bool:
        """Place one more unit of a group beside the others, or say why that cannot be."""
        desk, hall = self.desk, self.hall
        if entry.is_incomplete:  # what it would grow beside is on its way out
            return False
        item = (entry.workload.name, group)
        beside = desk.beside(entry)
        reasons += gate(desk, entry)
        is_open = not reasons
        barred, blockers, _ = hall.blocked(entry, line)
        hall.bookings.settle(hall.queue_of[item[0]], hall.lines_of(entry).rank_of(item))
        beside.barred = barred
        if is_open and self._place(entry, beside, group, reasons):
            return True
        if is_open:
            wish = _wish_to_grow(desk, entry, replace(line.ask, barred=barred), group)
            if wish.tasks and self.displacing.displace(line, wish, reasons):
                return True
            if wish.tasks and not reasons:
                reasons += _beyond_quota(desk, wish)
        if not reasons:
            desk.placer.aim((*entry.avoid, *beside.closed), beside.barred)
            reasons += blockers or why(desk.placer, line.ask, beside.bound(_leaf(beside, group)))
        return False

    def _place(self, entry: Entry, beside: Beside, group: str, reasons: list[Reason]) -> bool:
        """Place a unit where it delays nobody who is booked."""
        desk, bookings, item = self.desk, self.hall.bookings, (entry.workload.name, group)
        wanted = {group: growth(entry.members[group], _leaf(beside, group))}
        closed, found = beside.closed, None

        def place_it(away: tuple[str, ...], reasons: list[Reason]) -> list[Seats] | None:
            nonlocal found
            beside.closed = (*closed, *away)
            found = place_beside(desk, entry, beside, wanted, reasons)
            return None if found is None else [each for _, each in found]

        has_room = bookings.let(item, place_it, reasons) is not None
        beside.closed = closed
        if not has_room or found is None:
            return False
        lines = self.hall.lines_of(entry)
        self.hall.drop(lines, item)
        lines.close(item)
        for tasks, seats in found:
            desk.start(entry, tasks, seats)
        bookings.started(entry)
        self.hall.wait_to_grow(entry, lines)
        return True


def _leaf(beside: Beside, group: str) -> Part:
    """Return the part of a group."""
    return next(leaf for leaf in beside.root.leaves() if leaf.name == group)


def _beyond_quota(desk: Desk, wish: Wish) -> list[Reason]:
    """Return which queue is in the way however a unit is charged; more nodes are no help then."""
    short = [shortage_of(desk, wish.entry, offer.request) for offer in wish.offers()]
    found = [each for each in short if each is not None and each.queue != NOBODY]
    if not found or len(found) < len(short):
        return []
    return [over_quota(desk, wish.entry, found[0])]


def _wish_to_grow(desk: Desk, entry: Entry, ask: Ask, group: str) -> Wish:
    """Return the next unit of a group as something that others may have to leave for.

    It stays beside what runs: in the same domain, on the same flavor.
    """
    beside = desk.beside(entry)
    tasks = growth(entry.members[group], _leaf(beside, group))
    offers = partial(_offers, desk, entry, ask, group)

    def place_it(offer: Offer) -> list[Seats] | None:
        beside.barred = offer.barred
        found = beside.place({group: tasks})
        return None if found is None else [seats for _, seats in found]

    def suffices() -> bool:
        return any(
            shortage_of(desk, entry, offer.request) is None and place_it(offer) is not None
            for offer in offers()
        )

    return Wish(entry, ask, offers, suffices, place_it, group, tasks)


def _offers(desk: Desk, entry: Entry, ask: Ask, group: str) -> Sequence[Offer]:
    """Return how a unit is charged: as its group is, or as the kinds of nodes that it is on."""
    members = entry.members[group]
    if members.flavor != BY_NODE:
        leaf = replace(ask.root, code=members.flavor)
        ask = replace(ask, root=leaf, leaves=(leaf,))
        return [Offer(ask, desk.request(ask, entry.account), ask.barred)]
    if desk.groups_of(entry.queue):
        return []  # it came from another queue, and has none of the flavors of this one
    here = {desk.books.kind_of[members.rows[task]] for task in members.staying()}
    others = [k for k in range(len(desk.books.kinds)) if here and k not in here]
    barred = tuple(sorted({*ask.barred, *others}))
    return variants(desk, entry, replace(ask, barred=barred))
