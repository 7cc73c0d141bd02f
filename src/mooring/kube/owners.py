"""What pods belong to: owner objects, and what a row of the table of kinds (`kinds.py`) says.

A row says which objects make up one workload, how many pods its groups have, how the group and the
rank of a pod are read from its labels, and how one sees that the owner waits or is over. Whatever
has no row is of an unknown kind: all its pods are one group, and one of them is enough to start.

A controller that makes some pods only once others run cannot be a gang: nobody could start. There
the pods of each stage are a workload of their own (`unit`): a LeaderWorkerSet that starts its
workers when the leader is ready, a JobSet with an order, a JobSet whose jobs have a domain each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.kube.objects import PartialObject, Pod, Unreadable, read
from mooring.kube.resources import Resource

if TYPE_CHECKING:
    from mooring.kube.objects import OwnerReference

MAIN = "main"
"""Name of the only group of a workload."""
MOST_PODS = 1 << 20
"""Counts and ranks are below this; whatever is above is not believed."""
_BULKY = ("containers", "initContainers", "volumes", "volumeClaimTemplates", "managedFields")


@dataclass(frozen=True, slots=True)
class Ref:
    """An object that something belongs to."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, reference: OwnerReference, namespace: str) -> Ref:
        """Return the object that an owner reference means."""
        group = reference.api_version.rpartition("/")[0]
        return cls(group, reference.kind, namespace, reference.name, reference.uid)

    @property
    def key(self) -> str:
        """Return what it is waited for by: its uid, or its kind and name where that is unknown.

        And its namespace: who names an object of another one waits for something else.
        """
        return f"{self.namespace}/{self.uid or f'{self.group}/{self.kind}/{self.name}'}"

    @property
    def keys(self) -> tuple[str, str]:
        """Return all that it may be waited for by."""
        return self.key, self.named.key

    @property
    def named(self) -> Ref:
        """Return the same without its uid."""
        return Ref(self.group, self.kind, self.namespace, self.name)


class Owner(PartialObject, frozen=True):
    """An object that pods belong to; where only its metadata is known it asks for nothing."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def ref(self) -> Ref:
        """Return the object as others name it."""
        meta, group = self.metadata, self.api_version.rpartition("/")[0]
        return Ref(group, self.kind, meta.namespace, meta.name, meta.uid)

    def owns_in(self, namespace: str) -> bool:
        """Return whether it can own something in a namespace: it is there too, or in none."""
        return self.metadata.namespace in ("", namespace)


def read_owner(
    raw: bytes | str | msgspec.Raw | dict[str, Any], resource: Resource
) -> Owner | Unreadable:
    """Return an owner that the server sent; items of a list do not say of which kind they are."""
    found = read(Owner, raw)
    owner = found.rest if isinstance(found, Unreadable) else found
    whole = named(owner, resource)
    if isinstance(found, Unreadable):
        return Unreadable(found.problems, whole, whole.metadata)
    return whole


def named(owner: Owner, resource: Resource) -> Owner:
    """Return an owner that says of which kind it is, without what nobody asks of it."""
    return Owner(
        api_version=resource.api_version,
        kind=resource.kind,
        metadata=owner.metadata,
        spec=_slim(owner.spec),
        status=owner.status,
    )


def _slim(tree: Any) -> Any:
    """Return a spec without what is never asked of it, and takes most of its room."""
    if isinstance(tree, dict):
        return {key: _slim(value) for key, value in tree.items() if key not in _BULKY}
    return [_slim(value) for value in tree] if isinstance(tree, list) else tree


# -- reading plain values ---------------------------------------------------------------------


def at(tree: object, *path: str) -> Any:
    """Return what stands at a path of plain data; None: nothing."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def count_at(tree: object, *path: str, default: int = 0) -> int:
    """Return the whole number at a path; the default where there is none."""
    found = at(tree, *path)
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < MOST_PODS:
        return found
    return default


