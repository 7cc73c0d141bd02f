"""Instances of inference services (Alibaba, 2025): a side with GPUs and a side without."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, inf
from typing import TYPE_CHECKING

from mooring.config.reader import ReadError
from mooring.model.cluster import Device, Node
from mooring.model.resources import CPU, GPU, MEMORY, amounts
from mooring.model.workload import PodGroup, Shape, Workload
from mooring.sim.traces.intake import ONLY_GROUP, Cluster, Draft, Intake, Reading, node_count
from mooring.sim.traces.rows import COUNT, Cells, Form, Names, name, number, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from mooring.model.resources import Amounts
    from mooring.sim.traces.files import Files

_FORM = Form(
    ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "rdma_request",
     "memory_request", "disk_request", "creation_time", "deletion_time")
)  # fmt: skip
ROLE = "role"
"""Label of nodes: `HN` have GPUs, `CN` have not."""
GPU_SIDE, CPU_SIDE = "HN", "CN"
RDMA, DISK = "rdma", "disk_gib"
_GIB_MIB = 1024
_CORES_MILLI = 1000
_AMOUNT = number()
_GPUS = whole(0, 62)
_SLACK = 1.1
"""Nodes get so many times what is asked for at the peak."""


def read(files: Files, intake: Intake) -> Reading:
    """Read the instances: each stands from its creation to its deletion.

    One without a time of creation is there from the beginning, one without a time of deletion to
    the end. The trace has no nodes: the side with GPUs gets as many as asked for or as its peak
    needs, the side without always as its peak needs.
    """
    taken = Names()

    def draft(cells: Cells) -> Draft:
        at = cells.take("creation_time", _AMOUNT, 0.0)
        ends_at = cells.take("deletion_time", _AMOUNT, inf)
        if ends_at < at:
            raise cells.wrong("deletion_time", f"give a time from {at:g} on: it began then")
        app = cells.need("app_name", name)
        pattern = _pattern(_shape_of(cells), intake.queue(""), app)
        return Draft(at, taken.take(cells, "instance_sn"), pattern, ends_at=ends_at)

    intake.drafts = [made for _, made in intake.rows(files.main, draft, _FORM)]
    intake.order()
    nodes = (*_side(intake, GPU_SIDE), *_side(intake, CPU_SIDE))
    return intake.reading(Cluster(nodes, queues=intake.queues()))


def _shape_of(cells: Cells) -> Shape:
    asked = (
        ceil(cells.need("cpu_request", _AMOUNT) * _CORES_MILLI),
        ceil(cells.need("memory_request", _AMOUNT) * _GIB_MIB),
        cells.need("rdma_request", COUNT),
        ceil(cells.need("disk_request", _AMOUNT)),
    )
    return _shape(asked, cells.need("gpu_request", _GPUS), cells.need("role", _role))


def _role(value: Any) -> str:
    if value not in (GPU_SIDE, CPU_SIDE):
        raise ReadError(f"give {GPU_SIDE} or {CPU_SIDE}")
    return str(value)


@lru_cache(maxsize=4096)
def _shape(asked: tuple[int, int, int, int], gpus: int, role: str) -> Shape:
    given = dict(zip((CPU, MEMORY, RDMA, DISK), asked, strict=True))
    return Shape(amounts(given), gpus, selector=((ROLE, role),))


@lru_cache(maxsize=4096)
def _pattern(shape: Shape, queue: str, app: str) -> Workload:
    return Workload("", (PodGroup(ONLY_GROUP, shape),), queue, service=True, user=app)


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


def _side(intake: Intake, role: str) -> Iterable[Node]:
    """Return equal nodes for one side."""
    gpus = intake.options.gpus if role == GPU_SIDE else 0
    capacity = amounts(
        {CPU: 192_000, MEMORY: 1 << 20, RDMA: max(25 * gpus, 100), DISK: max(1024 * gpus, 8192)}
    )
    drafts = [draft for draft in intake.drafts if _asked(draft, ROLE) == role]
    count = node_count(_SLACK * _nodes_at_peak(drafts, (*capacity, (GPU, gpus)))) if drafts else 0
    if role == GPU_SIDE:
        count = intake.options.nodes or count
    prefix = "gpu" if gpus else "cpu"
    devices, labels = (Device(),) * gpus, ((ROLE, role),)
    return (
        Node(f"{prefix}-{number:04d}", capacity, labels, devices=devices) for number in range(count)
    )


def _asked(draft: Draft, label: str) -> str:
    return dict(draft.pattern.groups[0].shape.selector)[label]


def _nodes_at_peak(drafts: Sequence[Draft], capacity: Amounts) -> float:
    """Return how many nodes all need at once, if they filled nodes without a gap."""
    steps = sorted(
        (at, sign, i)
        for i, draft in enumerate(drafts)
        for at, sign in ((draft.at, 1), (draft.ends_at, -1))
    )
    shapes = [draft.pattern.groups[0].shape for draft in drafts]
    asked = [{**dict(shape.amounts), GPU: shape.gpus} for shape in shapes]
    used, peak = dict.fromkeys(dict(capacity), 0), 0.0
    for _, sign, i in steps:
        for resource, amount in asked[i].items():
            used[resource] += sign * amount
        peak = max(peak, *(used[resource] / have for resource, have in capacity if have))
    return peak
