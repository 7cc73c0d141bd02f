"""What victims would free on nodes, counted: for tasks of one shape.

A node has so many slots for a shape, and more the more victims leave it, cheapest first. Such a
step is a *gain*: slots, and who must leave for them. What is counted is kept, and counted again
only on nodes where something has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.policy.placing.fit import copies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mooring.model.books import Books
    from mooring.model.columns import Bools, Ints
    from mooring.model.demand import Demand
    from mooring.policy.desk import Desk
    from mooring.policy.queues.offers import Offer
    from mooring.policy.standing.item import Name
    from mooring.policy.victims.evict import Victim
    from mooring.policy.victims.herd import Herd, Where

VAST = 1 << 30
FINE = 1e9
"""Costs are compared in whole parts of a GPU-hour, so that equal ones are equal."""

Key = tuple[int, tuple[float, tuple[float, int]], int, int]
"""Cost, tie, row and number of a gain."""


Who = tuple["Name", "Herd"]
"""One victim, and where it is known."""
Tell = Callable[[int, int], tuple[Who, ...]]
"""Tells who is in some places, row by row, in the order in which they leave."""


class OnRow(NamedTuple):
    """One victim on one row; in this order they are asked to leave it."""

    price: float
    """The part of its price that one of its nodes bears."""
    age: tuple[float, int]
    """The least is the youngest."""
    who: Who
    frees: tuple[int, ...]
    """What it has there of each resource that is asked for."""


class Gain(NamedTuple):
    """Slots on one node, and who must leave for them beyond those of the gains before it."""

    cost: int
    """Of each slot, in parts of a GPU-hour."""
    tie: tuple[float, tuple[float, int]]
    """At equal cost: fewest workloads for each slot, then the youngest."""
    row: int
    number: int
    """Of the gain on its node; it needs all before it."""
    slots: int
    victims: tuple[Who, ...]
    version: int = 0
    """Of its row; it is no more once that has changed."""


class Slots:
    """What one ask could get from herds, node by node."""

    @staticmethod
    def can_count(desk: Desk, offer: Offer) -> bool:
        """Return whether slots on nodes add up to what an ask needs."""
        leaf = offer.ask.root
        if leaf.demand is None or leaf.slices:
            return False
        desk.placer.aim(offer.ask.avoid, offer.barred)
        return desk.placer.fit(leaf).company is None

    def __init__(self, desk: Desk, offer: Offer, herds: Sequence[Herd]) -> None:
        self.desk = desk
        self.herds = list(herds)
        self.leaf = offer.ask.root
        assert self.leaf.demand is not None
        self.demand = self.leaf.demand
        self.most: Ints = np.zeros(0, INT)
        """By row, how many slots there would be if everybody left."""
        self._known: dict[Demand, tuple[int, ...]] = {}
        """What a task has of each resource that is asked for."""
        self._gains: dict[int, list[Gain]] = {}
        self._versions: dict[int, int] = {}
        """How often rows have changed since gains were listed."""
        self._listed: Listed | None = None
        self._heap: list[Gain] = []
        """Gains that are not listed, and some that are no more."""
        self._cursor = -1
        self._seen = [0] * len(self.herds)
        self._priced_at = desk.now

    # -- keeping up -------------------------------------------------------------------------

    def refresh(self, offer: Offer) -> None:
        """Catch up with the books and the herds, for an offer of the same shape."""
        books, self.leaf = self.desk.books, offer.ask.root
        self.desk.placer.aim(offer.ask.avoid, offer.barred)
        self.fit = self.desk.placer.fit(self.leaf)
        if self._priced_at != self.desk.now:
            self._priced_at = self.desk.now
            self._forget()
        seen, self._seen = self._seen, [len(herd.touched) for herd in self.herds]
        cursor, self._cursor = self._cursor, books.log_end
        if cursor < books.trimmed:
            self._count_all()
            return
        rows: list[int] = []
        for herd, first in zip(self.herds, seen, strict=True):
            rows += herd.touched[first:]
        rows += books.touched[cursor - books.trimmed :]
        changed = dict.fromkeys(rows)
        if 2 * len(changed) > books.count:
            self._count_all()
        else:
            self._count_again(changed)

    def skip(self) -> None:
        """Take the books for what they were: all that was booked since has been taken back."""
        self._cursor = self.desk.books.log_end

    def _forget(self) -> None:
        """Forget all gains."""
        self._gains.clear()
        self._versions.clear()
        self._heap.clear()
        self._listed = None

    def _count_all(self) -> None:
        self._forget()
        books, most = self.desk.books, np.full(self.desk.books.count, VAST, INT)
        for r, amount in self.demand.asks:
            free = books.open[r].copy()
            for herd in self.herds:
                free += herd.freed[r]
            np.minimum(most, free // amount, out=most)
        self.most = np.maximum(most, 0) * self.fit.allowed
        odd = [row for herd in self.herds for row, tasks in herd.odd.items() if tasks]
        is_whole = self.demand.kind <= DeviceKind.WHOLE
        for row in odd if is_whole else range(books.count):
            if is_whole or self.most[row]:  # parts may add up to a whole that was not counted
                self.most[row] = self._most_at(row)

    def _count_again(self, rows: Iterable[int]) -> None:
        for row in rows:
            self.most[row] = self._most_at(row)
            self._gains.pop(row, None)
            if self._listed is not None:
                self._versions[row] = self._versions.get(row, 0) + 1
                for gain in self._gains_at(row):
                    heappush(self._heap, gain)

    def _most_at(self, row: int) -> int:
        if not self.fit.allowed[row]:
            return 0
        if self._is_odd(row):
            return self._one_by_one(row, self._on(row))[-1]
        books, most = self.desk.books, VAST
        for r, amount in self.demand.asks:
            freed = sum([herd.freed_of[r][row] for herd in self.herds])
            most = min(most, (books.open_of[r][row] + freed) // amount)
        return max(most, 0)

    def _is_odd(self, row: int) -> bool:
        """Return whether parts of devices are asked for or would be freed on a row."""
        is_whole = self.demand.kind <= DeviceKind.WHOLE
        return not is_whole or any(herd.odd.get(row) for herd in self.herds)

    # -- choosing ---------------------------------------------------------------------------

    @property
    def suffice(self) -> bool:
        """Return whether a domain would hold all, if everybody left."""
        level = self.leaf.required
        if level <= 0:
            return int(self.most.sum()) >= self.leaf.count
        return int(self.desk.books.tree.sums(level, self.most).max(initial=0)) >= self.leaf.count

    def cheapest(self) -> list[Victim]:
        """Return victims whose slots, with the free ones, are enough in the cheapest domain.

        Units leave with their minimum.
        """
        gains = self._in_one_domain() if self.leaf.required > 0 else self._anywhere()
        chosen = {name: herd for gain in gains for name, herd in gain.victims}
        for herd in self.herds if any(herd.units for herd in self.herds) else ():
            for name, unit in list(chosen):
                chosen.update(dict.fromkeys(herd.units.get(name, ()) if not unit else (), herd))
        return [herd.victim(name) for name, herd in chosen.items()]

    def _anywhere(self) -> list[Gain]:
        missing, taken = self.leaf.count - self.fit.total, list[Gain]()
        while missing > 0:
            gain = self._next()
            if gain is None:
                break
            taken.append(gain)
            missing -= gain.slots
        for gain in taken:
            heappush(self._heap, gain)
        return taken

    def _next(self) -> Gain | None:
        """Take out the cheapest gain that there is."""
        listed, heap, versions = self._list(), self._heap, self._versions
        while heap and heap[0].version != versions.get(heap[0].row, 0):
            heappop(heap)
        first = listed.first(versions)
        if first is None or (heap and heap[0][:4] < first):
            return heappop(heap) if heap else None
        return listed.take(first)

    def _list(self) -> Listed:
        """List the gains of all rows; where whole devices are freed that is done at once."""
        if self._listed is None:
            rows = np.flatnonzero(self.most > self.fit.slots[-1]).tolist()
            odd = [row for row in rows if self._is_odd(row)]
            even = [row for row in rows if not self._is_odd(row)] if odd else rows
            columns = _Columns(self.herds, even, self._has)
            self._listed, others = columns.listed(self.desk.books, self.demand.asks)
            for row in (*odd, *others):
                self._heap += self._gains_at(row)
            heapify(self._heap)
        return self._listed

    def _in_one_domain(self) -> list[Gain]:
        """Return the gains of the domain where they are cheapest."""
        tree, level = self.desk.books.tree, self.leaf.required
        totals = tree.sums(level, self.most)
        best, least = [], float("inf")
        for domain in np.flatnonzero(totals >= self.leaf.count).tolist():
            rows = tree.rows(level, domain)
            fruitful = np.flatnonzero(self.most[rows] > self.fit.slots[-1][rows]) + rows.start
            gains = sorted(gain for row in fruitful.tolist() for gain in self._gains_at(row))
            missing, cost, taken = self.leaf.count - self.fit.room(level, domain), 0.0, []
            for gain in gains:
                if missing <= 0 or cost >= least:
                    break
                taken.append(gain)
                missing -= gain.slots
                cost += gain.cost * gain.slots
            if missing <= 0 and cost < least:
                best, least = taken, cost
        return best

    # -- what a row gives -------------------------------------------------------------------

    def _gains_at(self, row: int) -> list[Gain]:
        """Return what can be had on a row, the cheapest first."""
        known = self._gains.get(row)
        if known is None:
            some = sorted(self._on(row))
            found = self._simulated(row, some) if self._is_odd(row) else self._counted(row, some)
            version = self._versions.get(row, 0)
            found = [gain._replace(version=version) for gain in _ascending(found)]
            known = self._gains[row] = found if self.fit.allowed[row] else []
        return known

    def _on(self, row: int) -> list[OnRow]:
        found = []
        for herd in self.herds:
            for name in herd.on.get(row, ()):
                where = herd.names[name]
                cost, started, sequence = herd.bid(name)
                if len(where) == 1:
                    frees = self._has(where[0][1])
                else:
                    cost /= len({at for at, _ in where})
                    parts = [self._has(demand) for at, demand in where if at == row]
                    frees = tuple([sum(column) for column in zip(*parts, strict=True)])
                found.append(OnRow(cost, (started, sequence), (name, herd), frees))
        return found

    def _has(self, demand: Demand) -> tuple[int, ...]:
        known = self._known.get(demand)
        if known is None:
            have = dict(demand.asks)
            known = self._known[demand] = tuple(have.get(r, 0) for r, _ in self.demand.asks)
        return known

    def _counted(self, row: int, some: Sequence[OnRow]) -> list[Gain]:
        amounts = [amount for _, amount in self.demand.asks]
        left = [self.desk.books.open_of[r][row] for r, _ in self.demand.asks]
        slots = _times(left, amounts)
        gains: list[Gain] = []
        pending: list[OnRow] = []
        for each in some:
            pending.append(each)
            left = [have + more for have, more in zip(left, each.frees, strict=True)]
            now = _times(left, amounts)
            if now > slots:
                if len(pending) > 1:
                    left = _spare(pending, left, amounts)
                gains.append(_gain(row, len(gains), now - slots, pending))
                slots, pending = now, []
        return gains

    def _simulated(self, row: int, some: Sequence[OnRow]) -> list[Gain]:
        """Return the gains of a row where devices have parts, which must be tried out."""
        gains: list[Gain] = []
        pending: list[OnRow] = []
        slots, *after = self._one_by_one(row, some)
        for each, now in zip(some, after, strict=True):
            pending.append(each)
            if now > slots:
                gains.append(_gain(row, len(gains), now - slots, pending))
                slots, pending = now, []
        return gains

    def _one_by_one(self, row: int, some: Sequence[OnRow]) -> list[int]:
        """Return how many slots a row has, and then without one after the other."""
        books, rows = self.desk.books, np.array([row], INT)
        mark, is_up_to_date = books.checkpoint(), self._cursor == books.log_end
        found = [int(copies(books, self.demand, rows)[0])]
        for each in some:
            name, herd = each.who
            entry = herd.entry(name)
            for group, task in herd.tasks(name):
                members = entry.members[group]
                if members.rows[task] == row:
                    mask = members.devices[task]
                    books.give(members.demand, (row,), (mask,), entry.account, members.flavor)
            found.append(int(copies(books, self.demand, rows)[0]))
        books.rollback(mark)
        if is_up_to_date:
            self._cursor = books.log_end  # nothing has changed in the end
        return found


def _times(left: Sequence[int], amounts: Sequence[int]) -> int:
    """Return how often amounts can be had."""
    times = [have // amount for have, amount in zip(left, amounts, strict=True)]
    return max(0, min(times, default=VAST))


def _spare(pending: list[OnRow], left: list[int], amounts: Sequence[int]) -> list[int]:
    """Let those stay, dearest first, without whom there are as many slots; return what is left."""
    if all(each.frees == pending[-1].frees for each in pending):
        return left
    slots = _times(left, amounts)
    for each in reversed(pending[:]):
        without = [have - less for have, less in zip(left, each.frees, strict=True)]
        if _times(without, amounts) >= slots:
            pending.remove(each)
            left = without
    return left


def _gain(row: int, number: int, slots: int, victims: Sequence[OnRow]) -> Gain:
    cost = round(sum([each.price for each in victims]) / slots * FINE)
    tie, who = (len(victims) / slots, victims[0].age), tuple([each.who for each in victims])
    return Gain(cost, tie, row, number, slots, who)


def _ascending(gains: list[Gain]) -> list[Gain]:
    """Join gains that are dearer than those behind them with these."""
    if all(one.cost <= other.cost for one, other in pairwise(gains)):
        return gains
    found: list[Gain] = []
    for gain in gains:
        while found and found[-1].cost > gain.cost:
            before = found.pop()
            slots, victims = before.slots + gain.slots, before.victims + gain.victims
            cost = round((before.cost * before.slots + gain.cost * gain.slots) / slots)
            tie = (len(victims) / slots, before.tie[1])
            gain = Gain(cost, tie, gain.row, before.number, slots, victims)
        found.append(gain._replace(number=len(found)))
    return found


class Listed:
    """Gains in order, as columns; those of rows that have changed since are no more."""

    def __init__(self, who: Tell, *columns: list[Any]) -> None:
        self._who = who
        self._keys, (self._rows, self._numbers, self._slots) = columns[:4], columns[4:7]
        self._starts, self._ends = columns[7:]
        """From and up to where a gain takes victims."""
        self._at = 0

    def first(self, versions: Mapping[int, int]) -> Key | None:
        """Return the key of the first gain that is left."""
        rows, at = self._rows, self._at
        while at < len(rows) and rows[at] in versions:
            at += 1
        self._at = at
        if at == len(rows):
            return None
        cost, per_slot, started, sequence = [column[at] for column in self._keys]
        return cost, (per_slot, (started, sequence)), rows[at], self._numbers[at]

    def take(self, key: Key) -> Gain:
        """Take out the first gain, which has this key."""
        at = self._at
        self._at += 1
        return Gain(*key, self._slots[at], self._who(self._starts[at], self._ends[at]))


class _Columns:
    """Victims on rows where nobody has parts of devices: their gains are found all at once."""

    def __init__(
        self, herds: Sequence[Herd], rows: Sequence[int], has: Callable[[Demand], tuple[int, ...]]
    ) -> None:
        self._herds, self._has = herds, has
        self._names: list[list[Name]] = [[] for _ in herds]
        """By herd, who is on the rows."""
        self._rows: list[int] = []
        self._frees: list[tuple[int, ...]] = []
        self._shares: list[int] = []
        """On how many nodes each is, which bear its price together."""
        for herd, names in zip(herds, self._names, strict=True):
            self._take(herd, rows, names)

    def _take(self, herd: Herd, rows: Sequence[int], names: list[Name]) -> None:
        """Take in those of a herd who are on some rows."""
        wide: dict[Name, dict[int, tuple[int, ...]]] = {}
        for row in rows:
            for name in herd.on.get(row, ()):
                where = herd.names[name]
                if len(where) == 1:
                    frees, nodes = self._has(where[0][1]), 1
                else:
                    spread = wide.get(name) or wide.setdefault(name, self._spread(where))
                    frees, nodes = spread[row], len(spread)
                names.append(name)
                self._rows.append(row)
                self._frees.append(frees)
                self._shares.append(nodes)

    def _spread(self, where: Where) -> dict[int, tuple[int, ...]]:
        """Return what one who is on several nodes has on each."""
        found: dict[int, tuple[int, ...]] = {}
        for row, demand in where:
            more = self._has(demand)
            before = found.get(row)
            found[row] = more if before is None else tuple(map(add, before, more))
        return found

    def listed(self, books: Books, asks: Sequence[tuple[int, int]]) -> tuple[Listed, list[int]]:
        """Return all gains, and rows that must be looked at one by one."""
        who, order, (prices, started, sequence) = self._line_up()
        rows = np.array(self._rows, INT)[order]
        frees = np.array(self._frees, INT).reshape(len(rows), len(asks))[order]
        is_first = np.diff(rows, prepend=-1) != 0
        heads = np.flatnonzero(is_first)
        each = np.cumsum(is_first) - 1
        before, after = (np.full(len(rows), VAST, INT) for _ in range(2))
        for i, (r, amount) in enumerate(asks):
            total = np.cumsum(frees[:, i])
            gone = total - (total[heads] - frees[heads, i])[each]
            have = books.open[r][rows]
            np.minimum(before, np.maximum(have + gone - frees[:, i], 0) // amount, out=before)
            np.minimum(after, np.maximum(have + gone, 0) // amount, out=after)
        gains = np.flatnonzero(after > before)
        is_next = np.diff(rows[gains], prepend=-1) == 0
        start = np.where(is_next, np.roll(gains, 1) + 1, heads[each[gains]])
        found = _Gains(rows[gains], start, gains + 1, (after - before)[gains], is_next)
        unlike = found.unlike(frees)
        return found.listed(who, (prices, started, sequence), unlike)

    def _line_up(self) -> tuple[Tell, Ints, list[Any]]:
        """Return who victims are, row by row, in the order in which they leave, and their bids."""
        names = [name for some in self._names for name in some]
        pairs = zip(self._herds, self._names, strict=True)
        bids = [bid for herd, some in pairs for bid in herd.bids(some)]
        herd = np.repeat(np.arange(len(self._herds)), [len(some) for some in self._names])
        prices, started, sequence = np.array(bids).reshape(-1, 3).T
        prices = prices / np.array(self._shares, INT)
        unit = np.array([name[1] for name in names], INT)
        order = np.lexsort((unit, sequence, started, prices, np.array(self._rows, INT)))
        sorted_names = [names[at] for at in order.tolist()]
        herds = [self._herds[number] for number in herd[order].tolist()]

        def who(start: int, end: int) -> tuple[Who, ...]:
            return tuple(zip(sorted_names[start:end], herds[start:end], strict=True))

        return who, order, [prices[order], started[order], sequence[order]]


class _Gains(NamedTuple):
    """Gains as columns, row by row: from and up to where each takes victims, and for what."""

    rows: Ints
    start: Ints
    end: Ints
    slots: Ints
    is_next: Bools
    """Whether another on the same row comes before it."""

    def unlike(self, frees: Ints) -> list[int]:
        """Return the rows where those who leave for one gain do not have the same each."""
        first = np.repeat(self.start, self.end - self.start)
        at = np.concatenate([[0], np.cumsum(self.end - self.start)[:-1]]) if len(first) else first
        numbers = np.arange(len(first)) - np.repeat(at, self.end - self.start) + first
        differs = (frees[numbers] != frees[first]).any(axis=1)
        which = np.repeat(np.arange(len(self.rows)), self.end - self.start)[differs]
        return sorted(set(self.rows[which].tolist()))

    def listed(self, who: Tell, bids: Sequence[Any], others: list[int]) -> tuple[Listed, list[int]]:
        """Return gains by cost, and other rows: also those where one is cheaper than before it."""
        prices, started, sequence = bids
        rows, start, slots = self.rows, self.start, self.slots
        ends = np.column_stack((start, self.end)).ravel()
        sums = np.add.reduceat(np.append(prices, 0.0), ends)[::2]
        cost = np.rint(sums / slots * FINE)
        heads = np.flatnonzero(~self.is_next)
        number = np.arange(len(rows)) - np.repeat(heads, np.diff(heads, append=len(rows)))
        falling = rows[self.is_next & (np.roll(cost, 1) > cost)].tolist()
        others = sorted({*others, *falling})
        per_slot = (self.end - start) / slots
        some = np.flatnonzero(~np.isin(rows, others)) if others else np.arange(len(rows))
        keys = (number, rows, sequence[start], started[start], per_slot, cost)
        order = some[np.lexsort([key[some] for key in keys])]
        ages = (started[start], sequence[start].astype(INT))
        columns = (cost.astype(INT), per_slot, *ages, rows, number, slots, start, self.end)
        return Listed(who, *(column[order].tolist() for column in columns)), others
