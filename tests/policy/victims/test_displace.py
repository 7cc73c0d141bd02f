"""Who must leave: compared with all sets of victims, tried one by one, in small random worlds.

The twin knows the table of rights, the line as it is written down and every way to place a
workload. It asks of each set that closes (whole workloads, or units above a minimum): may it be
asked to leave, and would the newcomer start then?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import inf
from random import Random
from typing import TYPE_CHECKING

import pytest

from mooring.engine import Engine
from mooring.model.events import Adopted, NodeJoined, QueuesChanged, Submitted, TasksChanged
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.queues import EvictionRules, Queue, Quota
from mooring.model.settings import Eviction, Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement, PodGroup, Shape, TaskState, Workload
from mooring.policy.default.court import DefaultCourt
from mooring.policy.queues.share import BEYOND, COVERED
from mooring.policy.standing.line import Item, rank_of, size_of
from mooring.policy.victims import displace, hunt
from tests.build import cluster, decided, evicts, gang, near_by, node, on, shape, task, used
from tests.plain_standing import World as Scale
from tests.plain_standing import plain_line
from tests.twins import Exhaustive, Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


NOW = 10_000.0
RACKS = Topology((Level("rack"),))
Tasks = tuple[tuple[str, int], ...]


# -- small worlds ---------------------------------------------------------------------------------


def draw_queues(random: Random) -> list[Queue]:
    """Return two or three queues side by side, or two departments with queues."""
    if random.random() < 0.6:
        return [a_queue(random, name) for name in "ABC"[: random.choice((1, 2, 2, 3))]]
    tops = [a_queue(random, name) for name in "XY"]
    below = [a_queue(random, name, top) for name, top in (("A", "X"), ("B", "X"), ("C", "Y"))]
    return [*tops, *below]


def a_queue(random: Random, name: str, parent: str = "") -> Queue:
    quota = Quota(
        "gpu",
        quota=random.choice((0, 0, 1000, 2000, 3000)),
        limit=random.choice((None, None, None, None, 3000)),
        lending_limit=random.choice((None, None, None, 0)),
        borrowing_limit=random.choice((None, None, None, 1000)),
    )
    rules = EvictionRules(
        within_queue=random.choice(("", "", "", "never", "lower-or-newer")),
        reclaim=random.choice(("", "", "", "", "lower-priority", "never")),
    )
    weight = random.choice((1.0, 1.0, 2.0, 0.0))
    return Queue(name, parent, (quota,), weight=weight, eviction=rules)


def draw_workload(random: Random, name: str, queues: Sequence[str]) -> Workload:
    least = random.choice((1, 1, 1, 2, 2, 3))
    part = PodGroup(
        "main",
        shape(gpus=random.choice((1, 1, 1, 2))) if random.random() < 0.7 else share_of(random),
        least,
        least + random.choice((0, 0, 0, 1, 2)),
        near_by(random.choice(("", "", "rack"))),
    )
    kind = random.choice(("plain", "plain", "plain", "plain", "fixed", "semi"))
    return Workload(
        name,
        (part,),
        queue=random.choice(queues),
        priority=random.choice((0, 0, 1, 2)),
        submitted_at=float(random.randrange(100)),
        preemptible=kind != "fixed",
        semi_preemptible=kind == "semi",
        checkpoint_at=random.choice((None, NOW - 30.0, NOW - 900.0)),
        restart_cost_s=random.choice((None, None, 600.0)),
    )


def share_of(random: Random) -> Shape:
    """Return a part of one device."""
    return shape(gpus=1, milli=random.choice((300, 500, 700)))


class Small:
    """A world with a few running workloads and one that waits, in an engine and as it is."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.queues = draw_queues(random)
        leaves = [q.name for q in self.queues if not any(o.parent == q.name for o in self.queues)]
        racks = random.choice((1, 1, 2))
        self.nodes = [
            node(f"n{i}", random.choice((1, 2, 2, 3, 4)), f"r{i % racks}")
            for i in range(random.choice((1, 2, 2, 3)))
        ]
        least = () if random.random() < 0.8 else (("fair-share", 3000.0), ("quota", 2000.0))
        rules = Eviction(minimum_run_s=least, movers=0)  # who is moved is no victim
        policy = Policy(gang="e-binpack", small="e-binpack", eviction=rules)
        self.engine = Engine(RACKS, policy, queues=tuple(self.queues))
        for each in self.nodes:
            self.engine.observe(NodeJoined(each))
        self.running: dict[str, Adopted] = {}
        self._fill(random, leaves)
        self.newcomer = draw_workload(random, "p", leaves)
        self.newcomer = replace(self.newcomer, priority=random.choice((0, 1, 2, 2)))
        self.engine.observe(Submitted(self.newcomer))
        self.decisions = self.engine.decide(NOW).decisions

    def _fill(self, random: Random, leaves: Sequence[str]) -> None:
        """Let workloads run wherever there is room, whatever quota says."""
        free = {each.name: [1000] * len(each.devices) for each in self.nodes}
        for number in range(6):
            wanted = draw_workload(random, f"w{number}", leaves)
            leaf = wanted.groups[0]
            count = random.choice((leaf.min, leaf.most))
            wanted = replace(wanted, groups=(replace(leaf, max=count),))  # it has all it asks for
            seats = self._seats(random, free, leaf, count)
            if seats is None:
                continue
            for name, devices in seats:
                for device in devices:
                    free[name][device] -= leaf.shape.milli
            placement = Placement(
                "main",
                tuple(range(count)),
                tuple(name for name, _ in seats),
                tuple(sum(1 << d for d in devices) for _, devices in seats),
            )
            began = float(random.choice((0, 0, 1000, 2000, 5000, 9000)))
            event = Adopted(wanted, (placement,), began)
            self.running[wanted.name] = event
            self.engine.observe(event)

    def _seats(
        self, random: Random, free: dict[str, list[int]], leaf: PodGroup, count: int
    ) -> list[tuple[str, list[int]]] | None:
        rack = random.choice(self.nodes).path if leaf.topology.required else None
        names = [each.name for each in self.nodes if rack is None or each.path == rack]
        left = {name: list(free[name]) for name in names}
        found = []
        for _ in range(count):
            fitting = {
                name: [d for d, share in enumerate(left[name]) if share >= leaf.shape.milli]
                for name in names
            }
            able = [name for name, devices in fitting.items() if len(devices) >= leaf.shape.gpus]
            if not able:
                return None
            name = random.choice(able)
            chosen = fitting[name][: leaf.shape.gpus]
            found.append((name, chosen))
            for device in chosen:
                left[name][device] -= leaf.shape.milli
        return found

    # -- what the engine did

    @cached_property
    def victims(self) -> dict[str, Tasks]:
        """Whom the engine asks to leave for the newcomer."""
        found: dict[str, Tasks] = {}
        for each in self.decisions:
            if isinstance(each, Evict):
                assert each.beneficiary == "p"
                more = tuple((each.group, number) for number in each.tasks)
                found[each.workload] = found.get(each.workload, ()) + more
        return found

    @property
    def starts(self) -> bool:
        return any(isinstance(each, Bind) and each.workload == "p" for each in self.decisions)

    @property
    def reserves(self) -> bool:
        return any(isinstance(each, Reserve) for each in self.decisions)


