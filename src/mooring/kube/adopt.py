"""Work that is found on nodes: workloads of an earlier life, and pods of other schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.kube.convert import claim, seen
from mooring.kube.crew import Seat, is_over, state_of
from mooring.kube.devices import devices_mask
from mooring.kube.moments import seconds
from mooring.kube.names import DEVICES
from mooring.kube.problems import Problem
from mooring.model.events import Adopted, Ended
from mooring.model.workload import Placement, PodGroup, Shape, TaskState, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mooring.kube.convert import Around
    from mooring.kube.crew import Crew
    from mooring.kube.estate import Estate
    from mooring.kube.objects import Pod
    from mooring.kube.owners import Done
    from mooring.model.events import Event
    from mooring.model.queues import Queue

OTHERS = "(other schedulers)"
"""Queue of pods that another scheduler placed: no policy has it, so nothing is charged."""
_UNPLACED = "leave out spec.nodeName: parts of devices count only where this scheduler chose them;"


def adopted(crew: Crew, workload: Workload, estate: Estate, done: Done) -> Adopted:
    """Return a workload that is found running, and give its pods their tasks.

    What its owner says is done counts also where the pods are gone.
    """
    leaves = {leaf.name: leaf for leaf in workload.leaves()}
    by_group: dict[str, list[str]] = {name: [] for name in leaves}
    for uid in sorted(crew.pods, key=lambda uid: _order(crew, uid)):
        by_group[crew.members[uid].group].append(uid)
    placements: list[Placement] = []
    states: dict[TaskState, list[tuple[str, tuple[int, ...]]]] = {}
    for group, uids in by_group.items():
        tasks = _number(crew, leaves[group], uids, estate)
        placed = {task: uid for task, uid in tasks.items() if not is_over(crew.pods[uid])}
        if placed:
            placements.append(_placement(crew, group, placed, leaves[group].shape))
        found: dict[TaskState, list[int]] = {}
        for task, uid in tasks.items():
            found.setdefault(_seen(crew, uid), []).append(task)
        if len(by_group) == 1:
            known = found.setdefault(TaskState.FINISHED, [])
            known += _gone(done, set(tasks), len(known))
        for state, some in found.items():
            if some:
                states.setdefault(state, []).append((group, tuple(some)))
    began = [seconds(pod.status.start_time) for pod in crew.pods.values() if pod.status.start_time]
    times = [each for each in began if each is not None]
    return Adopted(
        workload,
        tuple(placements),
        started_at=min(times, default=workload.submitted_at),
        finished=tuple(states.get(TaskState.FINISHED, ())),
        releasing=tuple(states.get(TaskState.RELEASING, ())),
        starting=tuple(states.get(TaskState.BOUND, ())),
        running_since=None if TaskState.BOUND in states else max(times, default=None),
    )


def _gone(done: Done, taken: set[int], known: int) -> list[int]:
    """Return numbers for tasks that are done and whose pods are gone."""
    indexes = sorted(done.indexes - taken)
    missing = max(0, done.count - known - len(indexes))
    taken |= done.indexes
    free = (task for task in range(len(taken) + missing) if task not in taken)
    return indexes + [task for task, _ in zip(free, range(missing), strict=False)]


def _order(crew: Crew, uid: str) -> tuple[bool, int, str, str]:
    rank, meta = crew.members[uid].rank, crew.pods[uid].metadata
    return rank is None, rank or 0, meta.creation_timestamp, meta.name


def _seen(crew: Crew, uid: str) -> TaskState:
    state = state_of(crew.pods[uid])
    return TaskState.BOUND if state == TaskState.PENDING else state  # its bind is under way


def _number(crew: Crew, leaf: PodGroup, uids: list[str], estate: Estate) -> dict[int, str]:
    """Return the tasks of a group that have, or had, a place, with their pods.

    A rank that the group does not have is none: anybody may write a million on his pod.
    """
    tasks: dict[int, str] = {}
    unranked = []
    for uid in uids:
        pod, seat, rank = crew.pods[uid], crew.seats.get(uid), crew.members[uid].rank
        node = pod.spec.node_name or (seat.node if seat else "")
        if pod.status.phase == "Failed" or not node or (node not in estate and not is_over(pod)):
            crew.unseat(uid)
        elif rank is not None and rank < leaf.most and rank not in tasks:
            tasks[rank] = uid
        else:
            unranked.append(uid)
    free = (task for task in range(len(uids) + len(tasks)) if task not in tasks)
    tasks |= dict(zip(free, unranked, strict=False))
    for task, uid in tasks.items():
        pod = crew.pods[uid]
        node = pod.spec.node_name or crew.seats[uid].node
        crew.unseat(uid)
        if not is_over(pod):
            crew.seat(uid, Seat(leaf.name, task, node))
    return dict(sorted(tasks.items()))


def _placement(crew: Crew, group: str, placed: dict[int, str], shape: Shape) -> Placement:
    nodes = tuple(crew.seats[uid].node for uid in placed.values())
    masks = tuple(devices_of(crew.pods[uid], shape) for uid in placed.values())
    return Placement(group, tuple(placed), nodes, masks)


def devices_of(pod: Pod, shape: Shape) -> int:
    """Return the devices that stand on a pod; 0: none, or that cannot be true."""
    mask = devices_mask(pod.metadata.annotations.get(DEVICES, ""), mig=bool(shape.mig)) or 0
    if not shape.mig and mask.bit_count() != shape.gpus:
        return 0
    return mask


def disproof(pod: Pod, shape: Shape) -> Problem | None:
    """Return why it is not believed that a pod has the part of devices that it claims.

    It is where the devices that were chosen stand on it: they are written with its place. None:
    it is believed, or claims nothing, or has no place to have them at.
    """
    claimed = claim(pod) if pod.spec.node_name and not is_over(pod) else None
    if claimed is None or devices_of(pod, shape):
        return None
    return Problem(*claimed, f"{_UNPLACED} {DEVICES} names no {shape.gpus}")


def refusal(queues: Mapping[str, Queue], workload: Workload) -> str:
    """Return why a workload may not use its queue, whoever let it run; empty: it may.

    Of a queue that is not there, or not well, other things are said.
    """
    rules = queues.get(workload.queue)
    for _ in queues:
        if rules is None:
            break
        if rules.namespaces is not None and workload.namespace not in rules.namespaces:
            return f"namespace {workload.namespace} may not use queue {rules.name}"
        if rules.users is not None and workload.user not in rules.users:
            return f"user {workload.user or '(none)'} may not use queue {rules.name}"
        rules = queues.get(rules.parent)
    return ""


class Foreigners:
    """Pods that other schedulers have placed: they are there, and nobody makes them leave.

    Pods of ours are among them that nobody could make sense of.
    """

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._pods: dict[str, Pod] = {}
        self._told: dict[str, tuple[str, str]] = {}
        """By uid: the name that it was told by, and its node."""
        self._changed: dict[str, None] = {}
        self._on: dict[str, dict[str, None]] = {}
        """Uids by node."""
        self.unplaced: dict[str, str] = {}
        """Nodes of those that the engine did not take, by uid: they are tried again and again."""

    def put(self, pod: Pod) -> None:
        """Take in such a pod, or what is new about it."""
        uid = pod.metadata.uid
        self._pods[uid] = pod
        if pod.spec.node_name:
            self._on.setdefault(pod.spec.node_name, {})[uid] = None
        if (uid in self._told) != (bool(pod.spec.node_name) and not is_over(pod)):
            self._changed[uid] = None

    def drop(self, uid: str) -> None:
        """Take in that a pod is gone."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._on.get(pod.spec.node_name, {}).pop(uid, None)
            self._changed[uid] = None

    def take_back(self, uid: str) -> Ended | None:
        """Forget a pod that is told otherwise; return what ends, if the engine knows it."""
        self.drop(uid)
        self._changed.pop(uid, None)
        self.unplaced.pop(uid, None)
        told = self._told.pop(uid, None)
        return Ended(told[0]) if told else None

    def look_at(self, node: str) -> None:
        """Look again at those on a node that came, changed or left."""
        self._changed |= self._on.get(node, {})

    def forget_told(self) -> None:
        """Let all of them be told again, to another engine."""
        self._told.clear()
        self.unplaced.clear()
        self._changed = dict.fromkeys(self._pods)

    def refuse(self, uid: str) -> None:
        """Note that the engine did not take one, of whom it was just told."""
        self.unplaced[uid] = self._told.pop(uid)[1]

    def without_claim(self, uid: str, around: Around) -> Adopted | None:
        """Return one that the engine did not take, with nothing but its requests; None: it was."""
        pod = self._pods[uid]
        return _foreign(pod, around) if self._may_claim(pod) and claim(pod) else None

    def _may_claim(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name == self._scheduler

    def events(self, estate: Estate, around: Around) -> Iterator[tuple[str, Event]]:
        """Yield who came and who left, with their uids."""
        changed, self._changed = {**self._changed, **dict.fromkeys(self.unplaced)}, {}
        self.unplaced.clear()
        for uid in changed:
            pod = self._pods.get(uid)
            is_there = pod is not None and not is_over(pod) and pod.spec.node_name in estate
            told = self._told.get(uid)
            if told is not None and (not is_there or (pod and pod.spec.node_name != told[1])):
                del self._told[uid]
                yield uid, Ended(told[0])
                told = None
            if pod is not None and is_there and told is None:
                event = _foreign(pod, around, claims=self._may_claim(pod))
                self._told[uid] = event.workload.name, pod.spec.node_name
                yield uid, event


def _foreign(pod: Pod, around: Around, *, claims: bool = False) -> Adopted:
    """Return a pod that another scheduler placed, as a workload."""
    shape = seen(pod, around, claims=claims)
    if claims and disproof(pod, shape):
        shape = seen(pod, around)
    meta, node = pod.metadata, pod.spec.node_name
    name = f"{meta.namespace}/foreign/{meta.name}"
    since = seconds(pod.status.start_time) or seconds(meta.creation_timestamp) or 0.0
    workload = Workload(
        name,
        (PodGroup("pod", shape),),
        queue=OTHERS,
        submitted_at=since,
        preemptible=False,
        namespace=meta.namespace,
    )
    return Adopted(
        workload, (Placement("pod", (0,), (node,), (devices_of(pod, shape),)),), started_at=since
    )
