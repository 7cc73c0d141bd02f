"""Nodes and devices as facts: what a node is, not how full it is (that is in `books`)."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.resources import Amounts

Labels = tuple[tuple[str, str], ...]
"""(key, value) pairs, ordered by key."""

WHOLE = 1000
"""Thousandths of a device."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator of a node, known by its index there."""

    memory: int = 0
    healthy: bool = True
    island: int = 0
    switch: int = 0
    numa: int = 0
    nic: int = 0
    mig: str = ""
    """Name of its MIG geometry (see `mig`); then it takes MIG profiles and nothing else."""


NODE_NAME = "@name"
"""In the place of a label: the name of the node itself."""


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps tasks off a node unless they tolerate it. Effects as in Kubernetes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: what it has and where it stands."""

    name: str
    capacity: Amounts = ()
    """Everything but its devices, which are counted from `devices`."""
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    gpu_model: str = ""
    devices: tuple[Device, ...] = ()
    path: tuple[str, ...] = ()
    """Name of its domain at each level of the topology, outermost first."""

    @property
    def flavor(self) -> str:
        """Return the kind of node that quota is counted in: its GPU model."""
        return self.gpu_model