# -- the twin -------------------------------------------------------------------------------------


@dataclass
class Twin:
    """Tries all sets of victims."""

    small: Small

    def __post_init__(self) -> None:
        court = self.small.engine._court
        assert isinstance(court, DefaultCourt)
        self.desk = court.desk
        self.tree = self.desk.tree
        self.yardstick = court.yardstick
        self.before = [[0] * len(self.tree.pairs) for _ in self.tree.names]
        self.items = {name: self._items(event) for name, event in self.small.running.items()}
        for item in self.every:
            self._use(self.before, item, 1)
        wanted = self.small.newcomer
        self.p = self._item(wanted, 0, wanted.groups[0].min)
        scale = Scale(self.tree, self.yardstick.share, list(self.yardstick.norms))
        self.key = {item.name: key for item, key in plain_line(scale, self.every)}
        names = [item.name for item, _ in plain_line(scale, [*self.every, self.p])]
        self.behind = set(names[names.index(self.p.name) + 1 :])

    @cached_property
    def every(self) -> list[Item]:
        return [item for items in self.items.values() for item in items]

    def _use(self, table: list[list[int]], item: Item, sign: int) -> None:
        for queue in self.tree.path[item.queue]:
            for pair, amount in item.size:
                table[queue][pair] += sign * amount

    def _item(self, wanted: Workload, unit: int, tasks: int, event: Adopted | None = None) -> Item:
        asked = wanted.groups[0].shape
        milli = asked.milli * asked.gpus * tasks
        size = {self.tree.pair_of["", "gpu"]: milli}
        moves = wanted.preemptible and not (wanted.semi_preemptible and not unit)
        name = (wanted.name, unit)
        rank = rank_of(name, wanted.submitted_at, wanted.priority, is_preemptible=moves)
        queue = self.tree.index_of[wanted.queue]
        plain = Item(wanted.name, unit, queue, size_of(size), rank, wanted.priority, moves)
        number = self.small.engine.entries()[wanted.name].start_number
        return plain if event is None else replace(plain, started=float(number))

    def _items(self, event: Adopted) -> list[Item]:
        wanted, count = event.workload, len(event.placements[0].tasks)
        least = wanted.groups[0].min
        units = [self._item(wanted, unit + 1, 1, event) for unit in range(count - least)]
        return [self._item(wanted, 0, least, event), *units]

    # -- sets

    def sets(self) -> Iterator[tuple[Item, ...]]:
        """Yield all sets of victims: a minimum takes its units with it."""
        movable = [item for item in self.every if item.preemptible]
        for size in range(1, len(movable) + 1):
            for some in combinations(movable, size):
                names = {item.name for item in some}
                if all(
                    {each.name for each in self.items[item.workload]} <= names
                    for item in some
                    if not item.unit
                ):
                    yield some

    def after(self, some: Iterable[Item]) -> list[list[int]]:
        """Return what is used once these have left and the newcomer is there."""
        table = [list(row) for row in self.before]
        for item in some:
            self._use(table, item, -1)
        self._use(table, self.p, 1)
        return table

    def is_legal(self, some: Sequence[Item]) -> bool:
        after = self.after(some)
        return all(item.name in self.behind and any(self.causes(item, after)) for item in some)

    def is_bold(self, some: Sequence[Item]) -> bool:
        """Return whether it may be done once: only seniors of its own queue stand before it."""
        after, share = self.after(some), self.yardstick.share[self.p.queue]
        before = [item for item in some if item.name not in self.behind]
        return (
            all(any(self.causes(item, after)) for item in some)
            and all(item.queue == self.p.queue for item in before)
            and all(after[self.p.queue][pair] <= share[pair] for pair, _ in self.p.size)
        )

    def causes(self, item: Item, after: list[list[int]]) -> Iterator[str]:
        """Yield the rows of the table that hold for a victim."""
        p, tree = self.p, self.tree
        within, reclaim = self._rule("within_queue"), self._rule("reclaim")
        if item.queue == p.queue:
            if within != "never" and self._outranks(item) and self._ran(item, "preempt"):
                yield "preempt"
            return
        if reclaim == "never":
            return
        if reclaim == "lower-priority" and item.priority >= p.priority:
            return
        mine, theirs = tree.common(p.queue, item.queue)
        classes = self.key[item.name][1]
        path = tuple(reversed(tree.path[item.queue]))
        classes = classes[path.index(theirs) :]
        if min(classes) <= COVERED:
            return
        is_beyond = classes[0] >= (BEYOND, 0.0)
        used = [after[mine][pair] for pair, _ in p.size]
        quota = [self.yardstick.quota[mine][pair] for pair, _ in p.size]
        share = [self.yardstick.share[mine][pair] for pair, _ in p.size]
        bare = [a - b for a, (_, b) in zip(after[mine], p.size, strict=False)]
        level = self.yardstick.level(mine, bare, [pair for pair, _ in p.size])
        if all(u <= q for u, q in zip(used, quota, strict=True)) and self._ran(item, "quota"):
            yield "quota"
        in_share = all(u <= s for u, s in zip(used, share, strict=True))
        if is_beyond and in_share and self._ran(item, "fair-share"):
            yield "fair-share"
        if is_beyond and level < classes[0] and self._ran(item, "leximin"):
            yield "leximin"

    def _rule(self, key: str) -> str:
        """Return what the nearest queue says about whom the newcomer may evict."""
        path = self.tree.path[self.p.queue]
        said: list[str] = [getattr(self.tree.queues[each].eviction, key) for each in path]
        return next(filter(None, said), "")

    def _outranks(self, item: Item) -> bool:
        p = self.p
        rule = self._rule("within_queue")
        if item.priority < p.priority or (item.unit and item.priority == p.priority):
            return True
        newer = item.priority == p.priority and item.rank > p.rank
        return rule == "lower-or-newer" and newer

    def _ran(self, item: Item, cause: str) -> bool:
        least = dict(self.desk.policy.eviction.minimum_run_s).get(cause, 0.0)
        return self.small.running[item.workload].started_at + least <= NOW

    def suffices(self, some: Iterable[Item]) -> bool:
        """Return whether the newcomer could be charged and placed without these."""
        gone = {item.name for item in some}
        usage = [list(row) for row in self.before]
        for item in some:
            self._use(usage, item, -1)
        request = dict(self.p.size)
        if self.desk.ledger.blocker(self.p.queue, request, usage) is not None:
            return False
        if not self.p.preemptible and not self._fits_in_quota(gone):
            return False
        rooms = {each.name: Room.of(each) for each in self.small.nodes}
        for name, event in self.small.running.items():
            left = {item.name for item in self.items[name]} - gone
            for index, owner in enumerate(self._owners(name)):
                if owner in left:
                    place = event.placements[0]
                    leaf = event.workload.groups[0].shape
                    rooms[place.nodes[index]].put(leaf, place.devices[index])
        return Exhaustive(RACKS, list(rooms.values()), []).finds(self.small.newcomer)

    def _fits_in_quota(self, gone: set[tuple[str, int]]) -> bool:
        """Return whether fixed work alone would be within quota with the newcomer."""
        fixed = [[0] * len(self.tree.pairs) for _ in self.tree.names]
        for item in self.every:
            if not item.preemptible and item.name not in gone:
                self._use(fixed, item, 1)
        return self.desk.ledger.over_quota_fixed(self.p.queue, dict(self.p.size), fixed) is None

    def _owners(self, name: str) -> list[tuple[str, int]]:
        """Return the item of each task of a workload."""
        event = self.small.running[name]
        least = event.workload.groups[0].min
        count = len(event.placements[0].tasks)
        return [(name, max(0, number - least + 1)) for number in range(count)]

    def price(self, some: Iterable[Item]) -> float:
        """Return GPU-hours since the last checkpoint, and for a restart."""
        total = 0.0
        for item in some:
            event = self.small.running[item.workload]
            since = max(event.started_at, event.workload.checkpoint_at or 0.0)
            lost = NOW - since + (event.workload.restart_cost_s or 60.0)
            total += sum(amount for _, amount in item.size) / 1000 * lost / 3600
        return total

    def chosen(self) -> tuple[Item, ...]:
        """Return the victims of the engine as items."""
        found = []
        for name, tasks in self.small.victims.items():
            gone = {number for _, number in tasks}
            owners = self._owners(name)
            for item in self.items[name]:
                own = [number for number, owner in enumerate(owners) if owner == item.name]
                assert set(own) <= gone or gone.isdisjoint(own), f"{name} leaves by halves"
                if set(own) <= gone:
                    found.append(item)
        return tuple(found)


