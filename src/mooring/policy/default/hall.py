"""The hall: everybody who waits, each in the lines of a queue, and where each would stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.workload import NEVER_S
from mooring.policy.backfill.booking import Bookings
from mooring.policy.default.passing import (
    Passing,
    could_start,
    forget_passes,
    wake_blocked,
)
from mooring.policy.default.patience import waits_since
from mooring.policy.default.quantum import Quantum
from mooring.policy.placing.ask import compile_ask, leaf_ask
from mooring.policy.placing.beside import growth
from mooring.policy.queues.claims import Claims, likely
from mooring.policy.queues.lines import Lines
from mooring.policy.queues.offers import gate
from mooring.policy.queues.share import IN_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason, Reserved
    from mooring.policy.desk import Desk
    from mooring.policy.queues.lines import Item, Line, Rank, Request
    from mooring.policy.queues.share import Yardstick

LATER = float("inf")
Heads = list[tuple["Rank", "Line", "Item"]]
"""The first of each line, in order of rank."""


class Hall:
    """Who waits at one court, and what they claim."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.lines: dict[int, Lines] = {}
        """The lines of each queue."""
        self.queue_of: dict[str, int] = {}
        """The queue in whose lines a workload stands."""
        self.left = 0
        """How many have left their lines without a start."""
        self.residual: Callable[[Entry], float] | None = None
        """Expected residual run time, while there is a shadow; it lets queues backfill."""
        self.latest: dict[str, Reserved] = {}
        """Who starts when at the latest, as far as the shadow knows."""
        self.is_shadow = False
        """Whether nobody is moved, everybody keeps to the order and nobody is told."""
        self.has_rivals = False
        """Whether anybody could have a right to the place of another."""
        self._has_juniors = False
        """Whether that may be so among those of one queue and priority."""
        self.bookings = Bookings(desk, self.lines, self.queue_of, self.stands)
        self.claims = Claims(desk)
        self.passing = Passing(desk, self.queue_of)
        self.quantum = Quantum(desk)
        self._tree = desk.tree
        self._kinds: list[int] | None = desk.books.kinds_there()
        """Those that claims were counted by; None: not all by the same."""
        self._classes: dict[tuple[int, int], None] = {}
        """Queues and priorities that have been seen."""
        self._yardstick: Yardstick | None = None
        self._is_measured = False
        """Whether that is the one of this cycle."""
        self._rightful: dict[tuple[Line, int], bool] = {}
        """By line and queue, by that one: whether it asks for no more than the share."""

    # -- coming -----------------------------------------------------------------------------

    def wait(self, entry: Entry) -> None:
        """Put a workload in line for what it misses: its minimum, or more for its groups."""
        lines = self.lines_of(entry)
        self._classes[entry.queue, self.desk.priority(entry)] = None
        by_age = self.desk.tree.eviction[entry.queue].within_queue == "lower-or-newer"
        self._has_juniors |= entry.is_elastic or by_age
        self.has_rivals |= len(self._classes) > 1 or self._has_juniors
        if entry.has_begun:
            forget_passes(entry)
            self.wait_to_grow(entry, lines)
        elif (entry.workload.name, "") not in lines:
            line = self._line_of(entry, lines)
            item = (entry.workload.name, "")
            lines.join(line, self._rank(entry, grows=False), item)
            self.claims.add(item, entry.queue, self._likely(line, entry))
            self.passing.mind(entry)
            if line.asleep and line.waiting[0][1] == item and line.is_blocked:
                lines.wake([line])  # who was before the old head need not be before this one

    def wait_to_grow(self, entry: Entry, lines: Lines) -> None:
        """Put every group of a running workload that may have more tasks in a line of its own."""
        if all(members.spare <= 0 for members in entry.members.values()):
            return
        for leaf in compile_ask(self.desk.books, entry.workload).root.leaves():
            item = (entry.workload.name, leaf.name)
            tasks = growth(entry.members[leaf.name], leaf)
            if item in lines and lines.ask_of(item).root.count != len(tasks):
                self.drop(lines, item)
                lines.close(item)
            if tasks and item not in lines:
                ask = leaf_ask(leaf, len(tasks), entry.workload, entry.avoid)
                lines.join(lines.open(item, ask), self._rank(entry, grows=True), item)
            if tasks:
                times = entry.members[leaf.name].spare // len(tasks)
                likely = self._likely(lines.line_of(item), entry)
                self.claims.add(item, entry.queue, likely, times)

    def lines_of(self, entry: Entry) -> Lines:
        """Return the lines that a workload stands in; a local queue stands in those above it."""
        tree, at = self.desk.tree, entry.queue
        while tree.queues[at].local and tree.parent[at] >= 0:
            at = tree.parent[at]
        queue = self.queue_of.setdefault(entry.workload.name, at)
        lines = self.lines.get(queue)
        if lines is None:
            lines = self.lines[queue] = Lines()
        return lines

    def _rank(self, entry: Entry, *, grows: bool) -> Rank:
        """Return the place of a workload in its queue."""
        workload = entry.workload
        deadline = LATER if workload.deadline_at is None else workload.deadline_at
        priority, shortness = -self.desk.priority(entry), 0.0
        if self.desk.tree.queues[self.queue_of[workload.name]].by == "estimate":
            shortness = LATER if workload.estimate_s is None else workload.estimate_s
        if self.desk.own.order is not None:
            deadline, shortness = 0.0, self.desk.own.order(workload)
        used = self.desk.usage.faded(entry.queue)
        age = workload.submitted_at, entry.sequence
        return int(grows), priority, used, deadline, shortness, *age

    def _line_of(self, entry: Entry, lines: Lines) -> Line:
        """Return the line of a workload's ask."""
        workload = entry.workload
        key: tuple[object, ...] = (
            workload.groups,
            workload.topology,
            workload.service,
            entry.avoid,
            entry.is_fixed,
            (workload.leave_s, workload.minimum_run_s),  # who can leave in time may be let in
            workload.preemption_delay_s,  # one that asks nobody to leave is in nobody's way
            gate(self.desk, entry),
        )
        room = key
        key += self.bookings.kind_of(entry, self.queue_of[workload.name])
        kind = key
        if self.backfills(entry):  # who is expected to be done first may overtake
            said = (workload.estimate_s, workload.run_limit_s)
            key += (*said, workload.namespace, entry.past.saved_s)
        line = lines.line(key)
        if line is None:
            line = lines.open(key, compile_ask(self.desk.books, workload, entry.avoid))
            line.kind, line.room = kind, lines.room_of(room)
        return line

    def _likely(self, line: Line, entry: Entry) -> Request:
        if line.likely is None:
            line.likely = likely(self.desk, line.ask, entry.account)
            if self._kinds != self.desk.books.kinds_there():
                self._kinds = None  # it is of other nodes than the rest: all are to be counted anew
        return line.likely

    # -- going ------------------------------------------------------------------------------

    def leave(self, entry: Entry) -> bool:
        """Take a workload out of all lines; return whether it was in one."""
        name, found = entry.workload.name, False
        lines = self.lines.get(self.queue_of.pop(name, -1))
        if lines is None:
            return False
        if (name, "") in lines:
            wake_blocked(lines)
        for group in ("", *entry.members):
            if (name, group) in lines:
                self.drop(lines, (name, group))
                found = True
            if group:
                lines.close((name, group))
        self.left += found
        return found

    def drop(self, lines: Lines, item: Item) -> None:
        """Take one out of its line, and what it claims."""
        lines.leave(item)
        self.claims.drop(item)
        if not item[1]:
            self.passing.leave(item[0])

    def go(self, entry: Entry, lines: Lines) -> None:
        """Take one whose room is found out of its line, past all who are before it."""
        item = (entry.workload.name, "")
        rank = lines.rank_of(item)
        self.drop(lines, item)
        self.passing.note(entry, lines, rank)

    # -- anew -------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Line everybody up anew: priorities, queues and who may use them may have changed."""
        items = [item for lines in self.lines.values() for item in lines]
        names = dict.fromkeys(name for name, _ in items)
        self._tree = self.desk.tree
        self.lines.clear()
        self.queue_of.clear()
        self.passing.clear()
        self._classes.clear()
        self.claims.renew()
        for name in names:
            self.wait(self.desk.entries[name])
        for entry in self.desk.running():
            self._classes[entry.queue, self.desk.priority(entry)] = None
            self.desk.moved[entry.workload.name] = None
        self.has_rivals |= len(self._classes) > 1

    def rank_anew(self) -> None:
        """Let those stand in another order who stand in line by what their queues have used."""
        if not self.desk.by_usage:
            return
        has_moved = False
        for lines in self.lines.values():
            for item in list(lines):
                rank = self._rank(self.desk.entries[item[0]], grows=bool(item[1]))
                if rank != lines.rank_of(item):
                    lines.move(item, rank)
                    has_moved = True
            if has_moved:
                wake_blocked(lines)
        if has_moved:
            self.bookings.reorder()

    def mind_claims(self) -> None:
        """Count all claims anew if the queues, what they name or the nodes have changed."""
        kinds = self.desk.books.kinds_there()
        may_differ = len(kinds) > 1 or kinds != self._kinds or self.desk.has_groups
        if self._tree is not self.desk.tree or (self.desk.tree.pairs and may_differ):
            self._renew_claims()

    def _renew_claims(self) -> None:
        self._tree, self._kinds = self.desk.tree, self.desk.books.kinds_there()
        self.claims.renew()
        for lines in self.lines.values():
            lines.forget_sizes()
            for item in lines:
                line, entry = lines.line_of(item), self.desk.entries[item[0]]
                times = 1
                if item[1]:
                    times = entry.members[item[1]].spare // max(1, line.ask.root.count)
                self.claims.add(item, entry.queue, self._likely(line, entry), times)

    # -- standing ---------------------------------------------------------------------------

    def measure_anew(self) -> None:
        """Let shares be those of now: queues and what is asked for may have changed."""
        self._is_measured = False

    @property
    def yardstick(self) -> Yardstick:
        """Return the yardstick of this cycle."""
        if self._yardstick is None or not self._is_measured:
            found = self.claims.yardstick()
            if found is not self._yardstick:
                self._yardstick = found
                self._rightful.clear()
            self._is_measured = True
        return self._yardstick

    def standing(self, queue: int) -> tuple[object, ...] | None:
        """Return where the next workload of a queue would stand; None: nobody waits there."""
        found = self.lines[queue].peek()
        return None if found is None else self.stands(queue, found[1])

    def stands(self, queue: int, item: Item) -> tuple[object, ...]:
        """Return where one in the lines of a queue would stand."""
        lines = self.lines[queue]
        rank = lines.rank_of(item)
        if not self.desk.tree.pairs:
            return (rank,)
        entry = self.desk.entries[item[0]]
        size = tuple(self._likely(lines.line_of(item), entry).items())
        used, path = self.desk.books.usage_of, reversed(self.desk.tree.path[entry.queue])
        classes = [self.yardstick.standing(above, used[above], size) for above in path]
        return (*classes, rank)

    # -- what is known ----------------------------------------------------------------------

    def find(self, name: str) -> Lines | None:
        """Return the lines that a workload is known to stand in."""
        return self.lines.get(self.queue_of.get(name, -1))

    def waiting(self) -> list[str]:
        """Return those who wait to start or to grow, in order of rank."""
        found = [(lines.rank_of(item), item) for lines in self.lines.values() for item in lines]
        return list(dict.fromkeys(name for _, (name, _) in sorted(found)))

    def blocked(self, entry: Entry, line: Line) -> tuple[tuple[int, ...], list[Reason], bool]:
        """Return the kinds of nodes that others wait for who may not be passed, and whom.

        And whether there are no other kinds.
        """
        queue = self.queue_of[entry.workload.name]
        has_shadow = self.residual is not None
        return self.passing.blocked(queue, self.lines[queue], line, has_shadow=has_shadow)

    @property
    def is_single_file(self) -> bool:
        """Return whether whoever is blocked is so by all who are before it."""
        return self.is_shadow and len(self.desk.books.kinds_there()) <= 1

    def has_rivals_in(self, queue: int) -> bool:
        """Return whether anybody could have a right to the place of another of its own queue."""
        return self._has_juniors or sum(each == queue for each, _ in self._classes) > 1

    @property
    def could_ask(self) -> bool:
        """Return whether anybody might be asked to leave for one whose turn has not come."""
        desk = self.desk
        if self.has_rivals or desk.policy.headroom:
            return True
        return bool(desk.overtakers) and self.quantum.begins_at() <= desk.now

    @property
    def could_move(self) -> bool:
        """Return whether work might be moved to make room."""
        rules = self.desk.policy.eviction
        return not self.is_shadow and rules.consolidates and rules.movers != 0

    def waits_for_room(self, queue: int) -> bool:
        """Return whether all in a queue start where nobody starts later for it, and else not.

        Those who ask for the same have room together then, or none of them has.
        """
        tree = self.desk.tree
        if tree.order[queue] != "easy" or tree.pairs or tree.queues[queue].bypass_limit is not None:
            return False
        return not (self.could_ask or self.could_move)

    def backfills(self, entry: Entry) -> bool:
        """Return whether the queue of a workload lets others by under the eyes of a shadow."""
        return self.desk.tree.order[self.queue_of[entry.workload.name]] == "backfill"

    def fills(self, entry: Entry) -> bool:
        """Return whether a start now would be before its turn."""
        has_shadow = self.residual is not None and self.backfills(entry)
        return has_shadow and entry.workload.name not in self.desk.due

    def early_until(self, item: Item, lines: Lines, heads: Heads | None = None) -> float:
        """Return until when one may ask nobody of another queue to leave, who is behind others.

        Behind one who will have the right to, it waits for longer than behind one who asks for more
        than the share of their queue, and so has none. Who asks nobody is in nobody's way.
        """
        entry, rule, patience_s = self.desk.entries[item[0]], self.desk.policy.backfill, -LATER
        if not self.fills(entry):
            return -LATER
        rank, mine = lines.rank_of(item), {*self.passing.needed(lines.line_of(item), item)}
        for other, line, head in sorted(lines.heads()) if heads is None else heads:
            if other >= rank or patience_s >= max(rule.longest_patience_s, rule.patience_s):
                break
            if self._could_ask(line, head) and mine & {*self.passing.needed(line, head)}:
                has_rights = self._has_rights(line, head)
                said_s = rule.longest_patience_s if has_rights else rule.patience_s
                patience_s = max(patience_s, said_s)
        return waits_since(entry) + patience_s

    def _could_ask(self, line: Line, head: Item) -> bool:
        """Return whether the first of a line could start if others left, and asks them."""
        workload = self.desk.entries[head[0]].workload
        return (not line.asleep or could_start(line)) and workload.preemption_delay_s < NEVER_S

    def _has_rights(self, line: Line, item: Item) -> bool:
        """Return whether one would be covered, or in its share, if its queue had nothing else."""
        if not self.desk.tree.pairs:
            return True
        entry, yardstick = self.desk.entries[item[0]], self.yardstick
        key = (line, entry.queue)
        found = self._rightful.get(key)
        if found is None:
            size = tuple(self._likely(line, entry).items())
            path, nothing = self.desk.tree.path[entry.queue], (0,) * len(self.desk.tree.pairs)
            classes = [yardstick.standing(above, nothing, size) for above in path]
            found = self._rightful[key] = max(classes) <= IN_SHARE
        return found

    def copy(self, desk: Desk) -> Hall:
        """Return the hall of a fork; its shadow is its own."""
        new = Hall(desk)
        new.lines = {queue: lines.copy() for queue, lines in self.lines.items()}
        new.queue_of, new.left = dict(self.queue_of), self.left
        new.bookings = self.bookings.copy(desk, new.lines, new.queue_of, new.stands)
        new.claims = self.claims.copy(desk)
        new.passing = self.passing.copy(desk, new.queue_of)
        new._tree, new._kinds = self._tree, self._kinds
        new.latest = dict(self.latest)
        new._classes, new.has_rivals = dict(self._classes), self.has_rivals
        new._has_juniors = self._has_juniors
        new.is_shadow = self.is_shadow
        return new
