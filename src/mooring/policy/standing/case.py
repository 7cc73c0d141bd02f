"""Who may be asked to leave for whom, in profile `default`, as plain values.

    overtaker, headroom   it is a guest: before its turn, while the newcomer's has come (and, for
                          another queue, not covered by quota), or on lent room that is asked back
    preempt               same queue, lower priority; or a unit above a minimum, for a minimum
    quota                 not covered at any of its queues, and the newcomer's stays within quota
    fair-share            the same, its queue beyond share, and the newcomer's stays within share
    leximin               the same, its queue further beyond than the newcomer's was before
    quantum               it lets others by, a limited number of times

Its queue and the newcomer's: the two below the first queue that both have in common. An exchange is
legal if every victim has a cause and has run long enough for it, and the newcomer stands before all
of them in the line (`standing`); that alone makes endless exchanges impossible. A quantum needs no
place in the line, and once in its life a workload may be *bold* in its own queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from mooring.policy.queues.share import BEYOND, COVERED, LAST
from mooring.policy.standing.item import Class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mooring.policy.standing.item import Item, Key
    from mooring.policy.standing.line import Line

OVERTAKER = "overtaker"
HEADROOM = "headroom"
PREEMPT = "preempt"
QUOTA = "quota"
FAIR_SHARE = "fair-share"
LEXIMIN = "leximin"
QUANTUM = "quantum"

_WORST: Class = (LAST, inf)
Legal = tuple["Item", str]
"""Who may be asked to leave, and by which cause."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known of a newcomer beside its place."""

    now: float = 0.0
    minimum_run_s: Mapping[str, float] = field(default_factory=dict)
    """Per cause, how long a victim must have run; other causes: 0."""
    is_due: bool = False
    """Its turn has come: overtakers make way."""
    is_bold: bool = False
    """It has not made its bold start yet."""
    quantum: frozenset[str] = frozenset()
    """Workloads that let it by once more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A legal exchange."""

    causes: tuple[str, ...]
    """Of the victims, in the order in which they were named."""
    is_bold: bool
    """It spends the bold start of the newcomer."""


@dataclass(frozen=True, slots=True)
class Side:
    """What the newcomer's side of a common queue would be after an exchange."""

    in_quota: bool
    in_share: bool
    level: Class
    """How far beyond quota it was without the newcomer."""


class After:
    """What would be used in the newcomer's pairs if it started and some others left."""

    def __init__(self, line: Line, item: Item, leaving: Iterable[Item]):
        self._line, self._item = line, item
        self._gone: dict[int, dict[int, int]] = {}
        for other in leaving:
            for queue in line.tree.path[other.queue]:
                row = self._gone.setdefault(queue, {})
                for pair, amount in other.size:
                    row[pair] = row.get(pair, 0) + amount
        self._sides: dict[int, Side] = {}

    def side(self, queue: int) -> Side:
        """Return what the newcomer's side may claim."""
        found = self._sides.get(queue)
        if found is None:
            found = self._sides[queue] = self._side(queue)
        return found

    def _side(self, queue: int) -> Side:
        line, size, gone = self._line, self._item.size, self._gone.get(queue, {})
        measure = line.measure
        before = [line.usage[queue][pair] - gone.get(pair, 0) for pair, _ in size]
        used = [amount + more for amount, (_, more) in zip(before, size, strict=True)]
        return Side(
            measure.is_within(measure.quota[queue], size, used),
            measure.is_within(measure.share[queue], size, used),
            measure.level(queue, size, before),
        )