def check_one(seed: int, dearest: float = 2.0) -> str:
    """Compare the engine with the twin; return what happened."""
    small = Small(seed)
    if small.starts:
        return "started"
    twin = Twin(small)
    p_wants = {pair for pair, _ in twin.p.size}
    assert p_wants
    good = [some for some in twin.sets() if twin.is_legal(some) and twin.suffices(some)]
    kind = "exchange"
    if not good:
        kind = "bold"
        good = [some for some in twin.sets() if twin.is_bold(some) and twin.suffices(some)]
    assert small.reserves == bool(small.victims)
    assert bool(small.victims) == bool(good), f"{seed}: {small.decisions} {good[:1]}"
    if not good:
        return "none"
    chosen = twin.chosen()
    names = {item.name for item in chosen}
    assert any({item.name for item in some} == names for some in good), f"{seed}: not legal"
    smaller = [some for some in good if {item.name for item in some} < names]
    assert not smaller, f"{seed}: {names} is more than {smaller[0]}"
    light = [some for some in good if all(item.unit for item in some)]  # they are asked first
    best = min(twin.price(some) for some in light or good)
    assert twin.price(chosen) <= dearest * best + 1e-9, f"{seed}: {twin.price(chosen)} for {best}"
    past = small.engine.entries()["p"].past
    assert past.is_bold == (kind == "bold"), seed
    return kind


