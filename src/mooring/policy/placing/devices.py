"""Which devices of a node: the best-linked ones, such that those left stay useful.

A set of devices is worth the links inside it. Of the sets that are linked best the one is taken
that leaves the most: two from a broken quad, not from a whole one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from mooring.model import mig
from mooring.model.books import BooksError, bits
from mooring.model.demand import DeviceKind
from mooring.policy.placing.fit import takes_instances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.model.books import Books, Layout
    from mooring.model.demand import Demand

ISLAND, SWITCH, NUMA, NIC = 1000, 100, 10, 1
"""What a pair of devices is worth that has this in common; each outweighs all below it."""
EXACT_UP_TO = 8
"""Up to so many free devices every subset is looked at; above, islands are taken greedily."""


@lru_cache(maxsize=1 << 16)
def linked(layout: Layout, free: int, count: int) -> int:
    """Choose the best-linked devices, and among equals those that leave the most."""
    if free.bit_count() == count:
        return free
    if free.bit_count() > EXACT_UP_TO:
        return _by_islands(layout, free, count)
    options = (sum(1 << d for d in chosen) for chosen in combinations(bits(free), count))
    return max(options, key=lambda mask: (links(layout, mask), worth(layout, free ^ mask), -mask))


@lru_cache(maxsize=1 << 16)
def lowest(layout: Layout, free: int, count: int) -> int:
    """Choose the devices with the lowest index."""
    return sum(1 << d for d in bits(free)[:count])


RULES: dict[str, Callable[[Layout, int, int], int]] = {"linked": linked, "lowest": lowest}
"""(layout, mask of wholly free devices, how many) -> mask of the chosen ones."""


@lru_cache(maxsize=1 << 16)
def links(layout: Layout, mask: int) -> int:
    """Return how well the devices of a mask are linked with each other."""
    return sum(_pair(layout, a, b) for a, b in combinations(bits(mask), 2))


def _pair(layout: Layout, a: int, b: int) -> int:
    weights = (ISLAND, SWITCH, NUMA, NIC)
    return sum(w for w, x, y in zip(weights, layout[a], layout[b], strict=False) if x == y)


@lru_cache(maxsize=1 << 16)
def worth(layout: Layout, mask: int) -> int:
    """Return how useful free devices are: the links of the best subset of every size, summed."""
    best = [0] * (mask.bit_count() + 1)
    subset = mask
    while subset:
        size = subset.bit_count()
        best[size] = max(best[size], links(layout, subset))
        subset = (subset - 1) & mask
    return sum(best)


def _by_islands(layout: Layout, free: int, count: int) -> int:
    """Take the smallest island that suffices, else the largest ones first."""
    islands: dict[int, list[int]] = {}
    for d in bits(free):
        islands.setdefault(layout[d][0], []).append(d)
    fitting = [devices for devices in islands.values() if len(devices) >= count]
    if fitting:
        return sum(
            1 << d for d in min(fitting, key=lambda devices: (len(devices), devices))[:count]
        )
    largest = sorted(islands.values(), key=lambda devices: (-len(devices), devices))
    return sum(1 << d for d in [d for devices in largest for d in devices][:count])


def choose_devices(books: Books, demand: Demand, row: int, rule: str) -> int:
    """Return the devices of one task on a row where it fits."""
    if demand.kind is DeviceKind.WHOLE:
        layout = books.layouts[books.layout_of[row]]
        return RULES[rule](layout, books.whole_of[row], demand.shape.gpus)
    return next(device_choices(books, demand, row, rule))


def device_choices(books: Books, demand: Demand, row: int, rule: str) -> Iterator[int]:
    """Yield the choices of devices for one task that differ in what they leave, best first."""
    kind = demand.kind
    if kind is DeviceKind.NONE:
        yield 0
    elif kind is DeviceKind.WHOLE:
        yield from _wholes(books, demand, row, rule)
    elif kind is DeviceKind.MIG:
        yield from _instances(books, demand, row)
    else:
        yield from _shares(books, demand, row, rule)


def _wholes(books: Books, demand: Demand, row: int, rule: str) -> Iterator[int]:
    """Yield the choice of the rule; others only where devices differ in memory."""
    first = choose_devices(books, demand, row, rule)
    yield first
    whole = bits(books.whole_of[row])
    memory = {d: books.memory_of[d][row] for d in whole}
    seen = {tuple(sorted(memory[d] for d in bits(first)))}
    if len(set(memory.values())) == 1:
        return
    for chosen in combinations(whole, demand.shape.gpus):
        left = tuple(sorted(memory[d] for d in chosen))
        if left not in seen:
            seen.add(left)
            yield sum(1 << d for d in chosen)


def _shares(books: Books, demand: Demand, row: int, rule: str) -> Iterator[int]:
    """Yield sets of devices to share: the fullest first; equal ones count once."""
    fitting = []
    for d, share in enumerate(books.share_of):
        if books.usable[d, row] and share[row] >= books.milli(demand, row, d):
            fitting.append((share[row], d))
    whole = books.whole_of[row]
    if whole:  # of the untouched ones, open the one that leaves the best-linked rest
        layout = books.layouts[books.layout_of[row]]
        first = RULES[rule](layout, whole, 1)
        fitting = [(s, -1 if 1 << d == first else d) for s, d in fitting]
        fitting.sort()
        fitting = [(s, first.bit_length() - 1 if d == -1 else d) for s, d in fitting]
    else:
        fitting.sort()
    seen = set()
    for chosen in combinations(fitting, demand.shape.gpus):
        alike = tuple(sorted((share, books.memory_of[d][row]) for share, d in chosen))
        if alike not in seen:
            seen.add(alike)
            yield sum(1 << d for _, d in chosen)


def _instances(books: Books, demand: Demand, row: int) -> Iterator[int]:
    """Yield places for the MIG instances of one task, used devices first."""
    places = []
    devices = [d for d in range(len(books.share_of)) if _takes(books, row, d)]
    for d in sorted(devices, key=lambda d: (-books.mig_of[d][row].bit_count(), d)):
        geometry = mig.GEOMETRIES[books.nodes[row].devices[d].mig]
        starts = _starts(geometry, demand.shape.mig, books.mig_of[d][row])
        places += [mig.bits(geometry, demand.shape.mig, start) << 8 * d for start in starts]
    for chosen in combinations(places, demand.shape.gpus):
        taken = 0
        for mask in chosen:
            if taken & mask:
                break
            taken |= mask
        else:
            yield taken


def _takes(books: Books, row: int, device: int) -> bool:
    return device < len(books.nodes[row].devices) and takes_instances(books, row, device)


@lru_cache(maxsize=1 << 12)
def _starts(geometry: mig.Geometry, profile: str, used: int) -> tuple[int, ...]:
    """Return where an instance may start: first what costs its like least, then what others."""
    best = mig.best_start(geometry, profile, used)
    free = [s for s in mig.starts(geometry, profile) if not mig.bits(geometry, profile, s) & used]

    def cost(start: int) -> tuple[int, bool, int]:
        after = used | mig.bits(geometry, profile, start)
        return -mig.fits_count(geometry, profile, after), start != best, start

    return tuple(sorted(free, key=cost))


def choose_many(books: Books, demand: Demand, row: int, count: int, rule: str) -> list[int]:
    """Return the devices of `count` tasks on one row where they fit, one mask each."""
    if demand.kind is DeviceKind.NONE:
        return [0] * count
    if demand.kind is DeviceKind.WHOLE:
        layout = books.layouts[books.layout_of[row]]
        return list(_split(layout, books.whole_of[row], demand.shape.gpus, count, rule))
    if count == 1:
        return [choose_devices(books, demand, row, rule)]
    return _one_after_another(books, demand, row, count, rule)


@lru_cache(maxsize=1 << 16)
def _split(layout: Layout, free: int, gpus: int, count: int, rule: str) -> tuple[int, ...]:
    masks = []
    for _ in range(count):
        masks.append(RULES[rule](layout, free, gpus))
        free ^= masks[-1]
    return tuple(masks)


def _one_after_another(books: Books, demand: Demand, row: int, count: int, rule: str) -> list[int]:
    """Take tasks one by one on trial; if the fullest devices first fail, the emptiest first."""
    for widest in (False, True):
        mark = books.checkpoint()
        masks: list[int] = []
        for _ in range(count):
            first = next(device_choices(books, demand, row, rule), None)
            if first is None:
                break
            masks.append(emptiest(books, demand, row) if widest else first)
            books.take(demand, (row,), (masks[-1],), 0)
        books.rollback(mark)
        if len(masks) == count:
            return masks
    raise BooksError(f"{count} tasks were said to fit on row {row}, and do not")


def emptiest(books: Books, demand: Demand, row: int) -> int:
    """Return the devices that could serve the most further tasks: this never wastes a device."""
    serve = sorted(
        (-(books.share_of[d][row] // books.milli(demand, row, d)), d)
        for d in range(len(books.share_of))
        if books.usable[d, row]
    )
    return sum(1 << d for _, d in serve[: demand.shape.gpus])
