"""One more unit of a workload that runs: how it may be charged, and where it would be."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.policy.placing.beside import growth
from mooring.policy.queues.offers import Offer, shortage_of, variants
from mooring.policy.victims.displace import Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.placing.place import Seats


def wish_to_grow(desk: Desk, entry: Entry, ask: Ask, group: str) -> Wish:
    """Return the next unit of a group as something that others may have to leave for.

    It stays beside what runs: in the same domain, on the same flavor.
    """
    beside = desk.beside(entry)
    leaf = next(leaf for leaf in beside.root.leaves() if leaf.name == group)
    tasks = growth(entry.members[group], leaf)
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
