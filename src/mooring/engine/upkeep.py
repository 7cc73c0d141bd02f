"""What is done for nobody's sake: limits of run time, stopped queues, failures.

run-limit   a workload has run as long as it, or its queue, may; it does not start again
drain       its queue is drained; it waits, in its old place
inactive    it was switched off; it waits until it is switched on
failed      it has failed more often than it may; it does not start again

Who is told so and stays all the same is asked again after a while, and gets nothing more meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from mooring.engine.failures import Failures
from mooring.model.plan import Bind, Notice
from mooring.policy.backfill.calendar import is_used_up, limit_of
from mooring.policy.placing.profile import KUEUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.engine.needs import Needs
    from mooring.model.entry import Entry
    from mooring.model.plan import Decision
    from mooring.policy.desk import Desk


LATER_S = 60.0
"""When to look again at work that should run by now, or have left, and does not."""


class Upkeep:
    """Looks after running work, at one desk."""

    def __init__(self, desk: Desk, needs: Needs) -> None:
        self.desk = desk
        self.failures = Failures(desk, needs)
        self._enforces = True
        """False: limits of time do not count here."""
        self._due: dict[str, float] = {}
        """When running workloads have run as long as they may."""
        self._noticed: dict[str, float] = {}
        """When workloads were told that they must leave."""
        self._look: dict[str, None] = {}
        """Workloads to look at in the next cycle."""
        self._again: dict[str, float] = {}
        """When to ask those again who were to leave and stay."""

    def look_at(self, name: str) -> None:
        """Look at a workload in the next cycle, if need be: it began, failed or was edited."""
        entry = self.desk.entries.get(name)
        if name in self._due or (entry is not None and self._may_have_to_leave(entry)):
            self._look[name] = None

    def _may_have_to_leave(self, entry: Entry) -> bool:
        """Return whether there is anything to look after."""
        return self.limit_of(entry) is not None or bool(self.must_leave(entry))

    def must_leave(self, entry: Entry) -> str:
        """Return for what cause a workload may not stay, for nobody's sake; empty: it may."""
        desk = self.desk
        restarts = desk.policy.failure.restarts
        if restarts is not None and entry.past.failures > restarts:
            return "failed"
        if self._enforces and is_used_up(desk, entry):
            return "run-limit"
        if not entry.workload.active:
            return "inactive"
        stops = [desk.tree.queues[queue].stop for queue in desk.tree.path[entry.queue]]
        return "drain" if "drain" in stops else ""

    def stays(self, entry: Entry) -> None:
        """Note that tasks stay that were to leave; asked at once, they would say the same."""
        if self.must_leave(entry):
            self._again[entry.workload.name] = self.desk.now + LATER_S

    def look_at_all(self) -> None:
        """Look at everything: queues or policy have changed."""
        self._look.update(dict.fromkeys(self.desk.entries))

    def forget(self, name: str) -> None:
        """Forget a workload that has ended."""
        for known in (self._due, self._noticed, self._look, self._again):
            known.pop(name, None)
        self.failures.forget(name)

    def rest(self) -> None:
        """Let limits of time not count any more."""
        self._enforces = False
        for known in (self._due, self._noticed, self._look, self._again):
            known.clear()

    @property
    def stirs(self) -> bool:
        """Return whether something may have to be done now."""
        if self._look or self.failures.stirs:
            return True
        if not self._due and not self._again:
            return False
        notice = self.desk.policy.eviction.notice_s
        soon = min(self._due.values(), default=inf) - notice
        return min([soon, *self._again.values()]) <= self.desk.now

    def run(self) -> float | None:
        """Do what is due; return when to look again."""
        desk = self.desk
        if not (self._look or self._again or self._due or desk.failures):
            return None
        for name in dict.fromkeys((*self._look, *self._again)):
            entry = desk.entries.get(name)
            if entry is not None:
                self._look_at(entry)
        self._look.clear()
        notice = desk.policy.eviction.notice_s
        wakes = list(self._again.values())
        for name, due in list(self._due.items()):
            entry = desk.entries[name]
            if not entry.is_placed:
                self._due.pop(name)
            elif entry.running_since is None:
                self._due[name] = max(due, desk.now + LATER_S)
                wakes.append(self._due[name])
            elif due <= desk.now:
                entry.past = replace(entry.past, used_up_s=self.limit_of(entry))
                self._look_at(entry)
            elif due - notice <= desk.now:
                if self._noticed.get(name) != due:
                    self._noticed[name] = due
                    desk.decisions.append(Notice(name, "run-limit", due))
                wakes.append(due)
            else:
                wakes.append(due - notice)
        forgiven = self.failures.avoid() if desk.failures else None
        return min(wakes if forgiven is None else [*wakes, forgiven], default=None)

    def _look_at(self, entry: Entry) -> None:
        name, cause = entry.workload.name, self.must_leave(entry)
        if cause and entry.is_placed and self._again.get(name, -inf) > self.desk.now:
            return
        self._again.pop(name, None)
        if cause and entry.is_placed:
            self.desk.evict_all(entry, cause)
            self._due.pop(name, None)
        elif entry.is_placed:
            self._mind_limit(entry)

    def expect(self, decisions: list[Decision]) -> list[float]:
        """Expect that what is bound runs at once; return when to look at its limits."""
        wakes: list[float] = []
        self.failures.bound(decisions)
        for decision in decisions:
            name = decision.workload
            entry = self.desk.entries.get(name) if isinstance(decision, Bind) else None
            limit = self.limit_of(entry) if entry is not None else None
            if entry is None or limit is None:
                continue
            if entry.running_since is not None and name in self._due:
                continue
            since = self.desk.now if entry.running_since is None else entry.running_since
            self._due[name] = max(self.desk.now, since + limit - self._used_s(entry))
            wakes.append(max(self.desk.now, self._due[name] - self.desk.policy.eviction.notice_s))
        return wakes

    def _mind_limit(self, entry: Entry) -> None:
        limit, name = self.limit_of(entry), entry.workload.name
        self._due.pop(name, None)
        if limit is not None and entry.running_since is not None:
            self._due[name] = entry.running_since + limit - self._used_s(entry)

    def _used_s(self, entry: Entry) -> float:
        """Return what earlier runs count: what they saved; under kueue, as long as they were."""
        past, profile = entry.past, self.desk.policy.profile
        return past.attained_s if profile == KUEUE else past.saved_s

    def limit_of(self, entry: Entry) -> float | None:
        """Return how long a workload may run in all: its own limit, or that of a queue above."""
        return limit_of(self.desk, entry) if self._enforces else None

    # -- failures ---------------------------------------------------------------------------

    def failed(self, entry: Entry, group: str, tasks: Sequence[int], at: float) -> None:
        """Note that tasks failed; whoever fails too often is not started again, or not there."""
        self.failures.note(entry, group, tasks, at)
        self.look_at(entry.workload.name)

    def copy(self, desk: Desk, needs: Needs) -> Upkeep:
        """Return the upkeep of a fork."""
        new = Upkeep(desk, needs)
        new.failures = self.failures.copy(desk, needs)
        new._enforces = self._enforces
        new._due, new._noticed, new._look = dict(self._due), dict(self._noticed), dict(self._look)
        new._again = dict(self._again)
        return new
