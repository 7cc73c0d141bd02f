"""The quick part of the search for victims: counting before anybody is looked at.

Most searches end here: nobody may be asked, or all who may be asked could not make the room, and
counting says so for certain; or there are so many that the cheapest slots are taken. What is left,
few victims, units above a minimum, guests, rights that others must leave for, is for `displace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mooring.policy.standing.spans import NEVER, Spans
from mooring.policy.victims.quarry import Quarries
from mooring.policy.victims.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.policy.desk import Desk
    from mooring.policy.standing.item import Item
    from mooring.policy.standing.line import Line
    from mooring.policy.standing.roll import Roll
    from mooring.policy.victims.displace import Choice, Found
    from mooring.policy.victims.quarry import Quarry

EXACT_BELOW = 12
"""Pools of fewer victims are searched set by set."""


class Answer(NamedTuple):
    """What came of it."""

    is_sure: bool
    """False: it takes a closer look."""
    found: Found | None = None
    until: float = NEVER
    """When somebody may be asked to leave who may not be asked now."""


UNSURE = Answer(is_sure=False)


class Hunt:
    """Searches by counting, at one desk."""

    def __init__(self, desk: Desk, roll: Roll) -> None:
        self.desk = desk
        self.roll = roll
        self._quarries = Quarries(desk, roll)

    # wide: who wants what of whom, and how
    def search(
        self, line: Line, choice: Choice, newcomer: Item, is_bold: bool, is_early: bool
    ) -> Answer:
        """Return whom a newcomer may displace, if that is easy to tell."""
        if not self._is_plain(line, newcomer, choice):
            return UNSURE
        spans = Spans(self.desk, line, newcomer, is_early=is_early)
        own = spans.bold() if is_bold else spans.own()
        if is_bold and not own.spans:
            return Answer(is_sure=True)  # that is what it may do without being bold
        others = spans.others()
        everyone = spans.everyone(own, others)
        found = [self._quarries.of(line, right) for right in (own, everyone)]
        quarries = [quarry for quarry in found if quarry is not None]
        until = min([quarry.until for quarry in quarries], default=NEVER)
        quarries = [quarry for quarry in quarries if quarry]
        no = Answer(True, None, until)
        if not quarries or self._is_over(choice, quarries):
            return no
        if not Slots.can_count(self.desk, choice.offer):
            return no if self._is_too_little(choice, quarries) else UNSURE
        slots = self._quarries.slots(choice.offer, quarries)
        if not slots.suffice:
            return no
        is_few = sum([len(quarry) for quarry in quarries]) < EXACT_BELOW
        has_units = any(any(quarry.units.values()) for quarry in quarries)
        is_plain = choice.is_start and not is_bold and not has_units
        if not is_plain or is_few or len(everyone) > len(others):
            return UNSURE
        victims = choice.trimmed(slots.cheapest())
        return UNSURE if victims is None else Answer(True, victims, until)

    def _is_plain(self, line: Line, newcomer: Item, choice: Choice) -> bool:
        """Return whether nobody owes the newcomer anything, and all rules are those of `spans`."""
        desk, entry = self.desk, choice.entry
        if choice.is_start and entry.workload.name in desk.due:
            return False
        if choice.is_start and desk.promises.owed_to(entry, choice.offer) is not None:
            return False
        if desk.tree.eviction[newcomer.queue].reclaim == "lower-priority":
            return False
        return not any(chain.guest for chain in line.chains(newcomer.queue))

    def _is_too_little(self, choice: Choice, quarries: Sequence[Quarry]) -> bool:
        """Return whether there is not enough even if all left, by plain sums."""
        books, wanted = self.desk.books, dict[int, int]()
        for leaf in choice.ask.leaves:
            assert leaf.demand is not None
            for r, amount in leaf.demand.pairs:
                wanted[r] = wanted.get(r, 0) + leaf.count * amount
        free = np.maximum(books.open, 0).sum(axis=1)
        for quarry in quarries:
            free += quarry.freed.sum(axis=1)
        return any(amount > free[r] for r, amount in wanted.items())

    def _is_over(self, choice: Choice, quarries: Sequence[Quarry]) -> bool:
        """Return whether its queue could not be charged even if all left."""
        desk, entry, request = self.desk, choice.entry, choice.offer.request
        if desk.ledger.blocker(entry.queue, request, desk.books.usage_of) is None:
            return False
        usage = desk.books.usage.tolist()
        charged = [(q, gone) for quarry in quarries for q, gone in quarry.charged.items()]
        for queue, gone in charged:
            for above in desk.tree.path[queue]:
                for pair, amount in gone.items():
                    usage[above][pair] -= amount
        return desk.ledger.blocker(entry.queue, request, usage) is not None
