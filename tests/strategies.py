"""Hypothesis strategies of valid values: nodes, shapes, pod groups, workloads, whole scenarios.

Everything that `scenarios` draws is sound: names refer to what exists, what runs fits where it is.
Texts are chosen to be awkward in files.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from math import gcd
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from mooring.config import rules
from mooring.config.scenario import PolicyFile
from mooring.model import mig
from mooring.model.cluster import WHOLE, Device, Node, Taint
from mooring.model.events import Adopted
from mooring.model.memory import Memory, TaskType
from mooring.model.queues import (
    DEFAULT_QUEUE,
    EvictionRules,
    Flavor,
    Fungibility,
    Queue,
    Quota,
    ResourceGroup,
)
from mooring.model.resources import CPU, GPU, MEMORY, PODS, Amounts, amounts, of_ports
from mooring.model.scenario import Scenario
from mooring.model.settings import (
    Backfill,
    Defragmentation,
    Eviction,
    Failure,
    Fairness,
    Headroom,
    Policy,
)
from mooring.model.topology import CLUSTER, NODE, Level, Topology
from mooring.model.workload import (
    HostPort,
    NodePreference,
    Placement,
    PodGroup,
    Requirement,
    Shape,
    Slice,
    SpreadTerm,
    TaskTerm,
    Toleration,
    TopologyRequest,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

AWKWARD = (
    *("a", "b-1", "no", "ON", "null", "~", "true", "1", "007", "1e5", "1.5", ".5", "0x1f", "1_0"),
    *("2024-01-01", "12:30", "a b", " a", "x: y", "# c", "- d", "[e]", "{f}", "&g", "*h", "!i"),
    *("'j'", '"k"', "\\l", "<<", "=", "%m", "@n", "ä→", "名", "node-{i}", "nvidia.com/gpu"),
)
SCORES = ("potential", "fgd", "best-fit", "first-fit", "binpack", "spread", "e-binpack", "e-spread")
RESOURCES = (CPU, MEMORY, "rdma", "nvidia.com/nic")
MODELS = ("H100", "A100", "l 40")
LARGE = amounts(dict.fromkeys(RESOURCES, 1 << 20))
GEOMETRY_NAMES = st.just("a100-40gb") | st.sampled_from(tuple(mig.GEOMETRIES))

texts = st.sampled_from(AWKWARD) | st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=8
)
names = texts.filter(bool)
labels = st.dictionaries(names, texts, max_size=2).map(lambda d: tuple(sorted(d.items())))
instants = st.sampled_from((0.0, -100.0, 1.5, 1e-9, 1e12, 1 / 3)) | st.floats(
    -(2.0**40), 2.0**40, allow_nan=False
)
durations = st.sampled_from((0.0, 1.0, 59.0, 90.0, 7200.0, 129_600.0, 0.25)) | st.floats(0, 2.0**40)
positive_durations = durations.filter(bool)
weights = st.integers(1, 100)
claims = st.sampled_from((0.0, 1.0, 2.5)) | st.floats(0, 2.0**40)
priorities = st.integers(-10, 10) | st.just((1 << 31) - 1)
counts = st.integers(0, 1_000_000)
steps = st.integers(1, 10**9)
effects = st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute"))

T = TypeVar("T")


def tuples(items: SearchStrategy[T], most: int = 2) -> SearchStrategy[tuple[T, ...]]:
    """Return tuples of up to `most` items."""
    return st.lists(items, max_size=most).map(tuple)


def quantities(resources: Sequence[str], most: int) -> SearchStrategy[Amounts]:
    """Return amounts of some of these resources."""
    if not resources:
        return st.just(())
    one = st.integers(0, most) | st.sampled_from((1, 1000, 1024, 500))
    return st.dictionaries(st.sampled_from(resources), one, max_size=3).map(amounts)


PLAIN: Mapping[Any, SearchStrategy[Any]] = {
    int: st.integers(),
    str: st.text(max_size=5),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    NoneType: st.none(),
}


def typed(hint: Any, plain: Mapping[Any, SearchStrategy[Any]] = PLAIN) -> SearchStrategy[Any]:
    """Return values of any type of the model; a field has its default half of the time."""
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return st.deferred(lambda: instances(hint, plain))
    parts = get_args(hint)
    if get_origin(hint) is not tuple:
        return st.one_of(*(typed(part, plain) for part in parts))
    if parts[1:] == (...,):
        return tuples(typed(parts[0], plain))
    return st.tuples(*(typed(part, plain) for part in parts))


def instances(
    class_: Any, plain: Mapping[Any, SearchStrategy[Any]] = PLAIN, **given: Any
) -> SearchStrategy[Any]:
    """Return values of a class, by its type hints; `given`: strategies of some fields."""
    hints = get_type_hints(class_)
    for field in fields(class_):
        if field.init and field.name not in given:
            found = typed(hints[field.name], plain)
            is_needed = field.default is MISSING
            given[field.name] = found if is_needed else st.just(field.default) | found
    return st.builds(class_, **given)


# -- cluster --------------------------------------------------------------------------------


@st.composite
def topologies(draw: DrawFn) -> Topology:
    """Draw up to three levels."""
    free = names.filter(lambda name: name not in (CLUSTER, NODE))
    chosen = draw(st.lists(free, max_size=3, unique=True))
    bandwidths = st.sampled_from((0.0, 400.0, 0.5))
    labels_ = st.sampled_from(("", "example.com/rack"))
    return Topology(tuple(Level(name, draw(bandwidths), draw(labels_)) for name in chosen))


@st.composite
def devices(draw: DrawFn) -> tuple[Device, ...]:
    """Draw the devices of a node: up to eight equal ones, or up to three odd ones."""
    memory = draw(st.sampled_from((0, 40_960, 81_920, 1)))
    geometry = draw(st.just("") | GEOMETRY_NAMES)
    if draw(st.integers(0, 2)):
        count, size = draw(st.integers(0, 8)), draw(st.integers(1, 8))
        return tuple(Device(memory, island=i // size, mig=geometry) for i in range(count))
    index = st.integers(0, 3)
    return draw(
        tuples(
            st.builds(
                Device,
                memory=st.sampled_from((0, memory)),
                healthy=st.booleans(),
                island=index,
                switch=index,
                numa=index,
                nic=index,
                mig=st.just(geometry),
            ),
            most=3,
        )
    )


def nodes(topology: Topology) -> SearchStrategy[Node]:
    """Return nodes with a domain at every level of the topology."""
    domain = st.sampled_from(("d0", "d1", "no"))
    return st.builds(
        Node,
        names,
        capacity=st.just(LARGE) | quantities((*RESOURCES, PODS), 1 << 20),
        labels=labels,
        taints=tuples(st.builds(Taint, names, texts, effects)),
        ready=st.booleans(),
        gpu_model=st.sampled_from(("", *MODELS)),
        devices=devices(),
        path=st.tuples(*(domain for _ in topology.levels)),
    )


def clusters(topology: Topology, most: int = 4) -> SearchStrategy[tuple[Node, ...]]:
    """Return nodes of different names."""
    found = st.lists(nodes(topology), max_size=most, unique_by=lambda node: node.name)
    return found.map(tuple)


# -- workloads ------------------------------------------------------------------------------


def requirements() -> SearchStrategy[Requirement]:
    """Return clauses of a node affinity."""
    some = st.lists(texts, min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.builds(Requirement, names, st.sampled_from(("In", "NotIn")), some),
        st.builds(Requirement, names, st.sampled_from(("Exists", "DoesNotExist"))),
        st.builds(Requirement, names, st.sampled_from(("Gt", "Lt")), st.just(("-8",))),
    )


@st.composite
def shapes(
    draw: DrawFn, levels: Sequence[str] = (CLUSTER, NODE), resources: Sequence[str] = RESOURCES
) -> Shape:
    """Draw a shape with whole devices, parts of them, MIG instances or none; often plain."""
    amounts_ = draw(quantities(resources, 8))
    gpus = draw(st.sampled_from((0, 1, 1, 2, 4)))
    shape = Shape(amounts_, gpus, gpu_models=draw(tuples(st.sampled_from(MODELS))) if gpus else ())
    kind = draw(st.sampled_from(("whole", "share", "memory", "mig")))
    if gpus and kind == "share":
        shape = replace(shape, milli=draw(st.integers(1, WHOLE)))
    elif gpus and kind == "memory":
        shape = replace(shape, gpu_memory=draw(st.sampled_from((1, 1000, 20_480))))
    elif gpus and kind == "mig":
        geometry = mig.GEOMETRIES[draw(GEOMETRY_NAMES)]
        shape = replace(shape, mig=draw(st.sampled_from(tuple(geometry.profiles))))
    if draw(st.booleans()):
        return shape
    clauses = st.lists(requirements(), min_size=1, max_size=2).map(tuple)
    operators = st.sampled_from(("Equal", "Exists", "Lt", "Gt"))
    tolerations = st.builds(Toleration, texts, operators, texts, st.just("") | effects)
    level = st.sampled_from((*levels, "label/zone"))
    about = (level, labels)
    few = tuples(requirements())
    terms = st.builds(TaskTerm, *about, st.integers(0, 100), few)
    flags = st.booleans()
    spreads = st.builds(SpreadTerm, *about, weights, flags, few, st.integers(0, 9), flags, flags)
    protocols = st.sampled_from(("TCP", "UDP", "SCTP"))
    ports = st.builds(
        HostPort, st.integers(1, 65_535), protocols, st.sampled_from(("", "10.0.0.1"))
    )
    plain = draw(st.lists(st.integers(1, 65_535), max_size=2, unique=True))
    others = draw(st.lists(ports, max_size=2, unique=True))
    return replace(
        shape,
        selector=draw(labels),
        affinity=draw(tuples(clauses)),
        preferences=draw(tuples(st.builds(NodePreference, weights, clauses))),
        tolerations=draw(tuples(tolerations)),
        labels=draw(labels),
        near=draw(tuples(terms)),
        apart=draw(tuples(terms)),
        spread=draw(tuples(spreads)),
        ports=tuple(plain),
        host_ports=tuple(port for port in others if port not in map(HostPort, plain)),
    )


@st.composite
def topology_requests(draw: DrawFn, levels: Sequence[str], divisor: int) -> TopologyRequest:
    """Draw a request for groups whose counts are all multiples of `divisor`."""
    level = st.sampled_from(("", *levels))
    chosen = sorted(draw(st.sets(st.sampled_from(range(len(levels))), max_size=3)))
    slices: list[Slice] = []
    for index in chosen:
        sizes = [size for size in range(1, divisor + 1) if divisor % size == 0]
        divisor = draw(st.sampled_from(sizes))
        slices.append(Slice(levels[index], divisor))
    volume = st.sampled_from((0, 1, 512, 4096))
    return TopologyRequest(draw(level), draw(level), tuple(slices), draw(volume))


@st.composite
def leaves(draw: DrawFn, name: str, levels: Sequence[str], resources: Sequence[str]) -> PodGroup:
    """Draw a group that has tasks."""
    least = draw(st.sampled_from((1, 2, 0, 3, 4)))
    most = draw(st.integers(max(least, 1), 6)) if least == 0 or draw(st.booleans()) else 0
    request = draw(topology_requests(levels, gcd(least, max(least, most))))
    partial = draw(st.integers(0, least))
    shape = draw(shapes(levels, resources))
    return PodGroup(name, shape, least, most, request, partial=partial)


@st.composite
def pod_groups(
    draw: DrawFn, free_names: list[str], levels: Sequence[str], resources: Sequence[str]
) -> PodGroup:
    """Draw a group, or a tree of groups, with names from the list, which are used up."""
    name = free_names.pop()
    if len(free_names) < 2 or draw(st.integers(0, 2)):
        return draw(leaves(name, levels, resources))
    groups = tuple(
        draw(pod_groups(free_names, levels, resources))
        for _ in range(draw(st.integers(1, 2)))
        if free_names
    )
    needed = draw(st.integers(0, len(groups)))
    return PodGroup(name, groups=groups, topology=draw(_request_of(groups, levels)), needed=needed)


def _request_of(
    groups: Sequence[PodGroup], levels: Sequence[str]
) -> SearchStrategy[TopologyRequest]:
    found = [leaf for group in groups for leaf in group.leaves()]
    totals = sum(leaf.min for leaf in found), sum(leaf.most for leaf in found)
    return topology_requests(levels, gcd(*totals))


@st.composite
def workloads(
    draw: DrawFn,
    levels: Sequence[str] = (CLUSTER, NODE),
    resources: Sequence[str] = RESOURCES,
    queues: Sequence[str] = (DEFAULT_QUEUE.name,),
    classes: Sequence[tuple[str, int]] = (),
) -> Workload:
    """Draw a workload of one group named `main`, or of a few."""
    if draw(st.booleans()):
        groups: tuple[PodGroup, ...] = (draw(leaves("main", levels, resources)),)
        request = TopologyRequest()
    else:
        free_names = draw(st.lists(names, min_size=1, max_size=6, unique=True))
        groups = (draw(pod_groups(free_names, levels, resources)),)
        if free_names:
            groups += (draw(pod_groups(free_names, levels, resources)),)
        request = draw(_request_of(groups, levels))
    given = st.tuples(st.just(""), priorities)
    priority_class, priority = draw(given | st.sampled_from(classes) if classes else given)
    return Workload(
        name=draw(names),
        groups=groups,
        queue=draw(st.sampled_from(queues)),
        priority=priority,
        submitted_at=draw(instants),
        topology=request,
        service=draw(st.booleans()),
        preemptible=draw(st.booleans()),
        run_limit_s=draw(st.none() | positive_durations),
        estimate_s=draw(st.none() | positive_durations),
        minimum_run_s=draw(durations),
        checkpoint_at=draw(st.none() | instants),
        restart_cost_s=draw(st.none() | durations),
        priority_class=priority_class,
        semi_preemptible=draw(st.booleans()),
        deadline_at=draw(st.none() | instants),
        preemption_delay_s=draw(durations),
        grace_s=draw(st.none() | st.just(-1.0) | durations),
        namespace=draw(texts),
        user=draw(texts),
        active=draw(st.booleans()),
        checkpoint_every_s=draw(st.none() | positive_durations),
    )


# -- what runs ------------------------------------------------------------------------------


@dataclass
class _Room:
    """What one node has left."""

    node: Node
    amounts: dict[str, int]
    milli: list[int]
    slices: list[int]

    @classmethod
    def of(cls, node: Node) -> _Room:
        count = len(node.devices)
        return cls(node, {PODS: 100, **dict(node.capacity)}, [WHOLE] * count, [0] * count)

    def take(self, shape: Shape) -> int | None:
        """Take room for one task and return its devices; none: there is not enough."""
        ports = shape.port_amounts
        wanted = dict([*shape.amounts, *ports, (PODS, 1)])
        has = {**{port: of_ports(port) for port, _ in ports}, **self.amounts}
        if any(has.get(name, 0) < amount for name, amount in wanted.items()):
            return None
        mask = self._take_instances(shape) if shape.mig else self._take_shares(shape)
        if mask is not None:
            self.amounts = {**has, **{name: has[name] - wanted[name] for name in wanted}}
        return mask

    def _take_shares(self, shape: Shape) -> int | None:
        chosen: dict[int, int] = {}
        for index, device in enumerate(self.node.devices):
            milli = shape.milli
            if shape.gpu_memory:
                is_small = device.memory < shape.gpu_memory
                milli = WHOLE + 1 if is_small else -(-shape.gpu_memory * WHOLE // device.memory)
            if len(chosen) < shape.gpus and not device.mig and milli <= self.milli[index]:
                chosen[index] = milli
        if len(chosen) < shape.gpus:
            return None
        for index, milli in chosen.items():
            self.milli[index] -= milli
        return sum(1 << index for index in chosen)

    def _take_instances(self, shape: Shape) -> int | None:
        slices, mask = list(self.slices), 0
        for _ in range(shape.gpus):
            for index, device in enumerate(self.node.devices):
                geometry = mig.GEOMETRIES.get(device.mig)
                start = mig.best_start(geometry, shape.mig, slices[index]) if geometry else -1
                if geometry and start >= 0:
                    bits = mig.bits(geometry, shape.mig, start)
                    slices[index] |= bits
                    mask |= bits << 8 * index
                    break
            else:
                return None
        self.slices = slices
        return mask


def _place(workload: Workload, rooms: list[_Room]) -> tuple[Placement, ...]:
    """Place the minimum of every group by first fit; nothing if it does not fit."""
    placements = []
    for leaf in workload.leaves():
        found = [_first_fit(leaf.shape, rooms) for _ in range(leaf.min)]
        placed = [pair for pair in found if pair]
        if len(placed) < leaf.min:
            return ()
        if placed:
            tasks = tuple(range(leaf.most - leaf.min, leaf.most))
            node_names, masks = zip(*placed, strict=True)
            placements.append(Placement(leaf.name, tasks, node_names, masks))
    return tuple(placements)


def _first_fit(shape: Shape, rooms: list[_Room]) -> tuple[str, int] | None:
    for room in rooms:
        mask = room.take(shape)
        if mask is not None:
            return room.node.name, mask
    return None


# -- queues and policies --------------------------------------------------------------------


@st.composite
def quotas(
    draw: DrawFn, flavors: Sequence[str], resources: Sequence[str], *, has_limits: bool
) -> tuple[Quota, ...]:
    """Draw what a queue has, each (flavor, resource) once; without limits, for a root of kueue."""
    pair = st.tuples(st.sampled_from(("", *flavors)), st.sampled_from(resources))
    amount = st.none() | st.sampled_from((0, 500, 1000, 1024, 1500)) | st.integers(0, 1 << 40)
    found = []
    for flavor, resource in draw(st.lists(pair, max_size=3, unique=True)):
        quota = draw(amount)
        lent = st.none() | st.integers(0, 1 << 40 if quota is None else quota)
        borrowing, lending = draw(st.tuples(amount, lent)) if has_limits else (None, None)
        weight = draw(st.none() | claims)
        found.append(Quota(resource, flavor, quota, draw(amount), weight, borrowing, lending))
    return tuple(found)


@st.composite
def resource_groups(
    draw: DrawFn, flavors: Sequence[str], resources: Sequence[str]
) -> tuple[ResourceGroup, ...]:
    """Draw up to two groups that have nothing in common."""
    found = []
    whats = draw(st.lists(st.sampled_from(resources), unique=True, max_size=3))
    kinds = draw(st.lists(st.sampled_from(flavors), unique=True, max_size=4)) if flavors else []
    middle = draw(st.integers(0, 2))
    for some, of in ((whats[:middle], kinds[:middle]), (whats[middle:], kinds[middle:])):
        if some and of:
            found.append(ResourceGroup(tuple(some), tuple(of)))
    return tuple(found)


def fungibilities() -> SearchStrategy[Fungibility]:
    """Return what happens at a flavor that has its price."""
    rule = st.sampled_from(rules.AT_A_PRICE)
    both_next = st.builds(Fungibility, *map(st.just, ("next", "next", "preempting")))
    return st.builds(Fungibility, rule, rule) | both_next


def eviction_rules(profile: str) -> SearchStrategy[EvictionRules]:
    """Return whom a queue may evict."""
    if profile == "default":
        within, reclaim = ("", *rules.WITHIN_QUEUE), ("", *rules.RECLAIM)
        return st.builds(EvictionRules, st.sampled_from(within), st.sampled_from(reclaim))
    found = st.builds(
        EvictionRules,
        st.sampled_from(("", *rules.WITHIN_QUEUE)),
        st.sampled_from(("", *rules.RECLAIM)),
        st.sampled_from(("", *rules.WHILE_BORROWING)),
        st.none() | priorities,
    )
    reclaims = ("lower-priority", "any")
    return found.map(
        lambda r: r if r.reclaim in reclaims else replace(r, while_borrowing=rules.NEVER)
    )


@st.composite
def queues_under(
    draw: DrawFn, name: str, parent: str, policy: Policy, names_of: tuple[Sequence[str], ...]
) -> Queue:
    """Draw a queue with quota at a place in the tree."""
    flavors, resources = names_of
    has_limits = bool(parent) or policy.profile != "kueue"
    some = st.none() | tuples(texts)
    return Queue(
        name,
        parent,
        draw(quotas(flavors, resources, has_limits=has_limits)),
        draw(resource_groups(flavors, resources)),
        draw(fungibilities()),
        weight=draw(claims),
        priority=draw(priorities),
        order=draw(st.sampled_from(("", *rules.ORDERS))),
        by_usage=policy.profile != "default" and draw(st.booleans()),
        eviction=draw(eviction_rules(policy.profile)),
        preempt_minimum_run_s=draw(st.none() | durations),
        reclaim_minimum_run_s=draw(st.none() | durations),
        run_limit_s=draw(st.none() | positive_durations),
        stop=draw(st.sampled_from(("", *rules.STOPS))),
        namespaces=draw(some),
        users=draw(some),
        bypass_limit=draw(st.none() | counts),
        created_at=draw(instants),
        by=draw(st.sampled_from(("", *rules.KEYS_OF_LINE))),
    )


@st.composite
def queue_trees(
    draw: DrawFn, policy: Policy = Policy(), names_of: tuple[Sequence[str], ...] = (MODELS, (GPU,))
) -> tuple[Queue, ...]:
    """Draw a tree of queues, some plain; below leaves there may be local ones. In any order."""
    queues: list[Queue] = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        has_line = {queue.parent for queue in queues if queue.local}
        above = [q.name for q in queues if not q.local and q.name not in has_line]
        parent = draw(st.sampled_from(("", *above)))
        is_inner = parent in {queue.parent for queue in queues if not queue.local}
        if parent and not is_inner and not draw(st.integers(0, 2)):
            queues.append(Queue(name, parent, local=True, weight=draw(claims)))
        elif draw(st.booleans()):
            queues.append(Queue(name, parent))
        else:
            queues.append(draw(queues_under(name, parent, policy, names_of)))
    if policy.profile == "default":
        queues = within_limits(queues)
    return tuple(draw(st.permutations(queues)))


def within_limits(queues: Sequence[Queue]) -> list[Queue]:
    """Return queues, parents first, with no quota above a limit of its own or of one above."""
    limits: dict[tuple[str, str, str], int] = {}
    """Least limit by queue, flavor and resource, with those above."""
    found = []
    for queue in queues:
        own = {}
        for pair, most in [(key[1:], v) for key, v in limits.items() if key[0] == queue.parent]:
            limits[queue.name, *pair] = most
        for each in queue.quotas:
            key = queue.name, each.flavor, each.resource
            limit = each.limit if each.quota is None else max(each.quota, each.limit or 0)
            given = replace(each, limit=None if each.limit is None else limit)
            if given.quota is not None and given.quota > limits.get(key, given.quota):
                given = replace(given, quota=0, lending_limit=None)
            own[key] = given
        for key, given in own.items():
            if given.limit is not None:
                limits[key] = min(given.limit, limits.get(key, given.limit))
        found.append(replace(queue, quotas=tuple(own.values())))
    return found


def lines(queues: Sequence[Queue]) -> list[str]:
    """Return the queues that workloads may stand in."""
    inner = {queue.parent for queue in queues if not queue.local}
    return [queue.name for queue in queues if queue.name not in inner]


def fairnesses(resources: Sequence[str]) -> SearchStrategy[Fairness]:
    """Return how surplus is shared."""
    by_resource = st.dictionaries(st.sampled_from(resources), claims, max_size=2)
    return st.builds(
        Fairness,
        st.none() | positive_durations,
        positive_durations,
        claims,
        st.sampled_from(((), *rules.STRATEGIES)),
        durations,
        positive_durations,
        by_resource.map(lambda found: tuple(sorted(found.items()))),
    )


def evictions() -> SearchStrategy[Eviction]:
    """Return who may be asked to leave."""
    by_cause = st.dictionaries(st.sampled_from(rules.CAUSES), positive_durations, max_size=3)
    return st.builds(
        Eviction,
        by_cause.map(lambda found: tuple(sorted(found.items()))),
        durations,
        durations,
        st.sampled_from(rules.MINIMUM_RUN_BY),
        steps,
        counts,
        durations,
        durations,
        claims,
        st.booleans(),
        durations,
    )


def policies(
    levels: Sequence[str] = (), resources: Sequence[str] = (GPU, CPU)
) -> SearchStrategy[Policy]:
    """Return policies, all but their headroom."""
    taints = st.builds(Taint, names, texts, effects)
    prices = claims.filter(bool)
    flavors = st.lists(
        st.builds(Flavor, names, labels, tuples(taints), prices),
        max_size=2,
        unique_by=lambda flavor: flavor.name,
    )
    classes = st.dictionaries(names, priorities, max_size=2)
    return st.builds(
        Policy,
        small=st.sampled_from(SCORES),
        rest=st.sampled_from(("", *SCORES)),
        gang=st.sampled_from(SCORES),
        service=st.sampled_from(SCORES),
        spread_within=st.sampled_from(("", *levels)),
        devices=st.sampled_from(rules.DEVICE_NAMES),
        search_steps=steps,
        mix_half_life_s=positive_durations,
        mix_learns=st.booleans(),
        gang_grace_s=durations,
        profile=st.sampled_from(rules.PROFILES),
        flavors=flavors.map(tuple),
        priority_classes=classes.map(lambda found: tuple(sorted(found.items()))),
        fairness=st.just(Fairness()) | fairnesses(resources),
        eviction=st.just(Eviction()) | evictions(),
        backfill=st.builds(Backfill, counts, durations, counts),
        failure=st.builds(Failure, st.none() | counts, st.integers(1, 9), durations),
        defragmentation=st.builds(Defragmentation, st.booleans(), claims, claims, counts),
        headroom=st.just(()),
        undeclared=st.sampled_from(rules.UNDECLARED),
    ).map(_as_used)


def _as_used(policy: Policy) -> Policy:
    """Return a policy that says only what its profile goes by."""
    if policy.profile != "default":
        return replace(policy, defragmentation=replace(policy.defragmentation, automatic=False))
    plain, usual = Fairness(), Eviction()
    fairness = replace(
        policy.fairness,
        strategies=plain.strategies,
        usage_half_life_s=plain.usage_half_life_s,
        usage_sampling_s=plain.usage_sampling_s,
        usage_weights=plain.usage_weights,
    )
    eviction = replace(
        policy.eviction,
        preempt_minimum_run_s=usual.preempt_minimum_run_s,
        reclaim_minimum_run_s=usual.reclaim_minimum_run_s,
        minimum_run_by=usual.minimum_run_by,
        saturation=usual.saturation,
    )
    if policy.service != Policy().service:
        policy = replace(policy, spread_within="")
    return replace(policy, fairness=fairness, eviction=eviction, undeclared=Policy().undeclared)


@st.composite
def policy_files(
    draw: DrawFn, topology: Topology | None = None, cluster: tuple[Node, ...] = ()
) -> PolicyFile:
    """Draw queues and a policy that fit each other, and the nodes if there are any."""
    topology = draw(topologies()) if topology is None else topology
    has = sorted({name for node in cluster for name, _ in node.capacity} - {PODS, CPU, MEMORY})
    resources = (GPU, CPU, MEMORY, PODS, *(has if cluster else RESOURCES[2:]))
    policy = draw(st.just(Policy()) | policies(topology.names, resources))
    known = () if policy.flavors and policy.profile == "default" else MODELS
    models = [node.gpu_model for node in cluster if node.gpu_model] if cluster else known
    flavors = list(dict.fromkeys([*(flavor.name for flavor in policy.flavors), *models]))
    queues = draw(st.just((DEFAULT_QUEUE,)) | queue_trees(policy, (flavors, resources)))
    queue = st.sampled_from([queue.name for queue in queues])
    flavor = st.sampled_from(("", *flavors))
    promises = tuples(st.builds(Headroom, queue, st.integers(1, 99), durations, flavor))
    return PolicyFile(topology, queues, replace(policy, headroom=draw(promises)))


# -- scenarios ------------------------------------------------------------------------------


def memories() -> SearchStrategy[Memory]:
    """Return memories. Fields that nothing is said of here are drawn by their types."""
    kinds = st.builds(
        TaskType,
        quantities(RESOURCES, 1 << 20),
        st.integers(0, 8),
        st.integers(0, WHOLE),
        tuples(st.sampled_from(MODELS)),
    )
    mix = st.dictionaries(kinds, durations, max_size=3).map(lambda found: tuple(found.items()))
    return instances(
        Memory,
        {**PLAIN, str: texts},
        mix=mix,
        arrivals=st.integers(0, 1 << 40),
        mix_at=instants,
    )


@st.composite
def _finished(
    draw: DrawFn, workload: Workload, placements: tuple[Placement, ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Draw tasks that are done: some of those that have no place."""
    placed = {(p.group, task) for p in placements for task in p.tasks}
    found = []
    for leaf in workload.leaves():
        free = [task for task in range(leaf.most) if (leaf.name, task) not in placed]
        done = draw(st.lists(st.sampled_from(free), unique=True, max_size=2)) if free else []
        if done:
            found.append((leaf.name, tuple(sorted(done))))
    return tuple(found)


