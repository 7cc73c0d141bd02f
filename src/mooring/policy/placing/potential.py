"""The potential: the score for work below one whole node.

The potential of a node says how much of its free room is bad room. With free CPU C and memory M,
free thousandths R_i of each device, R = Σ R_i, and j the GPU model:

    Φ = 2 · Σ_i W(R_i)                                             packing of shares
      + 0.2 · [ B·R + (1 − B) · Σ_i L_j(R_i) ]                     room that few types can use
      + 1000 · ln(1 + e^((R − C/κ)/1000) + e^((R − M/κ_m)/1000))   GPU without CPU or memory

A score is how much a task lowers Φ, less two prices: of its thousandths on scarce GPU models, and
of an untouched node of the biggest size when such nodes become scarce. W, B, L and the κ are
tables made from the mix of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.cluster import WHOLE
from mooring.model.columns import INT, Bools, Floats, Ints
from mooring.model.memory import TaskType
from mooring.model.resources import CPU, CPU_ROW, MEMORY, MEMORY_ROW, PODS_ROW, amount_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mooring.model.books import Books
    from mooring.model.workload import Shape
    from mooring.policy.placing.mix import Mix

    Rows = Ints | slice

EVERY_ROW = slice(None)
PACKING = 2.0
ROOM = 0.2
SOFTNESS = 1000.0
HEADROOM = 1.05
SCARCE_MODEL = 2.0
SCARCE_NODE = 4000.0
PRICE_PERIOD = 20
"""Tasks between two looks at the prices."""
GRAIN = 2.0**-20
"""Scores and prices are multiples of this, so that ties are exact after subtraction too."""

_GRID = 10
"""Thousandths that the packing of shares is reckoned in."""
_SIZES = WHOLE + 1
_BOTH = slice(CPU_ROW, MEMORY_ROW + 1)
_KNOWN_ASKS = 4096
_ROWS = 1024
_STEEPEST = 700.0
"""Where nothing fits the exponent may grow beyond what has a finite power."""
_NEVER = -1e12


def best_devices(keys: Floats, count: int) -> int:
    """Return the `count` devices with the highest keys, of equals the lowest, as a bit mask."""
    order = np.argsort(-keys, kind="stable")[:count]
    return sum(1 << device for device in order.tolist())


def in_blocks(raw: Callable[[Ints], Floats], rows: Ints, size: int) -> Floats:
    """Return `raw` of all rows, reckoned in blocks that stay in the cache."""
    if len(rows) <= size:
        return raw(rows)
    return np.concatenate([raw(rows[at : at + size]) for at in range(0, len(rows), size)])


# ── packing of shares ────────────────────────────────────────────────────────────────────────────


def gap_values(demand: Iterable[tuple[int, float]]) -> Floats:
    """Return what a gap of each size (0 … 1000) is worth for packing shares, in devices.

    The dual values of the cutting-stock problem "fewest devices for this demand", by column
    generation (Gilmore and Gomory 1961): every pivot of the simplex method prices in the best
    pattern, which is an unbounded knapsack on a grid of 10 thousandths. `demand` is (thousandths,
    how many).
    """
    wanted: dict[int, float] = {}
    for milli, count in demand:
        if 0 < milli < WHOLE and count > 0.0:
            size = -(-milli // _GRID)
            wanted[size] = wanted.get(size, 0.0) + count
    sizes = np.array(sorted(wanted), INT)
    cells = WHOLE // _GRID
    values = np.zeros(cells + 1)
    if sizes.size:
        duals = _duals(sizes, np.array([wanted[size] for size in sizes.tolist()]), cells)
        values = np.minimum(_knapsack(sizes, duals, cells)[0], 1.0)
    values[cells] = 1.0
    return values[np.arange(_SIZES) // _GRID]


def _duals(sizes: Ints, wanted: Floats, cells: int) -> Floats:
    """Return the dual value of each size; surplus is allowed, so none is negative."""
    count = len(sizes)
    basis = np.diag((cells // sizes).astype(np.float64))
    cost = np.ones(count)
    for _ in range(50 * count):
        inverse = np.linalg.inv(basis)
        duals = cost @ inverse
        column, price = _entering(sizes, duals, cells)
        if column is None:
            break
        amounts = inverse @ wanted
        rates = inverse @ column
        steps = np.full(count, np.inf)
        rising = rates > 1e-9
        steps[rising] = amounts[rising] / rates[rising]
        leaving = int(steps.argmin())
        basis[:, leaving] = column
        cost[leaving] = price
    return np.maximum(cost @ np.linalg.inv(basis), 0.0)


def _entering(sizes: Ints, duals: Floats, cells: int) -> tuple[Floats | None, float]:
    """Return a pattern (or a surplus) that lowers the number of devices, and what it costs."""
    lowest = int(duals.argmin())
    if duals[lowest] < -1e-9:
        surplus = np.zeros(len(sizes))
        surplus[lowest] = -1.0
        return surplus, 0.0
    values, last = _knapsack(sizes, duals, cells)
    if values[cells] <= 1.0 + 1e-9:
        return None, 0.0
    pattern = np.zeros(len(sizes))
    left = cells
    while last[left] >= 0:
        pattern[last[left]] += 1.0
        left -= int(sizes[last[left]])
    return pattern, 1.0


def _knapsack(sizes: Ints, duals: Floats, cells: int) -> tuple[Floats, list[int]]:
    """Return the best value that fits into 0 … `cells`, and the item that was put in last."""
    values = np.zeros(cells + 1)
    last = [-1] * (cells + 1)
    for room in range(int(sizes[0]), cells + 1):
        fitting = int(np.searchsorted(sizes, room, "right"))
        gains = values[room - sizes[:fitting]] + duals[:fitting]
        item = int(gains.argmax())
        values[room] = gains[item]
        last[room] = item
    return values, last


# ── tables from the mix ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Tail:
    """P(a type of a model asks more than x), for any x: steps at the amounts that are asked."""

    steps: Ints
    above: Floats
    """Flat, models by steps + 1."""

    def of(self, flavor: Ints, free: Ints) -> Floats:
        """Return the probability for every (model, free amount)."""
        place = self.steps.searchsorted(free, "right")
        place += flavor * (len(self.steps) + 1)
        return self.above.take(place)


@dataclass(frozen=True, slots=True)
class _Tables:
    """All that the score needs of the mix."""

    per_amount: Floats
    """1/κ and 1/κ_m over the softness, as a column."""
    loss: Floats
    """2 · W by thousandths."""
    narrow: Floats
    """L by model and thousandths, flat."""
    cpu: _Tail
    memory: _Tail
    restricted: tuple[tuple[Bools, float], ...]
    """Models of each restricted set, and the share of the demand that is restricted to it."""
    big: tuple[tuple[TaskType, float], ...]
    """Types that need over half of the biggest node's devices, and their share of all tasks."""
    mean: float
    """Thousandths that a task asks for on average."""
    is_learnt: bool = True

    def short(self, flavor: Ints, free: Ints) -> Floats:
        """Return B for rows of these models with so much free CPU and memory."""
        return np.maximum(self.cpu.of(flavor, free[0]), self.memory.of(flavor, free[1]))


