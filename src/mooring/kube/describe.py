"""What a workload asks for, from its owner, its pods and what is written on them.

The minimum of each group comes from annotations or else from the owner; its size is how many pods
there are. A workload that has not begun is active once every group has its minimum of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mooring.config.reader import ReadError
from mooring.kube.annotations import NOTHING, Annotations, Said, instant
from mooring.kube.family import Described, Family, Sibling, is_live
from mooring.kube.names import PREFIX
from mooring.kube.owners import Wanted
from mooring.kube.problems import Problem, show
from mooring.model.workload import NEVER_S, PodGroup, Shape, TopologyRequest, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.kube.objects import Pod


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known beside owners and pods."""

    annotations: Annotations
    levels: Mapping[str, str]
    """Levels of the topology by label of nodes."""
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels and annotations of namespaces."""


@dataclass(slots=True)
class _Draft:
    """What has been found out about a workload so far."""

    family: Family
    sibling: Sibling
    setting: Setting
    owner: Said = NOTHING
    """What is said on the owner."""
    pods: Said = NOTHING
    """What is said on its pods, of all groups."""
    by_leaf: dict[str, Said] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    most: dict[str, int] = field(default_factory=dict)
    """How many tasks each leaf has."""


def describe(family: Family, sibling: Sibling, setting: Setting) -> Described:
    """Return a workload as it asks to be, and everything that is wrong with how it does.

    It is active if it is complete and not suspended.
    """
    draft = _Draft(family, sibling, setting)
    draft.most = _most(draft)
    _listen(draft)
    leaves, is_complete = _leaves(draft)
    topology = TopologyRequest()
    if len(leaves) > 1:
        topology = _with_domain(draft, draft.owner.topology())
        _check_slices(draft, topology, sum(leaf.min for leaf in leaves))
    is_suspended = family.kind.is_suspended(family.owner)
    workload = _workload(draft, leaves, topology, active=is_complete and not is_suspended)
    return Described(workload, tuple(dict.fromkeys(draft.problems)), is_suspended)


def _listen(draft: _Draft) -> None:
    """Read what is said on pods and owner: of a leaf by its first pod that says something."""
    family, sibling, read = draft.family, draft.sibling, draft.setting.annotations.read
    latest: float | None = None
    for uid, pod in in_order(sibling):
        said = read(pod.metadata.annotations, pod.metadata.labels)
        draft.problems += said.problems
        leaf = sibling.members[uid].group
        draft.by_leaf[leaf] = draft.by_leaf.get(leaf, NOTHING).over(said)
        draft.pods = draft.pods.over(said)
        saved = said.get("last-checkpoint")
        latest = saved if latest is None or (saved is not None and saved > latest) else latest
    if latest is not None:
        draft.pods = Said({**draft.pods.values, "last-checkpoint": latest})
    meta = family.owner.metadata
    if family.kind.resource.kind != "Pod":
        where = f"{family.ref.kind} {family.ref.name}: "
        draft.owner = read(meta.annotations, meta.labels, where)
        draft.problems += draft.owner.problems


def in_order(sibling: Sibling) -> list[tuple[str, Pod]]:
    """Return the pods of a workload by group and rank, the first ones first."""

    def order(item: tuple[str, Pod]) -> tuple[str, int, str, str]:
        member, meta = sibling.members[item[0]], item[1].metadata
        rank = -1 if member.rank is None else member.rank
        return member.group, rank, meta.creation_timestamp, meta.name

    return sorted(sibling.pods.items(), key=order)


# -- groups -----------------------------------------------------------------------------------


def _counts(sibling: Sibling) -> dict[str, int]:
    """Return how many pods of each leaf count for its minimum: those live, or finished."""
    counts = dict.fromkeys(sibling.leaves.values(), 0)
    for uid, pod in sibling.pods.items():
        if pod.status.phase == "Succeeded" or is_live(pod):
            counts[sibling.members[uid].group] += 1
    return counts


def _most(draft: _Draft) -> dict[str, int]:
    """Return how many tasks each leaf has: as many as are live, and as have finished."""
    sibling, done = draft.sibling, draft.family.done.count
    most = _counts(sibling)
    if done and len(most) == 1:
        (leaf,) = most
        most[leaf] = max(most[leaf], done + sum(map(is_live, sibling.pods.values())))
    return most


def _leaves(draft: _Draft) -> tuple[list[PodGroup], bool]:
    """Return the groups of a workload, and whether each has its minimum of pods."""
    family, sibling = draft.family, draft.sibling
    wanted = _wanted(draft)
    least: dict[str, int] = {}
    for group in wanted.values():
        least |= _share(draft, group)
    here = list(sibling.leaves.items())
    if not sum(least.get(leaf, 0) for _, leaf in here):
        least[here[0][1]] = 1  # some pod must be the first
    order = {name: number for number, name in enumerate(wanted)}
    here.sort(key=lambda item: order[item[0][0]])
    alone = len(here) == 1
    leaves = [_leaf(draft, key, least[leaf], alone=alone) for key, leaf in here]
    is_complete = all(draft.most[leaf.name] >= (leaf.partial or leaf.min) for leaf in leaves)
    seen = {group for each in family.siblings for group, _ in each.leaves}
    is_complete &= all(not group.min or group.name in seen for group in wanted.values())
    return leaves, is_complete


def _wanted(draft: _Draft) -> dict[str, Wanted]:
    """Return the groups that the owner asks for, with the minimum that annotations say."""
    family = draft.family
    groups = {each.name: each for each in family.kind.wants(family.owner, family.unit)}
    for group, _ in draft.sibling.leaves:
        groups.setdefault(group, Wanted(group, 0 if groups else 1, 0))
    total = draft.owner.get("min")
    for each in list(groups.values()) if total is not None else ():
        part = min(total, each.count or total)
        groups[each.name] = replace(each, min=part)
        total -= part
    for (name, _), leaf in draft.sibling.leaves.items():
        least = draft.by_leaf.get(leaf, NOTHING).get("min")
        if least is not None:
            groups[name] = replace(groups[name], min=least)
    why = family.kind.one_by_one(family.owner)
    if why and sum(group.min for group in groups.values()) > 1:
        fix = "let its pods be made all at once, or ask for a minimum of 1: no gang comes together"
        draft.problems.append(Problem(f"{family.ref.kind} {family.ref.name}: {why}", "", fix))
    return groups


def _share(draft: _Draft, group: Wanted) -> dict[str, int]:
    """Return how the minimum of a group is shared out among its leaves, of this workload.

    Each has what its pods cover; what nobody covers is the newest's.
    """
    leaves = draft.family.leaves_of(group.name)
    if len(leaves) == 1 and leaves[0][0] is draft.sibling:
        return {leaves[0][1]: group.min}
    left, shares = group.min, {}
    counts = {each.name: _counts(each) for each in draft.family.readable}
    for number, (sibling, leaf) in enumerate(leaves, 1):
        part = left if number == len(leaves) else min(left, counts[sibling.name][leaf])
        left -= part
        if sibling is draft.sibling:
            shares[leaf] = part
    return shares


def _leaf(draft: _Draft, key: tuple[str, Shape], least: int, *, alone: bool) -> PodGroup:
    leaf = draft.sibling.leaves[key]
    said = draft.by_leaf.get(leaf, NOTHING)
    if alone:
        said = said.over(Said(draft.owner.values))
    topology = said.topology()
    if alone:
        topology = _with_domain(draft, topology)
    partial = said.get("partial-min", 0)
    if partial > least:
        fix = f"give at most {least}, the minimum: it is for less than that"
        draft.problems.append(Problem(f"{PREFIX}partial-min", str(partial), fix))
        partial = 0
    _check_slices(draft, topology, least)
    most = draft.most[leaf]
    if topology.slices:
        most -= most % topology.slices[0].size
    if most <= least:
        most = 0
    return PodGroup(leaf, key[1], least, most, topology, partial=partial)


def _check_slices(draft: _Draft, topology: TopologyRequest, count: int) -> None:
    if topology.slices and count % topology.slices[0].size:
        words = ",".join(f"{each.level}:{each.size}" for each in topology.slices)
        fix = f"give a size that divides the number of pods that start together, {count}"
        draft.problems.append(Problem(f"{PREFIX}topology-slice", words, fix))


def _with_domain(draft: _Draft, topology: TopologyRequest) -> TopologyRequest:
    """Return a request with the domain that the owner itself asks for."""
    label = draft.family.kind.domain(draft.family.owner)
    if not label or topology.required:
        return topology
    level = draft.setting.levels.get(label, "")
    if not level:
        known = ", ".join(draft.setting.levels) or "there are none"
        field_name = f"{draft.family.ref.kind} {draft.family.ref.name}: topology"
        fix = f"give a label that is a level of the topology ({known})"
        draft.problems.append(Problem(field_name, show(label), fix))
    return replace(topology, required=level)


# -- the workload -----------------------------------------------------------------------------


def _workload(
    draft: _Draft, leaves: Iterable[PodGroup], topology: TopologyRequest, *, active: bool
) -> Workload:
    family, pods = draft.family, list(draft.sibling.pods.values())
    said = draft.pods.over(draft.owner)
    meta = family.owner.metadata
    preemptible = said.get("preemptible", "true")
    return Workload(
        name=draft.sibling.name,
        groups=tuple(leaves),
        queue=said.get("queue") or _queue_of_namespace(draft),
        priority=_priority(draft, pods),
        submitted_at=_came_at(meta.creation_timestamp, pods),
        topology=topology,
        service=said.get("service", family.kind.service(family.owner)),
        preemptible=preemptible != "false",
        semi_preemptible=preemptible == "semi",
        run_limit_s=_run_limit(draft, said),
        estimate_s=said.get("estimate"),
        minimum_run_s=said.get("minimum-run", 0.0),
        checkpoint_at=said.get("last-checkpoint"),
        restart_cost_s=said.get("restart-cost"),
        deadline_at=said.get("deadline"),
        preemption_delay_s=said.get("preemption-delay", _delay(pods)),
        grace_s=said.get("grace"),
        leave_s=said.get("leave", _leave(pods)),
        namespace=family.ref.namespace,
        user=said.get("user", ""),
        active=active,
        checkpoint_every_s=said.get("checkpoint-every"),
    )


def _queue_of_namespace(draft: _Draft) -> str:
    texts = draft.setting.namespaces.get(draft.family.ref.namespace, {})
    return texts.get(f"{PREFIX}queue") or "default"


def _priority(draft: _Draft, pods: list[Pod]) -> int:
    """Return the priority: that of the pod group, else the highest of its pods."""
    own = draft.family.owner.spec.get("priority")
    if draft.family.kind.resource.kind == "PodGroup" and isinstance(own, int):
        return own
    return max((pod.spec.priority or 0 for pod in pods), default=0)


def _came_at(created: str, pods: list[Pod]) -> float:
    """Return when the owner was made; of an owner that nobody saw, when its first pod was."""
    times = [created] if created else [pod.metadata.creation_timestamp for pod in pods]
    try:
        return min((instant(each) for each in times if each), default=0.0)
    except ReadError:
        return 0.0


def _run_limit(draft: _Draft, said: Said) -> float | None:
    limits = [said.get("run-limit"), draft.family.kind.run_limit(draft.family.owner)]
    return min((each for each in limits if each is not None), default=None)


def _delay(pods: list[Pod]) -> float:
    return NEVER_S if any(pod.spec.preemption_policy == "Never" for pod in pods) else 0.0


def _leave(pods: list[Pod]) -> float | None:
    grace = [pod.spec.termination_grace_period_seconds for pod in pods]
    return max((float(each) for each in grace if each is not None), default=None)
