"""The court of profile `kueue`: one head of every queue at a time, cycle after cycle.

In every cycle the first of each cluster queue is looked at, all against the same moment; then they
are put in order and let in one by one. A head that does not fit is set aside until something
changes, or blocks its queue if that is strict. Who has others evicted stays the head of its queue
until it starts. One call of `serve` goes on until a cycle changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.model.plan import Blocked
from mooring.policy.kueue.cycle import Cycle
from mooring.policy.kueue.lineup import Lineup
from mooring.policy.kueue.tally import Cohorts
from mooring.policy.placing.ask import leaf_ask
from mooring.policy.placing.beside import growth
from mooring.policy.placing.why import why
from mooring.policy.queues.offers import bar_short, gate, over_quota, place_beside
from mooring.policy.standing.plain import risks_in_order

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.placing.beside import Beside
    from mooring.policy.queues.lines import Request
    from mooring.policy.queues.quota import Shortage
    from mooring.policy.standing.plain import Risks

Moment = tuple[int, int, int]


class KueueCourt:
    """Who is next, by the rules of Kueue."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._waiting: dict[str, None] = {}
        """Those who wait to start, also those whose room is kept until others have left."""
        self._growing: dict[str, None] = {}
        self._parked: dict[str, None] = {}
        self._reasons: dict[str, tuple[Reason, ...]] = {}
        self._told: dict[str, None] = {}
        self._is_fresh = False
        """Somebody came since the last look."""
        self._seen: Moment = (-1, -1, -1)

    # -- who waits --------------------------------------------------------------------------

    def wait(self, entry: Entry) -> None:
        """Take a workload in that waits to start, or runs and may grow."""
        name = entry.workload.name
        if entry.has_begun:
            self._waiting.pop(name, None)
            self._parked.pop(name, None)
            self._say(name, ())
            if name not in self._growing and any(m.spare > 0 for m in entry.members.values()):
                self._growing[name] = None
                self._is_fresh = True
        elif name not in self._waiting:
            self._waiting[name] = None
            self._is_fresh = True

    def leave(self, entry: Entry) -> bool:
        """Forget a workload; return whether it waited."""
        name = entry.workload.name
        found = name in self._waiting or name in self._growing
        for known in (self._waiting, self._growing, self._parked, self._reasons, self._told):
            known.pop(name, None)
        self._is_fresh = self._is_fresh or found
        return found

    def refresh(self) -> None:
        """Look at everything anew."""
        self._parked.clear()
        self._is_fresh = True

    # -- deciding ---------------------------------------------------------------------------

    def _moment(self) -> Moment:
        books = self.desk.books
        return books.log_end, books.epoch, self.desk.version

    @property
    def stirs(self) -> bool:
        """Return whether something happened that `serve` should look at."""
        return self._is_fresh or bool(self._told) or self._moment() != self._seen

    def serve(self) -> float | None:
        """Let in whoever may be, cycle after cycle; return when to look again."""
        desk = self.desk
        if self._moment() != self._seen:
            self._parked.clear()
        self._is_fresh = False
        lineup = Lineup(desk, Cohorts(desk.ledger), self._queued(), self._parked)
        lineup.settle_penalties()
        must_wait = False
        while True:
            cycle = Cycle(desk, lineup)
            is_over = not cycle.run()
            for name in cycle.started:
                self.wait(desk.entries[name])
            must_wait = must_wait or cycle.must_wait
            if is_over:
                break
        for name, reasons in lineup.reasons.items():
            if name in self._waiting and name not in desk.holds:
                self._say(name, reasons)
        self._say_who_is_blocked(lineup)
        self._grow()
        self._seen = self._moment()
        self._is_fresh = must_wait
        return desk.now if must_wait else None

    def _queued(self) -> list[Entry]:
        """Return those who wait and may start; the others are told why not."""
        queued = []
        for name in self._waiting:
            entry = self.desk.entries[name]
            reasons = () if name in self.desk.holds else gate(self.desk, entry)
            if reasons:
                self._parked.pop(name, None)
                self._say(name, reasons)
            else:
                queued.append(entry)
        return queued

    def _say_who_is_blocked(self, lineup: Lineup) -> None:
        for entry, head in lineup.blocked():
            self._say(entry.workload.name, (Blocked(head),))

    def _say(self, name: str, reasons: tuple[Reason, ...]) -> None:
        if self._reasons.get(name, ()) != reasons:
            self._told[name] = None
            self._reasons[name] = reasons

    # -- growing ----------------------------------------------------------------------------

    def _grow(self) -> None:
        """Give running work more tasks where its queue may be charged and there is room."""
        for name in list(self._growing):
            entry = self.desk.entries[name]
            if entry.is_incomplete:
                continue  # what it would grow beside is on its way out, or lost
            reasons: list[Reason] = list(gate(self.desk, entry))
            grown = not reasons
            while grown:
                reasons.clear()
                units = [self._grow_leaf(entry, leaf, reasons) for leaf in entry.members]
                grown = any(units)
            if all(members.spare <= 0 for members in entry.members.values()):
                del self._growing[name]
                reasons = []
            self._say(name, tuple(dict.fromkeys(reasons)))

    def _grow_leaf(self, entry: Entry, name: str, reasons: list[Reason]) -> bool:
        """Place one more unit of a group beside the others; return whether there was room."""
        desk = self.desk
        beside = desk.beside(entry)
        leaf = next(leaf for leaf in beside.root.leaves() if leaf.name == name)
        members = entry.members[name]
        tasks = growth(members, leaf)
        if not tasks:
            return False
        wanted = {name: tasks}
        shortage = self._shortage(entry, beside, wanted) if entry.is_placed else None
        if shortage is not None:
            reasons.append(over_quota(desk, entry, shortage))
            return False
        own: list[Reason] = []
        found = place_beside(desk, entry, beside, wanted, own)
        if found is None:
            ask = leaf_ask(leaf, len(tasks), entry.workload, entry.avoid)
            reasons += own or why(desk.placer, ask, beside.bound(leaf))
            return False
        for some, seats in found:
            desk.start(entry, some, seats)
        return True

    def _shortage(
        self, entry: Entry, beside: Beside, wanted: dict[str, list[int]]
    ) -> Shortage | None:
        """Return what stands against charging for more tasks.

        What is charged by node is charged for the kind of nodes that it comes to; those are barred
        that are short.
        """
        desk = self.desk

        def short(request: Request) -> Shortage | None:
            return desk.ledger.blocker(entry.queue, request, desk.books.usage_of)

        ((name, tasks),) = wanted.items()
        members = entry.members[name]
        if members.flavor == BY_NODE:
            return bar_short(desk, entry, beside, wanted, short)
        bill = desk.books.bill(members.demand, entry.account, members.flavor)
        return short({pair: amount * len(tasks) for pair, amount in bill})

    # -- what is known ----------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return those who wait to start or to grow, in order."""
        entries = [self.desk.entries[name] for name in (*self._waiting, *self._growing)]

        def rank(entry: Entry) -> tuple[bool, int, float, int]:
            priority, workload = self.desk.priority(entry), entry.workload
            return entry.has_begun, -priority, workload.submitted_at, entry.sequence

        return [entry.workload.name for entry in sorted(entries, key=rank)]

    def anyone_waits(self) -> bool:
        """Return whether anybody waits to start or to grow."""
        return bool(self.waiting())

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits."""
        hold = self.desk.holds.get(name)
        if hold is not None:
            return (hold.reason(name),)
        return self._reasons.get(name, ())

    def tell(self) -> list[str]:
        """Return those whose reasons changed since the last call."""
        told, self._told = self._told, {}
        return [name for name in told if name in self.desk.entries]

    def shares(self) -> list[list[int]] | None:
        """Return nothing: here only what is borrowed is compared."""
        return None

    def risks(self) -> Risks:
        """Return who is within the nominal quota of its queue, and who has what is borrowed."""
        return risks_in_order(self.desk, self.desk.tree.quota)

    def copy(self, desk: Desk) -> KueueCourt:
        """Return the court of a fork."""
        new = KueueCourt(desk)
        for name in ("_waiting", "_growing", "_parked", "_reasons", "_told"):
            setattr(new, name, dict(getattr(self, name)))
        new._is_fresh, new._seen = self._is_fresh, self._seen
        return new
