"""openb: the GPU-sharing cluster of the FGD paper (ATC 2023). A file of nodes, files of pods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from mooring.model.cluster import WHOLE, Device, Node
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.workload import PodGroup, Shape, Workload
from mooring.sim.traces.intake import ONLY_GROUP, Cluster, Draft, Intake, Reading
from mooring.sim.traces.rows import (
    AMOUNT,
    COUNT,
    Cells,
    Form,
    Names,
    TraceError,
    columns_of,
    name,
    names,
    number,
    whole,
)

if TYPE_CHECKING:
    from mooring.sim.traces.files import Files

NODES = "openb_node_list_gpu_node"
PODS = "openb_pod_list_"
NODE_FORM = Form(("sn", "cpu_milli", "memory_mib", "gpu", "model"))
POD_FORM = Form(("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
_TIMED = Form((*POD_FORM.needs, "creation_time", "deletion_time"))
_DEVICES = whole(0, 62)
_MILLI = whole(0, WHOLE)
_SECONDS = number()
PRIORITIES = {"BE": 0}
"""Best effort gives way to all others."""
_PRIORITY = 100
_FAILED = "Failed"
"""Phase in which a pod was seen last that failed."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod asks for."""

    groups: tuple[PodGroup, ...]
    milli: int
    """Thousandths of GPUs in all."""


def node_of(cells: Cells) -> Node:
    """Return a row of the node file."""
    capacity = amounts(
        {CPU: cells.need("cpu_milli", AMOUNT), MEMORY: cells.need("memory_mib", AMOUNT)}
    )
    devices = (Device(),) * cells.need("gpu", _DEVICES)
    model = cells.take("model", name, "")
    return Node(cells.need("sn", name), capacity, gpu_model=model, devices=devices)


def pod_of(cells: Cells) -> Pod:
    """Return what a row of a pod file asks for."""
    gpus, milli = cells.need("num_gpu", COUNT), cells.need("gpu_milli", _MILLI)
    if gpus and not milli:
        raise cells.wrong("gpu_milli", f"give a whole number from 1 to {WHOLE}: it asks for GPUs")
    asked = cells.need("cpu_milli", AMOUNT), cells.need("memory_mib", AMOUNT)
    models: tuple[str, ...] = ()
    models = cells.take("gpu_spec", names, models)
    return _pod(asked, gpus, milli, models)


@lru_cache(maxsize=4096)
def _pod(asked: tuple[int, int], gpus: int, milli: int, models: tuple[str, ...]) -> Pod:
    given = amounts({CPU: asked[0], MEMORY: asked[1]})
    shape = Shape(given, gpus, milli, gpu_models=models) if gpus else Shape(given)
    return Pod((PodGroup(ONLY_GROUP, shape),), gpus * milli)


def read(files: Files, intake: Intake) -> Reading:
    """Read the pods of a file as they came, on the nodes of the node file.

    A pod that was never scheduled stands until it is deleted; the others run as long as they ran,
    and fail if they did.
    """
    taken = Names()
    if "creation_time" not in columns_of(files.main):
        problem = "it has no times; only mooring experiment openb can use it"
        raise TraceError.about(files.main, problem)

    def draft(cells: Cells) -> Draft:
        at, ended = cells.need("creation_time", _SECONDS), cells.need("deletion_time", _SECONDS)
        began = cells.take("scheduled_time", _SECONDS, inf)
        qos = cells.take("qos", name, "")
        pattern = _pattern(pod_of(cells).groups, qos, intake.queue(qos, DEFAULT_QUEUE.name))
        pod = taken.take(cells, "name")
        if began == inf:
            return Draft(at, pod, pattern, ends_at=ended)
        if ended < began:
            raise cells.wrong("deletion_time", f"give a time from {began:g} on: it began then")
        fails = cells.take("pod_phase", name, "") == _FAILED
        return Draft(at, pod, pattern, ended - began, fails=fails)

    intake.drafts = [made for _, made in intake.rows(files.main, draft, _TIMED)]
    intake.order()
    nodes = [node for _, node in intake.rows(files.beside(NODES), node_of, NODE_FORM)]
    return intake.reading(Cluster(intake.first(nodes), queues=intake.queues()))


@lru_cache(maxsize=4096)
def _pattern(groups: tuple[PodGroup, ...], qos: str, queue: str) -> Workload:
    return Workload("", groups, queue, priority=PRIORITIES.get(qos, _PRIORITY))