def _admitted(kind: TaskType, flavors: list[str]) -> Bools:
    """Return which models the type may run on."""
    if not kind.gpu_models:
        return np.ones(len(flavors), np.bool_)
    return np.array([flavor in kind.gpu_models for flavor in flavors], np.bool_)


def _first_tables(books: Books) -> _Tables:
    """Return the tables for an unknown mix: as much CPU and memory per GPU as the cluster has."""
    bearing = books.devices > 0
    thousandths = max(int(books.devices.sum()) * WHOLE, 1)
    kappa = books.capacity[_BOTH][:, bearing].sum(axis=1) / thousandths
    models = len(books.flavors)
    nothing = _Tail(np.zeros(0, INT), np.zeros(models))
    narrow = np.zeros(models * _SIZES)
    return _Tables(
        per_amount=_inverse(kappa),
        loss=np.zeros(_SIZES),
        narrow=narrow,
        cpu=nothing,
        memory=nothing,
        restricted=(),
        big=(),
        mean=1.0,
        is_learnt=False,
    )


def _inverse(kappa: Floats) -> Floats:
    """Return 1/κ over the softness as a column; what nobody asks for is never short."""
    return (1.0 / (SOFTNESS * np.maximum(kappa, 1e-9)))[:, None]


def _tables(mix: Mix, books: Books, values: Floats) -> _Tables:
    """Return the tables for a mix that asks for devices."""
    kinds, counts = mix.types, mix.counts
    gpus = [index for index, kind in enumerate(kinds) if kind.gpus]
    wanting = [kinds[index] for index in gpus]
    weight = counts[gpus]
    size = np.array([kind.gpus * kind.milli for kind in wanting], np.float64)
    asked = np.array([[amount_of(k.amounts, name) for k in wanting] for name in (CPU, MEMORY)], INT)
    demand = float(weight @ size)
    admitted = np.array([_admitted(kind, books.flavors) for kind in wanting]).T * weight
    half = int(books.devices.max(initial=0)) / 2
    return _Tables(
        per_amount=_inverse(HEADROOM * (asked @ weight) / demand),
        loss=PACKING * (np.arange(_SIZES) - WHOLE * values),
        narrow=_narrow(np.array([kind.milli for kind in wanting], INT), admitted),
        cpu=_tail(asked[0], admitted),
        memory=_tail(asked[1], admitted),
        restricted=_restricted(
            wanting, weight * size / demand, WHOLE / demand if mix.learns else 0.0, books.flavors
        ),
        big=tuple(
            (kind, count / float(counts.sum()))
            for kind, count in zip(wanting, weight.tolist(), strict=True)
            if half < kind.gpus <= 2 * half
        ),
        mean=demand / float(counts.sum()),
    )


