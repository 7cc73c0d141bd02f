"""What a queue offers a workload: whether it may start at all, and on which flavors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.plan import Exhausted, NotAllowed, OverQuota, Stopped, Unknown
from mooring.policy.backfill.calendar import is_used_up
from mooring.policy.fewer import least
from mooring.policy.placing.ask import Ask
from mooring.policy.placing.why import kinds_for
from mooring.policy.queues.lines import Request
from mooring.policy.queues.quota import FIXED
from mooring.policy.queues.tree import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Part
    from mooring.policy.placing.beside import Beside, Found
    from mooring.policy.queues.quota import Shortage


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """An ask with flavors, and the kinds of nodes that it may not be on."""

    ask: Ask
    request: Request
    barred: tuple[int, ...] = ()
    borrows: bool = False
    flavors: tuple[str, ...] = ()
    """The flavor of each resource group, where the queue has any."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One step in a search over flavors: some are tried, as they are or by evicting others."""

    evicts: bool
    flavors: tuple[tuple[str, ...], ...]


def gate(desk: Desk, entry: Entry) -> tuple[Reason, ...]:
    """Return what keeps a workload from starting whatever there is to have."""
    workload, tree = entry.workload, desk.tree
    if not workload.active:
        return (Stopped(""),)
    restarts = desk.policy.failure.restarts
    if entry.past.used_up_s is not None and is_used_up(desk, entry):
        return (Exhausted(0),)
    if restarts is not None and entry.past.failures > restarts:
        return (Exhausted(entry.past.failures),)
    if not tree.exists[entry.queue]:
        return (Unknown("", "queue", workload.queue),)
    for queue in tree.path[entry.queue]:
        rules = tree.queues[queue]
        if tree.is_cyclic[queue]:
            return (Unknown("", "parent queue", rules.parent),)
        if rules.stop:
            return (Stopped(rules.name),)
        if rules.namespaces is not None and workload.namespace not in rules.namespaces:
            return (NotAllowed(rules.name, "namespace", workload.namespace),)
        if rules.users is not None and workload.user not in rules.users:
            return (NotAllowed(rules.name, "user", workload.user),)
    return ()


# wide: a workload, what it asks, what is out of the question, and why not
def offers(
    desk: Desk, entry: Entry, ask: Ask, barred: tuple[int, ...], reasons: list[Reason]
) -> Iterator[Offer]:
    """Yield the offers of a workload's queue, best first; why there are none goes to `reasons`."""
    if not desk.tree.pairs:
        if len(barred) < len(desk.books.kinds) or not barred:
            yield Offer(ask, {}, barred)
        return
    groups = desk.groups_of(entry.queue)
    if groups:
        yield from _assigned(desk, entry, ask, barred, reasons)
        return
    kinds = [kind for kind in kinds_of(desk, ask) if kind not in barred]
    closed, found = list(barred), None
    shortages: list[Shortage] = []
    requests: list[Request] = []
    for kind in kinds or [BY_NODE]:
        request = desk.request(ask, entry.account, kind)
        shortage = shortage_of(desk, entry, request)
        if shortage is None:
            found = found or request
        else:
            closed.append(kind)
            shortages.append(shortage)
            requests.append(request)
    if found is not None and (kinds or not barred):
        yield from _own_first(desk, entry, Offer(ask, found, tuple(closed)))
    elif shortages:
        short = _nearest(desk, entry, shortages, requests)
        if short.queue != NOBODY:  # else there is no room, and that is told
            reasons.append(over_quota(desk, entry, short))


def _own_first(desk: Desk, entry: Entry, offer: Offer) -> Iterator[Offer]:
    """Yield an offer on nodes that do not go beyond the quota of its queue, then on all others."""
    every = [kind for kind in kinds_of(desk, offer.ask) if kind not in offer.barred]
    if len(every) > 1 and desk.policy.profile == "default":
        requests = {kind: desk.request(offer.ask, entry.account, kind) for kind in every}
        dear = [kind for kind in every if desk.borrows(entry, requests[kind])]
        if dear and len(dear) < len(every):
            own = next(requests[kind] for kind in every if kind not in dear)
            yield Offer(offer.ask, own, (*offer.barred, *dear))
    yield replace(offer, borrows=desk.borrows(entry, offer.request))