def list_at(tree: object, *path: str) -> list[dict[str, Any]]:
    """Return the objects of the list at a path."""
    found = at(tree, *path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def said(pod: Pod, key: str) -> str:
    """Return what a pod says under a key: its annotation, or else its label."""
    return pod.metadata.annotations.get(key) or pod.metadata.labels.get(key, "")


def index_of(pod: Pod, key: str) -> int | None:
    """Return the number that a pod says under a key; None: none that can be one."""
    return as_index(said(pod, key))


def as_index(words: str) -> int | None:
    """Return the number that words are; None: none that can be a pod's."""
    if not (words.isascii() and words.isdigit() and len(words) <= 7):
        return None
    return int(words) if int(words) < MOST_PODS else None


# -- cells of the table -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """A group as its owner asks for it."""

    name: str
    min: int
    """So many start together or not at all."""
    count: int
    """So many it has when all are there."""


@dataclass(frozen=True, slots=True)
class Done:
    """What is finished of an owner's pods, also of those that are gone."""

    indexes: frozenset[int] = frozenset()
    count: int = 0


def _nothing(owner: Owner) -> str:
    return ""


def _all_one(owner: Owner, pod: Pod) -> str:
    return ""


def _main(owner: Owner, pod: Pod) -> str:
    return MAIN


def _no_rank(owner: Owner, pod: Pod) -> int | None:
    return None


def _never(owner: Owner) -> bool:
    return False


def _none_done(owner: Owner) -> Done:
    return Done()


def _still_wanted(owner: Owner, unit: str) -> bool:
    return False


def _any_of_them(owner: Owner, unit: str) -> tuple[Wanted, ...]:
    """Return a group of which one pod is enough to start."""
    return (Wanted(MAIN, 1, count_at(owner.spec, "replicas", default=1)),)


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: a kind of owner, and how its pods are grouped."""

    resource: Resource
    workload: str
    """What one workload is, in words of the manual."""
    minimum: str
    """How many pods start together, in words of the manual."""
    parts: tuple[str, ...] = ()
    """Kinds that it makes and that make its pods."""
    named_by: str = ""
    """Label of its pods with its name, where owner references lead through other pods."""
    wants: Callable[[Owner, str], tuple[Wanted, ...]] = _any_of_them
    unit: Callable[[Owner, Pod], str] = _all_one
    """Which of its workloads a pod is in; empty: it is one workload."""
    group: Callable[[Owner, Pod], str] = _main
    rank: Callable[[Owner, Pod], int | None] = _no_rank
    ranks: tuple[str, ...] = ()
    """Labels that a pod's rank is read from."""
    differ: tuple[str, ...] = ()
    """Further labels that differ within a group: shapes are without, as a group has one shape."""
    service: Callable[[Owner], bool] = _never
    """Whether its pods serve and never end."""
    one_by_one: Callable[[Owner], str] = _nothing
    """Field and value that make it create pods one after another; empty: all at once."""
    domain: Callable[[Owner], str] = _nothing
    """Label of nodes that is the same for all its pods; empty: none."""
    is_dropped: Callable[[Owner, str], bool] = _still_wanted
    """Whether its owner makes no more pods for a unit."""
    done: Callable[[Owner], Done] = _none_done
    complete: tuple[str, ...] = ("Complete", "Completed", "Succeeded")
    """Conditions that say that it is over and well; it is badly with `failed`."""
    failed: tuple[str, ...] = ("Failed",)
    suspend: tuple[str, ...] = ("suspend",)
    """Path of the flag in the spec that stops it."""
    limit: tuple[str, ...] = ("activeDeadlineSeconds",)
    """Path of the most seconds that it may run, in the spec."""

    @property
    def key(self) -> tuple[str, str]:
        """Return API group and kind."""
        return self.resource.group, self.resource.kind

    def is_suspended(self, owner: Owner) -> bool:
        """Return whether its owner is told not to run."""
        return bool(self.suspend and at(owner.spec, *self.suspend) is True)

    def run_limit(self, owner: Owner) -> float | None:
        """Return how long it may run at most; None: for ever."""
        return float(count_at(owner.spec, *self.limit)) or None

    def has(self, owner: Owner, conditions: tuple[str, ...]) -> bool:
        """Return whether one of some conditions is true of an owner."""
        return any(
            each.get("type") in conditions and each.get("status") == "True"
            for each in list_at(owner.status, "conditions")
        )
