"""What the books hold of one workload: which of its tasks are where, and in which state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE, account_of
from mooring.model.demand import Demand
from mooring.model.memory import NO_PAST, Past
from mooring.model.workload import PodGroup, TaskState, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOWHERE = -1
_PENDING, _ASSUMED = int(TaskState.PENDING), int(TaskState.ASSUMED)
_BOUND, _RUNNING = int(TaskState.BOUND), int(TaskState.RUNNING)


@dataclass(slots=True)
class Members:
    """The tasks of one leaf group."""

    group: PodGroup
    demand: Demand
    states: bytearray
    rows: list[int]
    devices: list[int]
    flavor: int = BY_NODE
    """Code of the flavor that its tasks are charged to."""
    whole: PodGroup | None = None
    """The group as it was asked for, while it runs with less than its minimum."""

    @classmethod
    def of(cls, group: PodGroup, demand: Demand) -> Members:
        """Return all tasks of a group, pending."""
        most = group.max if group.max > group.min else group.min
        return cls(group, demand, bytearray(most), [NOWHERE] * most, [0] * most)

    def resize(self, group: PodGroup) -> None:
        """Take another size; tasks beyond it that have a place stay until they are evicted."""
        self.make_room(group.most)
        if self.whole is not None and self.group.min < group.min:
            self.whole = group
        else:
            self.whole, self.group = None, group

    def reduce(self, tasks: int) -> None:
        """Be complete with so few tasks, until it leaves."""
        if tasks < self.group.min:
            self.whole = self.whole or self.group
            self.group = replace(self.group, min=tasks, max=tasks)

    def restore(self) -> None:
        """Ask for the whole group again."""
        if self.whole is not None:
            self.group, self.whole = self.whole, None

    def make_room(self, tasks: int) -> None:
        """Know of at least so many tasks; after edits the last ones may be those that run."""
        more = tasks - len(self.states)
        if more > 0:
            self.states.extend(bytes(more))
            self.rows.extend([NOWHERE] * more)
            self.devices.extend([0] * more)

    def holding(self) -> list[int]:
        """Return the tasks that have a place."""
        return [task for task, row in enumerate(self.rows) if row != NOWHERE]

    @property
    def is_holding(self) -> bool:
        """Return whether one of its tasks has a place."""
        rows = self.rows
        return rows.count(NOWHERE) < len(rows)

    def staying(self) -> list[int]:
        """Return the tasks that have a place and are not on their way out."""
        return [t for t, s in enumerate(self.states) if TaskState.ASSUMED <= s <= TaskState.RUNNING]

    @property
    def staying_count(self) -> int:
        """Return how many that is."""
        count = self.states.count
        return count(_ASSUMED) + count(_BOUND) + count(_RUNNING)

    def pending(self) -> list[int]:
        """Return the tasks that wait."""
        return [task for task, state in enumerate(self.states) if not state]

    @property
    def begun(self) -> int:
        """Return how many tasks have, or had, a place: all but those that wait."""
        return len(self.states) - self.states.count(_PENDING)

    @property
    def is_placed(self) -> bool:
        """Return whether any of its tasks has a place."""
        return self.begun > self.states.count(TaskState.FINISHED)

    @property
    def is_releasing(self) -> bool:
        """Return whether some of its tasks are on their way out."""
        return TaskState.RELEASING in self.states

    @property
    def missing(self) -> int:
        """Return how many tasks of the minimum neither have a place nor are finished."""
        return max(0, self.group.min - self.begun + self.states.count(TaskState.RELEASING))

    @property
    def spare(self) -> int:
        """Return how many more tasks it may have."""
        return self.group.most - self.begun


@dataclass(slots=True)
class Entry:
    """One workload in the engine."""

    workload: Workload
    sequence: int
    queue: int
    members: dict[str, Members] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    """Nodes that refused one of its tasks."""
    failing: tuple[str, ...] = ()
    """Nodes where it kept failing, lately, and nowhere else."""
    charged_only: bool = False
    """It runs, but nobody said where."""
    started_at: float | None = None
    start_number: int = 0
    """Which start of all it was: nobody started at the same time."""
    running_since: float | None = None
    """Since when all of its minimum runs."""
    past: Past = NO_PAST

    @property
    def avoid(self) -> tuple[str, ...]:
        """Return the nodes that it keeps away from."""
        return (*self.refused, *self.failing)

    @property
    def account(self) -> int:
        """Return the account that its tasks are charged to."""
        workload = self.workload
        return account_of(self.queue, fixed=not workload.preemptible or workload.semi_preemptible)

    @property
    def is_fixed(self) -> bool:
        """Return whether its minimum cannot be made to leave for another's sake."""
        return not self.workload.preemptible or self.workload.semi_preemptible

    @property
    def is_elastic(self) -> bool:
        """Return whether it may have more tasks than its minimum."""
        return any(m.group.max > m.group.min for m in self.members.values())

    @property
    def is_placed(self) -> bool:
        """Return whether any of its tasks has a place."""
        return any(members.is_placed for members in self.members.values())

    @property
    def runs(self) -> bool:
        """Return whether all of its minimum runs, or has finished."""
        return self._has_enough(
            lambda members: (
                members.states.count(TaskState.RUNNING) + members.states.count(TaskState.FINISHED)
                >= members.group.min
            )
        )

    @property
    def has_begun(self) -> bool:
        """Return whether any of its tasks has, or had, a place."""
        return self.charged_only or any(members.begun for members in self.members.values())

    @property
    def is_incomplete(self) -> bool:
        """Return whether tasks of a minimum are missing."""
        return not self._has_enough(lambda members: not members.missing)

    def is_whole_with(self, tasks: Mapping[str, int]) -> bool:
        """Return whether so many tasks of each group are its minimum, or as few as may be."""
        return self._has_enough(
            lambda members: (
                tasks.get(members.group.name, 0) >= (members.group.partial or members.group.min)
            )
        )

    def _has_enough(self, is_enough: Callable[[Members], bool]) -> bool:
        """Return whether all groups are as they should, or as many as are needed."""
        members = self.members
        if all(is_enough(each) for each in members.values()):
            return True

        def holds(group: PodGroup) -> bool:
            if not group.groups:
                return is_enough(members[group.name])
            needed = group.needed or len(group.groups)
            return sum(holds(child) for child in group.groups) >= needed

        return all(holds(group) for group in self.workload.groups)

    def copy(self) -> Entry:
        """Return an entry that changes on its own from here."""
        members = {
            name: replace(m, states=bytearray(m.states), rows=m.rows[:], devices=m.devices[:])
            for name, m in self.members.items()
        }
        return replace(self, members=members)