@st.composite
def _releasing(
    draw: DrawFn, placements: tuple[Placement, ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Draw tasks that are on their way out: some of those that have a place."""
    some = [(p.group, p.tasks) for p in placements if draw(st.booleans())]
    return tuple((group, tasks[: draw(st.integers(1, len(tasks)))]) for group, tasks in some)


@st.composite
def whole_scenarios(draw: DrawFn, most_nodes: int = 4, most_workloads: int = 4) -> Scenario:
    """Draw a whole moment, with everything that a file may say; some of the workloads run."""
    topology = draw(topologies())
    cluster = draw(clusters(topology, most_nodes))
    rules = draw(policy_files(topology, cluster))
    resources = {name for node in cluster for name, _ in node.capacity} - {PODS}
    drawn = draw(
        st.lists(
            workloads(
                topology.names,
                sorted(resources) if cluster else RESOURCES,
                lines(rules.queues),
                rules.policy.priority_classes,
            ),
            max_size=most_workloads,
            unique_by=lambda workload: workload.name,
        )
    )
    waiting, running = [], []
    rooms = [_Room.of(node) for node in cluster]
    for workload in drawn:
        if draw(st.booleans()):
            placements = _place(workload, rooms) if draw(st.integers(0, 3)) else ()
            finished = draw(_finished(workload, placements))
            releasing = draw(_releasing(placements))
            running.append(Adopted(workload, placements, draw(instants), finished, releasing))
        else:
            waiting.append(workload)
    return Scenario(
        now=draw(instants),
        topology=topology,
        nodes=cluster,
        queues=rules.queues,
        policy=rules.policy,
        waiting=tuple(waiting),
        running=tuple(running),
        memory=draw(st.just(Memory()) | memories()),
    )


def scenarios() -> SearchStrategy[Scenario]:
    """Return moments in which queues have no rules, and the memory is fresh but for the mix."""
    return whole_scenarios().map(_without_rules)


def _without_rules(scenario: Scenario) -> Scenario:
    given, memory = scenario.policy, scenario.memory
    policy = Policy(
        small=given.small,
        rest=given.rest,
        gang=given.gang,
        service=given.service,
        spread_within=given.spread_within,
        devices=given.devices,
        search_steps=given.search_steps,
        mix_half_life_s=given.mix_half_life_s,
        mix_learns=given.mix_learns,
        gang_grace_s=given.gang_grace_s,
    )
    return replace(
        scenario,
        queues=tuple(Queue(queue.name, queue.parent) for queue in scenario.queues),
        policy=policy,
        waiting=tuple(map(_plain_workload, scenario.waiting)),
        running=tuple(
            replace(adopted, workload=_plain_workload(adopted.workload), releasing=())
            for adopted in scenario.running
        ),
        memory=Memory(mix=memory.mix, arrivals=memory.arrivals, mix_at=memory.mix_at),
    )


def _plain_workload(workload: Workload) -> Workload:
    return replace(
        workload,
        groups=tuple(map(_plain_group, workload.groups)),
        priority_class="",
        semi_preemptible=False,
        deadline_at=None,
        preemption_delay_s=0.0,
        grace_s=None,
        namespace="",
        user="",
        active=True,
    )


def _plain_group(group: PodGroup) -> PodGroup:
    return replace(group, groups=tuple(map(_plain_group, group.groups)), partial=0, needed=0)
