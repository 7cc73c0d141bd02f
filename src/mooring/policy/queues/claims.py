"""Who claims what: demand of every queue, and the yardstick of shares that follows from it.

Demand is what runs and what waits, so that no exchange of running work changes a share. Only units
above a minimum are not asked for by who waits: the queue of one that leaves with some claims less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.policy.placing.ask import compile_ask, leaf_ask
from mooring.policy.queues.offers import assigned
from mooring.policy.queues.share import Yardstick, add_up, default_shares, norms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.holds import Hold
    from mooring.policy.placing.ask import Ask
    from mooring.policy.queues.lines import Item, Request


class Claims:
    """What those who wait ask for, per queue and pair."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._asked: dict[Item, tuple[int, Request]] = {}
        self._wanted: dict[tuple[int, int], int] = {}
        self._known: tuple[object, Yardstick] | None = None

    def add(self, item: Item, queue: int, request: Request, times: int = 1) -> None:
        """Take in what one who waits asks for."""
        self.drop(item)
        request = {pair: times * amount for pair, amount in request.items()}
        self._asked[item] = queue, request
        for pair, amount in request.items():
            self._wanted[queue, pair] = self._wanted.get((queue, pair), 0) + amount

    def drop(self, item: Item) -> None:
        """Forget one who waits no more."""
        queue, request = self._asked.pop(item, (0, {}))
        for pair, amount in request.items():
            self._wanted[queue, pair] -= amount

    def renew(self) -> None:
        """Start again: pairs have changed, and everybody is added anew."""
        self._asked.clear()
        self._wanted.clear()
        self._known = None

    def requests(self) -> list[list[int]]:
        """Return what each queue, with all below it, uses and wants."""
        tree = self.desk.tree
        own = [[0] * len(tree.pairs) for _ in tree.names]
        for (queue, pair), amount in self._wanted.items():
            own[queue][pair] += amount
        for name, hold in self.desk.holds.items():
            entry = self.desk.entries[name]
            for pair, amount in yet_to_grow(self.desk, entry, hold).items():
                own[entry.queue][pair] += amount
        for queue, request in yet_to_wait(self.desk) if tree.pairs else ():
            for pair, amount in request.items():
                own[queue][pair] += amount
        rows = add_up(tree, own)
        used = self.desk.books.usage.tolist()
        return [
            [a + b for a, b in zip(*both, strict=True)] for both in zip(rows, used, strict=True)
        ]

    def yardstick(self) -> Yardstick:
        """Return what tells covered, in share and beyond apart, by the demand of now."""
        desk = self.desk
        requests = self.requests()
        totals = desk.totals(ready=True)
        fairness = desk.policy.fairness
        history = desk.usage.table() if fairness.history_weight else None
        key = (id(desk.tree), totals, requests, history)
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        shares = default_shares(desk.tree, totals, requests, history, fairness.history_weight)
        prices = {flavor.name: flavor.price for flavor in desk.books.named_flavors}
        found = Yardstick(desk.tree, shares, norms(desk.tree, totals, prices or None))
        self._known = (key, found)
        return found

    def copy(self, desk: Desk) -> Claims:
        """Return the claims of a fork."""
        new = Claims(desk)
        new._asked, new._wanted = dict(self._asked), dict(self._wanted)
        return new


def yet_to_grow(desk: Desk, entry: Entry, hold: Hold) -> Request:
    """Return what a workload will ask for once it has the unit that room is kept for."""
    found: Request = {}
    if not hold.is_growth or not desk.tree.pairs:
        return found
    for leaf in compile_ask(desk.books, entry.workload).root.leaves():
        held = sum(len(tasks) for tasks, seats in hold.seats if seats.part.name == leaf.name)
        unit = leaf.slices[0][1] if leaf.slices else 1
        times = (entry.members[leaf.name].spare - held) // unit
        if times > 0:
            ask = leaf_ask(leaf, unit, entry.workload, entry.avoid)
            for pair, amount in likely(desk, ask, entry.account).items():
                found[pair] = found.get(pair, 0) + times * amount
    return found


def yet_to_wait(desk: Desk) -> Iterator[tuple[int, Request]]:
    """Yield, with its queue, what each who is on its way out will ask for again once it is gone.

    It is not charged any more and does not wait yet. What is only moved is kept room for.
    """
    leaving: dict[str, dict[str, list[int]]] = {}
    for name, group, task in desk.departures.since:
        leaving.setdefault(name, {}).setdefault(group, []).append(task)
    for name, groups in leaving.items():
        entry, hold = desk.entries[name], desk.holds.get(name)
        if hold is not None and hold.is_move:
            continue
        stays = any(members.staying() for members in entry.members.values())
        tasks: list[tuple[str, int]] = []
        for group, some in groups.items():
            members = entry.members[group]
            most = members.spare + len(some) if stays else members.group.min
            tasks += [(group, task) for task in some[: max(0, most)]]
        yield entry.queue, desk.size(entry, tasks)


def likely(desk: Desk, ask: Ask, account: int) -> Request:
    """Return what an ask counts as demand for, wherever it will be in the end.

    Of flavors in an order it is the first that has a node for it, else the one with most room if
    nothing ran.
    """
    if ask.problems or not desk.tree.pairs:
        return {}
    groups = desk.groups_of(account >> 1)
    desk.placer.aim(ask.avoid)
    if not groups:
        return desk.request(ask, account, _roomiest(desk, ask))
    flavors = {}
    for group in groups:
        have = {name for kind in desk.books.kinds_there() for name in desk.books.kinds[kind]}
        first = next((flavor for flavor in group.flavors if flavor in have), group.flavors[0])
        flavors.update(dict.fromkeys(group.resources, first))
    return desk.request(assigned(desk, ask, flavors), account)


def _roomiest(desk: Desk, ask: Ask) -> int:
    """Return the kind of nodes that could hold most of an ask."""
    books, leaf = desk.books, max(ask.leaves, key=lambda leaf: leaf.count, default=None)
    kinds = books.kinds_there()
    if leaf is None or len(kinds) <= 1:
        return kinds[0] if leaf is not None and kinds else BY_NODE
    ever = desk.placer.fit(leaf).ever[-1]
    room = {kind: int(ever[books.kind == kind].sum()) for kind in kinds}
    return min(kinds, key=lambda kind: (-room[kind], books.kinds[kind]))
