"""Queues: a tree of names, what each has of every (flavor, resource), and its rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.config.forms import PRIORITY_MOST
from mooring.config.known import SHOWN_MOST, Known
from mooring.config.reader import Fields, ReadError, nearest
from mooring.config.rules import (
    AT_A_PRICE,
    DEFAULT,
    KAI,
    KEYS_OF_LINE,
    KUEUE,
    NEVER,
    NEXT,
    ORDERS,
    PREFERENCES,
    RECLAIM,
    STOPS,
    WHILE_BORROWING,
    WITHIN_QUEUE,
)
from mooring.config.schema import KEYS
from mooring.config.units import (
    bound,
    duration,
    flag,
    instant,
    name,
    number,
    one_of,
    positive_duration,
    say_bound,
    text,
    whole,
)
from mooring.model.queues import (
    DEFAULT_QUEUE,
    EvictionRules,
    Fungibility,
    Queue,
    Quota,
    ResourceGroup,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.config.reader import Cursor

priority = whole(-PRIORITY_MOST, PRIORITY_MOST)
weight = number(0)


def read_queues(fields: Fields, known: Known) -> dict[str, Queue]:
    """Read the list at `queues`; left out: the default queue."""
    if "queues" not in fields:
        return {DEFAULT_QUEUE.name: DEFAULT_QUEUE}
    reader = _QueueReader(known)
    for cursor in fields.items("queues"):
        reader.read(cursor)
    reader.check_parents()
    reader.check_local()
    reader.check_lending()
    if known.policy.profile == DEFAULT:
        reader.check_limits()
    return reader.queues


def queues_below(queues: dict[str, Queue]) -> dict[str, list[str]]:
    """Return, of each queue that has any, the queues below it that are not local."""
    below: dict[str, list[str]] = {}
    for queue in queues.values():
        if queue.parent and not queue.local:
            below.setdefault(queue.parent, []).append(queue.name)
    return below


@dataclass
class _QueueReader:
    """Reads queues one by one, then checks them together."""

    known: Known
    queues: dict[str, Queue] = field(default_factory=dict)
    places: dict[str, Fields] = field(default_factory=dict)
    """Of a queue that is only a name there is nothing to be wrong."""
    lent: list[tuple[str, Fields, Quota]] = field(default_factory=list)
    """Every quota with its queue."""

    def read(self, cursor: Cursor) -> None:
        """Read one queue: a name, or more."""
        if not isinstance(cursor.value, dict):
            self._add(cursor, Queue(cursor.take(name, "")))
            return
        fields = cursor.fields(KEYS["queue"])
        queue = self._read_queue(fields)
        if self._add(cursor, queue):
            self.places[queue.name] = fields

    def _add(self, cursor: Cursor, queue: Queue) -> bool:
        if queue.name in self.queues:
            cursor.wrong("give another name: there is already such a queue")
        elif queue.name:
            self.queues[queue.name] = queue
            return True
        return False

    def _read_queue(self, fields: Fields) -> Queue:
        return Queue(
            name=fields.need("name", name, ""),
            parent=fields.take("parent", name, ""),
            quotas=self._read_quotas(fields),
            groups=self._read_groups(fields),
            fungibility=_read_fungibility(fields),
            weight=fields.take("weight", weight, 1.0),
            priority=fields.take("priority", priority, 0),
            order=fields.take("order", one_of(ORDERS), ""),
            by_usage=fields.take("by_usage", flag, False),
            eviction=self._read_eviction(fields),
            preempt_minimum_run_s=fields.take("preempt_minimum_run", duration, None),
            reclaim_minimum_run_s=fields.take("reclaim_minimum_run", duration, None),
            run_limit_s=fields.take("run_limit", positive_duration, None),
            stop=fields.take("stop", one_of(STOPS), ""),
            namespaces=fields.each("namespaces", text) if "namespaces" in fields else None,
            users=fields.each("users", text) if "users" in fields else None,
            local=fields.take("local", flag, False),
            bypass_limit=fields.take("bypass_limit", whole(), None),
            created_at=fields.take("created_at", instant, 0.0),
            by=fields.take("by", one_of(KEYS_OF_LINE), ""),
        )

    def _read_quotas(self, fields: Fields) -> tuple[Quota, ...]:
        """Read the list at `quotas`, each (flavor, resource) once."""
        quotas: dict[tuple[str, str], Quota] = {}
        for cursor in fields.items("quotas"):
            entry = cursor.fields(KEYS["quota"])
            resource = entry.need("resource", self.known.resource, "")
            flavor = entry.take("flavor", self.known.flavor, "")
            if not resource or ("flavor" in entry and not flavor):
                continue
            quota = _read_quota(entry, resource, flavor)
            if (flavor, resource) in quotas:
                of = f" of {flavor}" if flavor else ""
                cursor.wrong(f"give each quota once: there is already one for {resource}{of}")
            quotas[flavor, resource] = quota
            self.lent.append((str(fields.values.get("name")), entry, quota))
            self._check_borrowing(fields, entry)
        return tuple(quotas.values())

    def _check_borrowing(self, fields: Fields, entry: Fields) -> None:
        """Find limits of what passes between queues where there is no other: profile kueue."""
        if self.known.policy.profile == KUEUE and "parent" not in fields:
            for key in ("borrowing_limit", "lending_limit"):
                if key in entry:
                    entry.wrong(key, "remove it, or give the queue a parent: nobody is beside it")

    def _read_groups(self, fields: Fields) -> tuple[ResourceGroup, ...]:
        """Read the list at `groups`; each resource and each flavor is in one of them."""
        resource = _once(self.known.resource, "resource")
        flavor = _once(self.known.flavor, "flavor")
        groups = []
        for cursor in fields.items("groups"):
            entry = cursor.fields(KEYS["resource_group"])
            for key in ("resources", "flavors"):
                if entry.values.get(key, []) == []:
                    entry.wrong(key, "give at least one")
            found = entry.each("resources", resource), entry.each("flavors", flavor)
            groups.append(ResourceGroup(*found))
        return tuple(groups)

    def _read_eviction(self, fields: Fields) -> EvictionRules:
        if "eviction" not in fields:
            return EvictionRules()
        given = fields.at("eviction").fields(KEYS["eviction_rules"])
        rules = EvictionRules(
            within_queue=given.take("within_queue", one_of(WITHIN_QUEUE), ""),
            reclaim=given.take("reclaim", one_of(RECLAIM), ""),
            while_borrowing=given.take("while_borrowing", one_of(WHILE_BORROWING), ""),
            borrowing_threshold=given.take("borrowing_threshold", priority, None),
        )
        further = rules.while_borrowing not in (NEVER, "") and rules.reclaim in (NEVER, "")
        is_readable = "reclaim" not in given or bool(rules.reclaim)
        if self.known.policy.profile == KUEUE and further and is_readable:
            fix = "give `reclaim: lower-priority` or `any` too: it goes further than that"
            given.wrong("while_borrowing", fix)
        return rules

    def check_parents(self) -> None:
        """Find parents that do not exist, and cycles; each cycle once, at its first queue.

        Queues without parent are out under profile kai, and those of a cycle under profile kueue;
        that is how it is there, and no mistake. Under kueue a cohort is there once it is named.
        """
        profile = self.known.policy.profile
        for queue in list(self.queues.values()) if profile == KUEUE else ():
            if queue.parent and not queue.local:
                self.queues.setdefault(queue.parent, Queue(queue.parent))
        done: set[str] = set()
        for queue in self.queues.values():
            if queue.parent and queue.parent not in self.queues and profile != KAI:
                near = nearest(queue.parent, self.queues)
                self.places[queue.name].wrong("parent", f"give the name of a queue as parent{near}")
            way: dict[str, None] = {}
            at: Queue | None = queue
            while at and at.name not in done and at.name not in way:
                way[at.name] = None
                at = self.queues.get(at.parent)
            if at and at.name in way and profile != KUEUE:
                self.places[at.name].wrong("parent", _cycle(list(way), at.name))
            done.update(way)

    def check_lending(self) -> None:
        """Find queues that lend more than they have; those above others lend what these have."""
        above = queues_below(self.queues)
        for owner, entry, quota in self.lent:
            if owner in above or quota.quota is None:
                continue
            if (quota.lending_limit or 0) > quota.quota:
                most = say_bound(quota.resource, quota.quota)
                entry.wrong("lending_limit", f"give at most {most}, the quota")

    def check_limits(self) -> None:
        """Find quotas that cannot be used: above their own limit, or above one further up."""
        limits = {
            (owner, quota.flavor, quota.resource): quota.limit
            for owner, _, quota in self.lent
            if quota.limit is not None
        }
        for owner, entry, quota in self.lent:
            if not quota.quota or owner not in self.queues:
                continue
            if quota.limit is not None and quota.limit < quota.quota:
                least = say_bound(quota.resource, quota.quota)
                entry.wrong("limit", f"give at least {least}, the quota")
                continue
            for above in self._above(owner):
                limit = limits.get((above, quota.flavor, quota.resource))
                if limit is not None and limit < quota.quota:
                    most = say_bound(quota.resource, limit)
                    entry.wrong("quota", f"give at most {most}, the limit of {above!r} above it")
                    break

    def _above(self, owner: str) -> list[str]:
        """Return the queues above one, the nearest first; of a cycle each once."""
        way = [owner]
        while (parent := self.queues[way[-1]].parent) in self.queues and parent not in way:
            way.append(parent)
        return way[1:]

    def check_local(self) -> None:
        """Find local queues that have more than their place, or stand where nobody lines up."""
        below = queues_below(self.queues)
        for queue in self.queues.values():
            above = self.queues.get(queue.parent)
            if above and above.local:
                fix = f"give another parent: {above.name!r} is local, and has no queues below"
                self.places[queue.name].wrong("parent", fix)
            if not queue.local:
                continue
            fields = self.places[queue.name]
            if not queue.parent:
                fields.wrong("parent", "give one, or remove `local`: its work lines up there")
            elif queue.parent in below:
                fix = f"give another parent: below {queue.parent!r} are queues with quota"
                fields.wrong("parent", fix)
            for key in ("quotas", "groups"):
                if key in fields:
                    fields.wrong(key, "remove it, or `local`: a local queue has no quota")


def _cycle(way: list[str], first: str) -> str:
    """Return what to do about queues that are above each other; of many the first few."""
    names = [*map(repr, way[way.index(first) :]), repr(first)]
    if len(names) > SHOWN_MOST:
        names[SHOWN_MOST - 1 : -1] = ["…"]
    return f"give another parent: cyclic queues, {' below '.join(names)}"


def _read_quota(entry: Fields, resource: str, flavor: str) -> Quota:
    amount = bound(resource)
    guaranteed: int | None = 0
    return Quota(
        resource=resource,
        flavor=flavor,
        quota=entry.take("quota", amount, guaranteed),
        limit=entry.take("limit", amount, None),
        weight=entry.take("weight", weight, None),
        borrowing_limit=entry.take("borrowing_limit", amount, None),
        lending_limit=entry.take("lending_limit", amount, None),
    )


def _read_fungibility(fields: Fields) -> Fungibility:
    if "fungibility" not in fields:
        return Fungibility()
    default = Fungibility()
    given = fields.at("fungibility").fields(KEYS["fungibility"])
    rule = one_of(AT_A_PRICE)
    found = Fungibility(
        when_borrowing=given.take("when_borrowing", rule, default.when_borrowing),
        when_preempting=given.take("when_preempting", rule, default.when_preempting),
        prefer=given.take("prefer", one_of(PREFERENCES), default.prefer),
    )
    is_asked = found.when_borrowing == found.when_preempting == NEXT
    if found.prefer != default.prefer and not is_asked:
        fix = "give `when_borrowing: next` and `when_preempting: next` too, or remove it"
        given.wrong("prefer", f"{fix}: else it is never asked")
    return found


def _once(read: Callable[[object], str], what: str) -> Callable[[object], str]:
    """Make a reader that takes each name once."""
    seen: set[str] = set()

    def take(value: object) -> str:
        word = read(value)
        if word in seen:
            raise ReadError(f"give each {what} once, in one group")
        seen.add(word)
        return word

    return take
