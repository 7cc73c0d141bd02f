"""Who may be asked to leave for whom, as spans of chains: the rights of `rights` for many.

Along a chain of the line nobody stands better than those before it. So a right against a chain is
all of it from one item on, and that one is found without looking at the others. This says the same
as `rights`, for newcomers to whom nobody owes anything: guests and quanta are not looked at here.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from mooring.policy.queues.share import COVERED, IN_SHARE
from mooring.policy.standing.chains import Chain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.workload import Workload
    from mooring.policy.desk import Desk
    from mooring.policy.standing.item import Class, Item, Rank
    from mooring.policy.standing.line import Line, Place

NEVER = inf
PREEMPT, QUOTA, FAIR_SHARE, LEXIMIN = "preempt", "quota", "fair-share", "leximin"
BETWEEN_QUEUES = (QUOTA, FAIR_SHARE, LEXIMIN)
_FIRST = -inf, "", 0
"""The end of a rank that comes before all others."""

Gone = dict[int, dict[int, int]]
"""By queue, with all above it, and pair: what leaves."""
Bounds = dict[str, "Class"]
"""By cause, the class that a victim's queue must be beyond."""


@dataclass(frozen=True, slots=True)
class Span:
    """All of a chain from one item on, who may be asked to leave for one cause."""

    chain: Chain
    first: int
    cause: str

    def __len__(self) -> int:
        return len(self.chain.items) - self.first


@dataclass(frozen=True, slots=True)
class Right:
    """Whom a newcomer may ask. Rights with equal keys differ in nothing but their spans."""

    key: tuple[object, ...]
    spans: tuple[Span, ...] = ()

    def __len__(self) -> int:
        return sum([len(span) for span in self.spans])

    def gone(self, line: Line) -> Gone:
        """Return what all in the spans use."""
        found: Gone = {}
        for span in self.spans:
            for queue in line.tree.path[span.chain.leaf.queue]:
                row = found.setdefault(queue, {})
                for pair, column in zip(span.chain.pairs, span.chain.upto, strict=True):
                    row[pair] = row.get(pair, 0) + column[-1] - column[span.first]
        return found


