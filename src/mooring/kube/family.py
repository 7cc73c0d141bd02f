"""Workloads that belong to one owner, and the pods that belong to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from mooring.kube.kinds import BY_KEY
from mooring.kube.names import DEVICES, PREFIX
from mooring.kube.objects import ObjectMeta, Pod
from mooring.kube.owners import Done, Kind, Owner, Ref
from mooring.kube.problems import Problem
from mooring.model.workload import Shape, Workload

LEAVES_MOST = 64
"""So many groups a workload has at most: pods that ask for yet another thing do not start."""
UNREADABLE = "~?"
"""Behind the name of a workload: those of its pods that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Where a pod belongs."""

    workload: str
    uid: str
    """Of the top owner; of a pod without owner its own."""
    group: str
    """Leaf group of the workload."""
    rank: int | None
    top: Ref
    wanted: str = ""
    """The group as the owner calls it: that of several leaf groups if shapes differ."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot be understood."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a workload asks for."""

    workload: Workload
    problems: tuple[Problem, ...]
    is_suspended: bool


@dataclass(slots=True, eq=False)
class Sibling:
    """One workload of a family."""

    name: str
    leaves: dict[tuple[str, Shape], str] = field(default_factory=dict)
    """Leaf group by what the owner calls it and shape."""
    pods: dict[str, Pod] = field(default_factory=dict)
    members: dict[str, Membership] = field(default_factory=dict)
    described: Described | None = None
    """What it asks for, as long as nothing has changed that it depends on."""
    around: Mapping[str, str] | None = None
    """What stood on its namespace then."""
    _names: set[str] = field(default_factory=set)
    """Of its leaves."""
    _numbers: dict[str, int] = field(default_factory=dict)
    """The last one that was given, by what the owner calls a group: those below are not free."""

    @property
    def is_placed(self) -> bool:
        """Return whether a pod of it has, or had, a node."""
        return any(pod.spec.node_name for pod in self.pods.values())

    def leaf(self, wanted: str, shape: Shape) -> str:
        """Return the leaf for a shape, a new one if need be."""
        known = self.leaves.get((wanted, shape))
        if known is not None:
            return known
        number = self._numbers.get(wanted, 0) + 1
        while (leaf := f"{wanted}~{number}" if number > 1 else wanted) in self._names:
            number += 1
        self._numbers[wanted] = number
        self._names.add(leaf)
        self.leaves[wanted, shape] = leaf
        return leaf

    def is_full_for(self, wanted: str, shape: Shape) -> bool:
        """Return whether it has no leaf for a shape, and cannot have one more."""
        return (wanted, shape) not in self.leaves and len(self.leaves) >= LEAVES_MOST

    def clear(self) -> dict[tuple[str, Shape], str]:
        """Forget all leaves; return what they were."""
        before, self.leaves = self.leaves, {}
        self._numbers.clear()
        self._names.clear()
        return before

    def prune(self) -> None:
        """Forget leaves without pods, where others have taken their place."""
        used = {member.group for member in self.members.values()}
        counts = Counter(wanted for wanted, _ in self.leaves)
        for (wanted, shape), leaf in list(self.leaves.items()):
            if leaf not in used and counts[wanted] > 1:
                counts[wanted] -= 1
                del self.leaves[wanted, shape]
                self._names.discard(leaf)
                self._numbers[wanted] = 0  # its name is free again


@dataclass(slots=True, eq=False)
class Family:
    """All that belongs to one owner, or to one unit of it: one workload, more if shapes differ."""

    kind: Kind
    ref: Ref
    unit: str
    owner: Owner
    """As it was last seen."""
    is_gone: bool = False
    siblings: list[Sibling] = field(default_factory=list)

    @property
    def base(self) -> str:
        """Return the name of its workload."""
        ref = self.ref
        kind = ref.kind.lower()
        if (ref.group, ref.kind) not in BY_KEY and ref.group:
            kind += f".{ref.group}"
        return "/".join(filter(None, [ref.namespace, kind, ref.name, self.unit]))

    def renew(self) -> None:
        """Let its workloads be described anew."""
        for sibling in self.siblings:
            sibling.described = None

    def leaves_of(self, wanted: str) -> list[tuple[Sibling, str]]:
        """Return the leaves of a group, the oldest first."""
        return list(self._leaves_of(wanted))

    def is_split(self, wanted: str) -> bool:
        """Return whether a group has several leaves."""
        return len(list(islice(self._leaves_of(wanted), 2))) > 1

    def _leaves_of(self, wanted: str) -> Iterator[tuple[Sibling, str]]:
        for sibling in self.siblings:
            for (group, _), leaf in sibling.leaves.items():
                if group == wanted:
                    yield sibling, leaf

    @property
    def readable(self) -> list[Sibling]:
        """Return its workloads without the one of pods that cannot be understood."""
        return [each for each in self.siblings if UNREADABLE not in each.name]

    @property
    def newest(self) -> str:
        """Return the workload that new pods are likely to belong to."""
        readable = self.readable
        return readable[-1].name if readable else ""

    @property
    def done(self) -> Done:
        """Return what its owner says has finished; nobody knows of which sibling."""
        return self.kind.done(self.owner) if len(self.readable) == 1 else Done()


def is_live(pod: Pod) -> bool:
    """Return whether a pod waits, starts or runs, and may go on."""
    is_over = pod.status.phase in ("Succeeded", "Failed")
    return not (is_over or pod.metadata.deletion_timestamp or pod.spec.scheduling_gates)


def says_the_same(before: Pod, now: Pod) -> bool:
    """Return whether a pod counts, and says of its workload, what it did before."""
    phases = before.status.phase, now.status.phase
    if is_live(before) != is_live(now) or ("Succeeded" in phases and phases[0] != phases[1]):
        return False
    old, new = before.metadata, now.metadata
    if old.annotations == new.annotations and old.labels == new.labels:
        return True
    return _notes(old) == _notes(new)


def _notes(meta: ObjectMeta) -> list[dict[str, str]]:
    return [
        {key: words for key, words in texts.items() if key.startswith(PREFIX) and key != DEVICES}
        for texts in (meta.annotations, meta.labels)
    ]
