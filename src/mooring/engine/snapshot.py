"""What the books and entries hold, as the values of a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.model.books import FIRST_ASSIGNMENT
from mooring.model.cluster import Device
from mooring.model.demand import DeviceKind
from mooring.model.events import Adopted
from mooring.model.workload import Placement, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.books import Books
    from mooring.model.cluster import Node
    from mooring.model.entry import Entry


def present_nodes(books: Books, entries: Iterable[Entry]) -> tuple[Node, ...]:
    """Return the nodes; a device that is in use and gone is shown as unhealthy."""
    needed: dict[int, int] = {}
    for members in (m for entry in entries for m in entry.members.values()):
        per_device = 8 if members.demand.kind is DeviceKind.MIG else 1
        for row, mask in zip(members.rows, members.devices, strict=True):
            devices = -(-mask.bit_length() // per_device)
            needed[row] = max(devices, needed.get(row, 0))
    nodes = []
    for row, node in enumerate(books.nodes):
        lost = (Device(healthy=False),) * (needed.get(row, 0) - len(node.devices))
        if books.present[row]:
            nodes.append(replace(node, devices=node.devices + lost) if lost else node)
    return tuple(nodes)


def as_adopted(books: Books, entry: Entry) -> Adopted:
    """Return a workload that has begun: where its tasks are, and which are done."""
    names = books.tree.names[-1]
    placements, finished, releasing, starting = [], [], [], []
    for name, members in entry.members.items():
        tasks = members.holding()
        if tasks:
            nodes = tuple(names[members.rows[task]] for task in tasks)
            devices = tuple(members.devices[task] for task in tasks)
            placements.append(Placement(name, tuple(tasks), nodes, devices))
        leaving = [task for task in tasks if members.states[task] == TaskState.RELEASING]
        if leaving:
            releasing.append((name, tuple(leaving)))
        coming = [task for task in tasks if members.states[task] < TaskState.RUNNING]
        if coming:
            starting.append((name, tuple(coming)))
        done = [task for task, state in enumerate(members.states) if state == TaskState.FINISHED]
        if done:
            finished.append((name, tuple(done)))
    started_at, since = entry.started_at or 0.0, entry.running_since
    flavors = tuple(
        (name, books.assignments[FIRST_ASSIGNMENT - members.flavor])
        for name, members in entry.members.items()
        if members.flavor <= FIRST_ASSIGNMENT
    )
    return Adopted(
        entry.workload,
        tuple(placements),
        started_at,
        tuple(finished),
        tuple(releasing),
        flavors,
        starting=tuple(starting),
        running_since=None if since == started_at and entry.runs and not starting else since,
    )
