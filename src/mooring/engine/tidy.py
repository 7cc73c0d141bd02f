"""When running work is moved without being asked: if it pays, and inside a budget."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from mooring.model.settings import DAY
from mooring.policy.defragment import Bounds, Planner

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.memory import Memory
    from mooring.policy.defragment import Draft, Expected, Waiting
    from mooring.policy.desk import Desk

LOOK_S = 300.0
"""How long after a look the next one is, however much happens."""


class Tidy:
    """Looks for moves at one desk, now and then."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.is_on = True
        self._spent: list[tuple[float, float]] = []
        """When so many GPU-hours were lost."""
        self._seen = -1
        """The version of the desk at the last look."""
        self._next = -inf
        self._until = inf
        """When to look again even if nothing happens."""
        self._is_called = False
        """Whether the next look has its time."""

    def load(self, memory: Memory) -> None:
        """Take in what was lost lately."""
        self._spent = list(memory.defragmented)

    def dump(self) -> tuple[tuple[float, float], ...]:
        """Return what was lost lately."""
        return tuple(self._spent)

    @property
    def _is_wanted(self) -> bool:
        policy = self.desk.policy
        return self.is_on and policy.defragmentation.automatic and policy.profile == "default"

    @property
    def stirs(self) -> bool:
        """Return whether it is time for a look, or for saying when."""
        if not self._is_wanted:
            return False
        if self._until <= self.desk.now:
            return True
        changed = self._seen != self.desk.version
        return changed and (not self._is_called or self._next <= self.desk.now)

    @property
    def left(self) -> float:
        """Return what is left of the budget."""
        now = self.desk.now
        self._spent = [(at, lost) for at, lost in self._spent if at > now - DAY]
        return self.desk.policy.defragmentation.budget - sum(lost for _, lost in self._spent)

    def look(self, waiting: Waiting, expected: Expected) -> tuple[list[Entry], float | None]:
        """Move what pays; return who starts by that, and when to look again."""
        desk = self.desk
        if not self._is_wanted or desk.holds:
            return [], None  # one thing at a time: holds come to an end
        changed = self._seen != desk.version
        if not changed and desk.now < self._until:
            return [], None if self._until == inf else self._until
        if desk.now < self._next:
            self._is_called = True
            return [], self._next
        rules = desk.policy.defragmentation
        planner = Planner(desk, expected, Bounds(rules.moves, rules.ratio, self.left))
        anybody = next(iter(waiting), None) is not None
        draft = planner.run(waiting) if anybody or rules.ratio <= 0 else None
        started = self._carry_out(draft) if draft is not None else []
        self._seen, self._is_called = desk.version, False
        self._next = desk.now + LOOK_S
        self._until = planner.until
        if planner.is_poor and self._spent:
            self._until = min(self._until, self._spent[0][0] + DAY)
        return started, None if self._until == inf else self._until

    def _carry_out(self, draft: Draft) -> list[Entry]:
        self._spent.append((self.desk.now, draft.cost))
        return draft.carry_out()

    def copy(self, desk: Desk) -> Tidy:
        """Return the same for a fork."""
        new = Tidy(desk)
        new.is_on, new._spent = self.is_on, list(self._spent)
        new._seen, new._next, new._until = self._seen, self._next, self._until
        new._is_called = self._is_called
        return new
