"""Tasks that fail: how often a workload has crashed, and which nodes are better avoided.

A crash counts once, however many events tell of it: tasks that have not been started again since
the last failure, and fail soon after it, belong to it.

A node is avoided only on evidence against it, and a workload that failed on several nodes lately
is evidence against itself. Of the others:

- one that failed so often on a node as the policy says keeps off that node;
- a node on which two or more of them failed so often together is avoided by everybody, but never
  more than half of the nodes of one kind: so many are not bad at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from mooring.model.plan import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.engine.needs import Needs
    from mooring.model.entry import Entry
    from mooring.model.plan import Decision
    from mooring.policy.desk import Desk

CRASH_S = 60.0
"""How long a crash takes until all of its tasks are told to have failed."""

Failed = tuple[float, str]
"""When a workload failed."""


@dataclass(slots=True)
class Crash:
    """The last crash of a workload."""

    at: float
    nodes: dict[str, None] = field(default_factory=dict)
    again: dict[tuple[str, int], None] = field(default_factory=dict)
    """Tasks that were started since then."""


class Failures:
    """Counts crashes at one desk."""

    def __init__(self, desk: Desk, needs: Needs) -> None:
        self.desk = desk
        self.needs = needs
        self._crashes: dict[str, Crash] = {}
        self._next = -inf
        """When to look again which nodes are avoided."""

    def note(self, entry: Entry, group: str, tasks: Sequence[int], at: float) -> None:
        """Note that tasks failed, where they are."""
        desk, name, members = self.desk, entry.workload.name, entry.members[group]
        crash = self._crashes.get(name)
        if crash is None or not self._belongs(crash, group, tasks, at):
            crash = self._crashes[name] = Crash(at)
            entry.past = replace(entry.past, failures=entry.past.failures + 1)
        rows = [members.rows[task] for task in tasks]
        for node in dict.fromkeys(desk.books.nodes[row].name for row in rows if row >= 0):
            if node not in crash.nodes:
                crash.nodes[node] = None
                desk.failures.setdefault(node, []).append((at, name))
        self._next = -inf

    def _belongs(self, crash: Crash, group: str, tasks: Sequence[int], at: float) -> bool:
        """Return whether a failure of tasks is a part of a crash that is known."""
        if not crash.again:
            return True
        return at <= crash.at + CRASH_S and not any((group, task) in crash.again for task in tasks)

    def bound(self, decisions: Iterable[Decision]) -> None:
        """Note what is started again."""
        for each in decisions if self._crashes else ():
            crash = self._crashes.get(each.workload) if isinstance(each, Bind) else None
            if crash is not None and isinstance(each, Bind):
                group = each.placement.group
                crash.again.update(dict.fromkeys((group, task) for task in each.placement.tasks))

    def forget(self, name: str) -> None:
        """Forget the crashes of a workload that has ended; what they say of nodes stays."""
        self._crashes.pop(name, None)

    @property
    def stirs(self) -> bool:
        """Return whether other nodes may have to be avoided now."""
        return bool(self.desk.failures) and self._next <= self.desk.now

    def avoid(self) -> float | None:
        """Let nodes be avoided on which work keeps failing; return when that may change."""
        desk, rule = self.desk, self.desk.policy.failure
        since = desk.now - rule.node_window_s
        recent = {n: [one for one in some if one[0] > since] for n, some in desk.failures.items()}
        desk.failures = {node: some for node, some in recent.items() if some}
        against = evidence(desk.failures)
        often = {node: some for node, some in against.items() if len(some) >= rule.node_failures}
        self._keep_off(often, rule.node_failures)
        shunned = self._at_most_half([n for n, some in often.items() if len(_who(some)) > 1], often)
        desk.shun(shunned, tuple(often))
        could = any(len(some) >= rule.node_failures for some in desk.failures.values())
        ends = [at + rule.node_window_s for some in desk.failures.values() for at, _ in some]
        self._next = min(ends) if could else inf
        return None if self._next == inf else self._next

    def _keep_off(self, often: dict[str, list[Failed]], times: int) -> None:
        """Let workloads keep off the nodes where they alone failed often enough."""
        off = {
            name: (node,)
            for node, some in often.items()
            for name in _who(some)
            if sum(who == name for _, who in some) >= times
        }
        for name, entry in self.desk.entries.items():
            if entry.failing != off.get(name, ()):
                self.needs.keep_off(entry, off.get(name, ()))

    def _at_most_half(self, nodes: list[str], often: dict[str, list[Failed]]) -> tuple[str, ...]:
        """Return the worst of some nodes: at most half of those of each kind that are there."""
        books, left, found = self.desk.books, dict[int, int](), []
        for node in sorted(nodes, key=lambda n: (-len(_who(often[n])), -len(often[n]), n)):
            row = books.row_of.get(node)
            if row is None:
                continue
            kind = books.kind_of[row]
            there = int((books.present & (books.kind == kind)).sum())
            left.setdefault(kind, there // 2)
            if left[kind]:
                left[kind] -= 1
                found.append(node)
        return tuple(found)

    def copy(self, desk: Desk, needs: Needs) -> Failures:
        """Return the same for a fork."""
        new = Failures(desk, needs)
        new._next = self._next
        new._crashes = {
            name: Crash(crash.at, dict(crash.nodes), dict(crash.again))
            for name, crash in self._crashes.items()
        }
        return new


def evidence(failures: dict[str, list[Failed]]) -> dict[str, list[Failed]]:
    """Return the failures of those who failed on one node only, by node."""
    on: dict[str, dict[str, None]] = {}
    for node, some in failures.items():
        for _, name in some:
            on.setdefault(name, {})[node] = None
    alone = {node: [one for one in some if len(on[one[1]]) == 1] for node, some in failures.items()}
    return {node: some for node, some in alone.items() if some}


def _who(some: list[Failed]) -> dict[str, None]:
    """Return who failed."""
    return dict.fromkeys(name for _, name in some)
