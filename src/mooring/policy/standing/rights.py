"""Who may be asked to leave for whom, in profile `default`.

    overtaker    it started before its turn, and the turn of the newcomer has come
    quantum      the same, and neither's turn has come, but it has had much already
    headroom     it is on room that was promised to the newcomer's queue
    preempt      same queue, lower priority; or a unit above a minimum, for a minimum;
                 for a unit only units of lower priority
    quota        its queue uses more than its quota, and the newcomer's stays within its own
    fair-share   its queue is beyond its share, and the newcomer's stays within its own
    leximin      its queue is further beyond than the newcomer's was before

And, always: the newcomer stands before it in the line of all who run and the newcomer. That alone
makes endless exchanges impossible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mooring.policy.desk import Desk
from mooring.policy.queues.share import COVERED
from mooring.policy.queues.tree import NOBODY
from mooring.policy.standing.case import After, Case
from mooring.policy.standing.line import Item, Key, Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.policy.standing.case import Side


NEVER = float("inf")
GUESTS = ("overtaker", "headroom")
Legal = tuple["Item", str]
"""Who may be asked to leave, and by which cause."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Those who may be asked to leave, if those in `first` leave anyway."""

    first: tuple[Legal, ...]
    rest: tuple[Legal, ...]


class Seen(NamedTuple):
    """What comes of a look at all who are behind a newcomer: bold or not, it is the same."""

    behind: list[tuple[Item, Key]]
    own: list[Legal]
    others: list[tuple[Item, Key]]
    until: float


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
    is_early: bool = False
    """Its turn has not come: it asks nobody of another queue by right."""
    until: float = NEVER
    """When somebody who is protected now no longer is."""
    is_bold: bool = False
    """It asks those of its own queue wherever they stand, and its queue must stay in its share."""
    at: float | None = None
    """It asks then; left out: now."""
    ends: dict[float, None] = field(default_factory=dict)
    """When those are protected no longer who are protected now."""
    seen: Seen | None = None
    """What another has seen who asks at the same time for the same newcomer; None: nothing yet."""
    _asked_first: list[Legal] | None = None
    _rules: dict[tuple[int, str], tuple[float, float | None]] = field(default_factory=dict)
    """What is known of minimum run times, by queue and cause."""
    _own: list[Legal] = field(default_factory=list)
    _others: list[tuple[Item, Key]] = field(default_factory=list)

    def look(self, *, is_bold: bool = False) -> None:
        """Find everybody who could have to leave: whoever is behind the newcomer.

        A bold newcomer also asks those of its own queue who stand before it. A workload may do so
        once in its life, and only where its queue stays within its share.
        """
        self.is_bold, self._asked_first = is_bold, None
        if self.seen is None:
            self.seen = self._look_behind()
        seen = self.seen
        self.until = min(self.until, seen.until)
        self._own, self._others = list(seen.own), seen.others
        if is_bold:
            names = {item.name for item, _ in seen.behind}
            some = [item for item in self.line.items() if item.queue == self.newcomer.queue]
            before = [item for item in some if item.name not in names]
            before.sort(key=lambda item: item.rank, reverse=True)
            self._own = [*self._preempted(before), *seen.own]

    def _look_behind(self) -> Seen:
        """Find everybody behind the newcomer who could have to leave, however bold that is."""
        behind = list(self.line.behind(self.line.place(self.newcomer)))
        self._own, self._others = [], []
        for item, key in behind:
            self._look_at(item, key)
        return Seen(behind, self._own, self._others, self.until)

    def _look_at(self, item: Item, key: Key) -> None:
        p = self.newcomer
        if not item.preemptible or item.workload == p.workload:
            return
        if self.is_due and self._is_in_the_way(item, key) and self._ran(item, "overtaker"):
            self._own.append((item, "overtaker"))
        elif self._may_be_let_by(item) and self._ran(item, "quantum"):
            self._own.append((item, "quantum"))
        elif self._is_lent_to(item) and self._ran(item, "headroom"):
            self._own.append((item, "headroom"))
        elif item.queue == p.queue:
            self._own += self._preempted([item])
        elif not self.is_early:
            self._others.append((item, key))

    def _preempted(self, some: Sequence[Item]) -> list[Legal]:
        """Return those of its own queue whom the newcomer may preempt."""
        return [(i, "preempt") for i in some if self._outranks(i) and self._ran(i, "preempt")]

    def light(self) -> list[Legal]:
        """Return those whom it costs little to ask: guests, and units above a minimum."""
        found = [*self._own, *self._asked_at_once()]
        return self._whole([each for each in found if each[0].unit or each[1] in GUESTS])

    def everyone(self) -> list[Legal]:
        """Return all who may be asked to leave if all of them leave."""
        found = list(self._own)
        while True:
            more = [*self._own, *self._asked(found)]
            if len(more) == len(found):
                return self._whole(more)
            found = more

    def pools(self) -> Iterator[Pool]:
        """Yield pools, those first that ask least of the newcomer's own queue."""
        known = -1
        count = 0
        while count <= len(self._own):
            first = self._whole(self._own[:count])
            more = list(self._asked(first)) if first else self._asked_at_once()
            if len(more) > known:
                known = len(more)
                names = {item.name for item, _ in first}
                rest = self._whole([*self._own, *more])
                yield Pool(tuple(first), tuple(e for e in rest if e[0].name not in names))
            count = max(count + 1, min(2 * count, len(self._own)))

    def causes(self, items: Sequence[Item]) -> list[str] | None:
        """Return why each of exactly these may be asked to leave; None: one of them may not."""
        own = {item.name: cause for item, cause in self._own}
        gone = [(item, own.get(item.name, "")) for item in items]
        others = {item.name: item for item, cause in gone if not cause}
        keyed = [(item, key) for item, key in self._others if item.name in others]
        asked = {item.name: cause for item, cause in self._asked(gone, keyed)}
        found = [cause or asked.get(item.name, "") for item, cause in gone]
        return found if all(found) else None

    def most(self) -> dict[int, int]:
        """Return what the newcomer's queue may use at most: its share, if the newcomer is bold."""
        p, share = self.newcomer, self.line.measure.share
        return {pair: share[p.queue][pair] for pair, _ in p.size} if self.is_bold else {}

    def _whole(self, legal: Sequence[Legal]) -> list[Legal]:
        """Return those who can leave: a minimum only with all units above it."""
        names = {item.name for item, _ in legal}
        return [
            (item, cause)
            for item, cause in legal
            if item.unit or all(unit.name in names for unit in self.line.units(item.workload))
        ]

    def _is_in_the_way(self, item: Item, key: Key) -> bool:
        """Return whether an overtaker may be asked: not for another queue what quota covers."""
        if not item.overtaker or item.queue == self.newcomer.queue:
            return item.overtaker
        _, theirs = self.desk.tree.common(self.newcomer.queue, item.queue)
        return min(key[1][len(self.desk.tree.path[theirs]) - 1 :]) > COVERED

    def _may_be_let_by(self, item: Item) -> bool:
        """Return whether it may ask for a turn: a minimum whose own has not come."""
        return not self.is_due and not self.newcomer.unit and self._had_its_turn(item)

    def _had_its_turn(self, item: Item) -> bool:
        """Return whether an overtaker of its queue has had so much that it may let others by."""
        if not item.overtaker or item.queue != self.newcomer.queue:
            return False
        rule, victim = self.desk.policy.backfill, self.desk.entries[item.workload]
        if not victim.workload.checkpoints or item.since is None:
            return False
        if victim.past.quantum_evictions >= rule.quantum_evictions:
            return False
        newcomer = self.desk.entries[self.newcomer.workload]
        least = max(rule.quantum_s, 2 * newcomer.past.saved_s)
        reached_at = item.since + least - victim.past.saved_s
        return self._has_come(reached_at)

    def _is_lent_to(self, item: Item) -> bool:
        """Return whether one is on room promised to the newcomer's queue, and can leave in time."""
        if self.owed_s is None or item.lender == NOBODY:
            return False
        return self.desk.promises.leave_s(self.desk.entries[item.workload]) <= self.owed_s

    def _outranks(self, item: Item) -> bool:
        """Return whether the newcomer may preempt one of its own queue."""
        p, rule = self.newcomer, self.desk.tree.eviction[self.newcomer.queue].within_queue
        if rule == "never" or not item.preemptible:
            return False
        if p.unit:  # minima of its queue are served before it, so it takes none of them
            return bool(item.unit) and item.priority < p.priority
        if item.priority < p.priority or (item.unit and item.priority == p.priority):
            return True
        newer = item.rank > p.rank and item.priority == p.priority
        return rule == "lower-or-newer" and newer

    def _asked_at_once(self) -> list[Legal]:
        """Return those of other queues who may be asked though nobody else leaves."""
        if self._asked_first is None:
            self._asked_first = list(self._asked(()))
        return self._asked_first

    def _asked(
        self, gone: Sequence[Legal], some: Sequence[tuple[Item, Key]] | None = None
    ) -> Iterator[Legal]:
        """Yield those of other queues (or only some) who may be asked, if these leave anyway.

        Nobody has a claim who asks for nothing that is counted.
        """
        if not self.newcomer.size:
            return
        after = After(self.line, self.newcomer, [item for item, _ in gone])
        tree, p = self.desk.tree, self.newcomer
        rule = tree.eviction[p.queue].reclaim
        some = self._others if some is None else some
        ways: dict[int, tuple[Side, int]] = {}
        for item, key in some if rule != "never" else ():
            if rule == "lower-priority" and item.priority >= p.priority:
                continue
            way = ways.get(item.queue)
            if way is None:
                mine, theirs = tree.common(p.queue, item.queue)
                way = ways[item.queue] = after.side(mine), len(tree.path[theirs]) - 1
            side, level = way
            for cause in Case.claims(side, key[1][level:]):
                if self._ran(item, cause):
                    yield item, cause
                    break

    def _ran(self, item: Item, cause: str) -> bool:
        """Return whether a victim has run as long as it must be let; note when it will have."""
        least = self._minimum_run(item, cause)
        if not least:
            return True
        ends_at = NEVER if item.since is None else item.since + least  # it is told when it runs
        return self._has_come(ends_at)

    def _has_come(self, time: float) -> bool:
        """Return whether a time has come; note it if not."""
        now = self.desk.now
        if time > now:
            self.ends[time] = None
        if time <= (now if self.at is None else self.at):
            return True
        self.until = min(self.until, time)
        return False

    def _minimum_run(self, item: Item, cause: str) -> float:
        least, said = self._rule(item.queue, cause)
        if item.unit:
            return least if said is None else max(said, 0.0)
        own = self.desk.entries[item.workload].workload.minimum_run_s
        return max(least if said is None else said, own)

    def _rule(self, queue: int, cause: str) -> tuple[float, float | None]:
        """Return how long victims of a queue must be let run: by the policy, and by the queues."""
        found = self._rules.get((queue, cause))
        if found is None:
            desk, said = self.desk, None
            least = dict(desk.policy.eviction.minimum_run_s).get(cause, 0.0)
            if cause in ("preempt", "quota", "fair-share", "leximin"):
                rules = [desk.tree.queues[above] for above in desk.tree.path[queue]]
                is_own = cause == "preempt"
                own = [
                    r.preempt_minimum_run_s if is_own else r.reclaim_minimum_run_s for r in rules
                ]
                said = next((each for each in own if each is not None), None)
            found = self._rules[queue, cause] = least, said
        return found