def _tail(asked: Ints, admitted: Floats) -> _Tail:
    """Return P(asked > x) by model; a model that no type admits has no room that is of use."""
    steps = np.unique(asked)
    bounds = np.concatenate([[-1], steps])
    above = (admitted[:, None, :] * (asked > bounds[:, None])).sum(axis=2)
    total = admitted.sum(axis=1)[:, None]
    return _Tail(steps, np.where(total > 0.0, above / np.maximum(total, 1e-300), 1.0).ravel())


def _narrow(milli: Ints, admitted: Floats) -> Floats:
    """Return L: thousandths r times the share of types that ask for more than r of a device."""
    thousandths = np.arange(_SIZES, dtype=INT)
    models = np.repeat(np.arange(len(admitted), dtype=INT), _SIZES)
    every = np.tile(thousandths, len(admitted))
    return every * _tail(milli, admitted).of(models, every)


def _restricted(
    wanting: list[TaskType], part: Floats, prior: float, flavors: list[str]
) -> tuple[tuple[Bools, float], ...]:
    """Return the restricted sets of models with their share of demand, `prior` for each model."""
    rho: dict[tuple[bool, ...], float] = {}
    for index in range(len(flavors) if prior else 0):
        rho[tuple(other == index for other in range(len(flavors)))] = prior
    for kind, share in zip(wanting, part.tolist(), strict=True):
        if kind.gpu_models:
            models = tuple(_admitted(kind, flavors).tolist())
            rho[models] = rho.get(models, 0.0) + share
    return tuple((np.array(models, np.bool_), share) for models, share in rho.items())


# ── prices ───────────────────────────────────────────────────────────────────────────────────────


class _PriceList:
    """What is charged at the moment: by GPU model for thousandths, by row for opening a node."""

    def __init__(self, model: Floats, node: Floats, opened: Ints) -> None:
        self.model = model
        self.node = node
        self._opened = opened
        self._is_free = not model.any() and not node.any()
        self._flat: dict[int, Floats] = {}

    def equals(self, other: _PriceList) -> bool:
        """Return whether both charge the same."""
        return np.array_equal(self.model, other.model) and np.array_equal(self.node, other.node)

    def of(self, books: Books, size: int, rows: Rows = EVERY_ROW) -> Floats | None:
        """Return the price of `size` thousandths on these rows; a touched row costs no opening."""
        if self._is_free:
            return None
        flat = self._flat.get(size)
        if flat is None:
            flat = self._flat[size] = _rounded(size * self.model).take(books.flavor)
        is_new = books.open[PODS_ROW, rows] == self._opened[rows]
        prices: Floats = flat[rows] + self.node[rows] * is_new
        return prices


