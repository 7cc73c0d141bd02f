"""The pods of one workload: who waits, who has which task, and what became of each.

A pod that waits has no task: it is in the pool of its group. A bind takes one from there, the one
whose rank is the task's number if there is one. From then on it has that task until it is gone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mooring.kube.family import Membership, is_live
from mooring.kube.objects import Pod
from mooring.kube.problems import Problem
from mooring.model.workload import PodGroup, TaskState, Workload

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator


BEYOND = 512
"""So many tasks without pods a group may have."""


@dataclass(frozen=True, slots=True)
class Seat:
    """The task that a pod has, and where."""

    group: str
    task: int
    node: str


@dataclass(slots=True)
class Crew:
    """The pods of one workload."""

    name: str
    pods: dict[str, Pod] = field(default_factory=dict)
    """By uid, as long as they exist."""
    members: dict[str, Membership] = field(default_factory=dict)
    seats: dict[str, Seat] = field(default_factory=dict)
    taken: dict[tuple[str, int], str] = field(default_factory=dict)
    """Uid of the pod that has a task."""
    workload: Workload | None = None
    """As it asks to be."""
    problems: tuple[Problem, ...] = ()
    """What could not be understood; then it does not start."""
    terms: dict[str, Any] = field(default_factory=dict)
    """What it may not change while it has a place."""

    def put(self, pod: Pod, member: Membership) -> None:
        """Take in a pod, or what is new about it."""
        uid = pod.metadata.uid
        self.pods[uid] = pod
        self.members[uid] = member

    def drop(self, uid: str) -> None:
        """Forget a pod that is gone; its task is still known by `seats` until that is settled."""
        self.pods.pop(uid, None)
        self.members.pop(uid, None)

    def seat(self, uid: str, seat: Seat) -> None:
        """Give a pod its task."""
        self.unseat(self.taken.get((seat.group, seat.task), ""))
        self.seats[uid] = seat
        self.taken[seat.group, seat.task] = uid

    def unseat(self, uid: str) -> None:
        """Let a pod have no task any more."""
        seat = self.seats.pop(uid, None)
        if seat is not None and self.taken.get((seat.group, seat.task)) == uid:
            del self.taken[seat.group, seat.task]

    def pool(self, group: str) -> Iterator[str]:
        """Yield the pods of a group that wait and have no task, the first ones first."""
        pods, members = self.pods, self.members
        waiting = [
            uid
            for uid, pod in pods.items()
            if members[uid].group == group and uid not in self.seats and waits(pod)
        ]
        yield from sorted(waiting, key=self._rank)

    def _rank(self, uid: str) -> tuple[int, str, str]:
        rank = self.members[uid].rank
        meta = self.pods[uid].metadata
        return -1 if rank is None else rank, meta.creation_timestamp, meta.name

    def pick(
        self, group: str, tasks: Iterable[int], without: Container[str] = ()
    ) -> dict[int, str]:
        """Return who of the pool gets which task: the one of that rank, else the first one left.

        Ranks have holes while a pod is not made again; who has a higher one need not wait for it.
        """
        tasks, pool = tuple(tasks), [uid for uid in self.pool(group) if uid not in without]
        ranks = {uid: self.members[uid].rank for uid in pool}
        by_rank = {rank: uid for uid, rank in reversed(ranks.items()) if rank is not None}
        found = {task: by_rank[task] for task in tasks if task in by_rank}
        given = set(found.values())
        spare = (uid for uid in pool if uid not in given)
        for task in tasks:
            if task not in found and (uid := next(spare, None)) is not None:
                found[task] = uid
        return found

    def sized(self, workload: Workload, done: int) -> Workload:
        """Return a workload with no more tasks than have pods, or are done, and some beyond."""
        there = Counter(member.group for member in self.members.values())
        groups = [_at_most(leaf, there[leaf.name] + done + BEYOND) for leaf in workload.groups]
        return replace(workload, groups=tuple(groups))

    def missing(self) -> str:
        """Return in words which pods are missing to start."""
        lines = []
        for leaf in self.workload.leaves() if self.workload else ():
            pods = [pod for uid, pod in self.pods.items() if self.members[uid].group == leaf.name]
            live = sum(is_live(pod) for pod in pods)
            gated = sum(bool(pod.spec.scheduling_gates) for pod in pods)
            if live < leaf.min:
                gates = f", and {gated} wait at a scheduling gate" if gated else ""
                lines.append(f"{live} of {leaf.min} pods of {leaf.name} are there{gates}")
        return "; ".join(lines) or "its owner has suspended it"


def _at_most(leaf: PodGroup, count: int) -> PodGroup:
    """Return a group of which no more than so many start together; slices stay whole."""
    if leaf.min <= count:
        return leaf
    topology = leaf.topology
    size = topology.slices[0].size if topology.slices else 1
    if size > count:
        topology, size = replace(topology, slices=()), 1
    least = count - count % size
    most = leaf.max if leaf.max > least else 0
    return replace(leaf, min=least, max=most, topology=topology, partial=min(leaf.partial, least))


def waits(pod: Pod) -> bool:
    """Return whether a pod wants a node now."""
    return (
        not pod.spec.node_name
        and not pod.metadata.deletion_timestamp
        and not pod.spec.scheduling_gates
        and pod.status.phase in ("", "Pending")
    )


def is_over(pod: Pod) -> bool:
    """Return whether a pod has ended."""
    return pod.status.phase in ("Succeeded", "Failed")


def has_left(pod: Pod) -> bool:
    """Return whether a pod was asked to leave and did: that its containers end so is no failure."""
    return pod.status.phase == "Failed" and bool(pod.metadata.deletion_timestamp)


def state_of(pod: Pod) -> TaskState:
    """Return where a pod is in its life."""
    if pod.status.phase == "Succeeded":
        return TaskState.FINISHED
    if pod.status.phase == "Failed":
        return TaskState.FAILED
    if not pod.spec.node_name:
        return TaskState.PENDING
    if pod.metadata.deletion_timestamp:
        return TaskState.RELEASING
    return TaskState.RUNNING if pod.status.phase == "Running" else TaskState.BOUND
