"""What queues have used so far, faded by time: plain values that outlive a restart.

Both histories are told what is used *from now on* and keep, per series, only what changed and
when. Asking or telling the same again changes nothing, so results do not depend on how often the
engine wakes.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp2, expm1, floor, inf, log
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.model.memory import Charges, Memory, Steps
    from mooring.policy.queues.tree import Pair, QueueTree

BUCKETS = 168
"""Parts of a window: hours of a week."""
FORGOTTEN = 64
"""Half-lives after which sampled usage has faded away."""

SeriesKey = tuple[str, str, str]
"""Queue, flavor, resource."""
_Anchor = tuple[float, int, float]
"""An amount, the number of the sample it is from, and the usage in force since."""
_K = TypeVar("_K", bound=tuple[str, ...])


def slot_at(at: float, width: float) -> int:
    """Return the number of the last multiple of a width that is not after an instant."""
    slot = floor(at / width)
    if (slot + 1) * width <= at:
        return slot + 1
    return slot - 1 if slot * width > at else slot


# -- share of the capacity over a window ----------------------------------------------------------


class UsageHistory:
    """Use of every (queue, flavor, resource) against its capacity over a sliding window.

    With a half-life, what lies further back counts for less. A series is a line of steps: since
    when how much. Integrals over them are closed forms, so they are exact. To stay small, several
    steps in one bucket (window / 168, at multiples of that) become one with the same integral:
    nothing is lost until the far end of the window cuts through that bucket, and then no more than
    the unevenness inside it.
    """

    def __init__(self, window_s: float, half_life_s: float | None = None) -> None:
        if not 0 < window_s < inf or (half_life_s is not None and half_life_s <= 0):
            raise ValueError("window and half-life must be positive")
        self.window_s = window_s
        self.half_life_s = half_life_s
        self._used: dict[SeriesKey, Steps] = {}
        self._capacity: dict[Pair, Steps] = {}
        self._changed_at = -inf

    @property
    def settled_at(self) -> float:
        """Return from when on nothing changes any more if what is used now stays in use."""
        return self._changed_at + self.window_s

    def advance(
        self, now: float, usage: Mapping[SeriesKey, float], capacity: Mapping[Pair, float]
    ) -> None:
        """Take in what is used, and what there is, from now on; what is left out is 0."""
        self._advance(self._used, now, usage)
        self._advance(self._capacity, now, capacity)

    def share(self, now: float, queue: str, pair: Pair) -> float:
        """Return the part of the capacity of a pair that a queue has used; 0 if there was none."""
        used = self._used.get((queue, *pair))
        if not used:
            return 0.0
        capacity = self._integral(self._capacity.get(pair, ()), now)
        return self._integral(used, now) / capacity if capacity > 0 else 0.0

    def table(self, now: float, tree: QueueTree) -> list[list[float]]:
        """Return the same for all queues and pairs of a tree."""
        capacity = [self._integral(self._capacity.get(pair, ()), now) for pair in tree.pairs]
        return [
            [
                self._integral(self._used.get((name, *pair), ()), now) / most if most > 0 else 0.0
                for pair, most in zip(tree.pairs, capacity, strict=True)
            ]
            for name in tree.names
        ]

    def dump(self, memory: Memory) -> Memory:
        """Return a memory with this history in it."""
        used = tuple((*key, steps) for key, steps in sorted(self._used.items()))
        capacity = tuple((*key, steps) for key, steps in sorted(self._capacity.items()))
        return replace(memory, usage_steps=used, capacity_steps=capacity)

    def load(self, memory: Memory) -> None:
        """Take the history from a memory; what was known before is forgotten."""
        self._used = {(a, b, c): steps for a, b, c, steps in memory.usage_steps}
        self._capacity = {(a, b): steps for a, b, steps in memory.capacity_steps}
        series = [*self._used.values(), *self._capacity.values()]
        self._changed_at = max((steps[-1][0] for steps in series if steps), default=-inf)

    def copy(self) -> UsageHistory:
        """Return a history that goes its own way from here."""
        return self.retuned(self.window_s, self.half_life_s)

    def retuned(self, window_s: float, half_life_s: float | None) -> UsageHistory:
        """Return the same history under other settings, as far as it is known."""
        twin = UsageHistory(window_s, half_life_s)
        twin._used, twin._capacity = dict(self._used), dict(self._capacity)
        twin._changed_at = self._changed_at
        return twin

    def _advance(self, series: dict[_K, Steps], now: float, amounts: Mapping[_K, float]) -> None:
        gone = [key for key in series if key not in amounts]
        for key in [*amounts, *gone]:
            level, steps = float(amounts.get(key, 0.0)), series.get(key, ())
            if level != (steps[-1][1] if steps else 0.0):
                series[key] = self._step(steps, now, level)
                self._changed_at = now
            elif steps and not level and steps[-1][0] <= now - self.window_s:
                del series[key]  # nothing of it is inside the window

    def _step(self, steps: Steps, now: float, level: float) -> Steps:
        """Return a series with one more step; several at one instant are one."""
        if steps and now <= steps[-1][0]:
            now, steps = steps[-1][0], steps[:-1]
            is_same = level == (steps[-1][1] if steps else None)
            return steps if is_same else (*steps, (now, level))
        steps = self._fold(steps, now)
        first = 0
        while first + 1 < len(steps) and steps[first + 1][0] <= now - self.window_s:
            first += 1
        return (*steps[first:], (now, level))

    def _fold(self, steps: Steps, now: float) -> Steps:
        """Make one step of several in the bucket of the last step, up to now."""
        if len(steps) < 2:
            return steps
        width = self.window_s / BUCKETS
        bucket = slot_at(steps[-1][0], width)
        start, end = bucket * width, min((bucket + 1) * width, now)
        first = len(steps) - 1
        while first and steps[first - 1][0] >= start:
            first -= 1
        if len(steps) - first < 2:
            return steps
        mean = self._area(steps[max(first - 1, 0) :], start, end) / self._weight(start, end, end)
        rest = ((end, steps[-1][1]),) if end < now else ()
        return (*steps[:first], (start, mean), *rest)

    def _integral(self, steps: Steps, now: float) -> float:
        return self._area(steps, now - self.window_s, now)

    def _area(self, steps: Steps, start: float, end: float) -> float:
        """Return the integral of a series between two instants, as seen from the second."""
        area = 0.0
        for i, (since, level) in enumerate(steps):
            a = max(since, start)
            b = min(steps[i + 1][0], end) if i + 1 < len(steps) else end
            if level and a < b:
                area += level * self._weight(a, b, end)
        return area

    def _weight(self, a: float, b: float, now: float) -> float:
        """Return the integral of 1, faded, between two instants."""
        if self.half_life_s is None:
            return b - a
        rate = log(2) / self.half_life_s
        return exp2((b - now) / self.half_life_s) * -expm1(-rate * (b - a)) / rate


# -- sampled usage of `kueue` ---------------------------------------------------------------------


class SampledUsage:
    """Usage of queues that fades, sampled at every multiple of an interval.

    At every sample: consumed = (1 - a) consumed + a · usage, where a = 1 - 0.5^(interval /
    half-life) and usage is what was in force just before. A workload is charged a · request
    beforehand when it is let in, until that is settled. A half-life of 0: no history at all.
    """

    def __init__(self, sampling_s: float, half_life_s: float) -> None:
        if not sampling_s > 0:
            raise ValueError("the sampling interval must be positive")
        self.sampling_s = sampling_s
        self.half_life_s = half_life_s
        self._consumed: dict[str, dict[str, _Anchor]] = {}
        self._penalties: dict[str, dict[str, Charges]] = {}
        """By queue and workload."""

    def advance(self, now: float, usage: Mapping[tuple[str, str], float]) -> None:
        """Take in what is used of each (queue, resource) from now on; what is left out is 0."""
        if self.half_life_s <= 0:
            return
        sample = slot_at(now, self.sampling_s)
        for queue, resource in [(q, r) for q, row in self._consumed.items() for r in row]:
            if not usage.get((queue, resource)):
                self._idle(queue, resource, sample)
        for (queue, resource), amount in usage.items():
            old = self._consumed.get(queue, {}).get(resource, (0.0, sample, 0.0))
            if amount and amount != old[2]:
                self._anchor(queue, resource, sample, float(amount))

    def consumed(self, now: float, queue: str, resource: str) -> float:
        """Return the faded usage of a queue as of the last sample, without penalties."""
        entry = self._consumed.get(queue, {}).get(resource)
        return self._value(entry, slot_at(now, self.sampling_s)) if entry else 0.0

    def enter(self, workload: str, queue: str, requests: Mapping[str, float]) -> None:
        """Charge a workload that is let in; replaces what it was charged before."""
        self.withdraw(workload)
        if self.half_life_s > 0:
            part = -expm1(-log(2) * self.sampling_s / self.half_life_s)
            charges = tuple((name, part * amount) for name, amount in sorted(requests.items()))
            self._penalties.setdefault(queue, {})[workload] = charges

    def entered(self) -> list[str]:
        """Return those who were charged beforehand and are not settled."""
        return [workload for row in self._penalties.values() for workload in row]

    def settle(self, now: float, workload: str) -> None:
        """Make what a workload was charged beforehand part of the history."""
        sample = slot_at(now, self.sampling_s)
        for queue, charges in self.withdraw(workload):
            for resource, amount in charges:
                entry = self._consumed.get(queue, {}).get(resource)
                self._anchor(queue, resource, sample, entry[2] if entry else 0.0, amount)

    def withdraw(self, workload: str) -> list[tuple[str, Charges]]:
        """Take back what a workload was charged beforehand; return (queue, charges), if any."""
        found = [(q, row.pop(workload)) for q, row in self._penalties.items() if workload in row]
        self._penalties = {queue: row for queue, row in self._penalties.items() if row}
        return found

    def usage(
        self,
        now: float,
        queue: str,
        weight: float = 1.0,
        resource_weights: Mapping[str, float] | None = None,
        capacity: Mapping[str, float] | None = None,
    ) -> float:
        """Return what orders queues: least first; infinite without weight.

        Resources are added by their weights (1 where none is given). With `capacity`, each is
        measured by what there is of it, and left out where there is none.
        """
        if weight <= 0:
            return inf
        sums = {name: self.consumed(now, queue, name) for name in self._consumed.get(queue, ())}
        for charges in self._penalties.get(queue, {}).values():
            for name, amount in charges:
                sums[name] = sums.get(name, 0.0) + amount
        total = 0.0
        for name, amount in sorted(sums.items()):
            most = 1.0 if capacity is None else capacity.get(name, 0.0)
            if most > 0:
                total += (resource_weights or {}).get(name, 1.0) * amount / most
        return total / weight

    def retuned(self, now: float, sampling_s: float, half_life_s: float) -> SampledUsage:
        """Return the same history under other settings: what was, stays as it was counted."""
        twin = SampledUsage(sampling_s, half_life_s)
        if half_life_s <= 0:
            return twin
        sample = slot_at(now, sampling_s)
        twin._consumed = {
            queue: {
                name: (self.consumed(now, queue, name), sample, e[2]) for name, e in row.items()
            }
            for queue, row in self._consumed.items()
        }
        twin._penalties = {queue: dict(row) for queue, row in self._penalties.items()}
        return twin

    def dump(self, memory: Memory) -> Memory:
        """Return a memory with this history in it."""
        consumed = sorted(
            (queue, name, anchor[0], anchor[1], anchor[2])
            for queue, row in self._consumed.items()
            for name, anchor in row.items()
        )
        penalties = [
            (queue, workload, charges)
            for queue, row in sorted(self._penalties.items())
            for workload, charges in row.items()
        ]
        return replace(memory, consumed=tuple(consumed), penalties=tuple(penalties))

    def load(self, memory: Memory) -> None:
        """Take the history from a memory; what was known before is forgotten."""
        self._consumed, self._penalties = {}, {}
        if self.half_life_s <= 0:
            return
        for queue, name, amount, sample, usage in memory.consumed:
            self._consumed.setdefault(queue, {})[name] = (amount, sample, usage)
        for queue, workload, charges in memory.penalties:
            self._penalties.setdefault(queue, {})[workload] = charges

    def copy(self) -> SampledUsage:
        """Return a history that goes its own way from here."""
        twin = SampledUsage(self.sampling_s, self.half_life_s)
        twin._consumed = {queue: dict(row) for queue, row in self._consumed.items()}
        twin._penalties = {queue: dict(row) for queue, row in self._penalties.items()}
        return twin

    def _anchor(
        self, queue: str, resource: str, sample: int, usage: float, extra: float = 0.0
    ) -> None:
        """Count anew from a sample on, with another usage or a bit more consumed."""
        row = self._consumed.setdefault(queue, {})
        old = row.get(resource, (0.0, sample, 0.0))
        row[resource] = (self._value(old, sample) + extra, max(sample, old[1]), usage)

    def _idle(self, queue: str, resource: str, sample: int) -> None:
        """Note that a queue uses nothing; forget it once that was so for long enough."""
        _, since, usage = self._consumed[queue][resource]
        if usage:
            self._anchor(queue, resource, sample, 0.0)
        elif self._halvings(sample - since) > FORGOTTEN:
            del self._consumed[queue][resource]
            if not self._consumed[queue]:
                del self._consumed[queue]

    def _value(self, anchor: _Anchor, sample: int) -> float:
        """Return the amount at a sample: all samples since in closed form."""
        amount, since, usage = anchor
        halvings = self._halvings(max(0, sample - since))
        return usage + (amount - usage) * (exp2(-halvings) if halvings <= FORGOTTEN else 0.0)

    def _halvings(self, samples: int) -> float:
        return samples * self.sampling_s / self.half_life_s