class _Market:
    """How prices follow from the free room, for one mix and one set of nodes."""

    def __init__(self, tables: _Tables, books: Books) -> None:
        biggest = int(books.devices.max(initial=0))
        is_big = (books.devices == biggest) & (biggest > 1)
        if not tables.is_learnt:
            is_big = books.devices > 0  # nothing is known: every node may be needed whole
        self._tables = tables
        self._rows = np.flatnonzero(is_big)
        self._untouched = np.where(is_big, books.capacity[PODS_ROW], -1)
        """Room for tasks that says that a node of the biggest size has none; −1: another node."""
        facts = np.stack([books.flavor, books.capacity[CPU_ROW], books.capacity[MEMORY_ROW]])
        classes, class_of = np.unique(facts[:, self._rows], axis=1, return_inverse=True)
        self._class_of = class_of.reshape(-1)
        fits = [_fits(kind, classes, books.flavors) for kind, _ in tables.big]
        self._fits = np.array(fits, np.float64).reshape(len(tables.big), classes.shape[1])
        self._part = np.array([part for _, part in tables.big])

    def prices(self, books: Books) -> _PriceList:
        """Return the prices for the room that is free now."""
        shares = np.maximum(books.share, 0).sum(axis=0).astype(np.float64)
        free: Floats = np.bincount(books.flavor, shares, len(books.flavors)).astype(np.float64)
        model, node = self._by_model(free), self._by_node(books, float(free.sum()))
        return _PriceList(model, node, self._untouched)

    def _by_model(self, free: Floats) -> Floats:
        """Return π: dear where the demand restricted to a model outruns what is free of it."""
        scarcity = np.zeros(len(free))
        for models, part in self._tables.restricted:
            scarcity[models] += part * float(free.sum()) / (float(free[models].sum()) + 1.0)
        return SCARCE_MODEL * np.minimum(scarcity, 1.0) ** 2

    def _by_node(self, books: Books, free: float) -> Floats:
        """Return ε: dear where the tasks to come that need most of a node outrun whole nodes."""
        prices = np.zeros(books.count)
        if not self._tables.is_learnt:
            prices[self._rows] = SCARCE_NODE
            return prices
        if not self._fits.size:
            return prices
        untouched = books.open[PODS_ROW, self._rows] == self._untouched[self._rows]
        number = np.bincount(self._class_of, untouched, self._fits.shape[1])
        coming = self._part * (free / self._tables.mean)
        scarcity = coming / ((self._fits * number).sum(axis=1) + 0.001)
        by_class = (self._fits * scarcity[:, None]).sum(axis=0)
        charge = _rounded(SCARCE_NODE * np.minimum(by_class, 1.0) ** 4)
        prices[self._rows] = charge[self._class_of]
        return prices


def _fits(kind: TaskType, classes: Ints, flavors: list[str]) -> Bools:
    """Return which classes (model, CPU, memory) of the biggest size a type fits on."""
    fits: Bools = _admitted(kind, flavors)[classes[0]]
    fits &= classes[1] >= amount_of(kind.amounts, CPU)
    fits &= classes[2] >= amount_of(kind.amounts, MEMORY)
    return fits


# ── the score ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Ask:
    """A shape as the potential sees it."""

    amounts: Ints
    """CPU and memory, as a column."""
    shift: Floats
    """What a task adds to the exponents of the log term, as a column."""
    gpus: int
    size: int
    """Thousandths in all."""
    shares: bool
    drop: Floats
    """How much 2 · W falls on a device with so many free thousandths."""
    widen: Floats
    """How much L falls, by model and thousandths, flat."""


class _Basis:
    """Tables, and what follows from them for one set of nodes and for each shape."""

    def __init__(self, tables: _Tables, books: Books) -> None:
        self.tables = tables
        self.offset = books.flavor * _SIZES
        """Where the table of each row's model begins in flat tables."""
        bearing = books.devices > 0
        self.bearing = None if bearing.all() else bearing.astype(np.float64)
        """1 where a row has devices, else 0: without devices nothing can be lost; none: all do."""
        self._asks: dict[Shape, _Ask] = {}
        self._gains: dict[int, tuple[Floats, Floats]] = {}

    def ask(self, shape: Shape) -> _Ask:
        """Return a shape as the potential sees it."""
        ask = self._asks.get(shape)
        if ask is None:
            if len(self._asks) >= _KNOWN_ASKS:
                self._asks.clear()
            ask = self._asks[shape] = self._new_ask(shape)
        return ask

    def _new_ask(self, shape: Shape) -> _Ask:
        milli = shape.milli if shape.gpus else 0
        size = shape.gpus * milli
        needs = np.array([[amount_of(shape.amounts, name)] for name in (CPU, MEMORY)], INT)
        shift = needs * self.tables.per_amount - size / SOFTNESS
        return _Ask(needs, shift, shape.gpus, size, 0 < milli < WHOLE, *self._gain_tables(milli))

    def _gain_tables(self, milli: int) -> tuple[Floats, Floats]:
        """Return by how much 2 · W and L fall on a device that gives `milli`."""
        if milli not in self._gains:
            loss, narrow = self.tables.loss, self.tables.narrow.reshape(-1, _SIZES)
            drop = np.full(_SIZES, _NEVER)
            drop[milli:] = loss[milli:] - loss[: _SIZES - milli]
            widen = np.zeros_like(narrow)
            widen[:, milli:] = narrow[:, milli:] - narrow[:, : _SIZES - milli]
            self._gains[milli] = drop, widen.ravel()
        return self._gains[milli]

    def gain(self, ask: _Ask, share: Ints, place: Ints, short: Floats) -> Floats:
        """Return by how much each device would lower the potential if it gave the share."""
        return ask.drop.take(share) + ROOM * (1.0 - short) * ask.widen.take(place)