def _assigned(
    desk: Desk, entry: Entry, ask: Ask, barred: tuple[int, ...], reasons: list[Reason]
) -> Iterator[Offer]:
    """Yield an offer for each choice of a flavor for each resource group, in order."""
    queue = desk.queue_of(entry)
    found: list[Offer] = []
    shortages: list[Shortage] = []
    requests: list[Request] = []
    groups = desk.groups_of(entry.queue)
    for flavors in product(*(group.flavors for group in groups)):
        chosen = {
            resource: flavor
            for group, flavor in zip(groups, flavors, strict=True)
            for resource in group.resources
        }
        given = assigned(desk, ask, chosen)
        request = desk.request(given, entry.account)
        shortage = shortage_of(desk, entry, request)
        if shortage is not None:
            shortages.append(shortage)
            requests.append(request)
            continue
        found.append(Offer(given, request, barred, desk.borrows(entry, request), flavors))
    if not found and shortages:
        short = _nearest(desk, entry, shortages, requests)
        if short.queue != NOBODY:
            reasons.append(over_quota(desk, entry, short))
    if queue.fungibility.when_borrowing == "next":
        found.sort(key=lambda offer: offer.borrows)
    yield from found


def turns(desk: Desk, entry: Entry, ask: Ask) -> list[Turn]:
    """Return the order of a queue that would rather evict than take another flavor, or borrow.

    Empty: it is the usual one. All flavors are tried as they are before anybody is evicted.
    """
    rules = desk.queue_of(entry).fungibility
    is_usual = rules.when_preempting == "next" and rules.prefer == "borrowing"
    if is_usual or not desk.groups_of(entry.queue):
        return []
    found = variants(desk, entry, ask)
    dear = tuple(o.flavors for o in found if desk.borrows(entry, o.request))
    free = tuple(o.flavors for o in found if o.flavors not in dear)
    if rules.when_preempting == "next":
        some = [Turn(evicts, flavors) for flavors in (free, dear) for evicts in (False, True)]
    elif rules.when_borrowing == "next":
        some = [Turn(evicts, (one,)) for one in free for evicts in (False, True)]
        some += [Turn(False, dear), Turn(True, dear)]
    else:
        some = [Turn(evicts, (o.flavors,)) for o in found for evicts in (False, True)]
    return [turn for turn in some if turn.flavors]


def closed_kinds(desk: Desk, entry: Entry, ask: Ask) -> tuple[int, ...]:
    """Return the kinds of nodes with room that a queue cannot be charged for now."""
    if not desk.tree.pairs or desk.groups_of(entry.queue):
        return ()
    kinds = kinds_of(desk, ask)
    short = [shortage_of(desk, entry, desk.request(ask, entry.account, kind)) for kind in kinds]
    pairs = zip(kinds, short, strict=True)
    return tuple(kind for kind, each in pairs if each is not None and each.queue != NOBODY)


def _nearest(
    desk: Desk, entry: Entry, shortages: Sequence[Shortage], requests: Sequence[Request]
) -> Shortage:
    """Return the first shortage that others could end; if none is such, the first."""
    for shortage, request in zip(shortages, requests, strict=True):
        if could_charge(desk, entry, request):
            return shortage
    return shortages[0]


def kinds_of(desk: Desk, ask: Ask) -> list[int]:
    """Return the kinds of nodes that an ask could be on, by name; all, if it could be on none."""
    books, every = desk.books, desk.books.kinds_there()
    if len(every) <= 1:
        return every
    desk.placer.aim(ask.avoid)
    rows = [desk.placer.fit(leaf).allowed for leaf in ask.leaves]
    found = {kind for allowed in rows for kind in np.unique(books.kind[allowed]).tolist()}
    return [kind for kind in every if kind in found] or every


def needed_kinds(desk: Desk, entry: Entry, ask: Ask) -> list[int]:
    """Return the kinds of nodes that an ask could be on, and be charged for, if nothing ran.

    Where fewer will do, those that the least of it could be on.
    """
    every, ask = desk.books.kinds_there(), least(ask)
    if len(every) <= 1:
        return every
    desk.placer.aim(ask.avoid)
    found = {kind for leaf in ask.leaves for kind in kinds_for(desk.placer, leaf)}
    if desk.tree.pairs and not desk.groups_of(entry.queue):
        requests = [(kind, desk.request(ask, entry.account, kind)) for kind in found]
        found = {kind for kind, request in requests if could_charge(desk, entry, request)}
    return [kind for kind in every if kind in found]


