"""Workloads and their pod groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.config.known import no_queue, some
from mooring.config.queues import priority
from mooring.config.reader import nearest
from mooring.config.rules import KAI
from mooring.config.running import Use, read_running
from mooring.config.schema import KEYS, LEAF_KEYS, SLICES_MOST
from mooring.config.shapes import read_shape
from mooring.config.units import (
    duration,
    flag,
    grace,
    instant,
    mebibytes,
    name,
    positive_duration,
    whole,
)
from mooring.model.workload import PodGroup, Slice, TopologyRequest, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.config.known import Known
    from mooring.config.reader import Cursor, Fields
    from mooring.model.events import Adopted

NESTING_MOST = 16
_STATES = ("finished", "releasing", "starting")
ONLY_GROUP = "main"
"""Name of the group whose fields stand on the workload itself."""


class WorkloadReader:
    """Reads the list at `workloads`: what waits, and what runs."""

    def __init__(self, known: Known) -> None:
        self.waiting: list[Workload] = []
        self.running: list[Adopted] = []
        self._known = known
        self._names: set[str] = set()
        self._use = Use(known.cluster.by_name)

    def read(self, cursor: Cursor) -> None:
        """Read one workload."""
        fields = cursor.fields(KEYS["workload"])
        workload = self._read_workload(fields)
        if fields.take("running", flag, False):
            self.running.append(read_running(fields, workload, self._use))
            return
        self.waiting.append(workload)
        for key in ("started_at", "running_since", "placements", *_STATES, "flavors"):
            if key in fields:
                fields.wrong(key, "remove it, or give `running: true`: it is for what runs")

    def _read_workload(self, fields: Fields) -> Workload:
        workload_name = fields.need("name", name, "")
        if workload_name in self._names:
            fields.wrong("name", "give another name: there is already such a workload")
        if workload_name:
            self._names.add(workload_name)
        groups, topology = _GroupReader(self._known).read_tree(fields)
        priority_class, priority = self._read_priority(fields)
        return Workload(
            name=workload_name,
            groups=groups,
            queue=self._read_queue(fields),
            priority=priority,
            submitted_at=fields.take("submitted_at", instant, 0.0),
            topology=topology,
            service=fields.take("service", flag, False),
            preemptible=fields.take("preemptible", flag, True),
            run_limit_s=fields.take("run_limit", positive_duration, None),
            estimate_s=fields.take("estimate", positive_duration, None),
            minimum_run_s=fields.take("minimum_run", duration, 0.0),
            checkpoint_at=fields.take("checkpoint_at", instant, None),
            restart_cost_s=fields.take("restart_cost", duration, None),
            priority_class=priority_class,
            semi_preemptible=fields.take("semi_preemptible", flag, False),
            deadline_at=fields.take("deadline_at", instant, None),
            preemption_delay_s=fields.take("preemption_delay", duration, 0.0),
            grace_s=fields.take("grace", grace, None),
            leave_s=fields.take("leave", duration, None),
            namespace=fields.take("namespace", name, ""),
            user=fields.take("user", name, ""),
            active=fields.take("active", flag, True),
            checkpoint_every_s=fields.take("checkpoint_every", positive_duration, None),
        )

    def _read_priority(self, fields: Fields) -> tuple[str, int]:
        """Read `priority`, or the class that gives it."""
        if "priority_class" not in fields:
            return "", fields.take("priority", priority, 0)
        classes = dict(self._known.policy.priority_classes)
        if "priority" in fields:
            fields.wrong("priority", "remove it, or `priority_class`: that gives the priority")
        word = fields.take("priority_class", name, "")
        if word and word not in classes:
            fix = f"give a class of the policy ({some(classes)}){nearest(word, classes)}"
            fields.wrong("priority_class", fix)
        return word, classes.get(word, 0)

    def _read_queue(self, fields: Fields) -> str:
        """Read the queue; work lines up where no other queue with quota is below.

        Under profile kai it waits in any other for good, and is no mistake.
        """
        queues, below = self._known.queues, self._known.below
        queue = fields.take("queue", name, "default")
        if "queue" in fields and queue != fields.values["queue"]:
            return queue
        if self._known.policy.profile == KAI:
            return queue
        if queue not in queues:
            fields.wrong("queue", no_queue(queue, queues))
        elif queue in below:
            fix = f"give a queue without queues below it: under {queue!r} {some(below[queue])}"
            fields.wrong("queue", fix)
        return queue


class _GroupReader:
    """Reads the groups of one workload."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._names: set[str] = set()
        self._above: list[int] = []
        """Identities of the mappings around the one that is read; one of them again is a cycle."""

    def read_tree(self, fields: Fields) -> tuple[tuple[PodGroup, ...], TopologyRequest]:
        """Return the groups of a workload, and the topology of all of them together."""
        if "groups" not in fields:
            return (self._read_leaf(fields, ONLY_GROUP),), TopologyRequest()
        groups = self._read_inner(fields)
        return groups, self._read_topology(fields, groups)

    def _read_inner(self, fields: Fields) -> tuple[PodGroup, ...]:
        """Read the groups inside a workload or a group."""
        for key in LEAF_KEYS:
            if key in fields:
                fields.wrong(key, "remove it: it stands on the groups that have tasks")
        cursors = fields.items("groups")
        if fields.values["groups"] == []:
            fields.wrong("groups", "give at least one group, or remove the key")
        self._above.append(id(fields.values))
        read = [self._read_group(cursor) for cursor in cursors]
        self._above.pop()
        return tuple(group for group in read if group)

    def _read_group(self, cursor: Cursor) -> PodGroup | None:
        if id(cursor.value) in self._above:
            cursor.wrong("remove the alias: cyclic groups, this one contains itself")
            return None
        if len(self._above) > NESTING_MOST:
            cursor.wrong(f"nest groups at most {NESTING_MOST} deep")
            return None
        fields = cursor.fields(KEYS["group"])
        group_name = fields.need("name", name, "")
        if group_name in self._names:
            fields.wrong("name", "give another name: the workload already has such a group")
        if group_name:
            self._names.add(group_name)
        if "groups" not in fields:
            if "needed" in fields:
                fields.wrong("needed", "remove it: it stands on groups that have groups")
            return self._read_leaf(fields, group_name)
        groups = self._read_inner(fields)
        topology = self._read_topology(fields, groups)
        needed = fields.take("needed", whole(1), 0)
        if needed > len(groups):
            fields.wrong("needed", f"give at most {len(groups)}: there are no more groups")
        return PodGroup(group_name, groups=groups, topology=topology, needed=needed)

    def _read_leaf(self, fields: Fields, group_name: str) -> PodGroup:
        least, most = _read_count(fields)
        partial = fields.take("partial", whole(1), 0)
        if partial > least:
            fields.wrong("partial", f"give at most {least}, the min: it is for less than that")
        group = PodGroup(group_name, read_shape(fields, self._known), least, most)
        topology = self._read_topology(fields, [group])
        return PodGroup(group_name, group.shape, least, most, topology, partial=partial)

    def _read_topology(self, fields: Fields, groups: Iterable[PodGroup]) -> TopologyRequest:
        """Read the topology of all tasks of `groups` together."""
        slices = tuple(self._read_slice(cursor) for cursor in fields.items("slices"))
        leaves = [leaf for group in groups for leaf in group.leaves()]
        self._check_slices(fields, slices, leaves)
        return TopologyRequest(
            required=fields.take("required", self._known.level, ""),
            preferred=fields.take("preferred", self._known.level, ""),
            slices=slices,
            volume=fields.take("volume", mebibytes, 0),
        )

    def _read_slice(self, cursor: Cursor) -> Slice:
        fields = cursor.fields(KEYS["slice"])
        return Slice(fields.need("level", self._known.level, ""), fields.need("size", whole(1), 1))

    def _check_slices(
        self, fields: Fields, slices: tuple[Slice, ...], leaves: list[PodGroup]
    ) -> None:
        if not slices:
            return
        if len(slices) > SLICES_MOST:
            fields.wrong("slices", f"give at most {SLICES_MOST} slices")
        index = self._known.levels
        cursors = fields.items("slices")
        for cursor, outer, inner in zip(cursors[1:], slices, slices[1:], strict=False):
            if "" not in (outer.level, inner.level) and index[outer.level] >= index[inner.level]:
                cursor.wrong(f"give slices outermost first: {inner.level} is not in {outer.level}")
            if outer.size % inner.size:
                cursor.wrong(f"give a size that divides {outer.size}, that of the slice around it")
        for count in (sum(leaf.min for leaf in leaves), sum(leaf.most for leaf in leaves)):
            if count % slices[0].size:
                cursors[0].wrong(f"give a size that divides the number of tasks, {count}")
                return


def _read_count(fields: Fields) -> tuple[int, int]:
    """Read `tasks`, or `min` and `max`."""
    if "tasks" in fields:
        for key in ("min", "max"):
            if key in fields:
                fields.wrong(key, "remove it, or `tasks`: that says both")
        return fields.take("tasks", whole(1), 1), 0
    least = fields.take("min", whole(), 1)
    most = fields.take("max", whole(1), 0)
    if most and most < least:
        fields.wrong("max", f"give at least {least}, the min")
    if not least and "max" not in fields:
        fields.wrong("min", "give at least 1, or a max too")
    return least, most