class Potential:
    """The score of `placement.md`: learns from the mix, charges for what is scarce."""

    _basis: _Basis
    _market: _Market
    _prices: _PriceList

    def __init__(self, mix: Mix) -> None:
        self.version = 0
        self.price_version = 0
        self._mix = mix
        self._seen: tuple[int, int, bool] | None = None
        self._values: tuple[int, Floats] | None = None
        self._scored = 0

    def copy(self, mix: Mix) -> Potential:
        """Return a score that goes its own way from here, with the mix of the fork."""
        twin = Potential(mix)
        twin.__dict__.update(self.__dict__)  # its parts are replaced, never changed
        twin._mix = mix
        return twin

    def before(self, books: Books, shape: Shape) -> None:
        """Renew the tables when the mix or the nodes have changed, prices every 20 tasks."""
        seen = (self._mix.version, books.epoch, self._mix.is_ready)
        if seen != self._seen:
            self._seen = seen
            self._renew(books)
        elif self._scored % PRICE_PERIOD == 0:
            prices = self._market.prices(books)
            if not prices.equals(self._prices):
                self._prices = prices
                self.price_version += 1
        self._scored += 1

    def _renew(self, books: Books) -> None:
        wants = self._mix.is_ready and any(kind.gpus for kind in self._mix.types)
        tables = self._tables(books) if wants else _first_tables(books)
        self._basis = _Basis(tables, books)
        self._market = _Market(tables, books)
        self._prices = self._market.prices(books)
        self.version += 1
        self.price_version += 1

    def _tables(self, books: Books) -> _Tables:
        """Return tables from the mix; the values of gaps are kept while the mix is the same."""
        if self._values is None or self._values[0] != self._mix.version:
            shares = zip(self._mix.types, self._mix.counts.tolist(), strict=True)
            values = gap_values((kind.milli, kind.gpus * count) for kind, count in shares)
            self._values = self._mix.version, values
        return _tables(self._mix, books, self._values[1])

    def raw(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return how much one more task lowers the potential of these rows."""
        return in_blocks(lambda part: self._raw(books, shape, part), rows, _ROWS)

    def _raw(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        basis, tables = self._basis, self._basis.tables
        ask = basis.ask(shape)
        flavor = books.flavor.take(rows)
        free = books.open[_BOTH].take(rows, axis=1)
        left = free - ask.amounts
        share = np.maximum(books.share.take(rows, axis=1), 0)
        place = share + basis.offset.take(rows)
        total = share.sum(axis=0)
        usable = tables.narrow.take(place).sum(axis=0)
        short = tables.short(flavor, free)
        shorter = tables.short(flavor, left)

        exponent = total / SOFTNESS - free * tables.per_amount
        score = SOFTNESS * (_soft(exponent) - _soft(exponent + ask.shift))
        score += ROOM * (short * (total - usable) - shorter * (total - ask.size - usable))
        if ask.shares:
            score += _best(basis.gain(ask, share, place, shorter), ask.gpus)
        if basis.bearing is not None:
            score *= basis.bearing.take(rows)
        return _rounded(score)

    def prices(self, books: Books, shape: Shape, rows: Rows = EVERY_ROW) -> Floats | None:
        """Return what the room costs on these rows, as things stand now."""
        return self._prices.of(books, self._basis.ask(shape).size, rows)

    def devices(self, books: Books, shape: Shape, row: int) -> int:
        """Return the best devices for a share, the lowest free ones for whole devices."""
        basis = self._basis
        ask = basis.ask(shape)
        share = np.maximum(books.share[:, [row]], 0)
        if not ask.shares:
            return best_devices((share[:, 0] == WHOLE).astype(np.float64), ask.gpus)
        left = books.open[_BOTH, [row]] - ask.amounts
        shorter = basis.tables.short(books.flavor[[row]], left)
        gain = basis.gain(ask, share, share + basis.offset[row], shorter)
        return best_devices(_rounded(gain[:, 0]), ask.gpus)


def _soft(exponent: Floats) -> Floats:
    """Return ln(1 + e^x + e^y) of every column (x, y)."""
    powers: Floats = np.exp(np.minimum(exponent, _STEEPEST))
    soft: Floats = np.log1p(powers[0] + powers[1])
    return soft


def _best(gain: Floats, count: int) -> Floats:
    """Return the sum of the `count` largest gains of every column."""
    if count > 1:
        gain = np.sum(np.sort(gain, axis=0)[-count:], axis=0, keepdims=True)
    best: Floats = gain.max(axis=0, initial=_NEVER)
    return best


def _rounded(score: Floats) -> Floats:
    return np.rint(score / GRAIN) * GRAIN