class Case:
    """What a newcomer may ask of those who run. Good until the line changes."""

    def __init__(self, line: Line, item: Item, terms: Terms | None = None):
        self.line = line
        self.item = item
        self.terms = Terms() if terms is None else terms
        self.place = line.place(item)
        self._path = frozenset(line.tree.path[item.queue])

    def before(self, victim: Item) -> bool:
        """Return whether the newcomer stands before one who runs."""
        return self.line.stands_before(self.place, victim.name)

    def after(self, leaving: Iterable[Item] = ()) -> After:
        """Return what would be used if some left for the newcomer."""
        return After(self.line, self.item, leaving)

    # -- causes -----------------------------------------------------------------------------

    def cause(self, victim: Item, after: After, floor: Key | None = None) -> str | None:
        """Return why a victim may be asked to leave, wherever it stands; None: it may not.

        `floor`, where it is known, is a key that the victim's standing is not less than.
        """
        if not victim.preemptible or victim.workload == self.item.workload:
            return None
        for cause in self._causes(victim, after, floor):
            if self.has_run(victim, cause):
                return cause
        return None

    def has_run(self, victim: Item, cause: str) -> bool:
        """Return whether a victim has run as long as it must be let for a cause."""
        least = self.terms.minimum_run_s.get(cause, 0.0)
        since = self.terms.now if victim.since is None else victim.since
        return self.terms.now - since >= least

    def _causes(self, victim: Item, after: After, floor: Key | None) -> Iterator[str]:
        item, terms = self.item, self.terms
        if terms.is_due and victim.overtaker and self._is_in_the_way(victim):
            yield OVERTAKER
        if victim.lender in self._path:
            yield HEADROOM
        if victim.queue != item.queue:
            yield from self._reclaim(victim, after, floor)
        elif victim.priority < item.priority or self._is_unit_for_minimum(victim):
            yield PREEMPT
        if victim.workload in terms.quantum:
            yield QUANTUM

    def _is_in_the_way(self, victim: Item) -> bool:
        """Return whether an overtaker may be asked: not for another queue what quota covers."""
        if victim.queue == self.item.queue:
            return True
        _, theirs = self.line.tree.common(self.item.queue, victim.queue)
        classes = self.line.key(victim.name)[1][len(self.line.tree.path[theirs]) - 1 :]
        return min(classes) > COVERED

    def _is_unit_for_minimum(self, victim: Item) -> bool:
        is_minimum = not self.item.unit
        return bool(victim.unit) and is_minimum and victim.priority == self.item.priority

    def _reclaim(self, victim: Item, after: After, floor: Key | None) -> Iterator[str]:
        """Yield causes between queues.

        They hold all the more for classes that are worse; so as much as possible is decided
        before the standing of the victim is known.
        """
        tree = self.line.tree
        mine, theirs = tree.common(self.item.queue, victim.queue)
        side, skipped = after.side(mine), len(tree.path[theirs]) - 1
        known = self.line.floor(victim.name) if floor is None else floor
        told = list(self.claims(side, known[1][skipped:]))
        yield from told
        untold = [cause for cause in self.claims(side, (_WORST,)) if cause not in told]
        if any(self.has_run(victim, cause) for cause in untold):
            exact = self.line.key(victim.name)[1][skipped:]
            yield from [cause for cause in self.claims(side, exact) if cause in untold]

    @staticmethod
    def claims(side: Side, classes: Sequence[Class]) -> Iterator[str]:
        """Yield causes against one of other queues, by its classes from the common queue down."""
        if min(classes) <= COVERED:
            return
        is_beyond = classes[0] >= (BEYOND, 0.0)
        if side.in_quota:
            yield QUOTA
        if is_beyond and side.in_share:
            yield FAIR_SHARE
        if is_beyond and side.level < classes[0]:
            yield LEXIMIN

    def victims(self, leaving: Iterable[Item] = ()) -> Iterator[Legal]:
        """Yield everybody who may be asked to leave if some leave anyway, but for bold starts."""
        after, told = self.after(leaving), set()
        for item, floor in self.line.rivals(self.place, self.item.queue):
            cause = self.cause(item, after, floor)
            if cause is not None:
                told.add(item.name)
                yield item, cause
        for workload in sorted(self.terms.quantum):
            for item in self.line.of(workload):
                if item.name not in told and self._lets_by(item):
                    yield item, QUANTUM

    def _lets_by(self, victim: Item) -> bool:
        """Return whether a victim makes way wherever it stands."""
        is_other = victim.preemptible and victim.workload != self.item.workload
        is_asked = victim.workload in self.terms.quantum
        return is_other and is_asked and self.has_run(victim, QUANTUM)

    # -- whole exchanges --------------------------------------------------------------------

    def legal(self, victims: Sequence[Item]) -> Verdict | None:
        """Return why an exchange is legal; None: it is not.

        A minimum leaves with all of its units, and for its cause.
        """
        names = {victim.name for victim in victims}
        after = self.after(victims)
        causes, bold = [], False
        for victim in victims:
            if victim.unit == 0 and any(
                u.name not in names for u in self.line.units(victim.workload)
            ):
                return None
            asked = victim if (victim.workload, 0) not in names else self.line[victim.workload, 0]
            cause = self.cause(asked, after)
            if cause is None:
                return None
            if cause != QUANTUM and not self.before(asked):
                if self._lets_by(asked):
                    cause = QUANTUM
                elif self.may_be_bold(asked, after):
                    bold = True
                else:
                    return None
            causes.append(cause)
        return Verdict(tuple(causes), bold)

    def may_be_bold(self, victim: Item, after: After) -> bool:
        """Return whether one who stands before the newcomer may have to leave all the same."""
        is_own = victim.queue == self.item.queue
        return is_own and self.terms.is_bold and after.side(self.item.queue).in_share


def legal(
    line: Line, item: Item, victims: Sequence[Item], terms: Terms | None = None
) -> Verdict | None:
    """Return why an exchange is legal; None: it is not."""
    return Case(line, item, terms).legal(victims)
