"""Whether a fact can be true, given what is known. A contradiction changes nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.demand import DeviceKind, device_kind
from mooring.model.resources import GPU, PODS
from mooring.model.workload import LEGAL, HostPort, TaskState
from mooring.policy.placing.constraints import OPERATORS, TOLERATION_OPERATORS
from mooring.policy.placing.profile import unknown_names
from mooring.policy.pledge import broken_promises

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.model.books import Books
    from mooring.model.cluster import Node
    from mooring.model.entry import Entry, Members
    from mooring.model.events import Adopted
    from mooring.model.queues import Queue
    from mooring.model.settings import Policy
    from mooring.model.workload import Placement, PodGroup, Shape, SpreadTerm, TaskTerm, Workload


MOST_DEVICES = 62
"""Devices of a node are bits of a signed 64-bit number."""
MOST_TASKS = 1 << 20
"""Numbers of tasks are below this."""
_LEGAL = [LEGAL[state] for state in TaskState]
"""By number of the state."""


class EventError(ValueError):
    """An event that contradicts what is known. Nothing was changed."""


def check_name(entries: Mapping[str, Entry], workload: Workload) -> None:
    """Check that a workload is not known yet."""
    if workload.name in entries:
        raise EventError(f"workload {workload.name} is there already")


def check_groups(workload: Workload) -> None:
    """Check that a workload has tasks, and groups with names of their own."""
    group, wrong = _wrong_in(workload.groups)
    if wrong:
        whose = f"group {group} of " if group else ""
        raise EventError(f"{whose}workload {workload.name}{wrong}")


@lru_cache(maxsize=1024)
def _wrong_in(groups: tuple[PodGroup, ...]) -> tuple[str, str]:
    """Return which group nobody can have (empty: all together), and why; nothing: empty."""
    names = [name for group in groups for name in _names(group)]
    if not names:
        return "", " has no groups"
    if len(set(names)) < len(names):
        return "", " has two groups of one name"
    leaves = [leaf for group in groups for leaf in group.leaves()]
    if not any(leaf.most for leaf in leaves):
        return "", " has no tasks"
    for leaf in leaves:
        if leaf.min < 0:
            return leaf.name, " has less than none"
        if leaf.most > MOST_TASKS:
            return leaf.name, f" has over {MOST_TASKS} tasks"
        wrong = _wrong_with(leaf.shape)
        if wrong:
            return leaf.name, f": {wrong}"
    return "", ""


def _names(group: PodGroup) -> list[str]:
    return [group.name, *(name for child in group.groups for name in _names(child))]


def _wrong_with(shape: Shape) -> str:
    """Return what no task can ask for; nothing: empty."""
    if any(amount <= 0 or name in (GPU, PODS) for name, amount in shape.amounts):
        return "amounts are above 0, and devices and pods are counted on their own"
    if shape.gpus < 0 or shape.gpu_memory < 0:
        return "devices and their memory are not negative"
    ports = (*map(HostPort, shape.ports), *shape.host_ports)
    if len(set(ports)) < len(ports):
        return "a port is named twice"
    clauses = [clause for some in shape.affinity for clause in some]
    clauses += [clause for wish in shape.preferences for clause in wish.clauses]
    terms: tuple[TaskTerm | SpreadTerm, ...] = (*shape.near, *shape.apart, *shape.spread)
    clauses += [clause for term in terms for clause in term.clauses]
    for toleration in shape.tolerations:
        if toleration.operator not in TOLERATION_OPERATORS:
            return f"there is no operator {toleration.operator!r} of tolerations"
    for clause in clauses:
        if clause.operator not in OPERATORS:
            return f"there is no operator {clause.operator!r}; there are {', '.join(OPERATORS)}"
        if clause.operator in ("Lt", "Gt") and not clause.values:
            return f"{clause.operator} needs a value"
    return ""


def check_node(node: Node) -> None:
    """Check the facts of a node."""
    if len(node.devices) > MOST_DEVICES:
        raise EventError(f"node {node.name} has over {MOST_DEVICES} devices")
    if any(amount < 0 for _, amount in node.capacity):
        raise EventError(f"node {node.name} has less than nothing of something")


def check_change(entry: Entry, workload: Workload) -> None:
    """Check an edit: once a workload has begun, its groups and shapes stay."""
    check_groups(workload)
    if not entry.has_begun:
        return
    leaves = {leaf.name: leaf.shape for leaf in workload.leaves()}
    if leaves != {name: members.group.shape for name, members in entry.members.items()}:
        raise EventError(f"workload {workload.name} has begun: its groups and shapes cannot change")


def check_tasks(name: str, members: Members, tasks: Sequence[int], state: TaskState) -> None:
    """Check that these tasks exist and may reach a state."""
    states = members.states
    if len(tasks) > 1 and len(set(tasks)) < len(tasks):
        raise EventError(f"{_group(name, members)}: a task is named twice")
    for task in tasks:
        if not 0 <= task < len(states):
            raise EventError(f"{_group(name, members)}: there is no task {task}")
        if state not in _LEGAL[states[task]]:
            now = TaskState(states[task])
            change = f"is {now.name.lower()} and cannot become {state.name.lower()}"
            raise EventError(f"{_group(name, members)}: task {task} {change}")


def _group(name: str, members: Members) -> str:
    return f"workload {name}, group {members.group.name}"


def check_adopted(books: Books, event: Adopted) -> None:
    """Check what is said of running work: tasks, nodes and devices."""
    groups = {leaf.name: leaf for leaf in event.workload.leaves()}
    seen: dict[str, set[int]] = {name: set() for name in groups}
    for group, tasks in [(p.group, p.tasks) for p in event.placements] + list(event.finished):
        where = f"workload {event.workload.name}, group {group}"
        if group not in groups:
            raise EventError(f"{where}: there is no such group")
        if seen[group].intersection(tasks) or len(set(tasks)) < len(tasks):
            raise EventError(f"{where}: a task is named twice")
        seen[group].update(tasks)
        if not all(0 <= task < MOST_TASKS for task in tasks):
            raise EventError(f"{where}: tasks are numbered from 0, and below {MOST_TASKS}")
    placed = {(placement.group, task) for placement in event.placements for task in placement.tasks}
    for group, tasks in (*event.releasing, *event.starting):
        if any((group, task) not in placed for task in tasks):
            where = f"workload {event.workload.name}, group {group}"
            raise EventError(f"{where}: a task that has no place cannot come or leave")
    given: set[tuple[int, int]] = set()
    for group, _ in event.flavors:
        if group not in groups:
            raise EventError(f"workload {event.workload.name} has no group {group}")
    for placement in event.placements:
        shape = groups[placement.group].shape
        _check_placement(books, shape, placement)
        _check_overlap(books, shape, placement, given)


def _check_placement(books: Books, shape: Shape, placement: Placement) -> None:
    if not len(placement.tasks) == len(placement.nodes) == len(placement.devices):
        raise EventError(f"group {placement.group}: tasks, nodes and devices differ in number")
    for name, devices in zip(placement.nodes, placement.devices, strict=True):
        row = books.row_of.get(name)
        if row is None or not books.present[row]:
            raise EventError(f"group {placement.group}: there is no node {name}")
        if not has_devices(books.nodes[row], shape, devices):
            raise EventError(f"group {placement.group}: node {name} has no devices {devices:b}")


def _check_overlap(
    books: Books, shape: Shape, placement: Placement, seen: set[tuple[int, int]]
) -> None:
    """Check that no whole device or MIG slice is given twice; `seen` is what the event has given.

    Shares may add up to more than a device: its memory may have been corrected under them.
    """
    kind = device_kind(shape)
    if kind not in (DeviceKind.WHOLE, DeviceKind.MIG):
        return
    for name, devices in zip(placement.nodes, placement.devices, strict=True):
        row = books.row_of[name]
        for bit in bits(devices):
            d = bit >> 3 if kind is DeviceKind.MIG else bit
            if (row, bit) in seen or _is_taken(books, row, d, bit if shape.mig else -1):
                raise EventError(f"group {placement.group}: device {d} of {name} is taken already")
            seen.add((row, bit))


def _is_taken(books: Books, row: int, device: int, mig_bit: int) -> bool:
    """Return whether tasks use a device, or one memory slice of it."""
    if device >= len(books.share_of):
        return False
    if mig_bit >= 0:
        return bool(books.mig_of[device][row] >> (mig_bit & 7) & 1)
    return books.share_of[device][row] < WHOLE * bool(books.usable[device, row])


def has_devices(node: Node, shape: Shape, devices: int) -> bool:
    """Return whether these are devices of a node, and as many as the shape asks for."""
    kind = device_kind(shape)
    if devices < 0:
        return False
    if kind is DeviceKind.MIG:
        return devices > 0 and all(bit >> 3 < len(node.devices) for bit in bits(devices))
    wanted = shape.gpus if kind is not DeviceKind.NONE else 0
    return devices.bit_count() == wanted and devices >> len(node.devices) == 0


def check_queues(queues: Sequence[Queue], profile: str = "default") -> None:
    """Check that queues have names of their own and make a tree; kueue carries on without."""
    parents = {queue.name: queue.parent for queue in queues}
    if len(parents) < len(queues):
        raise EventError("two queues have one name")
    for name in parents if profile != "kueue" else ():
        at, way = name, {name}
        while parents.get(at):
            at = parents[at]
            if at in way:
                raise EventError(f"queue {name} is above itself")
            way.add(at)


def check_headroom(policy: Policy, queues: Sequence[Queue], nodes: Sequence[Node]) -> None:
    """Check that promises of room could be kept if nothing ran."""
    wrong = broken_promises(policy, queues, nodes)
    if wrong:
        raise EventError("; ".join(wrong))


def check_policy(policy: Policy) -> None:
    """Check that a policy names rules that exist."""
    wrong = unknown_names(policy)
    if policy.search_steps < 1:
        wrong.append("policy.search_steps: at least 1")
    if policy.mix_half_life_s <= 0:
        wrong.append("policy.mix_half_life_s: above 0")
    if wrong:
        raise EventError("; ".join(wrong))
