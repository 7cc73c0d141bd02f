"""Made-up clusters: equal nodes of eight GPUs in leaves, leaves in pods."""

from __future__ import annotations

from mooring.model.cluster import Device, Node
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.topology import Level, Topology

NODE_GPUS = 8
LEAF_NODES = 8
POD_LEAVES = 32
TOPOLOGY = Topology((Level("pod", 25.0), Level("leaf", 50.0)))
CPUS, MEMORY_GIB = 128, 2048


def make_nodes(gpus: int) -> tuple[Node, ...]:
    """Return nodes with so many GPUs together: the last one may have fewer than eight."""
    if gpus < 1:
        raise ValueError(f"a cluster has at least one GPU, not {gpus}")
    capacity = amounts({CPU: CPUS * 1000, MEMORY: MEMORY_GIB << 10})
    count = -(-gpus // NODE_GPUS)
    width = len(str(count - 1))
    return tuple(
        Node(
            f"node-{number:0{width}d}",
            capacity,
            gpu_model="H100",
            devices=(Device(memory=80 << 10),) * min(NODE_GPUS, gpus - number * NODE_GPUS),
            path=_path(number),
        )
        for number in range(count)
    )


def _path(number: int) -> tuple[str, ...]:
    leaf = number // LEAF_NODES
    return f"pod-{leaf // POD_LEAVES:02d}", f"leaf-{leaf % POD_LEAVES:02d}"
