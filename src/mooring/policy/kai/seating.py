"""Places for tasks: group by group, domain by domain, one task after the other, never looking back.

A task goes to the node with the highest score. Scores are in bands, a higher one outweighs all
below it: what it prefers, the domain, a device that is shared already, room that is free now and
not only soon, nodes without devices for tasks without devices, and last how full a node is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.columns import Bools, Floats, Ints
from mooring.model.demand import DeviceKind
from mooring.model.resources import CPU_ROW, GPU_ROW
from mooring.model.settings import Policy
from mooring.policy.kai.domains import Area, Domains
from mooring.policy.placing.ask import Part, is_below_node
from mooring.policy.placing.constraints import preference
from mooring.policy.placing.devices import RULES, device_choices
from mooring.policy.placing.place import Seats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.demand import Demand
    from mooring.policy.desk import Desk
    from mooring.policy.kai.crew import Chosen, Crew, Knot
    from mooring.policy.kai.domains import Counted
    from mooring.policy.placing.fit import Fit
    from mooring.policy.placing.score import Score

LIKED, NEAR, SHARES, NOW, PLAIN, PACKED = 1e6, 1e5, 1e4, 1e3, 10.0, 9.0
PACK = "kai-binpack"
"""The rule unless the policy names another: fewest free devices, or least free CPU."""
SPREAD = "spread"
_DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Seat:
    """A place for one task, booked on trial."""

    group: str
    task: int
    row: int
    devices: int


class Outlook(Protocol):
    """Knows which room is free now; the books on trial also have that which will be."""

    def now(self, fit: Fit) -> Bools:
        """Return the rows where a task fits now."""

    def most(self, demand: Demand, row: int) -> int:
        """Return how many tasks fit there now."""

    def free(self, row: int) -> int:
        """Return the devices that are wholly free there now."""


class Seating:
    """Seats tasks in the books of one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._books = desk.books
        self._domains = Domains(desk.books)
        self._names: tuple[int, Ints] = (-1, np.zeros(0, np.int64))

    def place(
        self, crew: Crew, chosen: Chosen, outlook: Outlook | None = None, only: Bools | None = None
    ) -> list[Seat] | None:
        """Book places for tasks of a crew; None, and nothing booked, if one of them has none.

        Without an outlook all free room is free now. `only` are the rows that may be used.
        """
        self._desk.placer.aim(crew.entry.avoid)
        job = _Seats(self, crew, dict(_by_leaf(chosen)), outlook)
        return job.seats if job.seat(crew.root, Area(only=only), None) else None

    # -- one task ---------------------------------------------------------------------------

    def best(self, fit: Fit, rows: Ints, ask: _Ask) -> int:
        """Return the row for the next task."""
        demand, books = fit.demand, self._books
        score = self._pack(demand, rows, ask)
        if demand.kind is DeviceKind.NONE:
            score = score + PLAIN * (books.devices[rows] == 0)
        if ask.now is not None:
            score = score + NOW * ask.now[rows]
        elif len(rows) == 1:
            return int(rows[0])
        if demand.kind in (DeviceKind.SHARED, DeviceKind.MEMORY) and ask.rule != SPREAD:
            score = score + SHARES * self._has_shared(demand, rows)
        if ask.liked is not None:
            score = score + NEAR * ask.liked[rows]
        score = score + LIKED * self._liking(fit, rows)
        equal = rows[score == score.max()]
        return int(equal[self._order()[equal].argmin()])

    def rule(self, crew: Crew, leaf: Knot) -> str:
        """Return the rule by which the tasks of a group are packed, or spread."""
        policy, members = self._desk.policy, crew.members(leaf)
        alone = len(crew.entry.members) == 1 and members.group.most == 1
        if alone and is_below_node(self._books, members.demand):
            return PACK if policy.small == _DEFAULT.small else policy.small
        return PACK if policy.gang == _DEFAULT.gang else policy.gang

    def _pack(self, demand: Demand, rows: Ints, ask: _Ask) -> Floats:
        """Score how full nodes are (or how empty) in what the task asks for: devices, or CPU."""
        books = self._books
        r = CPU_ROW if demand.kind is DeviceKind.NONE else GPU_ROW
        capacity, free = books.capacity[r], np.maximum(books.open[r], 0)
        if ask.rule == SPREAD:
            if r == GPU_ROW:
                free = np.maximum(books.share, 0).sum(axis=0) / WHOLE
            part: Floats = free[rows] / np.maximum(capacity[rows], 1)
            return part
        other = self._desk.placer.profile.scores.get(ask.rule)
        if other is not None and demand.kind not in (DeviceKind.MEMORY, DeviceKind.MIG):
            return self._by(other.score, demand, rows)
        some = ask.rows[capacity[ask.rows] > 0]
        least, most = int(free[some].min(initial=1 << 40)), int(free[some].max(initial=0))
        packed: Floats = np.full(len(rows), PACKED if most else 0.0)
        if least < most:
            packed *= 1.0 - (free[rows] - least) / (most - least)
        packed *= capacity[rows] > 0
        return packed

    def _by(self, score: Score, demand: Demand, rows: Ints) -> Floats:
        """Score by another rule, within the band of how full nodes are."""
        books, shape = self._books, demand.shape
        score.before(books, shape)
        values, prices = score.raw(books, shape, rows), score.prices(books, shape)
        values = values if prices is None else values - prices[rows]
        least, most = values.min(), values.max()
        scaled: Floats = PACKED * (values - least) / max(most - least, 1e-9)
        return scaled

    def _has_shared(self, demand: Demand, rows: Ints) -> Bools:
        """Return the rows with a device in use that has enough left."""
        books = self._books
        share = books.share[:, rows]
        if demand.kind is DeviceKind.MEMORY:
            memory = np.maximum(books.device_memory[:, rows], 1)
            need = -(-demand.shape.gpu_memory * WHOLE // memory)
        else:
            need = np.full(share.shape, demand.shape.milli)
        enough = (share < WHOLE) & (share >= need) & (share > 0)
        return np.asarray(enough.any(axis=0), np.bool_)

    def _liking(self, fit: Fit, rows: Ints) -> Floats:
        """Return what the task prefers about the nodes themselves, and about who is there."""
        desk = self._desk
        liked = np.zeros(len(rows))
        wishes = preference(self._books, desk.fits.facts(), fit.demand.shape)
        if wishes is not None:
            liked = liked + wishes[rows]
        if fit.company is not None and fit.company.has_wishes:
            liked = liked + fit.company.liking()[rows]
        return liked

    def _order(self) -> Ints:
        """Return the place of every row in the order of names."""
        epoch, order = self._names
        if epoch != self._books.epoch:
            names = [node.name for node in self._books.nodes]
            order = np.empty(len(names), np.int64)
            order[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
            self._names = (self._books.epoch, order)
        return order

    # wide: a task on a row, what it had there, and how it is placed
    def devices(
        self,
        demand: Demand,
        row: int,
        outlook: Outlook | None = None,
        *,
        had: int = 0,
        spreads: bool = False,
    ) -> int:
        """Return the devices of a task on a row where it fits.

        Whole ones: those that it had, or that are free now. Shared ones: the fullest.
        """
        books, rule = self._books, self._desk.policy.devices
        if demand.kind is DeviceKind.NONE:
            return 0
        if demand.kind is DeviceKind.MIG:
            taken = any(books.mig_of[bit >> 3][row] >> (bit & 7) & 1 for bit in bits(had))
            return had if had and not taken else next(device_choices(books, demand, row, rule))
        if demand.kind is DeviceKind.WHOLE:
            free = books.whole_of[row]
            if had and had & free == had:
                return had
            now = free & outlook.free(row) if outlook is not None else free
            layout = books.layouts[books.layout_of[row]]
            enough = now.bit_count() >= demand.shape.gpus
            return RULES[rule](layout, now if enough else free, demand.shape.gpus)
        sign = -1 if spreads else 1
        fitting = sorted(
            (sign * books.share_of[d][row], not had >> d & 1, d)
            for d in range(len(books.share_of))
            if books.usable[d, row] and books.share_of[d][row] >= books.milli(demand, row, d)
        )
        return sum(1 << d for _, _, d in fitting[: demand.shape.gpus])


@dataclass(slots=True, eq=False)
class _Ask:
    """What the choice of a row depends on, besides the books."""

    rows: Ints
    """All rows of the set of nodes."""
    liked: Floats | None
    now: Bools | None
    rule: str


def _by_leaf(chosen: Chosen) -> list[tuple[Knot, list[int]]]:
    return [(leaf, tasks) for leaf, tasks in chosen if tasks]


class _Seats:
    """The places of one crew, in the making."""

    def __init__(
        self,
        seating: Seating,
        crew: Crew,
        chosen: dict[Knot, list[int]],
        outlook: Outlook | None,
    ) -> None:
        self.seating = seating
        self.books = seating._books
        self.crew = crew
        self.chosen = chosen
        self.outlook = outlook
        self.seats: list[Seat] = []

    def seat(self, knot: Knot, around: Area, liked: Floats | None) -> bool:
        """Seat all chosen tasks below a knot, in the first area where all of them have a place."""
        counted = self._counted(knot)
        if not counted:
            return True
        homes = [self._row(leaf, task) for leaf in knot.leaves() for task in leaf.active]
        found, likes = self.seating._domains.areas(knot, counted, around, homes)
        liked = liked if likes is None else likes
        for area in found:
            mark, before = self.books.checkpoint(), len(self.seats)
            if self._seat_in(knot, area, liked):
                return True
            self.books.rollback(mark)
            del self.seats[before:]
        return False

    def _seat_in(self, knot: Knot, area: Area, liked: Floats | None) -> bool:
        if not knot.knots:
            return self._seat_leaf(knot, area, liked)
        inner_first = sorted(knot.in_order(), key=lambda child: not child.knots)
        return all(self.seat(child, area, liked) for child in inner_first)

    def _counted(self, knot: Knot) -> Counted:
        return [
            (self.crew.members(leaf).demand, len(self.chosen[leaf]))
            for leaf in knot.leaves()
            if leaf in self.chosen
        ]

    def _row(self, leaf: Knot, task: int) -> int:
        """Return where an active task is, or will be: where it was seated, perhaps just now."""
        row = self.crew.seats.get((leaf.group, task), self.crew.members(leaf).rows[task])
        if row >= 0:
            return row
        return next(s.row for s in self.seats if (s.group, s.task) == (leaf.group, task))

    def _seat_leaf(self, leaf: Knot, area: Area, liked: Floats | None) -> bool:
        demand = self.crew.members(leaf).demand
        placer = self.seating._desk.placer
        rows = np.arange(*self.books.tree.rows(area.level, area.domain).indices(self.books.count))
        if area.only is not None:
            rows = rows[area.only[rows]]
        part = Part(leaf.group, demand, 1)
        left = list(self.chosen[leaf])
        rule = self.seating.rule(self.crew, leaf)
        while left:
            fit = placer.fit(part)
            fitting = rows[fit.slots[-1][rows] > 0]
            if not len(fitting):
                return False
            now = self.outlook.now(fit) if self.outlook is not None else None
            ask = _Ask(rows, liked, now, rule)
            row = self.seating.best(fit, fitting, ask)
            number = min(len(left), self._number(fit, row, ask))
            for task in left[:number]:
                self._take(leaf, task, row, spreads=rule == SPREAD)
            del left[:number]
        return True

    def _number(self, fit: Fit, row: int, ask: _Ask) -> int:
        """Return how many tasks would follow each other to a row: it only becomes fuller."""
        is_simple = fit.demand.kind <= DeviceKind.WHOLE and fit.company is None
        if not is_simple or ask.rule != PACK:
            return 1
        most = int(fit.slots[-1][row])
        if self.outlook is not None and ask.now is not None and ask.now[row]:
            most = min(most, self.outlook.most(fit.demand, row))
        return max(1, most)

    def _take(self, leaf: Knot, task: int, row: int, *, spreads: bool) -> None:
        members = self.crew.members(leaf)
        demand = members.demand
        had = members.devices[task] if members.rows[task] == row else 0
        mask = self.seating.devices(demand, row, self.outlook, had=had, spreads=spreads)
        self.books.take(demand, (row,), (mask,), self.crew.entry.account)
        self.seats.append(Seat(leaf.group, task, row, mask))


def by_group(crew: Crew, seats: Sequence[Seat]) -> list[tuple[list[int], Seats]]:
    """Return tasks and their seats, group by group."""
    found: dict[str, tuple[list[int], Seats]] = {}
    for seat in seats:
        demand = crew.entry.members[seat.group].demand
        if seat.group not in found:
            found[seat.group] = ([], Seats(Part(seat.group, demand, 0), [], []))
        tasks, some = found[seat.group]
        tasks.append(seat.task)
        some.rows.append(seat.row)
        some.devices.append(seat.devices)
    return [found[group] for group in crew.entry.members if group in found]
