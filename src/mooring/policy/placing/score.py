"""Scores: how good it is to put one more task of a shape on a node.

The highest wins, ties go to the lowest row. A new one is a function of (books, shape, rows), or a
class that keeps tables, and one line in `SCORES`. Whether a task fits is not asked here. Devices
are counted in thousandths: shapes that ask for them by memory or by MIG profile are not scored.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from mooring.model.cluster import WHOLE
from mooring.model.resources import CPU, CPU_ROW, amount_of
from mooring.policy.placing.potential import EVERY_ROW, Potential, best_devices, in_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from mooring.model.books import Books
    from mooring.model.columns import Floats, Ints
    from mooring.model.workload import Shape
    from mooring.policy.placing.mix import Mix
    from mooring.policy.placing.potential import Rows

    Shares = NDArray[np.int16]


class Score(Protocol):
    """How good it is to put one more task of a shape on a node: raw value less price.

    A raw value depends on the present state of its row only, so it holds until the row or `version`
    changes. The price of a row holds until the row or `price_version` changes.
    """

    @property
    def version(self) -> int:
        """Return a number that changes when every raw value is stale."""

    @property
    def price_version(self) -> int:
        """Return a number that changes when every price is stale."""

    def before(self, books: Books, shape: Shape) -> None:
        """Make ready to score a task; called once for each."""

    def raw(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return the values of these rows; they mean something only where the shape fits."""

    def prices(self, books: Books, shape: Shape, rows: Rows = EVERY_ROW) -> Floats | None:
        """Return what is to be subtracted on these rows, as things stand now; none: nothing."""

    def devices(self, books: Books, shape: Shape, row: int) -> int:
        """Return the devices that the task takes on a row where it fits, as a bit mask."""

    def copy(self, mix: Mix) -> Self:
        """Return a score that goes its own way from here, with the mix of the fork."""


# ── scores that are one function ─────────────────────────────────────────────────────────────────


