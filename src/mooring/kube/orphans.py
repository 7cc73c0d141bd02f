"""Pods that wait for an owner to be seen, and what they are told if it is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.kube.crew import Crew, waits
from mooring.kube.family import Membership
from mooring.kube.kin import Missing
from mooring.kube.owners import MAIN, Ref
from mooring.kube.problems import show

if TYPE_CHECKING:
    from mooring.kube.objects import Pod
    from mooring.kube.owners import Owner

ABSENT = "~!"
"""Behind the name of an owner: those who wait for it to be seen."""


@dataclass(slots=True)
class _Wait:
    """Who waits for one owner."""

    owner: Missing
    crew: Crew
    is_told: bool = False


@dataclass(slots=True)
class Orphans:
    """Pods that wait for an owner to be seen."""

    crews: dict[str, Crew] = field(default_factory=dict)
    """Pods by what they are told by: the name of the owner, and `ABSENT`."""
    _waits: dict[str, _Wait] = field(default_factory=dict)
    """By the key of the owner."""
    _key_of: dict[str, str] = field(default_factory=dict)
    """The owner that a pod waits for, by the pod's uid."""
    _silent: dict[str, float | None] = field(default_factory=dict)
    """Owners of which nothing was said yet, and when somebody first looked."""
    _over: dict[str, None] = field(default_factory=dict)
    """Names for which nobody waits any more, and that were told."""

    def __len__(self) -> int:
        return len(self._key_of)

    def put(self, owner: Missing, pod: Pod) -> str:
        """Let a pod wait; return what it is told by if it is not the first to wait, else empty."""
        uid, key, meta = pod.metadata.uid, owner.key, pod.metadata
        if self._key_of.get(uid) != key:
            self.drop(uid)
        wait = self._waits.get(key)
        if wait is None:
            ref = owner.ref
            # Two owners of one name, by their uids, are two.
            name = f"{ref.namespace}/{ref.kind.lower()}/{ref.name}{ABSENT}{ref.uid}"
            wait = self._waits[key] = _Wait(owner, Crew(name))
            self.crews[name] = wait.crew
        if not wait.is_told and waits(pod):
            self._silent.setdefault(key, None)
        self._key_of[uid] = key
        own = Ref("", "Pod", meta.namespace, meta.name, uid)
        is_new = uid not in wait.crew.pods
        wait.crew.put(pod, Membership(wait.crew.name, uid, MAIN, None, own))
        return wait.crew.name if is_new and wait.is_told else ""

    def drop(self, uid: str) -> bool:
        """Let a pod wait no more; return whether it did."""
        key = self._key_of.pop(uid, "")
        wait = self._waits.get(key)
        if wait is None:
            return False
        wait.crew.drop(uid)
        if not wait.crew.pods:
            self._end(key)
        return True

    def found(self, key: str) -> list[Pod]:
        """Return who waited for an owner, and let them wait no more."""
        wait = self._waits.get(key)
        if wait is None:
            return []
        pods = list(wait.crew.pods.values())
        for pod in pods:
            del self._key_of[pod.metadata.uid]
        self._end(key)
        return pods

    def keys_for(self, owner: Owner) -> tuple[str, ...]:
        """Return all that an owner is waited for by; in no namespace it may be in each."""
        ref = owner.ref
        if ref.namespace:
            return ref.keys
        return *ref.keys, *(key for key in self._waits if key.endswith(f"/{ref.uid}"))

    def _end(self, key: str) -> None:
        wait = self._waits.pop(key)
        self._silent.pop(key, None)
        del self.crews[wait.crew.name]
        if wait.is_told:
            self._over[wait.crew.name] = None

    def tell_again(self) -> None:
        """Let everything be said again."""
        self._over.clear()
        self._silent = dict.fromkeys(self._waits)
        for wait in self._waits.values():
            wait.is_told = False

    def take_told(self, now: float, after_s: float) -> list[tuple[str, str]]:
        """Return who waits so long, and what to say, once each; nothing to say: it is over."""
        over, self._over = self._over, {}
        found = [(name, "") for name in over if name not in self.crews]
        for key, since in list(self._silent.items()):
            if since is None:
                self._silent[key] = now
            elif since + after_s <= now:
                del self._silent[key]
                found += self._words(self._waits[key])
        return found

    def _words(self, wait: _Wait) -> list[tuple[str, str]]:
        """Return what to say; nothing if no pod wants a node."""
        wait.is_told = any(map(waits, wait.crew.pods.values()))
        ref = wait.owner.ref
        words = f"It names {show(ref.kind)} {show(ref.name)}, which is not there."
        return [(wait.crew.name, words)] if wait.is_told else []
