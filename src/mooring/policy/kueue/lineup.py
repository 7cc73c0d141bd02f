"""Who stands where in the lines of the cluster queues while the court decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.resources import CPU, GPU, MEMORY, PODS, PORT
from mooring.model.workload import TaskState
from mooring.policy.kueue.scene import Runner
from mooring.policy.queues.history import slot_at
from mooring.policy.victims.evict import Victim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.kueue.assign import Spot
    from mooring.policy.kueue.tally import Cohorts

STRICT = "strict"
_BASE_UNITS = {CPU: 1e-3, GPU: 1e-3, MEMORY: float(1 << 20)}
"""What one of ours is in the units that usage is added up in: cores, devices, bytes."""

Line = dict[str, "Entry"]
Likeness = tuple[object, ...]


class Lineup:
    """The lines of one moment, and what has become of those in them so far."""

    def __init__(
        self, desk: Desk, cohorts: Cohorts, queued: list[Entry], parked: dict[str, None]
    ) -> None:
        self.desk = desk
        self.cohorts = cohorts
        self.parked = parked
        self.reasons: dict[str, tuple[Reason, ...]] = {}
        self.scans: dict[str, dict[Spot, int]] = {}
        """How far each has come in the flavors of its queue."""
        self._scanned: set[tuple[str, frozenset[tuple[Spot, int]]]] = set()
        """How far each had come before: who is there again has been through all flavors."""
        self.started: dict[str, None] = {}
        self.runners = {
            entry.workload.name: self.runner(entry)
            for entry in desk.running()
            if _may_leave(entry) and not self._is_stopped(entry)
        }
        """Those who could be asked to leave."""
        self.leaving: dict[str, Victim] = {}
        """Those who are on their way out already."""
        for entry in desk.entries.values():
            self.note_leaving(entry)
        self._lines: dict[int, Line] = {}
        self._alike: dict[tuple[int, Likeness], list[str]] = {}
        for entry in sorted(queued, key=self._rank):
            if entry.workload.name not in parked:
                queue = cohorts.cluster_queue[entry.queue]
                self._lines.setdefault(queue, {})[entry.workload.name] = entry
                self._alike.setdefault((queue, self._likeness(entry)), []).append(
                    entry.workload.name
                )

    def _likeness(self, entry: Entry) -> Likeness:
        """Return what decides whether it fits; equal ones fit or do not fit alike."""
        workload = entry.workload
        shape = workload.groups, workload.topology, workload.service, entry.avoid
        return self.desk.priority(entry), entry.is_fixed, *shape

    def _rank(self, entry: Entry) -> tuple[int, float, int]:
        return -self.desk.priority(entry), entry.workload.submitted_at, entry.sequence

    def _is_stopped(self, entry: Entry) -> bool:
        """Return whether the cluster queue of a workload is out of the game for now."""
        return bool(self.desk.tree.queues[self.cohorts.cluster_queue[entry.queue]].stop)

    def is_strict(self, queue: int) -> bool:
        """Return whether the head of a queue blocks it."""
        return self.desk.tree.order[queue] == STRICT

    # -- heads ------------------------------------------------------------------------------

    def heads(self) -> list[Entry]:
        """Return the first of every cluster queue; none where one waits for others to leave."""
        found = []
        for queue in sorted(self._lines):
            line = self._lines[queue]
            if not line or self._holder(line) is not None:
                continue
            if self.desk.tree.queues[queue].by_usage:
                found.append(min(line.values(), key=lambda e: (self.usage(e), *self._rank(e))))
            else:
                found.append(next(iter(line.values())))
        return found

    def _holder(self, line: Line) -> str | None:
        """Return who of a line waits for its room."""
        if not self.desk.holds:
            return None
        return next((name for name in line if name in self.desk.holds), None)

    def blocked(self) -> Iterator[tuple[Entry, str]]:
        """Yield those who were not looked at, and who stands before them."""
        heads = {self.cohorts.cluster_queue[head.queue]: head for head in self.heads()}
        for queue, line in self._lines.items():
            first = self._holder(line)
            if first is None and queue in heads:
                first = heads[queue].workload.name
            for name, entry in line.items():
                if first is not None and name != first and name not in self.desk.holds:
                    yield entry, first

    # -- what becomes of them ---------------------------------------------------------------

    def start(self, entry: Entry, requests: dict[str, int]) -> None:
        """Note that a workload has started."""
        name, queue = entry.workload.name, self.cohorts.cluster_queue[entry.queue]
        self._lines[queue].pop(name)
        self.reasons.pop(name, None)
        self.started[name] = None
        if _may_leave(entry):
            self.runners[name] = self.runner(entry)
        if self.desk.tree.queues[queue].by_usage:
            amounts = {r: float(n) for r, n in requests.items() if _is_counted(r)}
            self.desk.usage.sampled.enter(name, entry.workload.queue, amounts)

    def note_leaving(self, entry: Entry) -> None:
        """Note that work of a workload is on its way out, if any is."""
        tasks = tuple(
            (name, task)
            for name, members in entry.members.items()
            if members.is_releasing
            for task, state in enumerate(members.states)
            if state == TaskState.RELEASING
        )
        if tasks:
            self.leaving[entry.workload.name] = Victim(entry, tasks, "")

    def leave(self, entry: Entry) -> None:
        """Note that a running workload has to leave."""
        self.runners.pop(entry.workload.name, None)
        self.note_leaving(entry)

    def skip(self, entry: Entry, reasons: tuple[Reason, ...], tried: dict[Spot, int]) -> bool:
        """Leave a head where it is; return whether it goes on with another flavor."""
        self.reasons[entry.workload.name] = reasons
        return self._goes_on(entry.workload.name, tried)

    def park(self, entry: Entry, reasons: tuple[Reason, ...], tried: dict[Spot, int]) -> bool:
        """Set a head aside, and all like it, unless it blocks; return whether that is news."""
        name, queue = entry.workload.name, self.cohorts.cluster_queue[entry.queue]
        self.reasons[name] = reasons
        if self._goes_on(name, tried):
            return True
        if self.is_strict(queue):
            return False
        for other in self._alike[queue, self._likeness(entry)]:
            if self._lines[queue].pop(other, None) is not None:
                self.parked[other] = None
                self.reasons[other] = reasons
        return True

    def _goes_on(self, name: str, tried: dict[Spot, int]) -> bool:
        """Note how far one has come in its flavors; return whether there are more to try."""
        self.scans[name] = tried
        point = name, frozenset(tried.items())
        is_new = point not in self._scanned
        self._scanned.add(point)
        return bool(tried) and is_new

    # -- running work, and what local queues have used --------------------------------------

    def runner(self, entry: Entry) -> Runner:
        """Return a running workload as one that could be asked to leave."""
        queue = self.cohorts.cluster_queue[entry.queue]
        by_usage = self.desk.tree.queues[queue].by_usage
        return Runner(
            entry,
            entry.queue,
            queue,
            self.desk.size(entry),
            self.desk.priority(entry),
            entry.started_at or 0.0,
            self.usage(entry) if by_usage else None,
        )

    def usage(self, entry: Entry) -> float:
        """Return what the local queue of a workload has used, faded by time."""
        rules = self.desk.tree.queues[entry.queue]
        if not rules.local:
            return 0.0
        given = dict(self.desk.policy.fairness.usage_weights)
        weights = {
            name: given.get(name, 1.0) * _BASE_UNITS.get(name, 1.0)
            for name in self.desk.books.order.names
        }
        return self.desk.usage.sampled.usage(self.desk.now, rules.name, rules.weight, weights)

    def settle_penalties(self) -> None:
        """Make what workloads were charged beforehand history, once a sample has been taken."""
        desk, sampling_s = self.desk, self.desk.policy.fairness.usage_sampling_s
        if not any(queue.by_usage for queue in desk.tree.queues):
            return
        sample = slot_at(desk.now, sampling_s)
        for name, entry in desk.entries.items():
            if entry.started_at is not None and slot_at(entry.started_at, sampling_s) < sample:
                desk.usage.sampled.settle(desk.now, name)


def _is_counted(resource: str) -> bool:
    return resource != PODS and not resource.startswith(PORT)


def _may_leave(entry: Entry) -> bool:
    """Return whether a running workload could be asked to leave at all."""
    return not entry.is_fixed and any(members.staying() for members in entry.members.values())
