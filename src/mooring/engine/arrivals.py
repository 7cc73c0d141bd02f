"""What arrives teaches the mix of shapes that placement expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.memory import Memory
    from mooring.model.settings import Policy
    from mooring.model.workload import Shape
    from mooring.policy.placing.mix import Mix


class Arrivals:
    """The mix of one engine, and what it has not been taught yet."""

    def __init__(self, mix: Mix) -> None:
        self.mix = mix
        self._new: list[tuple[Shape, int]] = []
        """Shapes and how many of each came since the mix was last taught."""

    def note(self, entry: Entry) -> None:
        """Note that a workload came."""
        for members in entry.members.values():
            self._new.append((members.group.shape, len(members.states)))

    def learn(self, now: float, policy: Policy) -> None:
        """Teach the mix what has arrived; older arrivals count for less by now."""
        if self._new:
            self.mix.fade(now, policy.mix_half_life_s)
            for shape, count in self._new:
                self.mix.arrive(shape, count)
            self._new.clear()

    def dump(self) -> Memory:
        """Return a memory with the mix in it."""
        mix = self.mix.copy()
        for shape, count in self._new:
            mix.arrive(shape, count)
        return mix.dump()

    def copy(self) -> Arrivals:
        """Return the arrivals of a fork."""
        new = Arrivals(self.mix.copy())
        new._new = self._new.copy()
        return new
