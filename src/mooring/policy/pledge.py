"""Whether promises of room could be kept at all: by capacity, quotas of others, and own limits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mooring.model.books import flavors_of
from mooring.model.cluster import WHOLE
from mooring.model.resources import GPU
from mooring.policy.headroom import matched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mooring.model.cluster import Node
    from mooring.model.queues import Queue
    from mooring.model.settings import Headroom, Policy

Claim = tuple[str, int]
"""Flavor (empty: any), and thousandths of devices."""


def broken_promises(policy: Policy, queues: Sequence[Queue], nodes: Iterable[Node]) -> list[str]:
    """Return what is wrong with promises that could not be kept even on an empty cluster.

    Each says field, value and what to do. Without nodes nobody can tell how much there is.
    """
    if policy.headroom and policy.profile != "default":
        return [f"policy.headroom: profile {policy.profile} keeps no promises; remove them"]
    names = {queue.name for queue in queues}
    wrong = []
    for i, promise in enumerate(policy.headroom):
        at = f"policy.headroom[{i}]"
        if promise.queue not in names:
            wrong.append(f"{at}.queue: {promise.queue!r}: give the name of a queue")
        if promise.gpus < 1:
            wrong.append(f"{at}.gpus: {promise.gpus}: give at least 1")
        if promise.within_s < 0:
            wrong.append(f"{at}.within_s: {promise.within_s:g}: give at least 0")
    return wrong or [*_beyond_limits(policy, queues), *_beyond_room(policy, queues, nodes)]


def _beyond_limits(policy: Policy, queues: Sequence[Queue]) -> Iterator[str]:
    """Yield the promises of more than a queue may ever use."""
    by_name = {queue.name: queue for queue in queues}
    price = {flavor.name: flavor.price for flavor in policy.flavors}
    least = min(price.values(), default=1.0)
    for i, promise in enumerate(policy.headroom):
        for at, flavor, most in _bounds(promise, by_name):
            worth = 1.0 if flavor else price.get(promise.flavor, least)
            if promise.gpus * WHOLE * worth > most:
                fix = f"give at most {int(most / worth) // WHOLE}: queue {at} has a limit"
                yield f"policy.headroom[{i}].gpus: {promise.gpus}: {fix}"


def _bounds(promise: Headroom, by_name: Mapping[str, Queue]) -> Iterator[tuple[str, str, int]]:
    """Yield what the queue of a promise, and those above it, may use: name, flavor, most."""
    at, way = by_name.get(promise.queue), set[str]()
    while at is not None and at.name not in way:
        way.add(at.name)
        some = [(at.name, flavor, most) for flavor, most in _most(at)]
        yield from (each for each in some if each[1] in ("", promise.flavor))
        at = by_name.get(at.parent)


def _most(queue: Queue) -> Iterator[Claim]:
    """Yield what a queue may use of each flavor at most, where that is bounded."""
    for quota in queue.quotas:
        bounds = [] if quota.limit is None else [quota.limit]
        if quota.borrowing_limit is not None and quota.quota is not None:
            bounds.append(quota.quota + quota.borrowing_limit)
        if quota.resource == GPU and bounds:
            yield quota.flavor, min(bounds)


def _beyond_room(policy: Policy, queues: Sequence[Queue], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the promises of more than the cluster has, less what others can count on."""
    room: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        devices = sum(not device.mig for device in node.devices)
        room[flavors_of(node, policy.flavors)] += devices * WHOLE
    if not room.total():
        return
    claims = _claims(policy, queues)
    taken = _got(room, claims)
    for i, promise in enumerate(policy.headroom):
        claims.append((promise.flavor, promise.gpus * WHOLE))
        now = _got(room, claims)
        most = (now - taken) // WHOLE
        if most < promise.gpus:
            there = sum(milli for kind, milli in room.items() if _is_for(promise, kind)) // WHOLE
            flavor = f" of flavor {promise.flavor}" if promise.flavor else ""
            fix = f"give at most {most}" if most else "remove it"
            why = f"there are {there} GPUs{flavor}"
            if most < there:
                why += f", of which others were promised or have as quota {there - most}"
            yield f"policy.headroom[{i}].gpus: {promise.gpus}: {fix}: {why}"
        taken = now


def _is_for(promise: Headroom, kind: tuple[str, ...]) -> bool:
    return not promise.flavor or promise.flavor in kind


def _got(room: Counter[tuple[str, ...]], claims: Sequence[Claim]) -> int:
    """Return how much of the claims the cluster has."""
    supply: Counter[tuple[int, ...]] = Counter()
    for kind, milli in room.items():
        supply[tuple(i for i, (f, _) in enumerate(claims) if not f or f in kind)] += milli
    return sum(matched(supply, [milli for _, milli in claims]))


def _claims(policy: Policy, queues: Sequence[Queue]) -> list[Claim]:
    """Return the quotas of all queues that no promise was made to, nor to one below them.

    A quota without bound is whatever there is: it claims nothing. One for all flavors together is
    counted at the highest price, the fewest devices that it could be.
    """
    below: dict[str, list[Queue]] = {}
    names = {queue.name for queue in queues}
    for queue in queues:
        below.setdefault(queue.parent if queue.parent in names else "", []).append(queue)
    promised = {promise.queue for promise in policy.headroom}
    price = max((flavor.price for flavor in policy.flavors), default=1.0)

    def guaranteed(queue: Queue) -> Counter[str]:
        own = Counter({q.flavor: q.quota or 0 for q in queue.quotas if q.resource == GPU})
        children = Counter[str]()
        for child in below.get(queue.name, ()):
            children += guaranteed(child)
        return own | children

    def has_promise(queue: Queue) -> bool:
        return queue.name in promised or any(map(has_promise, below.get(queue.name, ())))

    def walk(some: Iterable[Queue]) -> Iterator[Claim]:
        for queue in some:
            if not has_promise(queue):
                found = guaranteed(queue)
                together = int(found.pop("", 0) / price) - found.total()
                yield from found.items()
                yield "", max(0, together)
            elif queue.name not in promised:
                yield from walk(below.get(queue.name, ()))

    return [claim for claim in walk(below.get("", ())) if claim[1]]
