"""What counts for every item of a queue at once, where starts are far from the order of rank.

Chains are many then, and asking each of them for every head would be slow. Here what counts is a
column; a pick adds to all whom it concerns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mooring.policy.standing.chains import Chain

MOST_ITEMS = 4_000
"""Finding the sums takes the square of the number of items."""


class Sums:
    """Per pair and item, what seniors use that started earlier, and what those use who are picked.

    Juniors that started later never count.
    """

    def __init__(self, chains: Sequence[Chain]):
        self.tick = -1
        """Up to which tick of the queue it is kept."""
        counts = [len(chain.items) for chain in chains]
        ends = np.cumsum([0, *counts])
        self._first = {chain.number: int(end) for chain, end in zip(chains, ends, strict=False)}
        ranks = [rank for chain in chains for rank in chain.ranks]
        keys = [(s, r) for chain in chains for s, r in zip(chain.starts, chain.ranks, strict=True)]
        self._rank = _positions(ranks)
        self._start = _positions(keys)
        pairs = sorted({pair for chain in chains for pair in chain.pairs})
        self._row = {pair: row for row, pair in enumerate(pairs)}
        sizes = np.zeros((len(pairs), len(ranks)), np.int64)
        picked = np.zeros(len(ranks), bool)
        for chain, end in zip(chains, ends, strict=False):
            picked[end : end + chain.head] = True
            for pair, column in zip(chain.pairs, chain.upto, strict=True):
                sizes[self._row[pair], end : end + len(chain.items)] = np.diff(column)
        self._sums = self._add_up(sizes, picked)

    def _add_up(self, sizes: NDArray[np.int64], picked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the sums of those that are not picked."""
        found = np.zeros_like(sizes)
        wide = sizes.T.astype(np.float64)  # amounts are far below 2**53, so sums are exact
        left = np.flatnonzero(~picked)
        for some in np.array_split(left, len(left) * len(picked) // 1_000_000 + 1):
            senior = self._rank[some][:, None] > self._rank
            earlier = self._start[some][:, None] > self._start
            counts = (senior & earlier) | (picked & (senior ^ earlier))
            found[:, some] = (counts.astype(np.float64) @ wide).T
        return found

    def pick(self, chain: Chain, at: int) -> None:
        """Count one that is picked for all who are senior to it or started earlier, not both.

        For juniors that started later it counts already.
        """
        index = self._first[chain.number] + at
        other = (self._rank > self._rank[index]) ^ (self._start > self._start[index])
        for pair, amount in chain.items[at].size:
            self._sums[self._row[pair]] += other * amount

    def uses(self, chain: Chain, at: int) -> list[int]:
        """Return what counts for the head of a chain, in its pairs."""
        column = self._sums[:, self._first[chain.number] + at].tolist()
        return [column[self._row[pair]] for pair in chain.pairs]


def _positions(keys: Sequence[object]) -> NDArray[np.int32]:
    """Return where each would be if all were sorted."""
    order = sorted(range(len(keys)), key=keys.__getitem__)  # type: ignore[arg-type]
    found = np.empty(len(keys), np.int32)
    found[order] = np.arange(len(keys))
    return found
