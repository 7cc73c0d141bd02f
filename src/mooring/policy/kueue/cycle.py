"""One cycle of profile `kueue`: nominate the heads, put them in order, let them in one by one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from mooring.model.entry import Entry
from mooring.model.plan import Leaving
from mooring.policy.kueue.mode import Mode
from mooring.policy.kueue.order import in_order
from mooring.policy.kueue.scene import ANY, Scene
from mooring.policy.kueue.seating import Seating
from mooring.policy.kueue.solve import Answer, Solver
from mooring.policy.kueue.tally import Tally
from mooring.policy.queues.tree import NO_BOUND
from mooring.policy.victims.evict import Victim, carry_out, whole

if TYPE_CHECKING:
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.kueue.lineup import Lineup
    from mooring.policy.kueue.scene import Target
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.lines import Request


class Verdict(Enum):
    """What comes of a head before others are looked at."""

    START = auto()
    DEFER = auto()
    """It fits as soon as those are gone who are on their way out for others."""
    DISPLACE = auto()
    NO = auto()


@dataclass(slots=True, eq=False)
class Nominee:
    """A head, and how it could start."""

    entry: Entry
    queue: int
    answer: Answer
    verdict: Verdict

    @property
    def request(self) -> Request:
        """Return what it would be charged."""
        return self.answer.found.request


class Cycle:
    """One cycle; changes books and lines as it goes."""

    def __init__(self, desk: Desk, lineup: Lineup) -> None:
        self.desk = desk
        self.lineup = lineup
        self.live = Tally.of(lineup.cohorts, desk)
        """Use as if those were gone that are on their way out; reserved capacity counts."""
        self.scene = Scene(desk, lineup.cohorts, self._settled(), list(lineup.runners.values()))
        self._gone: dict[str, None] = {}
        """Victims of this cycle."""
        self.started: list[str] = []
        self.must_wait = False
        """Someone would displace work that only just started: after this moment."""
        self._changed = False

    @property
    def leaving(self) -> list[Victim]:
        """Return those who are on their way out, for whomever."""
        return list(self.lineup.leaving.values())

    def standing(self) -> Tally:
        """Return use with those who are on their way out: until they are gone they count."""
        standing = self.live.copy()
        for victim in self.leaving:
            size = self.desk.size(victim.entry, victim.tasks)
            standing.add(victim.entry.queue, size)
        return standing

    def _settled(self) -> Tally:
        """Return use as it is now: who is on the way out still counts, who waits for room not."""
        settled = self.standing()
        for name, hold in self.desk.holds.items():
            settled.add(self.desk.entries[name].queue, hold.size, -1)
        return settled

    def run(self) -> bool:
        """Go through the heads once; return whether anything changed."""
        nominees = [self._nominate(entry) for entry in self.lineup.heads()]
        for nominee in in_order(self.scene, self, nominees):
            self._process(nominee)
        return self._changed

    def _nominate(self, entry: Entry) -> Nominee:
        start = self.lineup.scans.get(entry.workload.name, {})
        queue = self.lineup.cohorts.cluster_queue[entry.queue]
        is_unsettled = bool(self.lineup.leaving or self.desk.holds)
        answer = Solver(self.scene, entry).solve(start, reduces=not is_unsettled)
        if answer.mode is Mode.FIT:
            return Nominee(entry, queue, answer, Verdict.START)
        if is_unsettled:
            scene = self.scene.over(self.live.copy())
            answer = Solver(scene, entry, self.leaving).solve(start)
            if answer.mode is Mode.FIT:
                return Nominee(entry, queue, answer, Verdict.DEFER)
        verdict = Verdict.NO if answer.mode is Mode.NO_FIT else Verdict.DISPLACE
        return Nominee(entry, queue, answer, verdict)

    # -- one by one -------------------------------------------------------------------------

    def _process(self, nominee: Nominee) -> None:
        match nominee.verdict:
            case Verdict.START:
                self._start(nominee)
            case Verdict.DEFER:
                self._defer(nominee)
            case Verdict.DISPLACE:
                self._displace(nominee)
            case Verdict.NO:
                self._park(nominee)

    def _start(self, nominee: Nominee) -> None:
        """Start a head, unless another has taken what it would have had."""
        if not self.live.fits(nominee.queue, nominee.request):
            self._skip(nominee)
        elif not self._seat(nominee):
            self._again(nominee)

    def _seat(self, nominee: Nominee) -> bool:
        """Start a head if it has a place."""
        entry = nominee.entry
        seats = Seating(self.desk, entry).book(nominee.answer.ask)
        if seats is None:
            return False
        self.desk.start_all(entry, seats)
        self.live.add(entry.queue, nominee.request)
        self.started.append(entry.workload.name)
        self.lineup.start(entry, _by_resource(self.desk, nominee.request))
        self._changed = True
        return True

    def _defer(self, nominee: Nominee) -> None:
        """Keep the capacity of one that starts when others have left."""
        self.live.add(nominee.entry.queue, nominee.request)
        names = dict.fromkeys(victim.entry.workload.name for victim in self.leaving)
        self._skip(nominee, (Leaving(tuple(names)),))

    def _displace(self, nominee: Nominee) -> None:
        """Let others leave for a head."""
        answer = nominee.answer
        if not answer.targets:
            self._reserve(nominee)
            self._park(nominee)
        elif any(target.runner.entry.workload.name in self._gone for target in answer.targets):
            self._again(nominee)
        elif not self._carry_out(nominee):
            self._skip(nominee)

    def _carry_out(self, nominee: Nominee) -> bool:
        """Evict the targets of a head and keep its place; False: that is not possible now."""
        entry, targets = nominee.entry, nominee.answer.targets
        if any(target.runner.entry.workload.name in self.lineup.started for target in targets):
            self.must_wait = True
            return False
        after = self.live.copy()
        for target in targets:
            after.add(target.runner.queue, target.runner.size, -1)
        if not after.fits(nominee.queue, nominee.request):
            return False
        seats = Solver(self.scene, entry, self.leaving).seats(nominee.answer)
        if seats is None:
            return False
        after.add(entry.queue, nominee.request)
        self.live = after
        victims = [whole(target.runner.entry, target.cause) for target in targets]
        carry_out(self.desk, entry, seats, victims, self._in_the_way(seats))
        self._note_gone(targets)
        self.lineup.scans.pop(entry.workload.name, None)
        self._changed = True
        return True

    def _in_the_way(self, seats: list[Seats]) -> list[Victim]:
        """Return those on their way out from nodes that are to be taken."""
        rows = {row for each in seats for row in each.rows}
        found = []
        for victim in self.leaving:
            members = victim.entry.members
            tasks = tuple((g, task) for g, task in victim.tasks if members[g].rows[task] in rows)
            found.append(Victim(victim.entry, tasks, ""))
        return found

    def _note_gone(self, targets: list[Target]) -> None:
        for target in targets:
            self._gone[target.runner.entry.workload.name] = None
            self.lineup.leave(target.runner.entry)

    def _again(self, nominee: Nominee) -> None:
        """Look once more at a head whom another was in the way of, on the same flavors."""
        scene = Scene(
            self.desk,
            self.lineup.cohorts,
            self.live.copy(),
            list(self.lineup.runners.values()),
        )
        pins = nominee.answer.found.chosen
        answer = Solver(scene, nominee.entry, self.leaving).solve({}, pins)
        again = Nominee(nominee.entry, nominee.queue, answer, nominee.verdict)
        if answer.mode is Mode.FIT:
            if nominee.verdict is not Verdict.START or not self._seat(again):
                self._defer(again)
        elif answer.mode is Mode.NO_FIT:
            self._park(again)
        elif not answer.targets:
            self._reserve(again)
            self._park(again)
        elif not self._carry_out(again):
            self._skip(again)

    # -- who does not start -----------------------------------------------------------------

    def _skip(self, nominee: Nominee, reasons: tuple[Reason, ...] | None = None) -> None:
        found = nominee.answer.found
        told = nominee.answer.reasons or tuple(found.reasons) if reasons is None else reasons
        self._changed |= self.lineup.skip(nominee.entry, told, found.tried)

    def _park(self, nominee: Nominee) -> None:
        answer = nominee.answer
        self._changed |= self.lineup.park(nominee.entry, answer.reasons, answer.found.tried)

    def _reserve(self, nominee: Nominee) -> None:
        """Keep capacity for one that nobody makes room for, unless it can always take it back."""
        if self.scene.reclaim(nominee.queue) == ANY:
            return
        kept: Request = {}
        standing = self.standing()
        for pair, amount in nominee.request.items():
            most = self.live.nominal(nominee.queue, pair)
            if nominee.answer.found.distance > 0:
                limit = self.desk.tree.borrowing_limit[nominee.queue][pair]
                most = min(NO_BOUND, most + limit)
            left = most - standing.used(nominee.queue, pair)
            kept[pair] = max(0, min(amount, left))
        self.live.add(nominee.queue, kept)


def _by_resource(desk: Desk, request: Request) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for pair, amount in request.items():
        resource = desk.tree.pairs[pair][1]
        amounts[resource] = amounts.get(resource, 0) + amount
    return amounts
