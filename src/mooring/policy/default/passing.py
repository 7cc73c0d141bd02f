"""Who may be passed by those who came later: by the order of the queue, and how often."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.model.plan import (
    Blocked,
    Exhausted,
    Impossible,
    NotAllowed,
    OverQuota,
    Stopped,
    Unknown,
)
from mooring.policy.fewer import least, spare
from mooring.policy.placing.why import why
from mooring.policy.queues.claims import likely
from mooring.policy.queues.offers import closed_kinds, needed_kinds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.queues.lines import Item, Line, Lines, Rank, Request

_NEVER = (Impossible, Stopped, NotAllowed, Exhausted, Unknown)
"""Reasons that do not go away when others end."""
NOBODY: Mapping[str, int] = {}
MOST_KNOWN = 1000


class Passing:
    """Counts who was passed in the lines of a court."""

    def __init__(self, desk: Desk, queue_of: Mapping[str, int]) -> None:
        self.desk = desk
        self._queue_of = queue_of
        self._stuck: dict[str, None] = {}
        """Those whom nobody of their queue may pass any more."""
        self._needs: dict[tuple[Line, int], tuple[object, list[int]]] = {}
        """By line and queue: the kinds of nodes that it needs, and what was known then."""

    def mind(self, entry: Entry) -> None:
        """Let nobody pass a workload that has been passed as often as may be."""
        limit = self._limit(entry)
        if limit is not None and entry.past.bypassed >= limit:
            self._stuck[entry.workload.name] = None

    def _limit(self, entry: Entry) -> int | None:
        """Return how many later ones may start before a workload."""
        return self.desk.tree.queues[self._queue_of[entry.workload.name]].bypass_limit

    def note(self, entry: Entry, lines: Lines, rank: Rank) -> None:
        """Note that a workload, which had a rank, goes past all who are before it."""
        for passed in list(self.passed_by(entry, lines, rank)):
            passed.past = replace(passed.past, bypassed=passed.past.bypassed + 1)
            self.mind(passed)

    def passed_by(self, entry: Entry, lines: Lines, rank: Rank) -> Iterator[Entry]:
        """Yield those who are before a workload and count how often they are passed."""
        if self._limit(entry) is None:
            return
        for line, (name, _) in lines.ahead(rank):
            if not line.asleep or could_start(line):
                yield self.desk.entries[name]

    def leave(self, name: str) -> None:
        """Forget one who does not wait to start any more."""
        self._stuck.pop(name, None)

    def clear(self) -> None:
        """Forget everybody: all line up anew."""
        self._stuck.clear()

    def blocked(
        self, queue: int, lines: Lines, line: Line, *, has_shadow: bool
    ) -> tuple[tuple[int, ...], list[Reason], bool]:
        """Return the kinds of nodes that others wait for who may not be passed, and whom.

        And whether there are no other kinds.
        """
        order = self.desk.tree.order[queue]
        before: list[tuple[Line, Item]] = []
        if order == "strict" or (order == "backfill" and not has_shadow):
            before += self.asleep(lines)
        before += self.stuck(lines) if self._stuck else []
        if not before:
            return (), [], False
        item = line.waiting[0][1]
        owners = self.in_front(lines, item, before)
        mine = self.needed(line, item) if owners else []
        first = next((name for kind, name in owners.items() if kind in mine), None)
        reasons: list[Reason] = [] if first is None else [Blocked(first)]
        return tuple(owners), reasons, bool(mine) and all(kind in owners for kind in mine)

    def asleep(self, lines: Lines, gone: Container[str] = ()) -> list[tuple[Line, Item]]:
        """Return the first of each line that sleeps, as if some were gone."""
        found = []
        for line in lines.sleeping.values():
            first = next((item for _, item in line.waiting if item[0] not in gone), None)
            if first is not None:
                found.append((line, first))
        return found

    def stuck(self, lines: Lines, more: Mapping[str, int] = NOBODY) -> list[tuple[Line, Item]]:
        """Return those who may not be passed, as if some had been passed more often."""
        names = dict(self._stuck)
        for name, times in more.items():
            entry = self.desk.entries[name]
            limit = self._limit(entry)
            if limit is not None and entry.past.bypassed + times >= limit:
                names[name] = None
        items = [(name, "") for name in names if (name, "") in lines]
        return [(lines.line_of(item), item) for item in items]

    def in_front(
        self, lines: Lines, item: Item, before: Sequence[tuple[Line, Item]]
    ) -> dict[int, str]:
        """Return the kinds of nodes that are not for one since some before it wait, and who.

        They need them, or quota of which it would leave too little.
        """
        rank, owners = lines.rank_of(item), dict[int, str]()
        heads: list[tuple[Line, Item]] = []
        for other, head in sorted(before, key=lambda each: lines.rank_of(each[1])):
            if lines.rank_of(head) >= rank:
                break
            if could_start(other):
                heads.append((other, head))
                for kind in self.needed(other, head):
                    owners.setdefault(kind, head[0])
        if heads and self.desk.tree.pairs:
            line = lines.line_of(item)
            for kind in self.needed(line, item):
                first = None if kind in owners else self._short(line, item, kind, heads)
                if first is not None:
                    owners[kind] = first
        return owners

    def _short(
        self, line: Line, item: Item, kind: int, heads: Sequence[tuple[Line, Item]]
    ) -> str | None:
        """Return who of some has too little quota if one after them starts on a kind of nodes.

        Only rules count: what nodes there are is no matter of quota.
        """
        desk, mine = self.desk, self.desk.entries[item[0]]
        wanted = dict(self._charge(line, mine, kind))
        totals = desk.totals()
        for other, (name, _) in heads:
            entry = desk.entries[name]
            request = self._charge(other, entry, *self.needed(other, (name, ""))[:1])
            for pair in wanted:
                wanted[pair] += request.get(pair, 0)
            shared = {pair: wanted[pair] for pair in request if wanted.get(pair)}
            ruled = {
                pair: amount
                for pair, amount in shared.items()
                if desk.ledger.potential(entry.queue, pair) < totals[pair]
            }
            if ruled and desk.ledger.blocker(entry.queue, ruled, desk.books.usage_of) is not None:
                return name
            is_fixed = entry.is_fixed and mine.is_fixed
            if is_fixed and shared and desk.fixed_shortage(entry, shared) is not None:
                return name
        return None

    def _charge(self, line: Line, entry: Entry, kind: int = BY_NODE) -> Request:
        """Return what the least of an ask that will do would be charged on a kind of nodes."""
        ask = least(line.ask)
        if self.desk.groups_of(entry.queue):
            return likely(self.desk, ask, entry.account)
        return self.desk.request(ask, entry.account, kind)

    def needed(self, line: Line, item: Item) -> list[int]:
        """Return the kinds of nodes that one in a line could be on if nothing ran."""
        desk, entry = self.desk, self.desk.entries[item[0]]
        state = desk.books.epoch, desk.ledger
        known = self._needs.get((line, entry.queue))
        if known is None or known[0] != state:
            if len(self._needs) >= MOST_KNOWN:
                self._needs.clear()
            known = state, needed_kinds(desk, entry, line.ask)
            self._needs[line, entry.queue] = known
        return known[1]

    def copy(self, desk: Desk, queue_of: Mapping[str, int]) -> Passing:
        """Return the same for a fork."""
        new = Passing(desk, queue_of)
        new._stuck = dict(self._stuck)
        return new


def forget_passes(entry: Entry) -> None:
    """Let a workload not have been passed: it has started."""
    if entry.past.bypassed:
        entry.past = replace(entry.past, bypassed=0)


def could_start(line: Line) -> bool:
    """Return whether a sleeping line waits for room or quota, not for ever."""
    return not line.ask.problems and not is_for_ever(line.reasons)


def is_for_ever(reasons: Iterable[Reason]) -> bool:
    """Return whether one of some reasons does not go away when others end."""
    return any(isinstance(r, _NEVER) or (isinstance(r, OverQuota) and not r.ever) for r in reasons)


def no_room(desk: Desk, entry: Entry, ask: Ask) -> tuple[Reason, ...]:
    """Return why there is no room for an ask; if there never is, why for the least that will do."""
    desk.placer.aim(ask.avoid, closed_kinds(desk, entry, ask))
    found = why(desk.placer, ask)
    if spare(ask) and is_for_ever(found):
        return no_room(desk, entry, least(ask))
    return found


def wake_blocked(lines: Lines) -> None:
    """Wake those who waited for one before them that has started."""
    lines.wake(list(lines.blocked.values()))


def wake_first_blocked(lines: Lines) -> None:
    """Wake only the first of them, where all want the same nodes and nobody is told anything.

    If it starts the next one is woken; else that one is blocked by it.
    """
    some = lines.blocked.values()
    first = min(some, key=lambda line: line.waiting[0][0], default=None)
    if first is not None:
        lines.wake([first])