def could_charge(desk: Desk, entry: Entry, request: Request) -> bool:
    """Return whether a workload's queue could be charged so much if nothing ran."""
    ledger = desk.ledger
    if any(ledger.potential(entry.queue, pair) < amount for pair, amount in request.items()):
        return False
    grows = entry.has_begun and entry.workload.semi_preemptible
    if not entry.is_fixed or grows:
        return True
    nothing = [[0] * len(desk.tree.pairs) for _ in range(desk.tree.count)]
    return ledger.over_quota_fixed(entry.queue, request, nothing) is None


def variants(desk: Desk, entry: Entry, ask: Ask) -> list[Offer]:
    """Return all ways to charge an ask, whatever quota says now; the likely one first."""
    groups = desk.groups_of(entry.queue)
    if groups:
        found = []
        for flavors in product(*(group.flavors for group in groups)):
            pairs = zip(groups, flavors, strict=True)
            chosen = {resource: flavor for group, flavor in pairs for resource in group.resources}
            given = assigned(desk, ask, chosen)
            request = desk.request(given, entry.account)
            found.append(Offer(given, request, ask.barred, flavors=flavors))
        return found
    kinds = range(len(desk.books.kinds))
    requests: list[tuple[Request, list[int]]] = []
    free = [kind for kind in desk.books.kinds_there() if kind not in ask.barred]
    room = _room(desk, ask) if len(free) > 1 else [0] * len(kinds)
    for kind in sorted(free, key=lambda kind: (-room[kind], desk.books.kinds[kind])):
        request = desk.request(ask, entry.account, kind)
        known = next((some for other, some in requests if other == request), None)
        if known is not None:
            known.append(kind)
        elif room[kind] or not requests:
            requests.append((request, [kind]))
    return [
        Offer(ask, request, tuple(kind for kind in kinds if kind not in some))
        for request, some in requests
    ]


def _room(desk: Desk, ask: Ask) -> list[int]:
    """Return how often each kind of nodes could hold an ask if nothing ran."""
    desk.placer.aim(ask.avoid)
    fits = [desk.placer.fit(leaf).ever[-1] for leaf in ask.leaves]
    of_kind = [desk.books.kind == kind for kind in range(len(desk.books.kinds))]
    return [min((int(f[rows].sum()) for f in fits), default=0) for rows in of_kind]


def assigned(desk: Desk, ask: Ask, flavors: dict[str, str]) -> Ask:
    """Return an ask whose leaves are charged to these flavors, by resource."""
    codes = {leaf.name: code_of(desk, leaf, flavors) for leaf in ask.root.leaves()}
    leaves = tuple(coded(leaf, codes) for leaf in ask.leaves)
    return replace(ask, root=coded(ask.root, codes), leaves=leaves)


def code_of(desk: Desk, leaf: Part, flavors: dict[str, str]) -> int:
    """Return the code of flavors, by resource, for what a leaf asks for."""
    assert leaf.demand is not None
    shape = leaf.demand.shape
    names = {"pods", *(name for name, _ in shape.amounts), *(("gpu",) if shape.gpus else ())}
    some = tuple(sorted((r, flavor) for r, flavor in flavors.items() if r in names))
    return desk.books.assignment(some) if some else BY_NODE


def shortage_of(desk: Desk, entry: Entry, request: Request) -> Shortage | None:
    """Return what stands against charging a workload's queue; fixed work only uses quota."""
    shortage = desk.ledger.blocker(entry.queue, request, desk.books.usage_of)
    grows = entry.has_begun and entry.workload.semi_preemptible
    if shortage is None and entry.is_fixed and not grows:
        return desk.fixed_shortage(entry, request)
    return shortage


