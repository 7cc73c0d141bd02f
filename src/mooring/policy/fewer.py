"""Starting with fewer tasks than asked for, where a workload allows it.

Every group that may have fewer gives up the same fraction of what it can spare; a group in slices
gives up whole slices. The fewer tasks, the easier to place, so the largest size is found by halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.policy.placing.ask import Ask, Part

T = TypeVar("T")


def largest(ask: Ask, attempt: Callable[[Ask], T | None]) -> T | None:
    """Return what comes of the largest ask below the full one that comes to something."""
    total = spare(ask)
    low, high, best = 1, total + 1, None
    while low < high:
        middle = (low + high) // 2
        found = attempt(reduced(ask, middle, total))
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def spare(ask: Ask) -> int:
    """Return in how many steps an ask can be reduced; 0: it is all or nothing."""
    return sum([_spare(leaf) * _unit(leaf) for leaf in ask.root.leaves()])


def least(ask: Ask) -> Ask:
    """Return the least that will do of an ask."""
    total = spare(ask)
    return reduced(ask, total, total) if total else ask


def reduced(ask: Ask, step: int, total: int) -> Ask:
    """Return an ask for fewer tasks; step 0 is all of it, step `total` the least that will do."""
    counts = {}
    for leaf in ask.root.leaves():
        units = _spare(leaf)
        if units:
            counts[leaf.name] = leaf.count - _unit(leaf) * (units * step // total)
    return ask.with_counts(counts)


def _spare(leaf: Part) -> int:
    """Return how many tasks, or slices, a leaf can do without."""
    return (leaf.count - leaf.least) // _unit(leaf) if leaf.least else 0


def _unit(leaf: Part) -> int:
    return leaf.slices[0][1] if leaf.slices else 1