class Plain:
    """A score that is a function of a row's state and keeps nothing."""

    def __init__(self, function: Callable[[Books, Shape, Ints], Floats]) -> None:
        self.version = 0
        self.price_version = 0
        self._function = function
        self._epoch = -1

    def before(self, books: Books, shape: Shape) -> None:
        """Notice when the facts about the nodes have changed."""
        if books.epoch != self._epoch:
            self._epoch = books.epoch
            self.version += 1

    def raw(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return the value of the function."""
        return self._function(books, shape, rows)

    def prices(self, books: Books, shape: Shape, rows: Rows = EVERY_ROW) -> Floats | None:
        """Return none."""
        return None

    def devices(self, books: Books, shape: Shape, row: int) -> int:
        """Return the tightest devices."""
        return tightest(books, shape, row)

    def copy(self, mix: Mix) -> Plain:
        """Return a score that goes its own way from here."""
        twin = Plain(self._function)
        twin.version, twin._epoch = self.version, self._epoch
        return twin


def tightest(books: Books, shape: Shape, row: int) -> int:
    """Return the devices with the least free thousandths that do, the lowest index of equals."""
    gpus, milli = _asked(shape)
    shares = [share[row] for share in books.share_of]
    order = sorted(range(len(shares)), key=lambda d: (shares[d] < milli, max(shares[d], milli)))
    return sum([1 << device for device in order[:gpus]])


def _asked(shape: Shape) -> tuple[int, int]:
    """Return how many devices a shape asks for, and how many thousandths of each."""
    return (shape.gpus, shape.milli) if shape.gpus else (0, 0)


def _shares(books: Books, rows: Ints) -> Shares:
    """Return the open thousandths of every device of these rows; debts count as nothing."""
    return np.maximum(books.share.take(rows, axis=1), 0)


def _free(books: Books, rows: Ints) -> Ints:
    """Return the open thousandths of these rows."""
    free: Ints = np.add.reduce(_shares(books, rows), axis=0)
    return free


def _biggest(books: Books) -> tuple[int, int]:
    """Return the most CPU and the most thousandths that any node has."""
    cpu = int(books.capacity[CPU_ROW].max(initial=1))
    return cpu, max(int(books.devices.max(initial=0)), 1) * WHOLE


def first_fit(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score all rows the same: the lowest row wins."""
    return np.zeros(len(rows))


def best_fit(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score by how little CPU and GPU is left, in whole percent of the biggest node."""
    gpus, milli = _asked(shape)
    most_cpu, most_milli = _biggest(books)
    cpu = books.open[CPU_ROW].take(rows) - amount_of(shape.amounts, CPU)
    left = _free(books, rows) - gpus * milli
    score: Floats = np.trunc(100.0 * (1.0 - 0.5 * cpu / most_cpu - 0.5 * left / most_milli))
    return score


def dot_prod(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score by how little is free in the direction of the request, in whole percent."""
    gpus, milli = _asked(shape)
    most_cpu, most_milli = _biggest(books)
    cpu = books.open[CPU_ROW].take(rows) / most_cpu * (amount_of(shape.amounts, CPU) / most_cpu)
    free = _free(books, rows) / most_milli
    score: Floats = np.trunc(100.0 * (1.0 - (cpu + free * (gpus * milli / most_milli)) / 2.0))
    return score


def gpu_packing(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score used devices before free devices of used nodes before untouched nodes."""
    gpus, milli = _asked(shape)
    if not gpus:
        return np.zeros(len(rows))
    share = _shares(books, rows).astype(np.int64)
    count = books.devices.take(rows)
    chosen = np.sort(np.where(share >= milli, share, 2 * WHOLE), axis=0)[:gpus]
    whole = (chosen == WHOLE).sum(axis=0)
    packed = np.maximum(100 - (chosen * 100 // WHOLE).sum(axis=0) // 10, 50)
    opened = np.where(whole > 0, np.maximum(50 - whole, 33), packed)
    untouched = share.sum(axis=0) == count * WHOLE
    return np.where(untouched, np.maximum(33 - count, count), opened).astype(np.float64)


def gpu_clustering(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score nodes with tasks that ask for as many devices before others, fuller ones first."""
    gpus, milli = _asked(shape)
    if not gpus:
        return np.zeros(len(rows))
    most = _biggest(books)[1]
    tag = gpus if milli == WHOLE else 0
    same = books.counter(f"gpu-tag/{tag}", partial(_has_tag, tag)).take(rows)
    every = books.counter("gpu-tag", _has_any_tag).take(rows)
    base = 25 * (most - _free(books, rows)) // most
    kind = np.where(same > 0, np.where(same == every, 75, 50), np.where(every > 0, 0, 25))
    score: Floats = (base + kind).astype(np.float64)
    return score


def _has_tag(tag: int, shape: Shape) -> bool:
    return _tag(shape) == tag


def _has_any_tag(shape: Shape) -> bool:
    return _tag(shape) >= 0


def _tag(shape: Shape) -> int:
    """Return the number of whole devices, 0 for a share, −1 for none."""
    gpus, milli = _asked(shape)
    if not gpus:
        return -1
    return gpus if milli == WHOLE else 0


def binpack(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score by the part of the devices that is used, or of the CPU for a task without devices."""
    if shape.gpus:
        free, most = _free(books, rows), books.devices.take(rows) * WHOLE
    else:
        free, most = books.open[CPU_ROW].take(rows), books.capacity[CPU_ROW].take(rows)
    score: Floats = 1.0 - free / np.maximum(most, 1)
    return score


def spread(books: Books, shape: Shape, rows: Ints) -> Floats:
    """Score by the part of the devices that is free, or of the CPU for a task without devices."""
    return -binpack(books, shape, rows)


# ── fragmentation gradient descent ───────────────────────────────────────────────────────────────

_TYPICAL = 95.0
"""Percent of all tasks that the typical types cover."""
_ROWS = 256
"""Rows that are scored together: few enough for the cache."""
_ADMITTED, _ONLY_CPU, _NOT_ADMITTED = range(3)
_LACKS_BOTH, _LACKS_GPU, _LACKS_CPU, _CPU_FITS, _CPU_LACKS, _OTHER_MODEL = range(6)
_CLASS = np.array(
    [
        *(_LACKS_BOTH, _LACKS_CPU, _LACKS_GPU, _LACKS_GPU),
        *(_CPU_LACKS, _CPU_LACKS, _CPU_FITS, _CPU_FITS),
        *(_OTHER_MODEL, _OTHER_MODEL, _OTHER_MODEL, _OTHER_MODEL),
    ]
)
"""Class of a fragment by 4 · kind of type + 2 · CPU is enough + GPU is enough."""


class Typical:
    """The types that make up 95 % of a mix, memory left aside: to them a node is fragmented.

    For a type that can run on a node the slivers too small for it are fragments; for any other
    type all that is free. Order and rounding are part of the definition (`benchmarks.md` § 2.4).
    """

    def __init__(self, mix: Mix, flavors: list[str]) -> None:
        types = _typical(mix)
        keys = [key for key, _ in types]
        counts = np.array([count for _, count in types])
        every = float(mix.counts.sum())
        self._part = ((counts / every) / (float(counts.sum()) / every))[:, None]
        self._cpu = np.array([cpu for cpu, _, _, _ in keys], np.int64)[:, None]
        self._gpus = np.array([gpus for _, _, gpus, _ in keys], np.int16)[:, None]
        milli = np.array([milli for _, milli, _, _ in keys], np.int16)
        sizes, self._size = np.unique(milli, return_inverse=True)
        self._sizes = sizes[:, None, None]
        kinds = [[_kind(key, flavor) for flavor in flavors] for key in keys]
        self._kind = 4 * np.array(kinds, np.int64).reshape(len(keys), len(flavors))

    def fragments(self, cpu: Ints, share: Shares, flavor: Ints) -> Floats:
        """Return the fragmented thousandths of node states: free CPU, free shares, model."""
        states = len(cpu)
        small = share < self._sizes
        slivers = (share * small).sum(axis=1, dtype=np.int32).take(self._size, axis=0)
        enough = len(share) - small.sum(axis=1, dtype=np.int16).take(self._size, axis=0)
        code = self._kind.take(flavor, axis=1)
        code += enough >= self._gpus
        code += 2 * (cpu >= self._cpu)
        found = np.where(code == 3, slivers, share.sum(axis=0)) * self._part
        place = _CLASS.take(code) * states + np.arange(states)
        sums = np.bincount(place.ravel(), found.ravel(), 6 * states).reshape(6, states)
        total: Floats = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5]
        return total


_Key = tuple[int, int, int, tuple[str, ...]]
"""CPU, thousandths, devices, models."""


def _typical(mix: Mix) -> list[tuple[_Key, float]]:
    """Return the most frequent types with their counts, up to 95 % of all tasks."""
    counts: dict[_Key, float] = {}
    for kind, count in zip(mix.types, mix.counts.tolist(), strict=True):
        key = (amount_of(kind.amounts, CPU), kind.milli, kind.gpus, kind.gpu_models)
        counts[key] = counts.get(key, 0.0) + count
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    wanted = _TYPICAL * sum(counts.values()) / 100.0
    taken, covered = 0, 0.0
    while taken < len(ordered) and covered < wanted:
        covered += ordered[taken][1]
        taken += 1
    return ordered[:taken]


def _kind(key: _Key, flavor: str) -> int:
    """Return how a type stands to a GPU model."""
    _, _, gpus, models = key
    if not gpus:
        return _ONLY_CPU
    return _ADMITTED if not models or flavor in models else _NOT_ADMITTED


class Fgd:
    """Fragmentation gradient descent (Weng et al., USENIX ATC 2023), as published.

    The score is how little a task adds to the fragments of a node, as a whole number 0 … 100.
    """

    def __init__(self, mix: Mix) -> None:
        self.version = 0
        self.price_version = 0
        self._mix = mix
        self._seen: tuple[int, int, bool] | None = None
        self._typical: Typical | None = None

    def copy(self, mix: Mix) -> Fgd:
        """Return a score that goes its own way from here, with the mix of the fork."""
        twin = Fgd(mix)
        twin.version, twin._seen, twin._typical = self.version, self._seen, self._typical
        return twin

    def before(self, books: Books, shape: Shape) -> None:
        """Choose the typical types again when the mix or the nodes have changed."""
        seen = (self._mix.version, books.epoch, self._mix.is_ready)
        if seen != self._seen:
            self._seen = seen
            self._typical = Typical(self._mix, books.flavors) if self._mix.is_ready else None
            self.version += 1

    def prices(self, books: Books, shape: Shape, rows: Rows = EVERY_ROW) -> Floats | None:
        """Return none."""
        return None

    def raw(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return the score of the best device of every row, 50 while the mix is unknown."""
        if self._typical is None:
            return np.full(len(rows), 50.0)
        gpus, milli = _asked(shape)
        fits = (_shares(books, rows) >= milli).sum(axis=0) >= gpus
        fits &= books.open[CPU_ROW].take(rows) >= amount_of(shape.amounts, CPU)
        score = np.zeros(len(rows))
        score[fits] = in_blocks(lambda part: self._graded(books, shape, part), rows[fits], _ROWS)
        return score

    def _graded(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return the score of rows where the shape fits."""
        if _is_share(shape):
            best: Floats = self._by_device(books, shape, rows).max(axis=0, initial=0.0)
            return best
        share = _shares(books, rows)
        taken = share == WHOLE
        taken &= taken.cumsum(axis=0) <= shape.gpus
        owner = np.arange(len(rows))
        return self._gain(books, shape, rows, (owner, np.where(taken, 0, share)))

    def _by_device(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return the score of every device and row; −1: cannot, or no other than the one before."""
        share = _shares(books, rows)
        can = share >= shape.milli
        can[1:] &= share[1:] != share[:-1]
        device, owner = can.nonzero()
        after = share.take(owner, axis=1)
        after[device, np.arange(len(owner))] -= shape.milli
        scores = np.full(share.shape, -1.0)
        scores[device, owner] = self._gain(books, shape, rows, (owner, after))
        return scores

    def _gain(self, books: Books, shape: Shape, rows: Ints, after: tuple[Ints, Shares]) -> Floats:
        """Return the score of successor states: whose row each is, and its shares."""
        assert self._typical is not None
        owner, shares = after
        cpu, flavor = books.open[CPU_ROW].take(rows), books.flavor.take(rows)
        fragments = self._typical.fragments(
            np.concatenate([cpu, cpu.take(owner) - amount_of(shape.amounts, CPU)]),
            np.concatenate([_shares(books, rows), shares], axis=1),
            np.concatenate([flavor, flavor.take(owner)]),
        )
        gain = fragments[: len(rows)].take(owner) - fragments[len(rows) :]
        return np.trunc(100.0 / (1.0 + np.exp(-gain / 1000.0)))

    def devices(self, books: Books, shape: Shape, row: int) -> int:
        """Return the best device for a share, the lowest free ones for whole devices."""
        if self._typical is None or not _is_share(shape) or shape.gpus > 1:
            return tightest(books, shape, row)
        return best_devices(self._by_device(books, shape, np.array([row]))[:, 0], 1)


def _is_share(shape: Shape) -> bool:
    return 0 < _asked(shape)[1] < WHOLE


# ── composition and names ────────────────────────────────────────────────────────────────────────


class Weighted:
    """A sum of scores with weights; the first one chooses the devices."""

    def __init__(self, parts: tuple[tuple[float, Score], ...]) -> None:
        self._parts = parts

    @property
    def version(self) -> int:
        """Return a number that changes with that of any part."""
        return sum(score.version for _, score in self._parts)

    @property
    def price_version(self) -> int:
        """Return a number that changes with that of any part."""
        return sum(score.price_version for _, score in self._parts)

    def before(self, books: Books, shape: Shape) -> None:
        """Make all parts ready."""
        for _, score in self._parts:
            score.before(books, shape)

    def raw(self, books: Books, shape: Shape, rows: Ints) -> Floats:
        """Return the weighted sum of the values."""
        total = np.zeros(len(rows))
        for weight, score in self._parts:
            total += weight * score.raw(books, shape, rows)
        return total

    def prices(self, books: Books, shape: Shape, rows: Rows = EVERY_ROW) -> Floats | None:
        """Return the weighted sum of the prices; none if no part has any."""
        total: Floats | None = None
        for weight, score in self._parts:
            prices = score.prices(books, shape, rows)
            if prices is not None:
                total = weight * prices if total is None else total + weight * prices
        return total

    def devices(self, books: Books, shape: Shape, row: int) -> int:
        """Return the choice of the first part."""
        return self._parts[0][1].devices(books, shape, row)

    def copy(self, mix: Mix) -> Weighted:
        """Return a score that goes its own way from here."""
        return Weighted(tuple((weight, score.copy(mix)) for weight, score in self._parts))


def weighted(*parts: tuple[float, Score]) -> Score:
    """Return the sum of scores, each with its weight; the first one chooses the devices."""
    return Weighted(parts)


def _plain(function: Callable[[Books, Shape, Ints], Floats]) -> Callable[[Mix], Score]:
    return lambda mix: Plain(function)


SCORES: dict[str, Callable[[Mix], Score]] = {
    "potential": Potential,
    "fgd": Fgd,
    "best-fit": _plain(best_fit),
    "dot-prod": _plain(dot_prod),
    "gpu-packing": _plain(gpu_packing),
    "gpu-clustering": _plain(gpu_clustering),
    "first-fit": _plain(first_fit),
    "binpack": _plain(binpack),
    "spread": _plain(spread),
}
"""Scores by name, to be made with the mix that they learn from."""
