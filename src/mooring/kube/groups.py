"""Which workload, group and rank a pod has, and what its workload asks for.

**Names.** A workload is `namespace/kind/name`, of a kind without a row `namespace/kind.group/name`;
where one owner makes several workloads, what tells them apart stands behind that. A second object
of the same name, while pods of the first are still there, is `…~2`.

**Shapes.** All pods of a group have one shape. Pods of another shape (a template was edited, a
webhook changed its mind) are a group of their own, `main~2`; where the engine has begun their
workload, whose groups cannot change any more, they are a workload of their own, `…~2`. What the
owner asks for as minimum is shared out among them by the pods that are there; what no pod covers
yet goes to the newest. Pods that cannot be understood are in a workload `…~?`, which never starts.

**Tasks.** A pod that has finished keeps its task for good: it counts for the minimum, and the task
does not run again. So a Job with more completions than parallelism has more tasks as time goes by:
`max` is how many have finished, and how many are live. The gang rule is met by the first
`parallelism` tasks; whatever comes later starts as there is room. A rank is the task that a pod
should have (of an indexed Job its completion index): it has it when a gang starts, and another one
where a pod comes later and its own number is not what the engine placed. A retry takes the task of
the pod that failed: the engine has that task waiting, and places the lowest that waits. What an
owner says has finished, also of pods that are gone, is `finished`: to tell after a restart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from mooring.kube.annotations import Annotations
from mooring.kube.convert import claim
from mooring.kube.describe import Setting, describe
from mooring.kube.family import LEAVES_MOST, UNREADABLE, Family, Membership, Sibling, says_the_same
from mooring.kube.kin import Missing, Owners, Top
from mooring.kube.kinds import BY_KEY, POD_GROUP
from mooring.kube.owners import Done
from mooring.kube.problems import Problem, Problems, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mooring.kube.objects import Pod
    from mooring.kube.owners import Owner, Ref
    from mooring.model.workload import Shape, SpreadTerm, TaskTerm, Workload

__all__ = ["Family", "Grouping", "Membership", "Missing", "Sibling"]


class Grouping:
    """Which pods are one workload, and what that asks for.

    Pods come with `member`, every time that one has changed, and leave with `leave`; owners with
    `put` and `drop`. `describe` says what a workload asks for now.
    """

    def __init__(
        self,
        shape_of: Callable[[Pod], Shape | Problems],
        owners: Owners | None = None,
        levels: Mapping[str, str] | None = None,
    ) -> None:
        """Know nobody yet; `levels` are the levels of the topology by label of nodes."""
        self.owners = owners or Owners()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Labels and annotations of namespaces, by name: a queue may stand there."""
        known = None if levels is None else tuple(levels.values())
        self._setting = Setting(Annotations(known), levels or {}, self.namespaces)
        self.has_begun: Callable[[str], bool] = lambda name: False
        """Whether the engine has begun a workload: its groups are fixed then."""
        self.problems: dict[str, tuple[Problem, ...]] = {}
        """What was wrong with a workload that is described all the same, because it runs."""
        self._shape_of = shape_of
        self._families: dict[str, dict[tuple[str, str], Family]] = {}
        """By uid of the top, and namespace and unit: no two namespaces have a workload together."""
        self._family_of: dict[str, Family] = {}
        """By name of a workload."""
        self._sibling_of: dict[str, Sibling] = {}
        """By uid of a pod."""
        self.outgrown: dict[str, None] = {}
        """Uids of pods whose workload has too many groups already; it may have room later."""
        self._touched: dict[str, None] = {}

    # -- owners -----------------------------------------------------------------------------

    def put(self, owner: Owner) -> tuple[str, ...]:
        """Take in an owner; return the keys that `Missing` told for it."""
        for family in self._of_top(owner):
            family.owner, family.is_gone = owner, False
            family.renew()
        return self.owners.put(owner)

    def drop(self, owner: Owner) -> None:
        """Take in that an owner is gone."""
        self.owners.drop(owner)
        for family in self._of_top(owner):
            family.is_gone = True

    def workloads_of(self, owner: Owner) -> list[str]:
        """Return the workloads named after an owner."""
        return [each.name for family in self._of_top(owner) for each in family.siblings]

    def _of_top(self, owner: Owner) -> list[Family]:
        families = self._families.get(owner.metadata.uid, {})
        return [each for (space, _), each in families.items() if owner.owns_in(space)]

    # -- pods -------------------------------------------------------------------------------

    def member(self, pod: Pod) -> Membership | Missing:
        """Return where a pod belongs; it stays there while its owner is gone."""
        uid = pod.metadata.uid
        sibling = self._sibling_of.get(uid)
        if sibling is not None and self._is_as_before(sibling.pods[uid], pod):
            return self._stay(sibling, pod)
        top = self.owners.top(pod)
        if isinstance(top, Missing):
            return top if sibling is None else self._stay(sibling, pod)
        family = self._family(top, pod)
        member = self._seat(family, pod)
        if sibling is not None and sibling.name != member.workload:
            self.leave(uid)
        into = next(each for each in family.siblings if each.name == member.workload)
        into.pods[uid], into.members[uid] = pod, member
        self._sibling_of[uid] = into
        family.renew()
        self._touched |= {each.name: None for each in family.siblings if each is not into}
        return member

    def _is_as_before(self, before: Pod, now: Pod) -> bool:
        """Return whether a pod belongs where it did; not if it took parts of devices by itself."""
        if not _is_same(before, now):
            return False
        is_put_there = now.spec.node_name and not before.spec.node_name and claim(now)
        return not (is_put_there and isinstance(self._shape_of(now), Problems))

    def _stay(self, sibling: Sibling, pod: Pod) -> Membership:
        uid = pod.metadata.uid
        if not says_the_same(sibling.pods[uid], pod):
            self._family_of[sibling.name].renew()
        sibling.pods[uid] = pod
        return sibling.members[uid]

    def leave(self, uid: str) -> None:
        """Take in that a pod is gone."""
        sibling = self._sibling_of.pop(uid, None)
        if sibling is None:
            return
        del sibling.pods[uid], sibling.members[uid]
        family = self._family_of.get(sibling.name)
        if family is not None:
            family.renew()
            self._touched |= dict.fromkeys(each.name for each in family.siblings)

    def forget(self, name: str) -> None:
        """Forget a workload that has ended and has no pods."""
        family = self._family_of.pop(name, None)
        self.problems.pop(name, None)
        if family is None:
            return
        family.siblings = [each for each in family.siblings if each.name != name]
        if not family.siblings:
            units = self._families[family.ref.uid]
            del units[family.ref.namespace, family.unit]
            if not units:
                del self._families[family.ref.uid]

    def take_touched(self) -> list[str]:
        """Return the workloads that others' coming and going may have changed, once."""
        touched, self._touched = self._touched, {}
        return list(touched)

    def _family(self, top: Top, pod: Pod) -> Family:
        unit = top.kind.unit(top.owner, pod)
        units, key = self._families.setdefault(top.ref.uid, {}), (pod.metadata.namespace, unit)
        if key not in units:
            ref = replace(top.ref, namespace=pod.metadata.namespace)
            units[key] = Family(top.kind, ref, unit, top.owner)
        return units[key]

    def _seat(self, family: Family, pod: Pod) -> Membership:
        wanted = family.kind.group(family.owner, pod)
        shape = _without(self._shape_of(pod), family.kind.differ)
        ref, uid = family.ref, pod.metadata.uid
        self.outgrown.pop(uid, None)
        if isinstance(shape, Problems):
            return self._turn_away(family, wanted, shape)
        sibling = self._for_shape(family, wanted, shape)
        if sibling.is_full_for(wanted, shape) and not pod.spec.node_name:
            self.outgrown[uid] = None
            return self._turn_away(family, wanted, Problems((_too_many(ref),)))
        leaf = sibling.leaf(wanted, shape)
        rank = family.kind.rank(family.owner, pod)
        if family.is_split(wanted):
            rank = None  # numbers of the group have holes then
        return Membership(sibling.name, ref.uid, leaf, rank, ref, wanted)

    def _turn_away(self, family: Family, wanted: str, why: Problems) -> Membership:
        """Return the place of a pod that cannot be understood."""
        name, ref = family.base + UNREADABLE, family.ref
        while self._family_of.get(name, family) is not family:
            name = f"{name}?"  # of an earlier owner of that name
        sibling = self._sibling(family, name)
        return Membership(sibling.name, ref.uid, wanted, None, ref, wanted, why.problems)

    def _for_shape(self, family: Family, wanted: str, shape: Shape) -> Sibling:
        """Return the workload for a shape: one with such pods, or the newest, or another."""
        readable = family.readable
        for sibling in readable:
            if (wanted, shape) in sibling.leaves:
                return sibling
        if readable and not self.has_begun(readable[-1].name):
            return readable[-1]
        name, number = family.base, 1
        while name in self._family_of:
            number += 1
            name = f"{family.base}~{number}"
        return self._sibling(family, name)

    def _sibling(self, family: Family, name: str) -> Sibling:
        if self._family_of.get(name) is not family:
            self._family_of[name] = family
            family.siblings.append(Sibling(name))
        return next(each for each in family.siblings if each.name == name)

    def regroup(self) -> Iterator[tuple[str, Membership]]:
        """Look at all pods again, of which other labels may matter now; yield where each is.

        Workloads stay, with other groups perhaps: so no engine may have begun any.
        """
        self.has_begun = lambda name: False
        for family in [each for units in self._families.values() for each in units.values()]:
            for sibling in family.readable:
                self._regroup(family, sibling)
            family.renew()
            for sibling in family.readable:
                for uid, member in sibling.members.items():
                    split = family.is_split(member.wanted)
                    rank = None if split else family.kind.rank(family.owner, sibling.pods[uid])
                    sibling.members[uid] = replace(member, rank=rank)
                    yield uid, sibling.members[uid]

    def _regroup(self, family: Family, sibling: Sibling) -> None:
        """Give the pods of a workload groups by what their shapes are now."""
        before = sibling.clear()
        shapes = {leaf: shape for (_, shape), leaf in before.items()}
        for uid, member in sibling.members.items():
            shape = _without(self._shape_of(sibling.pods[uid]), family.kind.differ)
            if isinstance(shape, Problems):
                shape = shapes[member.group]  # it was edited since it was understood
            leaf = sibling.leaf(member.wanted, shape)
            sibling.members[uid] = replace(member, group=leaf)
        there = {wanted for wanted, _ in sibling.leaves}
        for wanted, shape in before:
            if wanted not in there:
                sibling.leaf(wanted, shape)  # none of its pods is there

    # -- workloads --------------------------------------------------------------------------

    def describe(self, name: str) -> Workload | Problems:
        """Return what a workload asks for, or why that is not understood.

        One of which pods have nodes is always described: as well as it can be, and what is wrong
        stands in `problems`.
        """
        family = self._family_of[name]
        sibling = next(each for each in family.siblings if each.name == name)
        if sibling not in family.readable:
            return self._all_wrong(family, sibling)
        found, around = sibling.described, self.namespaces.get(family.ref.namespace)
        if found is None or sibling.around is not around:
            if not self.has_begun(name):
                sibling.prune()
            found = describe(family, sibling, self._setting)
            sibling.described, sibling.around = found, around
        self.problems.pop(name, None)
        is_placed = sibling.is_placed
        if found.problems and not is_placed:
            return Problems(found.problems)
        if found.problems:
            self.problems[name] = found.problems
        workload = found.workload
        if not (workload.active or found.is_suspended) and (is_placed or self.has_begun(name)):
            return replace(workload, active=True)
        return workload

    def _all_wrong(self, family: Family, sibling: Sibling) -> Problems:
        """Return all that is wrong with pods that cannot be understood, annotations included."""
        read = self._setting.annotations.read
        found = [each for member in sibling.members.values() for each in member.problems]
        for pod in sibling.pods.values():
            found += read(pod.metadata.annotations, pod.metadata.labels).problems
        if family.kind.resource.kind != "Pod":
            meta, where = family.owner.metadata, f"{family.ref.kind} {family.ref.name}: "
            found += read(meta.annotations, meta.labels, where).problems
        return Problems(tuple(dict.fromkeys(found)))

    def is_over(self, name: str) -> bool | None:
        """Return whether a workload without live pods gets no more of them; None: who knows."""
        family = self._family_of.get(name)
        if family is None or family.is_gone or name != family.newest:
            return True
        kind, owner = family.kind, family.owner
        if kind.key == ("", "Pod") or kind.is_dropped(owner, family.unit):
            return True
        if kind.key not in BY_KEY or kind is POD_GROUP:
            return None  # nobody says when no more pods come
        over = kind.has(owner, (*kind.complete, *kind.failed))
        return over or bool(owner.metadata.deletion_timestamp)

    def api_version_of(self, name: str) -> str:
        """Return the API version of what a workload is named after."""
        family = self._family_of.get(name)
        return family.owner.api_version if family else ""

    def has_failed(self, name: str) -> bool:
        """Return whether its owner says that a workload failed."""
        family = self._family_of.get(name)
        return family is not None and family.kind.has(family.owner, family.kind.failed)

    def finished(self, name: str) -> Done:
        """Return what its owner says has finished, also of pods that are gone."""
        family = self._family_of.get(name)
        return family.done if family else Done()