@pytest.mark.parametrize("block", range(4))
def test_victims_are_those_of_the_twin(block: int) -> None:
    """Found exactly when there are any; legal; none too many; never dearer than twice the best."""
    seen = [check_one(1000 * block + seed) for seed in range(100)]
    assert seen.count("exchange") >= 10


def among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every pool be too large to try all sets."""
    for module in (displace, hunt):
        monkeypatch.setattr(module, "EXACT_BELOW", 0)


@pytest.mark.parametrize("block", range(4))
def test_many_victims_are_those_of_the_twin(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By counting and putting back, for pools too large to try all sets; it may cost more."""
    among_many(monkeypatch)
    seen = [check_one(1000 * block + seed, dearest=inf) for seed in range(100)]
    assert seen.count("exchange") >= 10


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_victims_are_those_of_the_twin_in_many_worlds(block: int) -> None:
    for seed in range(1000):
        check_one(100_000 + 1000 * block + seed)


# -- plain stories --------------------------------------------------------------------------------


def test_elastic_work_that_leaves_leaves_whole() -> None:
    """Its units above the minimum do not go on without it."""
    world = cluster("a=3").run(gang("low", tasks=1, most=3), now=0.0)
    assert used(world) == "a=3/3"

    plan = world.submit(task("high", 3, priority=1)).cycle(1.0)

    assert sorted(decided(plan)) == [("evict", "low", (0, 1, 2))]


