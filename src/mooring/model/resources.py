"""Amounts of resources: an open, ordered list of integers.

CPU is counted in millicores, memory in MiB, devices and everything else in whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Amounts = tuple[tuple[str, int], ...]
"""(resource, amount) pairs, ordered by resource, none zero."""

CPU = "cpu"
MEMORY = "memory"
GPU = "gpu"
PODS = "pods"
PORT = "port/"
"""Prefix of host ports: a resource of which every node has `PORT_ADDRESSES`."""
PORT_AT = "port-at/"
"""Prefix of host ports on one address: a resource of which every node has one."""
PORT_ADDRESSES = 1 << 10
"""So much a port on all addresses takes of it, which is all; on a single address it takes 1."""

UNLIMITED = 1 << 40
"""What a node has of `pods` when it names no figure."""


def amounts(given: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> Amounts:
    """Return `given` as amounts: ordered by name, without zeros."""
    return tuple(sorted((name, amount) for name, amount in dict(given).items() if amount))


def amount_of(given: Amounts, resource: str) -> int:
    """Return how much of `resource` there is in `given`."""
    return next((amount for name, amount in given if name == resource), 0)


def of_ports(resource: str) -> int:
    """Return how much every node has of a host port; 0: it is no port."""
    if resource.startswith(PORT):
        return PORT_ADDRESSES
    return 1 if resource.startswith(PORT_AT) else 0


class ResourceOrder:
    """The order of the resources in the columns: first come, first row; it only grows."""

    def __init__(self, names: Iterable[str] = (CPU, MEMORY, GPU, PODS)) -> None:
        self.names = list(names)
        self._row = {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._row

    def row(self, name: str) -> int:
        """Return the row of `name`."""
        return self._row[name]

    def add(self, name: str) -> int:
        """Return the row of `name`, giving it the next one if it is new."""
        if name not in self._row:
            self._row[name] = len(self.names)
            self.names.append(name)
        return self._row[name]

    def copy(self) -> ResourceOrder:
        """Return an order that grows on its own from here."""
        return ResourceOrder(self.names)


CPU_ROW, MEMORY_ROW, GPU_ROW, PODS_ROW = range(4)
