"""The owners that are known, and the way from a pod up to what its workload is named after.

Of a kind with a row the way goes on only into kinds that name it as a part: from the Job of a
JobSet to the JobSet, but not from the Job of a CronJob to the CronJob. Of other kinds it goes up as
far as it is known. A pod that names an upstream pod group belongs to that, whoever made it.

An owner is in the namespace of what it owns, or in none. Whoever writes the uid of another
namespace's object on his pod names nothing: it is as if that object were not there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.kube.kinds import BY_KEY, KINDS, POD_GROUP, UNKNOWN
from mooring.kube.objects import ObjectMeta
from mooring.kube.owners import Kind, Owner, Ref

if TYPE_CHECKING:
    from collections.abc import Collection

    from mooring.kube.objects import Pod

STEPS_MOST = 16
"""So far up owners are followed; longer ways are cycles."""

GIVEN_UP_MOST = 20_000
"""So many owners that are gone are remembered; their pods go soon after them."""
ASKED_MOST = 20_000
"""So many owners are remembered that nobody watches; others are asked for again."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A pod's owner that has not been seen yet."""

    ref: Ref
    is_watched: bool = True
    """False: nobody watches its kind, so somebody has to ask for its metadata."""

    @property
    def key(self) -> str:
        """Return what it is waited for by; `Owners.put` returns it once it is there."""
        return self.ref.key


@dataclass(frozen=True, slots=True)
class Top:
    """What the workload of a pod is named after."""

    kind: Kind
    ref: Ref
    owner: Owner


class Owners:
    """Objects that pods belong to, by uid and by name."""

    def __init__(
        self, watched: Collection[tuple[str, str]] | None = None, *, asks: bool = False
    ) -> None:
        """Know nobody yet.

        `watched` are API group and kind of the owners that are watched (None: all that have a
        row): others are of unknown kinds. With `asks`, somebody asks for the metadata of those.
        """
        self._kinds = {key: BY_KEY[key] for key in BY_KEY if watched is None or key in watched}
        self._asks = asks
        self._owners: dict[str, Owner] = {}
        self._by_name: dict[Ref, str] = {}
        self._given_up: dict[str, None] = {}
        self._asked: dict[str, None] = {}
        """Owners that nobody watches: nobody will say that they are gone."""

    def put(self, owner: Owner) -> tuple[str, ...]:
        """Take in an owner, or what is new about it; return what pods may be waiting for it by."""
        ref = owner.ref
        self._owners[ref.uid] = owner
        self._by_name[ref.named] = ref.uid
        if (ref.group, ref.kind) not in self._kinds:
            self._asked[ref.uid] = None
            if len(self._asked) > ASKED_MOST:
                self._forget(self._owners[next(iter(self._asked))].ref)
        for key in ref.keys:
            self._given_up.pop(key, None)
        return ref.keys

    def drop(self, owner: Owner) -> None:
        """Take in that an owner is gone; pods that it made still belong to it."""
        self._forget(owner.ref)
        self.give_up(owner.ref.key)

    def _forget(self, ref: Ref) -> None:
        self._owners.pop(ref.uid, None)
        self._asked.pop(ref.uid, None)
        if self._by_name.get(ref.named) == ref.uid:
            del self._by_name[ref.named]

    def give_up(self, key: str) -> None:
        """Wait for an owner no longer: it is not there, or may not be read."""
        self._given_up[key] = None
        if len(self._given_up) > GIVEN_UP_MOST:
            del self._given_up[next(iter(self._given_up))]

    def _is_given_up(self, ref: Ref) -> bool:
        return ref.key in self._given_up or replace(ref, namespace="").key in self._given_up

    def get(self, uid: str) -> Owner | None:
        """Return an owner, as long as it is there."""
        return self._owners.get(uid)

    def _find(self, ref: Ref) -> Owner | None:
        """Return the owner that is meant in a namespace."""
        owner = self._owners.get(ref.uid)
        return owner if owner is not None and owner.owns_in(ref.namespace) else None

    def top(self, pod: Pod) -> Top | Missing:
        """Return what a pod belongs to in the end."""
        named = self._named(pod)
        if named is not None:
            return named
        meta = pod.metadata
        ref = controller_of(meta)
        if ref is None:
            own = Ref("", "Pod", meta.namespace, meta.name, meta.uid)
            return Top(BY_KEY["", "Pod"], own, Owner("v1", "Pod", meta))
        if (ref.group, ref.kind) in self._kinds and ref.kind != "Pod":
            return self._known(ref)
        return self._unknown(ref)

    def _named(self, pod: Pod) -> Top | Missing | None:
        """Return what a pod names itself as its workload; None: nothing."""
        meta, group = pod.metadata, pod.spec.scheduling_group
        if group is not None and group.pod_group_name and POD_GROUP.key in self._kinds:
            found = self._by(POD_GROUP, meta.namespace, group.pod_group_name)
            if found is not None:
                return found
        for kind in KINDS:
            name = meta.labels.get(kind.named_by, "") if kind.named_by else ""
            above = controller_of(meta) if name else None
            if above is not None and above.kind in kind.parts and kind.key in self._kinds:
                return self._by(kind, meta.namespace, name)
        return None

    def _by(self, kind: Kind, namespace: str, name: str) -> Top | Missing | None:
        """Return an object by its name; None: it is not waited for."""
        ref = Ref(*kind.key, namespace, name)
        owner = self._owners.get(self._by_name.get(ref, ""))
        if owner is None:
            return None if self._is_given_up(ref) else Missing(ref)
        return Top(kind, owner.ref, owner)

    def _known(self, ref: Ref) -> Top | Missing:
        """Return the top above an owner of a known kind."""
        for _ in range(STEPS_MOST):
            owner = self._find(ref)
            if owner is None:
                return self._end_at(ref, is_watched=True)
            above = controller_of(owner.metadata, ref.namespace)
            kind = self._kinds.get((above.group, above.kind)) if above else None
            if above is None or kind is None or ref.kind not in kind.parts:
                return Top(self._kinds[ref.group, ref.kind], ref, owner)
            ref = above
        return self._end_at(ref, is_watched=False)

    def _unknown(self, ref: Ref) -> Top | Missing:
        """Return the topmost owner that is known above one of an unknown kind."""
        for _ in range(STEPS_MOST):
            owner = self._find(ref)
            above = controller_of(owner.metadata, ref.namespace) if owner else None
            if above is None:
                break
            ref = above
        return self._end_at(ref, is_watched=False)

    def _end_at(self, ref: Ref, *, is_watched: bool) -> Top | Missing:
        """Return the end of a way; only what is watched, or asked for, is waited for."""
        owner = self._find(ref)
        is_waited_for = (is_watched or self._asks) and ref.kind != "Pod"
        if owner is None and is_waited_for and not self._is_given_up(ref):
            return Missing(ref, is_watched)
        return Top(UNKNOWN, ref, owner or _unseen(ref))


def _unseen(ref: Ref) -> Owner:
    """Return an owner of which only the name is known."""
    version = f"{ref.group}/v1" if ref.group else "v1"
    return Owner(version, ref.kind, ObjectMeta(name=ref.name, namespace=ref.namespace, uid=ref.uid))


def controller_of(meta: ObjectMeta, namespace: str = "") -> Ref | None:
    """Return who made an object: its controller, or else its first owner.

    It is looked for in that namespace where the object itself is in none.
    """
    owners = meta.owner_references
    found = next((each for each in owners if each.controller), owners[0] if owners else None)
    return Ref.of(found, meta.namespace or namespace) if found else None
