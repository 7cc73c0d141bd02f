"""How much of which node is allocated: what fragmentation is measured by.

Over healthy nodes n with g_n GPUs of which a_n are allocated, both in thousandths of a GPU. What is
on its way out is still allocated; what is only held for somebody is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.model.mig import GEOMETRIES

if TYPE_CHECKING:
    from mooring.model.books import Books
    from mooring.model.columns import Bools, Ints


def gpu_columns(books: Books) -> tuple[Ints, Ints]:
    """Return a_n and g_n of every row; both are 0 where there is no healthy node."""
    installed = books.devices * WHOLE
    allocated = installed - (books.share * books.usable).sum(axis=0, dtype=INT)
    _leave_out_holds(books, allocated)
    _add_mig(books, allocated, installed)
    nodes = books.nodes
    healthy = books.present & np.fromiter((node.ready for node in nodes), np.bool_, len(nodes))
    return allocated * healthy, installed * healthy


def crumbs(allocated: Ints, installed: Ints) -> Bools:
    """Return the nodes of which a part is allocated: 0 < a_n < g_n."""
    found: Bools = (allocated > 0) & (allocated < installed)
    return found


def gpu_node_fragmentation_ratio(allocated: Ints, installed: Ints) -> float:
    """Return GFR: nodes with 0 < a_n < g_n over all nodes with GPUs; 0 without GPUs."""
    nodes = int((installed > 0).sum())
    return int(crumbs(allocated, installed).sum()) / nodes if nodes else 0.0


def _leave_out_holds(books: Books, allocated: Ints) -> None:
    """Take out what is held: it is not open, but nobody has it."""
    held = [hold for entries in books.holds.values() for hold in entries]
    for demand, row, devices, *_ in held:
        if demand.kind is not DeviceKind.MIG:
            usable = [device for device in bits(devices) if books.usable[device, row]]
            allocated[row] -= sum(books.milli(demand, row, device) for device in usable)


def _add_mig(books: Books, allocated: Ints, installed: Ints) -> None:
    """Add the devices that are cut up: each memory slice is its part of the whole."""
    cut = [index for index, layout in enumerate(books.layouts) if any(mig for *_, mig in layout)]
    for row in np.flatnonzero(np.isin(books.layout, cut)).tolist() if cut else ():
        for index, device in enumerate(books.nodes[row].devices):
            geometry = GEOMETRIES.get(device.mig)
            if geometry is not None and device.healthy:
                slices = int(books.mig_used[index, row]).bit_count()
                allocated[row] += slices * WHOLE // geometry.slices
                installed[row] += WHOLE
