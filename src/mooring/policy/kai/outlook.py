"""Which room is free now, and which only when those have left who are on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.demand import DeviceKind
from mooring.model.resources import GPU_ROW
from mooring.policy.victims.evict import Victim, remove

if TYPE_CHECKING:
    from mooring.model.columns import Bools
    from mooring.model.demand import Demand
    from mooring.policy.kai.round import Round
    from mooring.policy.placing.fit import Fit


def lift(round_: Round) -> None:
    """Take all tasks on their way out off the books; only between a checkpoint and a rollback."""
    for entry, members, task in round_.leaving:
        remove(round_.desk, Victim(entry, ((members.group.name, task),), ""))


class Soon:
    """What those on their way out still hold, while they are lifted off the books."""

    def __init__(self, round_: Round) -> None:
        self._books = round_.books
        self._amounts: dict[int, dict[int, int]] = {}
        """By row and resource."""
        self._shares: dict[int, dict[int, int]] = {}
        """By row and device, in thousandths."""
        for _, members, task in round_.leaving:
            self._add(members.demand, members.rows[task], members.devices[task])

    def _add(self, demand: Demand, row: int, mask: int) -> None:
        amounts = self._amounts.setdefault(row, {})
        shares = self._shares.setdefault(row, {})
        for r, amount in demand.pairs:
            amounts[r] = amounts.get(r, 0) + amount
        for bit in bits(mask):
            device = bit >> 3 if demand.kind is DeviceKind.MIG else bit
            milli = WHOLE if demand.kind is DeviceKind.MIG else 0
            milli = milli or self._books.milli(demand, row, device)
            shares[device] = shares.get(device, 0) + milli

    def now(self, fit: Fit) -> Bools:
        """Return the rows where a task fits now."""
        fits: Bools = fit.slots[-1] > 0
        for row in self._amounts:
            if fits[row]:
                fits[row] = self.most(fit.demand, row) > 0
        return fits

    def most(self, demand: Demand, row: int) -> int:
        """Return how many tasks fit there now."""
        books, held = self._books, self._amounts.get(row, {})
        fewest = 1 << 30
        for r, amount in demand.asks:
            free = books.open_of[r][row] - held.get(r, 0)
            if r == GPU_ROW:
                free = self.free(row).bit_count()
            fewest = min(fewest, free // amount)
        if demand.kind > DeviceKind.WHOLE and row in self._shares:
            fewest = min(fewest, self._on_devices(demand, row))
        return max(0, fewest)

    def _on_devices(self, demand: Demand, row: int) -> int:
        if demand.kind is DeviceKind.MIG:
            return 0
        books, held = self._books, self._shares[row]
        copies = 0
        for d, share in enumerate(books.share_of):
            if books.usable[d, row]:
                free = share[row] - held.get(d, 0)
                copies += max(0, free) // books.milli(demand, row, d)
        return copies // demand.shape.gpus

    def free(self, row: int) -> int:
        """Return the devices that are wholly free there now."""
        held = sum(1 << d for d in self._shares.get(row, ()))
        return self._books.whole_of[row] & ~held


class Frozen:
    """What was free before anybody was taken off the books: a picture of the moment."""

    def __init__(self, round_: Round) -> None:
        books = self._books = round_.books
        self._open = books.open.copy()
        self._share = books.share.copy()
        self._known: dict[int, Bools] = {}

    def now(self, fit: Fit) -> Bools:
        """Return the rows where a task fitted."""
        known = self._known.get(fit.demand.index)
        if known is None:
            known = self._known[fit.demand.index] = self._fits(fit)
        return known

    def _fits(self, fit: Fit) -> Bools:
        demand, books = fit.demand, self._books
        fits: Bools = fit.allowed.copy()
        for r, amount in demand.asks:
            fits &= self._open[r] >= amount
        if demand.kind > DeviceKind.WHOLE:
            need = np.full(self._share.shape, demand.shape.milli, np.int64)
            if demand.kind is DeviceKind.MEMORY:
                memory = np.maximum(books.device_memory, 1)
                need = -(-demand.shape.gpu_memory * WHOLE // memory)
            fits &= ((self._share >= need) & books.usable).sum(axis=0) >= demand.shape.gpus
        return fits

    def most(self, demand: Demand, row: int) -> int:
        """Return how many tasks fit there: as many as the books say, on trial."""
        return 1 << 30

    def free(self, row: int) -> int:
        """Return the devices that are wholly free there."""
        return self._books.whole_of[row]