def over_quota(desk: Desk, entry: Entry, shortage: Shortage) -> OverQuota:
    """Return a shortage as a reason."""
    flavor, resource = desk.tree.pairs[shortage.pair]
    queue = "" if shortage.queue == NOBODY else desk.tree.names[shortage.queue]
    ever = could_charge(desk, entry, {shortage.pair: shortage.wanted})
    is_fixed = shortage.rule == FIXED
    return OverQuota(queue, flavor, resource, shortage.wanted, shortage.left, ever, is_fixed)


# wide: tasks that join others, and why not
def place_beside(
    desk: Desk,
    entry: Entry,
    beside: Beside,
    wanted: Mapping[str, Sequence[int]],
    reasons: list[Reason],
) -> Found | None:
    """Book places for more tasks of a workload where its queue may be charged; None: nowhere."""
    first: Shortage | None = None
    for way in _ways(desk, entry, beside, wanted):
        shortage = _close(desk, entry, way, wanted)
        found = None
        if shortage is None:
            found = desk.promises.place_beside(entry, way, wanted, reasons)
        if found is not None:
            return found
        first = first or shortage
    if first is not None and first.queue != NOBODY and not reasons:
        reasons.append(over_quota(desk, entry, first))
    return None


def _ways(
    desk: Desk, entry: Entry, beside: Beside, wanted: Mapping[str, Sequence[int]]
) -> Iterator[Beside]:
    """Yield the flavors that groups may have of which nothing has a place yet, best first."""
    groups = desk.groups_of(entry.queue) if _is_charged_anew(desk, entry) else ()
    empty = [name for name, members in entry.members.items() if not members.holding()]
    bare = [leaf for leaf in beside.root.leaves() if wanted.get(leaf.name) and leaf.name in empty]
    if not groups or not bare:
        yield beside
        return
    for flavors in product(*(group.flavors for group in groups)):
        pairs = zip(groups, flavors, strict=True)
        chosen = {resource: flavor for group, flavor in pairs for resource in group.resources}
        codes = {leaf.name: code_of(desk, leaf, chosen) for leaf in bare}
        yield replace(beside, root=coded(beside.root, codes))


def coded(part: Part, codes: Mapping[str, int]) -> Part:
    """Return a part some of whose leaves are placed on and charged to flavors."""
    if part.demand is not None:
        return replace(part, code=codes.get(part.name, part.code))
    return replace(part, parts=tuple(coded(child, codes) for child in part.parts))


def _close(
    desk: Desk, entry: Entry, beside: Beside, wanted: Mapping[str, Sequence[int]]
) -> Shortage | None:
    """Bar the kinds of nodes that cannot be charged for; return what is short if all are barred."""
    if not _is_charged_anew(desk, entry):
        return None

    def short(request: Request) -> Shortage | None:
        if desk.policy.profile == "default":
            return shortage_of(desk, entry, request)
        return desk.ledger.blocker(entry.queue, request, desk.books.usage_of)

    return bar_short(desk, entry, beside, wanted, short)


def _is_charged_anew(desk: Desk, entry: Entry) -> bool:
    """Return whether quota is asked for what a gang misses.

    Profiles other than `default` complete what runs whatever quota says; where nothing runs any
    more but some has finished, the rest is a new start.
    """
    return desk.policy.profile == "default" or not entry.is_placed


# wide: tasks that join others, and what they may be charged
def bar_short(
    desk: Desk,
    entry: Entry,
    beside: Beside,
    wanted: Mapping[str, Sequence[int]],
    short: Callable[[Request], Shortage | None],
) -> Shortage | None:
    """Bar the kinds of nodes that tasks would come to for which a queue is short of quota.

    Return what was short first if there is no other place; None: there is one, or none at all.
    """
    books = desk.books
    if not desk.tree.pairs:
        return None
    first: Shortage | None = None
    while True:
        mark, before = books.checkpoint(), list(books.usage_of[entry.queue])
        found = beside.place(wanted)
        if found is None:
            return first
        used = books.usage_of[entry.queue]
        request = {pair: used[pair] - was for pair, was in enumerate(before) if used[pair] > was}
        books.rollback(mark)
        shortage = short(request)
        if shortage is None:
            return None
        first = first or shortage
        kinds = {books.kind_of[row] for _, seats in found for row in seats.rows}
        beside.barred = (*beside.barred, *sorted(kinds))
