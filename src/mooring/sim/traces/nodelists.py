"""Traces that are nodes and nothing else: the spot fleet of 2026, the hosts of Lingjun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.cluster import Device, Node
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.topology import Level, Topology
from mooring.sim.traces.intake import Cluster, Intake, Reading
from mooring.sim.traces.rows import COUNT, Cells, Form, Names, name, whole

if TYPE_CHECKING:
    from mooring.sim.traces.files import Files

_SPOT_FORM = Form(("gpu_model", "gpu_capacity_num", "cpu_num", "node_name"))
_HOST_FORM = Form(("ip", "DSW", "PSW", "ASW"))
LINGJUN = Topology((Level("core"), Level("aggregation"), Level("leaf")))
"""The three layers of switches, from the top."""
_SWITCHES = ("DSW", "PSW", "ASW")
_GPUS = whole(0, 62)
_CORE_MIB = 8192
"""Memory for each core where the list has none."""
_HOST = amounts({CPU: 128_000, MEMORY: 2 << 20})


def read_spot(files: Files, intake: Intake) -> Reading:
    """Read the nodes of the spot fleet; of memory they say nothing, so 8 GiB a core are meant."""
    taken = Names()

    def node(cells: Cells) -> Node:
        cores = cells.need("cpu_num", COUNT)
        capacity = amounts({CPU: 1000 * cores, MEMORY: _CORE_MIB * cores})
        devices = (Device(),) * cells.need("gpu_capacity_num", _GPUS)
        model = cells.need("gpu_model", name)
        number = taken.take(cells, "node_name")
        return Node(f"node-{number:0>4}", capacity, gpu_model=model, devices=devices)

    nodes = [made for _, made in intake.rows(files.main, node, _SPOT_FORM)]
    return intake.reading(Cluster(intake.first(nodes)))


def read_lingjun(files: Files, intake: Intake) -> Reading:
    """Read the hosts and their switches; each is meant to have 8 GPUs unless asked otherwise."""
    taken, devices = Names(), (Device(),) * intake.options.gpus

    def node(cells: Cells) -> Node:
        host = taken.take(cells, "ip")
        path = tuple(cells.need(switch, name) for switch in _SWITCHES)
        return Node(host, _HOST, devices=devices, path=path)

    nodes = [
        _named(made, f"host-{line - 2:04d}")
        for line, made in intake.rows(files.main, node, _HOST_FORM)
    ]
    return intake.reading(Cluster(intake.first(nodes), LINGJUN))


def _named(node: Node, host: str) -> Node:
    """Return the node with a name that can be read: addresses are scrambled in the list."""
    return Node(host, node.capacity, devices=node.devices, path=node.path)