def _too_many(ref: Ref) -> Problem:
    fix = f"let its pods ask for at most {LEAVES_MOST} different things: this one asks for another"
    return Problem(f"{ref.kind} {show(ref.name)}", "", fix)


def _without(shape: Shape | Problems, labels: tuple[str, ...]) -> Shape | Problems:
    """Return a shape without some labels, but for those that its own terms name."""
    if isinstance(shape, Problems) or not labels:
        return shape
    terms: tuple[TaskTerm | SpreadTerm, ...] = (*shape.near, *shape.apart, *shape.spread)
    named = {key for term in terms for key, _ in term.labels}
    kept = tuple(item for item in shape.labels if item[0] not in labels or item[0] in named)
    return replace(shape, labels=kept)


def _is_same(before: Pod, now: Pod) -> bool:
    """Return whether nothing has changed that tells where a pod belongs.

    That it got a node does not; from then on only another owner does.
    """
    old, new = before.metadata, now.metadata
    if old.owner_references != new.owner_references:
        return False
    if before.spec.node_name:
        return True
    if now.spec.node_name:
        return before.spec == msgspec.structs.replace(now.spec, node_name="")
    is_marked_the_same = old.labels == new.labels and old.annotations == new.annotations
    return is_marked_the_same and before.spec == now.spec
