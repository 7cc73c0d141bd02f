"""Where a shape fits now: how many copies every node, and so every domain, takes.

A `Fit` belongs to one demand and one mask of nodes. It catches up with the books only when it is
asked, from the log of touched rows: row by row, as vectors, or from nothing, whichever is cheapest.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mooring.model import mig
from mooring.model.cluster import WHOLE
from mooring.model.columns import INT, view, views
from mooring.model.demand import DeviceKind
from mooring.model.topology import LABEL
from mooring.policy.own import NodeFacts, Task
from mooring.policy.placing.constraints import Facts, exclusions, means, preference
from mooring.policy.placing.social import Company

if TYPE_CHECKING:
    from collections.abc import Collection

    from mooring.model.books import Books
    from mooring.model.columns import Bools, Counts, Ints
    from mooring.model.demand import Demand
    from mooring.model.workload import Shape, SpreadTerm, TaskTerm
    from mooring.policy.own import Filter

MOST_ON_A_NODE = 10_000
"""More copies than this on one node are not counted, so that sums stay in 32 bits."""
SCALAR_UP_TO = 28
ANY_FLAVOR = -1
Without = tuple[tuple[str, ...], tuple[int, ...]]
"""Nodes, by name, and kinds of nodes that are out of the question."""
NOTHING: Without = ((), ())
EVERY_ROW = slice(None)


class Fit:
    """How many copies of a demand fit, per level and domain.

    `slots[level][domain]` counts copies; `partly[level][domain]` only those on nodes in use.
    """

    def __init__(self, books: Books, demand: Demand, allowed: Bools, possible: Bools) -> None:
        self.books = books
        self.demand = demand
        self.allowed = allowed
        self.possible = possible
        """The nodes that would be allowed if all were ready and none had refused."""
        self._allowed_of = view(allowed)
        self.company: Company | None = None
        self.is_plain = False
        """Nothing but room decides: no terms about other tasks, no preferences."""
        self._favourite = -1
        self._favoured_partly = False
        self._favoured_at = -1
        self._cursor = -1
        self.anywhere = self._columns()
        """Slots without regard to terms about other tasks, where there are such terms."""
        self.slots = self._columns()
        self.partly = self._columns()
        self.slots_of = views(self.slots)
        self.partly_of = views(self.partly)

    def _columns(self) -> list[Counts]:
        return [np.zeros(len(first) - 1, np.int32) for first in self.books.tree.first]

    def meet(self, company: Company | None) -> None:
        """Mind the terms about other tasks that concern the demand; all is counted anew then."""
        self.company = company
        self._cursor = -1

    def refresh(self) -> None:
        """Catch up with the books."""
        books = self.books
        behind = books.log_end - self._cursor
        if not behind:
            return
        if self.company or self._cursor < books.trimmed or behind > 64 + books.count // 8:
            self._rebuild()
        elif behind <= SCALAR_UP_TO:
            self._refresh_few()
        else:
            rows = np.array(books.touched[self._cursor - books.trimmed :], INT)
            self._refresh_many(np.unique(rows))
        self._cursor = books.log_end

    def _rebuild(self) -> None:
        """Count from nothing; into the same columns, since others may be looking at them."""
        books = self.books
        leaf = copies(books, self.demand, EVERY_ROW) * self.allowed
        if self.company is not None:
            self._write(self.anywhere, leaf)
            leaf = leaf * self.company.welcome()
        self._write(self.slots, leaf)
        self._write(self.partly, leaf * (books.used[-1] > 0))

    def _write(self, columns: list[Counts], leaf: Counts) -> None:
        """Set the columns of all levels by the lowest."""
        tree = self.books.tree
        for level, column in enumerate(columns):
            column[:] = tree.sums(level, leaf)

    def _refresh_few(self) -> None:
        books = self.books
        used, up = books.used_of[-1], books.up
        slots, partly = self.slots_of, self.partly_of
        for row in books.touched[self._cursor - books.trimmed :]:
            now = self._copies_at(row)
            change = now - slots[-1][row]
            part = (now if used[row] else 0) - partly[-1][row]
            if change or part:
                for all_slots, some, domain in zip(slots, partly, up, strict=True):
                    at = domain[row]
                    all_slots[at] += change
                    some[at] += part

    def _copies_at(self, row: int) -> int:
        if not self._allowed_of[row]:
            return 0
        columns = self.books.open_of
        fewest = MOST_ON_A_NODE
        for r, amount in self.demand.asks:
            copies_here = columns[r][row] // amount
            if copies_here < fewest:
                fewest = copies_here
        if fewest <= 0:
            return 0
        if self.demand.kind <= DeviceKind.WHOLE:
            return fewest
        return min(fewest, device_copies_at(self.books, self.demand, row))

    def _refresh_many(self, rows: Ints) -> None:
        books = self.books
        now = copies(books, self.demand, rows) * self.allowed[rows]
        partly = now * (books.used[-1][rows] > 0)
        for columns, values in ((self.slots, now), (self.partly, partly)):
            change = values - columns[-1][rows]
            columns[-1][rows] = values
            for level in range(books.tree.leaf_level):
                np.add.at(columns[level], books.tree.domain[level][rows], change)

    def before_company(self) -> Counts:
        """Return how many copies each row takes if the company that they ask for comes later."""
        if self.company is None:
            return self.slots[-1]
        return self.anywhere[-1] * self.company.undisturbed()

    @property
    def total(self) -> int:
        """Return how many copies fit in all; call `refresh` first."""
        return self.slots_of[0][0]

    def room(self, level: int, domain: int) -> int:
        """Return how many copies fit in a domain; call `refresh` first."""
        return self.slots_of[level][domain]

    def favour(self, row: int, *, partly: bool) -> None:
        """Note that the last pick, anywhere, went to a row, and that nothing changed but that."""
        self._favourite = row
        self._favoured_partly = partly
        self._favoured_at = self.books.log_end

    def favourite(self, *, partly: bool) -> tuple[int, int]:
        """Return (level, domain) to look in for the next pick by E-Binpack.

        If nothing has changed since the last pick but its row, then the use of all domains around
        that row has risen and is still the highest: the lowest of them with room is the one. If no
        node in use had room before that pick, its row is now the only one.
        """
        if self._favoured_at != self.books.log_end or self._favoured_partly > partly:
            return 0, 0
        columns = self.partly_of if partly else self.slots_of
        for level in range(len(columns) - 1, 0, -1):
            domain = self.books.up[level][self._favourite]
            if columns[level][domain]:
                return level, domain
        return 0, 0

    @cached_property
    def most(self) -> list[Counts]:
        """How many copies would fit per level and domain if nothing ran."""
        return self._emptied(self.allowed)

    @cached_property
    def ever(self) -> list[Counts]:
        """How many would fit if, besides, all nodes were ready and none had refused."""
        return self.most if self.possible is self.allowed else self._emptied(self.possible)

    def _emptied(self, nodes: Bools) -> list[Counts]:
        books, tree = self.books, self.books.tree
        leaf = copies(books, self.demand, EVERY_ROW, empty=True) * nodes
        return [tree.sums(level, leaf) for level in range(tree.leaf_level)] + [leaf]

    def fewest_possible(self, level: int, count: int) -> tuple[int, ...]:
        """Return how many domains of each level below `count` copies need at the very least."""
        return tuple(-(-count // most) for most in self._largest[level + 1 :])

    @cached_property
    def _largest(self) -> list[int]:
        """The most copies that one domain of each level could take if nothing ran."""
        return [max(1, int(column.max(initial=0))) for column in self.most]


def copies(books: Books, demand: Demand, rows: Ints | slice, *, empty: bool = False) -> Counts:
    """Return how many copies of a demand fit on each row now, or if nothing ran there."""
    columns = books.capacity if empty else books.open
    number = books.count if isinstance(rows, slice) else len(rows)
    fewest = np.full(number, MOST_ON_A_NODE, INT)
    for r, amount in demand.asks:
        np.minimum(fewest, columns[r, rows] // amount, out=fewest)
    if demand.kind > DeviceKind.WHOLE:
        np.minimum(fewest, _device_copies(books, demand, rows, empty=empty), out=fewest)
    return np.maximum(fewest, 0, out=fewest).astype(np.int32)


def _device_copies(books: Books, demand: Demand, rows: Ints | slice, *, empty: bool) -> Ints:
    if demand.kind is DeviceKind.MIG:
        every = range(books.count) if isinstance(rows, slice) else rows
        return np.array([mig_copies_at(books, demand, row, empty=empty) for row in every], INT)
    usable = books.sound[:, rows] if empty else books.usable[:, rows]
    share = usable * WHOLE if empty else books.share[:, rows].astype(INT)
    if demand.kind is DeviceKind.MEMORY:
        memory = books.device_memory[:, rows]
        milli = -(-demand.shape.gpu_memory * WHOLE // np.maximum(memory, 1))
        each = np.where(milli <= WHOLE, share // np.maximum(milli, 1), 0)
    else:
        each = share // demand.shape.milli
    each = np.maximum(each * usable, 0)
    return _tasks_of(each, demand.shape.gpus)


def _tasks_of(each: Ints, gpus: int) -> Ints:
    """Return how many tasks get `gpus` different devices, device d serving `each[d]` of them.

    T tasks can be served exactly if the sum over devices of min(T, each) is at least gpus · T.
    """
    tasks: Ints = each.sum(axis=0) // gpus
    if gpus == 1:
        return tasks
    while True:
        short = np.minimum(each, tasks).sum(axis=0) < gpus * tasks
        if not short.any():
            return tasks
        tasks -= short


def device_copies_at(books: Books, demand: Demand, row: int) -> int:
    """Return how many copies the devices of one row take now."""
    if demand.kind is DeviceKind.MIG:
        return mig_copies_at(books, demand, row)
    if demand.kind is DeviceKind.SHARED and demand.shape.gpus == 1:
        milli = demand.shape.milli
        shares = [share[row] for share in books.share_of]
        return sum([share // milli for share in shares if share > 0])
    return int(_device_copies(books, demand, np.array([row], INT), empty=False)[0])


def mig_copies_at(books: Books, demand: Demand, row: int, *, empty: bool = False) -> int:
    """Return how many copies of a MIG demand the devices of one row take."""
    total = 0
    for d, device in enumerate(books.nodes[row].devices):
        if takes_instances(books, row, d, empty=empty):
            used = 0 if empty else books.mig_of[d][row]
            total += mig.fits_count(mig.GEOMETRIES[device.mig], demand.shape.mig, used)
    return total // demand.shape.gpus


def takes_instances(books: Books, row: int, device: int, *, empty: bool = False) -> bool:
    """Return whether a device is in MIG mode, healthy, and not in use as a whole."""
    facts = books.nodes[row].devices[device]
    is_cut = facts.healthy and facts.mig in mig.GEOMETRIES
    return is_cut and (empty or books.share_of[device][row] >= 0)


class Fits:
    """All fits of one set of books, made when first asked for."""

    def __init__(self, books: Books, own: Filter | None = None) -> None:
        self.books = books
        self._own = own
        """Says besides which nodes may take tasks of a shape."""
        self._facts = Facts(books)
        self._fits: dict[tuple[int, int, float, Without], Fit] = {}
        self._wishes: dict[int, tuple[float, ...]] = {}
        self._shapes = 0
        self._apart: list[tuple[Demand, TaskTerm]] = []
        """All terms that keep others away, and whose they are."""

    def facts(self) -> Facts:
        """Return the facts of the present nodes."""
        if self._facts.epoch != self.books.epoch:
            self._facts = Facts(self.books)
            self._fits.clear()
            self._wishes.clear()
        return self._facts

    def of(
        self,
        demand: Demand,
        flavor: int = ANY_FLAVOR,
        wish: float = -np.inf,
        without: Without = NOTHING,
    ) -> Fit:
        """Return the fit of a demand on nodes of one flavor that are liked at least so much."""
        self.facts()
        key = demand.index, flavor, wish, without
        if self._shapes != len(self.books.demands):
            self._meet_newcomers()
        fit = self._fits.get(key)
        if fit is None:
            fit = self._fits[key] = self._new_fit(demand, flavor, wish, without)
            fit.meet(self._company(demand, flavor))
            fit.is_plain = fit.company is None and len(self.wishes(demand)) == 1
        fit.refresh()
        return fit

    def _meet_newcomers(self) -> None:
        """Let the fits know of new shapes that want to be apart from theirs."""
        new = self.books.demands[self._shapes :]
        self._shapes = len(self.books.demands)
        apart = [(demand, term) for demand in new for term in demand.shape.apart if not term.weight]
        self._apart += apart
        for (_, flavor, _, _), fit in self._fits.items() if apart else ():
            if any(means(term, fit.demand.shape) for _, term in apart):
                fit.meet(self._company(fit.demand, flavor))
                fit.is_plain = False

    def _company(self, demand: Demand, flavor: int) -> Company | None:
        shape = demand.shape
        rivals = tuple((other, term.level) for other, term in self._apart if means(term, shape))
        if not rivals and not shape.is_social:
            return None
        measured = tuple(self._measured(demand, flavor, term) for term in shape.spread)
        return Company(self.books, demand, self._facts, measured, rivals)

    def _measured(self, demand: Demand, flavor: int, term: SpreadTerm) -> Bools:
        """Return the nodes over whose domains a term of spread is measured."""
        heedless = [] if term.heed_selectors else ["gpu-model", "selector", "affinity"]
        heedless += [] if term.heed_taints else ["not-ready", "taint"]
        measured = self._eligible(demand, flavor, heedless)
        for other in demand.shape.spread:
            if other.level.startswith(LABEL) and (other.required or other is term):
                measured &= self._facts.domains(other.level.removeprefix(LABEL)) > 0
        return measured

    def exclusions(self, shape: Shape) -> list[tuple[str, Bools]]:
        """Return which nodes each constraint of a shape excludes, and an own filter last."""
        found = exclusions(self.books, self.facts(), shape)
        if self._own is not None:
            rows = np.flatnonzero(self.books.present)
            excluded = np.zeros(self.books.count, np.bool_)
            excluded[rows] = ~self._own(NodeFacts(self.books, self.facts(), rows), Task.of(shape))
            found.append(("filter", excluded))
        return found

    def _eligible(self, demand: Demand, flavor: int, heedless: Collection[str] = ()) -> Bools:
        """Return the nodes of a flavor that the constraints of a demand leave, but for some."""
        found = self.exclusions(demand.shape)
        barred = [mask for by, mask in found if by not in heedless]
        eligible: Bools = self.books.present.copy()
        for mask in barred:
            eligible &= ~mask
        if flavor != ANY_FLAVOR:
            eligible &= self.books.has_flavor(flavor)
        return eligible

    def _new_fit(self, demand: Demand, flavor: int, wish: float, without: Without) -> Fit:
        """Return a fit on the eligible nodes that are liked enough and not to be avoided."""
        books = self.books
        allowed = possible = self._eligible(demand, flavor)
        if not self.facts().all_ready:
            possible = self._eligible(demand, flavor, ("not-ready",))
        avoid, barred = without
        if avoid or barred:
            allowed = allowed & ~np.isin(books.kind, barred)
            allowed[[books.row_of[name] for name in avoid if name in books.row_of]] = False
        liked = None if wish == -np.inf else preference(books, self.facts(), demand.shape)
        if liked is not None:
            allowed = allowed & (liked >= wish)
        return Fit(books, demand, allowed, possible)

    def wishes(self, demand: Demand) -> tuple[float, ...]:
        """Return the bounds of preference to try in turn; the last leaves nobody out."""
        facts = self.facts()
        if demand.index not in self._wishes:
            liked = preference(self.books, facts, demand.shape)
            levels = [] if liked is None else np.unique(liked)[:0:-1].tolist()[:4]
            self._wishes[demand.index] = (*levels, -np.inf)
        return self._wishes[demand.index]