class Spans:
    """What one newcomer may ask of those who run. Good until the line changes."""

    def __init__(self, desk: Desk, line: Line, newcomer: Item, *, is_early: bool = False) -> None:
        self.desk = desk
        self.line = line
        self.newcomer = newcomer
        self.is_early = is_early
        """Its turn has not come: it asks nobody of another queue."""
        self._rules = desk.tree.eviction[newcomer.queue]
        self._path = desk.tree.path[newcomer.queue]

    @cached_property
    def place(self) -> Place:
        """Where it would stand; found only if somebody could be behind it."""
        return self.line.place(self.newcomer)

    # -- its own queue ----------------------------------------------------------------------

    def own(self) -> Right:
        """Return the right to ask those of its own queue that are behind it."""
        found = []
        for span in self.bold().spans:
            first = max(span.first, self.line.first_behind(self.place, span.chain))
            found.append(Span(span.chain, first, PREEMPT))
        return Right(("own", self.newcomer.queue), tuple(found))

    def bold(self) -> Right:
        """Return the right to ask those of its own queue, before or behind it."""
        rule, rank = self._rules.within_queue, self._least_outranked()
        chains = self.line.chains(self.newcomer.queue) if rule != "never" else ()
        spans = [Span(chain, bisect_left(chain.ranks, rank), PREEMPT) for chain in chains]
        return Right(("bold", self.newcomer.queue), tuple(span for span in spans if len(span)))

    def _least_outranked(self) -> Rank:
        """Return a rank: whoever of its queue has it, or a later one, may be preempted.

        Those are all of lower priority and, for a minimum, units of the same.
        """
        p = self.newcomer
        if p.unit:
            return 1, 1 - p.priority, 0, *_FIRST
        if self._rules.within_queue == "lower-or-newer":
            return max(p.rank, (1, -p.priority, 0, *_FIRST))
        return 1, -p.priority, 1, *_FIRST

    # -- other queues -----------------------------------------------------------------------

    def others(self, gone: Gone | None = None) -> Right:
        """Return the right to ask those of other queues, if some leave anyway."""
        if self.is_early:
            return Right(("nobody",))
        p, tree, rule = self.newcomer, self.desk.tree, self._rules.reclaim
        bounds = {queue: self._bounds(queue, gone or {}) for queue in self._path}
        spans: list[Span] = []
        for chain in self.line.chains() if rule != "never" and p.size else ():
            if chain.leaf.queue != p.queue:
                mine, theirs = tree.common(p.queue, chain.leaf.queue)
                spans += self._against(chain, len(tree.path[theirs]) - 1, bounds[mine])
        causes = tuple(tuple(each) for each in bounds.values())
        return Right(("others", self._path[1:], causes), tuple(spans))

    def everyone(self, own: Right, found: Right) -> Right:
        """Return the right to ask those of other queues if all who may be asked leave.

        `found` is the one that there is if nobody leaves.
        """
        while True:
            gone = Right((), (*own.spans, *found.spans)).gone(self.line)
            if not any(queue in gone for queue in self._path):
                return found  # nobody of its own side leaves
            more = self.others(gone)
            if len(more) <= len(found):
                return found
            found = more

    def _against(self, chain: Chain, depth: int, bounds: Bounds) -> Iterator[Span]:
        """Yield spans of a chain; at `depth` of its path its side and the newcomer's part."""
        worst = self.line.worst(chain)
        for cause, bound in bounds.items():

            def test(classes: tuple[Class, ...], bound: Class = bound) -> bool:
                return classes[depth] > bound and min(classes[depth:]) > COVERED

            if test(worst):
                span = Span(chain, self.line.first_behind(self.place, chain, test), cause)
                yield from [span] if len(span) else []

    def _bounds(self, queue: int, gone: Gone) -> Bounds:
        """Return causes against others beside a queue of the newcomer, if so much leaves.

        Those are left out that give no right against anybody whom an earlier one does not.
        """
        p, measure, left = self.newcomer, self.line.measure, gone.get(queue, {})
        before = [self.line.usage[queue][pair] - left.get(pair, 0) for pair, _ in p.size]
        after = [used + amount for used, (_, amount) in zip(before, p.size, strict=True)]
        every = {LEXIMIN: measure.level(queue, p.size, before)}
        if measure.is_within(measure.share[queue], p.size, after):
            every = {FAIR_SHARE: IN_SHARE} | every
        if measure.is_within(measure.quota[queue], p.size, after):
            every = {QUOTA: COVERED} | every
        least = dict(self.desk.policy.eviction.minimum_run_s)
        found: Bounds = {}
        for cause, bound in every.items():
            run_s = least.get(cause, 0.0)
            if all(run_s < least.get(known, 0.0) or bound < found[known] for known in found):
                found[cause] = bound
        return found


class Patience:
    """How long work must be let run before it may be asked to leave."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._known: dict[tuple[int, str], float] = {}

    def ends(self, item: Item, workload: Workload, cause: str) -> float:
        """Return from when on an item may be asked to leave, at the earliest."""
        least = self._known.get((item.queue, cause))
        if least is None:
            least = self._known[item.queue, cause] = self._least(item.queue, cause)
        if workload.minimum_run_s and not item.unit:
            least = max(least, workload.minimum_run_s)
        if not least:
            return -inf
        return inf if item.since is None else item.since + least  # it is told when it runs

    def _least(self, queue: int, cause: str) -> float:
        """Return what the queues say, or else the policy."""
        tree = self.desk.tree
        rules = [tree.queues[above] for above in tree.path[queue]]
        said: list[float | None] = []
        if cause == PREEMPT:
            said = [rule.preempt_minimum_run_s for rule in rules]
        elif cause in BETWEEN_QUEUES:
            said = [rule.reclaim_minimum_run_s for rule in rules]
        policy = dict(self.desk.policy.eviction.minimum_run_s).get(cause, 0.0)
        return next((each for each in said if each is not None), policy)
