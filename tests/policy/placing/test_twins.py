"""Placement against plain twins, on clusters of up to six nodes."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import event, given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.books import Books, bits
from mooring.model.cluster import WHOLE, Node, Taint
from mooring.model.events import Adopted, NodeJoined, Submitted
from mooring.model.plan import CutShort
from mooring.model.resources import amounts
from mooring.model.settings import Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import (
    Placement,
    PodGroup,
    Shape,
    Slice,
    SpreadTerm,
    TaskTerm,
    Toleration,
    TopologyRequest,
    Workload,
)
from mooring.policy.placing.devices import linked
from mooring.policy.placing.fit import Fits
from mooring.policy.placing.place import Within, pick
from tests.build import binds, gpus, node, shape
from tests.twins import (
    Exhaustive,
    Room,
    Seat,
    allows,
    best_spans,
    binpack_pick,
    device_values,
    distinct,
    problems,
    spans,
    terms_hold,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject, DrawFn, SearchStrategy

    from mooring.model.books import Layout

LEVELS = Topology((Level("pod"), Level("rack")))
APPS = ("x", "y")
SIZES = (
    *((1, WHOLE), (1, WHOLE), (2, WHOLE), (3, WHOLE), (4, WHOLE), (8, WHOLE)),
    *((1, 300), (1, 500), (1, 700), (2, 400), (2, 600), (0, WHOLE)),
)
"""(devices, thousandths of each)."""


# -- drawing small worlds -------------------------------------------------------------------


@st.composite
def clusters(draw: DrawFn, most: int = 6) -> list[Node]:
    """Draw up to six nodes in up to three pods of up to two racks."""
    found = []
    for index in range(draw(st.integers(2, most))):
        pod = draw(st.sampled_from(("p1", "p1", "p2")))
        rack = draw(st.sampled_from(("r1", "r2")))
        count = draw(st.sampled_from((1, 2, 2, 3, 3, 4, 4, 8, 0)))
        bad = draw(st.sampled_from(((), (), (), (0,), (1,))))
        found.append(
            node(
                f"n{index}",
                count,
                pod,
                rack,
                cpu=draw(st.sampled_from((4000, 2000, 1000))),
                model=draw(st.sampled_from(("H100", "H100", "H100", "A100"))) if count else "",
                devices=gpus(count, bad=[*bad]),
                labels=draw(st.sampled_from(({"zone": "z"}, {"zone": "z"}, {}))),
                taints=draw(st.sampled_from(((), (), (), (Taint("t"),)))),
                ready=draw(st.integers(0, 9)) < 9,
            )
        )
    return found


@st.composite
def small_shapes(draw: DrawFn) -> Shape:
    """Draw whole devices, shares, or none, with CPU and sometimes a constraint."""
    count, milli = draw(st.sampled_from(SIZES))
    plain = shape(gpus=count, milli=milli, cpu=draw(st.sampled_from((0, 0, 0, 500, 1000))))
    if draw(st.integers(0, 4)) == 4:
        plain = replace(plain, selector=(("zone", "z"),))
    if draw(st.integers(0, 3)) == 3:
        plain = replace(plain, tolerations=(Toleration("t", "Exists"),))
    if draw(st.integers(0, 9)) == 9:
        plain = replace(plain, gpu_models=("A100",))
    if draw(st.integers(0, 9)) == 9:
        plain = replace(plain, ports=(80,))
    return plain


@st.composite
def social_shapes(draw: DrawFn, own: str, *, may_want: bool) -> Shape:
    """Draw a shape with labels and a term: apart from some, near others, or about its own kind."""
    plain = draw(small_shapes())
    app = draw(st.sampled_from(("", "x", "y")))
    wanted = draw(app_terms().filter(lambda found: found[0][1] != app))
    mine = (("own", own),)
    level = draw(st.sampled_from(("node", "rack", "pod")))
    kinds = ("", "apart", "alone", "near", "flock", "spread") if may_want else ("", "apart")
    kind = draw(st.sampled_from(kinds))
    skew = draw(st.integers(1, 2))
    return replace(
        plain,
        labels=((("app", app),) if app else ()) + mine,
        apart={
            "apart": (TaskTerm(level, draw(app_terms())),),
            "alone": (TaskTerm(level, mine),),
        }.get(kind, ()),
        near={"near": (TaskTerm(level, wanted),), "flock": (TaskTerm(level, mine),)}.get(kind, ()),
        spread=(SpreadTerm(level, mine, skew),) if kind == "spread" else (),
    )


def app_terms() -> SearchStrategy[tuple[tuple[str, str], ...]]:
    """Return the labels that a term means."""
    return st.sampled_from(APPS).map(lambda app: (("app", app),))


@st.composite
def requests(draw: DrawFn, count: int) -> TopologyRequest:
    """Draw a request: often none, a required level, a preferred one, or slices."""
    kind = draw(st.sampled_from(("", "", "required", "preferred", "slices", "both")))
    levels = st.sampled_from(("pod", "rack", "node"))
    if kind == "required":
        return TopologyRequest(required=draw(levels))
    if kind == "preferred":
        return TopologyRequest(preferred=draw(levels))
    slices: list[Slice] = []
    chosen = sorted(draw(st.sets(st.integers(1, 3), min_size=1, max_size=2)))
    for level in chosen if kind in ("slices", "both") else ():
        count = draw(st.sampled_from([size for size in range(1, count + 1) if count % size == 0]))
        slices.append(Slice(LEVELS.names[level], count))
    return TopologyRequest(required="pod" if kind == "both" else "", slices=tuple(slices))


@st.composite
def small_workloads(draw: DrawFn, *, social: bool) -> Workload:
    """Draw one to three groups of at most four tasks, at most eight in all."""
    left, groups = 8, list[PodGroup]()
    for name in ("a", "b", "c")[: draw(st.sampled_from((2, 3, 1)))]:
        count = draw(st.integers(1, max(1, min(4, left))))
        left -= count
        wants = not any(group.shape.near for group in groups)
        chosen = draw(social_shapes(name, may_want=wants) if social else small_shapes())
        groups.append(PodGroup(name, chosen, count, topology=draw(requests(count))))
    whole = draw(st.sampled_from(("", "", "", "", "pod", "rack", "node")))
    found = tuple(groups)
    if len(groups) == 3 and draw(st.booleans()):
        inner = TopologyRequest(required=draw(st.sampled_from(("", "pod", "rack"))))
        found = (PodGroup("ab", groups=(groups[0], groups[1]), topology=inner), groups[2])
    return Workload("w", found, topology=TopologyRequest(required=whole))


@st.composite
def occupied(draw: DrawFn, nodes: list[Node], *, social: bool) -> list[tuple[Shape, str, int]]:
    """Draw tasks that run already, wherever there is room."""
    rooms = {each.name: Room.of(each) for each in nodes}
    found: list[tuple[Shape, str, int]] = []
    seats: list[Seat] = []
    for _ in range(draw(st.integers(0, 3))):
        chosen = draw(social_shapes("old", may_want=False) if social else small_shapes())
        room = rooms[draw(st.sampled_from(sorted(rooms)))]
        masks = distinct(room, chosen)
        seat = Seat(chosen, room.node)
        if masks and room.has_amounts(chosen) and terms_hold(LEVELS, nodes, seats, [seat]):
            mask = draw(st.sampled_from(masks))
            room.put(chosen, mask)
            seats.append(seat)
            found.append((chosen, room.node.name, mask))
    return found


def engine_of(
    nodes: list[Node], running: list[tuple[Shape, str, int]], policy: Policy = Policy()
) -> Engine:
    """Return an engine that has seen nodes and what runs on them."""
    engine = Engine(LEVELS, policy)
    for each in nodes:
        engine.observe(NodeJoined(each))
    for index, (chosen, name, mask) in enumerate(running):
        old = Workload(f"old-{index}", (PodGroup("main", chosen),))
        engine.observe(Adopted(old, (Placement("main", (0,), (name,), (mask,)),)))
    return engine


def rooms_of(nodes: list[Node], running: list[tuple[Shape, str, int]]) -> list[Room]:
    """Return the room that is left, in the order of rows."""
    rooms = {each.name: Room.of(each) for each in nodes}
    for chosen, name, mask in running:
        rooms[name].put(chosen, mask)
    return sorted(rooms.values(), key=lambda room: (room.node.path, room.node.name))


# -- existence ------------------------------------------------------------------------------


class Scene:
    """Nodes, what runs on them, and what is asked for; short when it is printed."""

    def __init__(
        self, nodes: list[Node], running: list[tuple[Shape, str, int]], wanted: Workload
    ) -> None:
        self.nodes = nodes
        self.running = running
        self.wanted = wanted

    def __repr__(self) -> str:
        lines = [f"{'/'.join(n.path)}/{brief(n, Node(n.name, path=n.path))}" for n in self.nodes]
        lines += [f"runs on {name} {mask:b}: {brief(s, Shape())}" for s, name, mask in self.running]
        lines.append(f"asks within {self.wanted.topology.required or 'cluster'}")
        for group in self.wanted.root.groups:
            for each in (group, *group.groups):
                request = brief(each.topology, TopologyRequest())
                lines.append(f"  {each.name} x{each.min} {brief(each.shape, Shape())} {request}")
        return "\n" + "\n".join(lines)


def brief(value: Node | Shape | TopologyRequest, plain: Node | Shape | TopologyRequest) -> str:
    """Return the fields of a value that differ from a plain one; devices only as a number."""
    found = []
    for each in fields(value):
        mine = getattr(value, each.name)
        if each.compare and mine != getattr(plain, each.name):
            if each.name == "devices":
                mine = "".join("01"[device.healthy] for device in mine)
            found.append(f"{each.name}={mine}")
    name = getattr(value, "name", "")
    return f"{name}({', '.join(found)})"


@st.composite
def scenes(draw: DrawFn, *, social: bool) -> Scene:
    """Draw a small world and a workload."""
    nodes = draw(clusters())
    return Scene(nodes, draw(occupied(nodes, social=social)), draw(small_workloads(social=social)))


def check_existence(scene: Scene) -> None:
    """Compare the engine with exhaustive search, and its placement with the rules."""
    nodes, running, wanted = scene.nodes, scene.running, scene.wanted
    engine = engine_of(nodes, running)
    by_name = {each.name: each for each in nodes}
    old = [Seat(chosen, by_name[name]) for chosen, name, _ in running]

    engine.observe(Submitted(wanted))
    plan = engine.decide(0.0)

    event(f"placed: {bool(plan.decisions)}")
    assert not any(isinstance(reason, CutShort) for reason in engine.reasons("w"))
    if plan.decisions:
        placed = [bind.placement for bind in binds(plan)]
        assert problems(LEVELS, rooms_of(nodes, running), old, wanted, placed) == []
    else:
        assert engine.reasons("w")
        assert not Exhaustive(LEVELS, rooms_of(nodes, running), old).finds(wanted)


@given(scenes(social=False))
def test_workload_is_placed_exactly_when_it_can_be(scene: Scene) -> None:
    """Groups, levels, slices, shares and constraints: placed, and validly, or impossible now."""
    check_existence(scene)


@given(scenes(social=True))
def test_workload_with_terms_is_placed_exactly_when_it_can_be(scene: Scene) -> None:
    """The same with terms about other tasks."""
    check_existence(scene)


# -- choice of domains ----------------------------------------------------------------------


@given(st.data())
def test_gang_takes_the_fewest_domains(data: DataObject) -> None:
    """One domain at the lowest level that holds all, and inside it as few as any choice has."""
    nodes = [replace(each, taints=(), ready=True) for each in data.draw(clusters(), label="nodes")]
    running = data.draw(occupied(nodes, social=False), label="running")
    wanted = shape(gpus=data.draw(st.sampled_from((1, 1, 2, 4))))
    count = data.draw(st.integers(2, 12), label="count")
    kind = data.draw(st.sampled_from(("", "required", "preferred", "both")), label="kind")
    level = data.draw(st.integers(1, 3), label="level")
    name = LEVELS.names[level]
    request = TopologyRequest(
        required=name if kind == "required" else "pod" if kind == "both" else "",
        preferred=name if kind in ("preferred", "both") else "",
    )
    top = level if kind == "required" else 1 if kind == "both" else 0
    start = level if kind in ("preferred", "both") else 3
    engine = engine_of(nodes, running)
    engine.observe(Submitted(Workload("w", (PodGroup("g", wanted, count, topology=request),))))

    plan = engine.decide(0.0)

    rooms = rooms_of(nodes, running)
    best = []
    for model in ("H100", "A100"):
        room = {r.node: r.copies(wanted) if r.node.gpu_model == model else 0 for r in rooms}
        found = best_spans(LEVELS, room, count, start, top)
        if found is not None:
            best.append((-sum(room.values()), model, found))
    if not best:
        assert plan.decisions == ()
        return
    by_name = {each.name: each for each in nodes}
    taken = [by_name[each] for each in binds(plan)[0].placement.nodes]
    _, model, found = next(each for each in best if each[1] == taken[0].gpu_model)
    assert spans(LEVELS, set(taken)) == found
    most = {m: -number for number, m, _ in best}
    assert most[model] == max(most.values())


@given(st.data())
def test_single_task_follows_the_plain_rule_of_binpack(data: DataObject) -> None:
    """Used nodes before untouched ones, in the most used domain of each level."""
    nodes = data.draw(clusters(), label="nodes")
    books = Books(LEVELS)
    books.set_nodes(nodes)
    for chosen, name, mask in data.draw(occupied(nodes, social=False), label="running"):
        books.take(books.demand(chosen), (books.row_of[name],), (mask,), 0)
    demand = books.demand(data.draw(small_shapes(), label="shape"))
    fit = Fits(books).of(demand)

    row = pick(fit, Within()) if fit.total else -1

    order = books.nodes
    room = {each: fit.slots_of[-1][books.row_of[each.name]] for each in order}
    used = {each: books.used_of[-1][books.row_of[each.name]] for each in order}
    expected = binpack_pick(LEVELS, room, used, order)
    assert (order[row] if row >= 0 else None) == expected


# -- devices --------------------------------------------------------------------------------


@st.composite
def layouts(draw: DrawFn, least: int, most: int) -> Layout:
    """Draw the links of so many devices."""
    index = st.integers(0, 2)
    one = st.tuples(index, index, index, index, st.just(""))
    return tuple(draw(st.lists(one, min_size=least, max_size=most)))


@given(layouts(1, 7), st.data())
def test_linked_devices_are_the_best_that_can_be_chosen(layout: Layout, data: DataObject) -> None:
    """No other choice has more links, and none with as many leaves a better rest."""
    free = data.draw(st.integers(1, (1 << len(layout)) - 1))
    there = bits(free)
    count = data.draw(st.integers(1, len(there)))

    chosen = bits(linked(layout, free, count))

    assert len(chosen) == count
    assert {*chosen} <= {*there}
    values = [device_values(layout, there, option) for option in combinations(there, count)]
    assert device_values(layout, there, chosen) == max(values)


@given(layouts(9, 16), st.data())
def test_many_devices_come_from_the_fewest_islands(layout: Layout, data: DataObject) -> None:
    """Above eight free devices islands are counted, not links."""
    free = (1 << len(layout)) - 1
    count = data.draw(st.integers(1, len(layout)))

    chosen = bits(linked(layout, free, count))

    assert len(chosen) == count
    sizes: dict[int, int] = {}
    for device in layout:
        sizes[device[0]] = sizes.get(device[0], 0) + 1
    ordered = sorted(sizes.values(), reverse=True)
    needed = next(n for n in range(1, len(ordered) + 1) if sum(ordered[:n]) >= count)
    assert len({layout[device][0] for device in chosen}) == needed


# -- fits -----------------------------------------------------------------------------------

FIT_SHAPES = (
    shape(gpus=1),
    shape(gpus=3, cpu=700),
    shape(gpus=1, milli=300),
    shape(gpus=2, milli=400),
    shape(gpus=3, milli=550, cpu=300),
    shape(gpus=1, gpu_memory=15_000),
    shape(gpus=2, gpu_memory=30_000),
    shape(gpus=1, mig="2g.10gb"),
    shape(gpus=2, mig="1g.5gb"),
    shape(gpus=1, mig="3g.20gb", cpu=500),
    shape(gpus=0, cpu=600),
    shape(gpus=0, cpu=100, ports=[80]),
    shape(gpus=1, selector={"zone": "z"}, tolerations=[Toleration("t", "Exists")]),
)


@st.composite
def odd_nodes(draw: DrawFn, name: str) -> Node:
    """Draw a node with whole, mixed or partitioned devices."""
    partition = draw(st.sampled_from(("", "", "a100-40gb")))
    count = draw(st.sampled_from((1, 2) if partition else (0, 1, 2, 4, 9)))
    memory = draw(st.sampled_from((20_000, 40_000, 81_920)))
    bad = draw(st.sets(st.integers(0, 8), max_size=2))
    found = gpus(count, memory=memory, bad=[*bad], mig=partition)
    mixed: bool = draw(st.booleans())
    if found and mixed:
        found = (*found[1:], replace(found[0], mig="", memory=40_000))
    extra = {"pods": draw(st.integers(0, 5))} if draw(st.integers(0, 2)) == 0 else {}
    plain = node(
        name,
        count,
        draw(st.sampled_from(("p1", "p2"))),
        draw(st.sampled_from(("r1", "r2"))),
        cpu=draw(st.sampled_from((0, 500, 2000))),
        devices=found,
        labels={"zone": "z"} if draw(st.booleans()) else {},
        taints=draw(st.sampled_from(((), (Taint("t"),)))),
    )
    return replace(plain, capacity=amounts({**dict(plain.capacity), **extra}))


class FitTwin:
    """Books with fits, and the rooms that they should agree with."""

    def __init__(self, nodes: list[Node]) -> None:
        self.books = Books(LEVELS)
        self.books.set_nodes(nodes)
        self.fits = Fits(self.books)
        self.running: list[tuple[Shape, str, int]] = []

    def rooms(self) -> dict[str, Room]:
        """Return the room that is left on every node."""
        found = {
            n.name: Room.of(n)
            for n, there in zip(self.books.nodes, self.books.present, strict=True)
            if there
        }
        for chosen, name, mask in self.running:
            if name in found:
                found[name].put(chosen, mask)
        return found

    def check(self) -> None:
        """Compare slots and partly slots at all levels with the plain count."""
        rooms = self.rooms()
        used = {name for _, name, _ in self.running}
        for wanted in FIT_SHAPES:
            fit = self.fits.of(self.books.demand(wanted))
            plain = {
                name: room.copies(wanted) if allows(room.node, wanted) else 0
                for name, room in rooms.items()
            }
            tree = self.books.tree
            for level in range(tree.leaf_level + 1):
                for index in range(len(tree.first[level]) - 1):
                    names = [n.name for n in self.books.nodes[tree.rows(level, index)]]
                    there = [n for n in names if n in plain]
                    assert fit.slots[level][index] == sum(plain[n] for n in there)
                    assert fit.partly[level][index] == sum(plain[n] for n in there if n in used)

    def take(self, data: DataObject) -> None:
        """Start a task wherever it fits."""
        wanted = data.draw(st.sampled_from(FIT_SHAPES))
        rooms = self.rooms()
        fitting = [n for n, r in rooms.items() if r.copies(wanted, 1) and allows(r.node, wanted)]
        if not fitting:
            return
        name = data.draw(st.sampled_from(fitting))
        mask = data.draw(st.sampled_from(distinct(rooms[name], wanted)))
        self.books.take(self.books.demand(wanted), (self.books.row_of[name],), (mask,), 0)
        self.running.append((wanted, name, mask))

    def give(self, data: DataObject) -> None:
        """End a task."""
        if self.running:
            wanted, name, mask = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
            self.books.give(self.books.demand(wanted), (self.books.row_of[name],), (mask,), 0)

    def change(self, data: DataObject) -> None:
        """Change or add a node that nothing runs on."""
        busy = {name for _, name, _ in self.running}
        free = [name for name in ("n0", "n1", "n2", "n3", "x") if name not in busy]
        if free:
            self.books.set_nodes([data.draw(odd_nodes(data.draw(st.sampled_from(free))))])


@given(st.data())
def test_slots_equal_a_plain_count_after_any_changes(data: DataObject) -> None:
    """For all kinds of devices, per node and domain, row by row, by vectors and from nothing."""
    nodes = [data.draw(odd_nodes(f"n{i}")) for i in range(data.draw(st.integers(1, 4)))]
    twin = FitTwin(nodes)
    for _ in range(data.draw(st.integers(1, 5))):
        for _ in range(data.draw(st.sampled_from((1, 2, 9)))):
            verb = data.draw(st.sampled_from(("take", "take", "take", "give", "change", "undo")))
            if verb == "undo":
                mark, before = twin.books.checkpoint(), list(twin.running)
                twin.take(data)
                twin.give(data)
                twin.books.rollback(mark)
                twin.running = before
            else:
                getattr(twin, verb)(data)
        twin.books.commit()
        twin.check()
