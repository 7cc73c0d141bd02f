"""Places for whole workloads under profile `kueue`: unit by unit, without second thoughts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.policy.kueue.assign import asks_topology, units_of
from mooring.policy.kueue.topology import Domains, choose, wish_of
from mooring.policy.placing.devices import choose_devices
from mooring.policy.placing.fit import MOST_ON_A_NODE
from mooring.policy.placing.place import ANYWHERE
from mooring.policy.placing.profile import KUEUE
from mooring.policy.placing.search import CutShortError, place
from mooring.policy.victims.evict import remove, restore, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.columns import Ints
    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.kueue.assign import Flavors
    from mooring.policy.kueue.scene import Runner
    from mooring.policy.placing.ask import Ask, Part
    from mooring.policy.placing.place import Placer, Seats
    from mooring.policy.victims.evict import Victim

NOBODY_FAILED = -1


def with_flavors(desk: Desk, ask: Ask, flavors: Flavors) -> Ask:
    """Return an ask whose leaves are placed on, and charged to, flavors of their own."""

    def over(part: Part) -> Part:
        if part.demand is None:
            return replace(part, parts=tuple(over(child) for child in part.parts))
        given = sorted((r, flavor) for r, flavor in flavors.get(part.name, {}).items() if flavor)
        return replace(part, code=desk.books.assignment(tuple(given)) if given else BY_NODE)

    return replace(ask, root=over(ask.root), leaves=tuple(over(leaf) for leaf in ask.leaves))


class Proof:
    """Tells whether a workload has a place once some have left; they stay out between questions."""

    def __init__(self, seating: Seating, ask: Ask, leaving: Sequence[Victim]) -> None:
        self.seating = seating
        self.ask = ask
        self.books = seating.desk.books
        self._mark = self.books.checkpoint()
        self._out: dict[Runner, Victim] = {}
        for victim in leaving:
            remove(seating.desk, victim)

    def __call__(self, gone: Sequence[Runner]) -> bool:
        """Return whether there is a place without these."""
        stays_out = frozenset(gone)
        for runner in [runner for runner in self._out if runner not in stays_out]:
            restore(self.seating.desk, self._out.pop(runner))
        for runner in gone:
            if runner not in self._out:
                victim = self._out[runner] = whole(runner.entry, "")
                remove(self.seating.desk, victim)
        mark = self.books.checkpoint()
        found = self.seating.book(self.ask) is not None
        self.books.rollback(mark)
        return found

    def close(self) -> None:
        """Let everything be as it was."""
        self.books.rollback(self._mark)


class Seating:
    """Finds places for one workload."""

    def __init__(self, desk: Desk, entry: Entry) -> None:
        self.desk = desk
        self.entry = entry
        self.placer: Placer = desk.placer
        self.failed = NOBODY_FAILED
        """The unit that had no place in the last attempt."""

    def prove(self, ask: Ask, victims: Sequence[Victim] = ()) -> list[Seats] | None:
        """Return where it would start if the victims were gone; nothing stays booked."""
        mark = self.desk.books.checkpoint()
        for victim in victims:
            remove(self.desk, victim)
        seats = self.book(ask)
        self.desk.books.rollback(mark)
        return seats

    def book(self, ask: Ask) -> list[Seats] | None:
        """Book places for all tasks; None, and nothing booked, if one of them has none."""
        placer, books = self.placer, self.desk.books
        placer.aim(ask.avoid)
        self.failed = NOBODY_FAILED
        if any(placer.fit(leaf).company is not None for leaf in ask.leaves):
            return self._search(ask)
        mark = books.checkpoint()
        found: list[Seats] = []
        units = units_of(ask.root)
        for number, unit in enumerate(units):
            seats = self._unit(unit, ask)
            if seats is None:
                books.rollback(mark)
                self.failed = number
                is_free = not any(asks_topology(each) for each in units)
                return self._search(ask) if is_free and len(units) > 1 else None
            found += seats
        return found

    def _search(self, ask: Ask) -> list[Seats] | None:
        """Look for a place as profile `default` does: with second thoughts."""
        mark = self.desk.books.checkpoint()
        try:
            return place(self.placer, ask, self.entry.account)
        except CutShortError:
            self.desk.books.rollback(mark)
            return None

    def _unit(self, unit: Part, ask: Ask) -> list[Seats] | None:
        leaves = [leaf for leaf in unit.leaves() if leaf.count]
        if not leaves:
            return []
        if len(leaves) == 1:
            leaf = leaves[0] if unit.demand is not None else leaves[0].under(unit)
            seats = self.placer.place_leaf(leaf, ANYWHERE, self.entry.account, service=ask.service)
            return None if seats is None else [seats]
        workers, leader = sorted(leaves[:2], key=lambda leaf: -leaf.count)
        rule = self.placer.profile.rule(self.desk.books, workers, service=ask.service)
        if len(leaves) > 2 or leader.count > 1 or rule != KUEUE:
            return self._search(replace(ask, root=unit, leaves=tuple(leaves)))
        return self._with_leader(workers.under(unit), leader)

    # -- a leader and its workers -----------------------------------------------------------

    def _with_leader(self, workers: Part, leader: Part) -> list[Seats] | None:
        """Book a leader and its workers in one domain."""
        placer, tree = self.placer, self.desk.books.tree
        wish = wish_of(
            workers.count, workers.required, workers.preferred, workers.slices, tree.leaf_level
        )
        rows = placer.fit(workers).slots[-1].astype(INT)
        domains = Domains(tree, rows, workers.slices, self._beside(workers, leader))
        chosen = choose(domains, replace(wish, leaders=1))
        if chosen is None:
            return None
        found = []
        for leaf, places in (
            (leader, [(row, leaders) for row, _, leaders in chosen if leaders]),
            (workers, [(row, count) for row, count, _ in chosen if count]),
        ):
            seats = placer.seats(leaf, places)
            assert leaf.demand is not None
            account = self.entry.account
            self.desk.books.take(leaf.demand, seats.rows, seats.devices, account, leaf.code)
            found.append(seats)
        return found

    def _beside(self, workers: Part, leader: Part) -> tuple[Ints, Ints]:
        """Return which rows take the leader, and how many workers fit beside it."""
        books = self.desk.books
        fit, lead = self.placer.fit(workers), self.placer.fit(leader)
        takes = (lead.slots[-1] > 0).astype(INT)
        assert workers.demand is not None
        assert leader.demand is not None
        if max(workers.demand.kind, leader.demand.kind) > DeviceKind.WHOLE:
            return takes, self._tried_beside(workers, leader, takes)
        uses = dict(leader.demand.asks)
        left = np.full(books.count, MOST_ON_A_NODE, INT)
        for r, amount in workers.demand.asks:
            np.minimum(left, (books.open[r] - uses.get(r, 0)) // amount, out=left)
        return takes, np.where(takes > 0, np.maximum(left, 0) * fit.allowed, fit.slots[-1])

    def _tried_beside(self, workers: Part, leader: Part, takes: Ints) -> Ints:
        """Count workers beside a leader by putting it there, row by row: for shared devices."""
        books, demand = self.desk.books, leader.demand
        assert demand is not None
        beside = self.placer.fit(workers).slots[-1].astype(INT)
        for row in np.flatnonzero(takes).tolist():
            mark = books.checkpoint()
            mask = choose_devices(books, demand, row, self.placer.profile.devices)
            books.take(demand, (row,), (mask,), self.entry.account, leader.code)
            beside[row] = self.placer.fit(workers).slots[-1][row]
            books.rollback(mark)
        return beside
