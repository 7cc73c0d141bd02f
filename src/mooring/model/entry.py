"""What the books hold of one workload: which of its tasks are where, and in which state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.model.workload import HOLDING, LEGAL, PodGroup, TaskState, Workload
from mooring.model.demand import Demand

if TYPE_CHECKING:
    from collections.abc import Iterable


NOWHERE = -1


@dataclass(slots=True)
class Members:
    """The tasks of one leaf group."""

    group: PodGroup
    demand: Demand
    states: bytearray
    rows: list[int]
    devices: list[int]

    @classmethod
    def of(cls, group: PodGroup, demand: Demand) -> Members:
        """Return all tasks of a group, pending."""
        most = group.most
        return cls(group, demand, bytearray(most), [NOWHERE] * most, [0] * most)

    def resize(self, group: PodGroup) -> None:
        """Take another size; tasks beyond it that have a place stay until they are evicted."""
        more = group.most - len(self.states)
        if more > 0:
            self.states.extend(bytes(more))
            self.rows.extend([NOWHERE] * more)
            self.devices.extend([0] * more)
        self.group = group

    def move(self, task: int, state: TaskState) -> None:
        """Change the state of a task."""
        self.states[task] = state

    def holding(self) -> list[int]:
        """Return the tasks that have a place."""
        return [task for task, state in enumerate(self.states) if state in HOLDING]

    def staying(self) -> list[int]:
        """Return the tasks that have a place and are not on their way out."""
        return [t for t, s in enumerate(self.states) if TaskState.ASSUMED <= s <= TaskState.RUNNING]

    def pending(self) -> list[int]:
        """Return the tasks that wait."""
        return [task for task in range(self.group.most) if not self.states[task]]

    @property
    def is_releasing(self) -> bool:
        """Return whether some of its tasks are on their way out."""
        return TaskState.RELEASING in self.states

    @property
    def missing(self) -> int:
        """Return how many tasks of the minimum neither have a place nor are finished."""
        there = sum(1 for s in self.states if s and s != TaskState.RELEASING)
        return max(0, self.group.min - there)


@dataclass(slots=True)
class Entry:
    """One workload in the engine."""

    workload: Workload
    sequence: int
    queue: int
    members: dict[str, Members] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    """Nodes that refused one of its tasks."""
    charged_only: bool = False
    """It runs, but nobody said where."""
    started_at: float | None = None

    @property
    def is_placed(self) -> bool:
        """Return whether any of its tasks has a place."""
        return any(row != NOWHERE for members in self.members.values() for row in members.rows)

    def copy(self) -> Entry:
        """Return an entry that changes on its own from here."""
        members = {
            name: Members(m.group, m.demand, bytearray(m.states), list(m.rows), list(m.devices))
            for name, m in self.members.items()
        }
        return Entry(
            self.workload,
            self.sequence,
            self.queue,
            members,
            self.avoid,
            self.charged_only,
            self.started_at,
        )


def illegal(members: Members, tasks: Iterable[int], state: TaskState) -> str:
    """Return what is wrong with moving these tasks to a state; empty: nothing."""
    for task in tasks:
        if not 0 <= task < len(members.states):
            return f"task {task} of group {members.group.name} does not exist"
        now = TaskState(members.states[task])
        if state not in LEGAL[now]:
            return f"task {task} is {now.name.lower()} and cannot become {state.name.lower()}"
    return ""
