"""Who may be asked to leave for whom, in profile `default`.

    overtaker    it started before its turn, and the turn of the newcomer has come
    quantum      the same, and neither's turn has come, but it has had much already
    headroom     it is on room that was promised to the newcomer's queue
    preempt      same queue, lower priority; or a unit above a minimum, for a minimum
    quota        its queue uses more than its quota, and the newcomer's stays within its own
    fair-share   its queue is beyond its share, and the newcomer's stays within its own
    leximin      its queue is further beyond than the newcomer's was before

And, always: the newcomer stands before it in the line of all who run and the newcomer. That alone
makes endless exchanges impossible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.policy.desk import Desk
from mooring.policy.share import BEYOND, COVERED
from mooring.policy.standing import Class, Item, Key, Line
from mooring.policy.tree import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


NEVER = float("inf")
Legal = tuple["Item", str]
"""Who may be asked to leave, and by which cause."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Those who may be asked to leave, if those in `first` leave anyway."""

    first: tuple[Legal, ...]
    rest: tuple[Legal, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """What the newcomer's side would be: within quota, within share; and its level before."""

    in_quota: bool
    in_share: bool
    level: Class


@dataclass(slots=True)
class Rights:
    """What one newcomer may ask of those who run."""

    desk: Desk
    line: Line
    newcomer: Item
    is_due: bool = False
    """Its turn has come: it may ask overtakers."""
    owed_s: float | None = None
    """How soon its queue was promised the room: it may ask guests who are gone by then."""
    until: float = NEVER
    """When somebody who is protected now no longer is."""
    _own: list[Legal] = field(default_factory=list)
    _others: list[tuple[Item, Key]] = field(default_factory=list)

    def pools(self) -> Iterator[Pool]:
        """Yield pools, those first that ask least of the newcomer's own queue."""
        self._look()
        free = tuple(self._asked(()))
        guests = tuple(legal for legal in self._own if legal[1] in ("overtaker", "headroom"))
        if guests and len(guests) < len(self._own) + len(free):
            yield Pool((), guests)
        yield Pool((), (*self._own, *free))
        known = len(free)
        count = 1
        while self._others and count <= len(self._own):
            first = tuple(self._own[:count])
            more = tuple(self._asked(first))
            if len(more) > known:
                known = len(more)
                yield Pool(first, (*self._own[count:], *more))
            count = max(count + 1, min(2 * count, len(self._own)))

    def bold(self) -> Pool | None:
        """Return those of its own queue of lower priority, wherever they stand, if that is fair.

        A workload may do so once in its life, and only where its queue stays within its share.
        """
        p, measure = self.newcomer, self.line.measure
        some = [item for item in self.line.items() if item.queue == p.queue]
        found = [(i, "preempt") for i in some if self._outranks(i) and self._ran(i, "preempt")]
        used = [self.line.usage[p.queue][pair] + amount for pair, amount in p.size]
        for item, _ in found:
            sizes = dict(item.size)
            used = [u - sizes.get(pair, 0) for u, (pair, _) in zip(used, p.size, strict=True)]
        if not found or not measure.is_within(measure.share[p.queue], p.size, used):
            return None
        return Pool((), tuple(sorted(found, key=lambda each: each[0].rank, reverse=True)))

    def _look(self) -> None:
        """Find everybody behind the newcomer who could have to leave."""
        p = self.newcomer
        self._own, self._others = [], []
        for item, key in self.line.behind(self.line.place(p)):
            if not item.preemptible or item.workload == p.workload:
                continue
            if self.is_due and self._is_in_the_way(item, key) and self._ran(item, "overtaker"):
                self._own.append((item, "overtaker"))
            elif not self.is_due and self._had_its_turn(item) and self._ran(item, "quantum"):
                self._own.append((item, "quantum"))
            elif self._is_lent_to(item) and self._ran(item, "headroom"):
                self._own.append((item, "headroom"))
            elif item.queue == p.queue:
                if self._outranks(item) and self._ran(item, "preempt"):
                    self._own.append((item, "preempt"))
            else:
                self._others.append((item, key))

    def _is_in_the_way(self, item: Item, key: Key) -> bool:
        """Return whether an overtaker may be asked: not for another queue what quota covers."""
        if not item.overtaker or item.queue == self.newcomer.queue:
            return item.overtaker
        _, theirs = self.desk.tree.common(self.newcomer.queue, item.queue)
        return min(key[1][len(self.desk.tree.path[theirs]) - 1 :]) > COVERED

    def _had_its_turn(self, item: Item) -> bool:
        """Return whether an overtaker of its queue has had so much that it may let others by."""
        rule, victim = self.desk.policy.backfill, self.desk.entries[item.workload]
        if not item.overtaker or item.queue != self.newcomer.queue:
            return False
        if victim.workload.checkpoint_at is None or item.since is None:
            return False
        if victim.past.quantum_evictions >= rule.quantum_evictions:
            return False
        newcomer = self.desk.entries[self.newcomer.workload]
        least = max(rule.quantum_s, 2 * newcomer.past.saved_s)
        reached_at = item.since + least - victim.past.saved_s
        if reached_at > self.desk.now:
            self.until = min(self.until, reached_at)
            return False
        return True

    def _is_lent_to(self, item: Item) -> bool:
        """Return whether one is on room promised to the newcomer's queue, and can leave in time."""
        if self.owed_s is None or item.lender == NOBODY:
            return False
        return self.desk.promises.leave_s(self.desk.entries[item.workload]) <= self.owed_s

    def _outranks(self, item: Item) -> bool:
        """Return whether the newcomer may preempt one of its own queue."""
        p, rule = self.newcomer, self.desk.tree.queues[self.newcomer.queue].eviction.within_queue
        if rule == "never" or not item.preemptible:
            return False
        if item.priority < p.priority or (item.unit and item.priority == p.priority):
            return True
        newer = item.rank > p.rank and item.priority == p.priority
        return rule == "lower-or-newer" and newer

    def _asked(self, own: Sequence[Legal]) -> Iterator[Legal]:
        """Yield those of other queues who may be asked, if these of the own queue leave."""
        gone: dict[int, int] = {}
        for item, _ in own:
            for pair, amount in item.size:
                gone[pair] = gone.get(pair, 0) + amount
        sides: dict[int, _Side] = {}
        rule = self.desk.tree.queues[self.newcomer.queue].eviction.reclaim
        for item, key in self._others if rule != "never" else ():
            if rule == "lower-priority" and item.priority >= self.newcomer.priority:
                continue
            mine, theirs = self.desk.tree.common(self.newcomer.queue, item.queue)
            if mine not in sides:
                sides[mine] = self._side(mine, gone)
            classes = key[1][len(self.desk.tree.path[theirs]) - 1 :]
            cause = self._cause(item, classes, sides[mine])
            if cause is not None:
                yield item, cause

    def _cause(self, item: Item, classes: tuple[Class, ...], side: _Side) -> str | None:
        """Return why one of another queue may be asked; classes from the common queue down."""
        if min(classes) <= COVERED:
            return None
        is_beyond = classes[0] >= (BEYOND, 0.0)
        rights = (
            ("quota", side.in_quota),
            ("fair-share", is_beyond and side.in_share),
            ("leximin", is_beyond and side.level < classes[0]),
        )
        return next((cause for cause, has in rights if has and self._ran(item, cause)), None)

    def _side(self, queue: int, gone: dict[int, int]) -> _Side:
        """Return what the newcomer's side may claim at a queue, if so much of it leaves."""
        p, measure = self.newcomer, self.line.measure
        before = [self.line.usage[queue][pair] - gone.get(pair, 0) for pair, _ in p.size]
        after = [used + amount for used, (_, amount) in zip(before, p.size, strict=True)]
        return _Side(
            measure.is_within(measure.quota[queue], p.size, after),
            measure.is_within(measure.share[queue], p.size, after),
            measure.level(queue, p.size, before),
        )

    def _ran(self, item: Item, cause: str) -> bool:
        """Return whether a victim has run as long as it must be let; note when it will have."""
        least = self._minimum_run(item, cause)
        if not least:
            return True
        since = self.desk.now if item.since is None else item.since
        if since + least <= self.desk.now:
            return True
        self.until = min(self.until, since + least)
        return False

    def _minimum_run(self, item: Item, cause: str) -> float:
        desk = self.desk
        entry = desk.entries[item.workload]
        least = dict(desk.policy.eviction.minimum_run_s).get(cause, 0.0)
        if not item.unit:
            least = max(least, entry.workload.minimum_run_s)
        rules = [desk.tree.queues[queue] for queue in desk.tree.path[item.queue]]
        if cause == "preempt":
            own = [rule.preempt_minimum_run_s for rule in rules]
        else:
            own = [rule.reclaim_minimum_run_s for rule in rules]
        said = next((each for each in own if each is not None), None)
        if said is not None and cause in ("preempt", "quota", "fair-share", "leximin"):
            least = max(said, entry.workload.minimum_run_s if not item.unit else 0.0)
        return least