def test_units_are_asked_before_anybody_leaves_whole() -> None:
    world = cluster("a=2 b=1").run(gang("wide", tasks=1, most=2, submitted_at=0.0), now=0.0)
    world.run(task("low", submitted_at=1.0), now=1.0)

    plan = world.submit(task("high", priority=1, submitted_at=2.0)).cycle(2.0)

    assert decided(plan) == [("evict", "wide", (1,))]


def test_minimum_may_ask_a_unit_of_equal_priority_but_no_minimum() -> None:
    world = cluster("a=2").run(gang("wide", tasks=1, most=2), now=0.0)

    plan = world.submit(task("equal", submitted_at=5.0)).cycle(5.0)

    assert decided(plan) == [("evict", "wide", (1,))]
    world.confirm(plan).confirm(world.cycle(6.0))
    assert world.submit(task("late", submitted_at=7.0)).cycle(7.0).decisions == ()


def test_semi_preemptible_work_gives_only_what_is_above_its_minimum() -> None:
    semi = replace(gang("semi", tasks=1, most=3), semi_preemptible=True)
    world = cluster("a=3").run(semi, now=0.0)

    assert world.submit(task("all", 3, priority=9)).cycle(1.0).decisions == ()
    plan = world.submit(task("some", 2, priority=9)).cycle(2.0)

    assert sorted(decided(plan)) == [("evict", "semi", (1, 2))]


def test_newer_work_of_equal_priority_leaves_where_the_queue_says_so() -> None:
    """Even if all of a cluster is in one queue and of one priority."""
    rules = EvictionRules(within_queue="lower-or-newer")
    world = cluster("a=1").see(QueuesChanged((Queue("default", eviction=rules),)))
    world.run(task("newer", submitted_at=9.0), now=10.0)

    plan = world.submit(task("older", submitted_at=1.0)).cycle(11.0)

    assert decided(plan) == [("evict", "newer", (0,))]


@pytest.mark.parametrize("seed", [538, 630, 773, 1005])
def test_bold_start_is_rare_and_keeps_its_queue_within_its_share(seed: int) -> None:
    """So many of its own leave that the queue does not take what is another's."""
    assert check_one(seed) == "bold"


def test_queue_without_weight_has_no_share_of_idle_quota_below_it() -> None:
    """What one queue of a department does not use is no claim of its sister beyond their quota."""
    queues = (
        Queue("X", weight=0.0),
        Queue("A", "X", (Quota("gpu", quota=1000),)),
        Queue("B", "X"),
        Queue("Y", quotas=(Quota("gpu", quota=2000),)),
        Queue("C", "Y", (Quota("gpu", quota=2000),)),
    )
    policy = Policy(eviction=Eviction(minimum_run_s=()))
    world = cluster("n=3 m=3", policy=policy).see(QueuesChanged(queues))
    world.run(task("c1", 2, queue="C", submitted_at=0.0), now=0.0)
    world.run(task("b1", 2, queue="B", submitted_at=1.0), now=1.0)

    plan = world.submit(task("c2", 2, queue="C", submitted_at=2.0)).cycle(2.0)

    assert [(each.workload, each.cause) for each in evicts(plan)] == [("b1", "fair-share")]


def test_who_may_be_asked_only_because_others_leave_too_is_asked_even_among_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sister's work leaves first: only then the department is within the quota it reclaims."""
    among_many(monkeypatch)
    assert check_one(974) == "exchange"


def test_fixed_work_does_not_count_on_units_that_leave_for_it_twice() -> None:
    """Units above a minimum that stays use no quota for fixed work; nor do they when they leave."""
    quotas = (Quota("gpu", quota=1000),)
    world = cluster("a=3").see(QueuesChanged((Queue("default", quotas=quotas),)))
    semi = replace(gang("semi", tasks=1, most=3), semi_preemptible=True)
    world.run(semi, now=0.0)
    fixed = replace(gang("fixed", tasks=2, priority=9), preemptible=False)

    assert world.submit(fixed).cycle(1.0).decisions == ()


def test_nothing_grows_beside_what_is_on_its_way_out() -> None:
    """Its minimum leaves for another; the group that needs none does not stay on alone."""
    must = replace(gang("x").groups[0], name="must", min=2)
    may = replace(gang("x", gpus=0, cpu=1).groups[0], name="may", min=0, max=2)
    world = cluster("a=2", on("a", cpu=1)).run(Workload("low", (must, may)), now=0.0)
    world.run(gang("cpu", gpus=0, cpu=1), now=0.0)
    members = world.engine.entries()["low"].members["may"]
    world.see(TasksChanged("low", "may", tuple(members.holding()), TaskState.FAILED))
    world.end("cpu")

    plan = world.submit(task("high", 2, priority=1)).cycle(1.0)

    assert ("bind", "low") not in [(verb, name) for verb, name, _ in decided(plan)]


@pytest.mark.parametrize("many", [False, True])
def test_who_asks_for_nothing_that_is_counted_has_no_claim_on_others(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only devices have quotas: work without any does not reclaim borrowed devices for a CPU."""
    if many:
        among_many(monkeypatch)
    queues = (Queue("a", quotas=(Quota("gpu", quota=1000),)), Queue("b"))
    policy = Policy(eviction=Eviction(minimum_run_s=()))
    world = cluster("n=2", on("n", cpu=2), policy=policy).see(QueuesChanged(queues))
    world.run(gang("borrows", tasks=2, cpu=1, queue="b"), now=0.0)

    assert world.submit(gang("small", gpus=0, cpu=1, queue="a")).cycle(1.0).decisions == ()
    plan = world.submit(task("device", cpu=1, queue="a")).cycle(2.0)

    assert decided(plan) == [("evict", "borrows", (0, 1))]


def test_minimum_run_time_counts_from_when_all_of_it_runs() -> None:
    """Before that there is no time to wait for: the world tells when it runs."""
    world = cluster("a=1").submit(replace(task("low"), minimum_run_s=50.0))
    world.cycle(0.0)
    world.submit(task("high", priority=1))

    assert world.cycle(10.0).wake_at is None
    world.see(TasksChanged("low", "main", (0,), TaskState.RUNNING, 20.0))
    assert world.cycle(20.0).wake_at == 70.0
    assert decided(world.cycle(70.0)) == [("evict", "low", (0,))]
