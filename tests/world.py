"""A whole world at random: who chooses what happens, the world that answers, and what must hold.

`Story` plays the world for one engine. After every step `check_all` follows all books from what is
known of the workloads; `tests.rules` judges what was decided.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pytest
from hypothesis import strategies as st

from mooring.engine import Engine, EventError
from mooring.model.cluster import WHOLE, Node, Taint
from mooring.model.codec import encode
from mooring.model.events import (
    BindRefused,
    Ended,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.resources import GPU, GPU_ROW, PODS, UNLIMITED, of_ports
from mooring.model.settings import Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import (
    PodGroup,
    Shape,
    SpreadTerm,
    TaskState,
    TaskTerm,
    Toleration,
    Workload,
)
from mooring.policy.victims.evict import remove, whole
from tests.build import QUEUES, gpus, near_by, node, shape, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypothesis.strategies import DataObject

    from mooring.model.books import Books
    from mooring.model.entry import Entry, Members
    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.model.queues import Queue

LEVELS = Topology((Level("pod"), Level("rack")))
PATHS = {
    "n0": ("p1", "r1"),
    "n1": ("p1", "r1"),
    "n2": ("p1", "r2"),
    "n3": ("p2", "r3"),
    "n4": ("p2", "r3"),
    "n5": ("p2", "r4"),
}
HOLDING = (TaskState.ASSUMED, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)
COMES_TRUE = {
    TaskState.ASSUMED: TaskState.RUNNING,
    TaskState.BOUND: TaskState.RUNNING,
    TaskState.RELEASING: TaskState.PENDING,
}
NOTHING = Workload("", ())
T = TypeVar("T")


class Chooser(Protocol):
    """Whoever decides what happens next."""

    def pick(self, options: Sequence[T]) -> T:
        """Choose one."""

    def number(self, low: int, high: int) -> int:
        """Choose a number."""


class Drawn:
    """Hypothesis chooses."""

    def __init__(self, data: DataObject) -> None:
        self.data = data

    def pick(self, options: Sequence[T]) -> T:
        """Choose one."""
        return self.data.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        """Choose a number."""
        return self.data.draw(st.integers(low, high))


class Rolled:
    """A generator with a seed chooses."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """Choose one."""
        return options[self.random.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        """Choose a number."""
        return self.random.randint(low, high)


# -- drawing things -------------------------------------------------------------------------


def a_node(by: Chooser, name: str) -> Node:
    """Return a node; its place is known by its name, all else may change."""
    partition = by.pick(("", "", "", "a100-40gb"))
    count = by.pick((1, 2)) if partition else by.pick((4, 2, 8, 0, 9))
    bad = [by.number(0, 3)] if by.number(0, 3) == 3 else []
    facts = node(
        name,
        count,
        *PATHS[name],
        cpu=by.pick((4000, 2000, 8000)),
        model=by.pick(("H100", "H100", "A100")) if count else "",
        devices=gpus(count, bad=bad, mig=partition, memory=by.pick((81_920, 81_920, 40_960))),
        labels={"zone": by.pick(("x", "y"))},
        taints=[Taint("t")] if by.number(0, 4) == 4 else [],
        ready=by.number(0, 5) < 5,
    )
    return replace(facts, capacity=(*facts.capacity, (PODS, 12))) if by.number(0, 3) else facts


def a_shape(by: Chooser) -> Shape:
    """Return a shape of any kind."""
    cpu = by.pick((0, 0, 500, 1000))
    kind = by.pick(("whole", "whole", "share", "share", "memory", "mig", "none"))
    plain = {
        "whole": shape(gpus=by.pick((1, 2, 4)), cpu=cpu),
        "share": shape(gpus=by.pick((1, 1, 2)), milli=by.pick((300, 500, 700)), cpu=cpu),
        "memory": shape(gpu_memory=by.pick((20_480, 50_000)), cpu=cpu),
        "mig": shape(mig=by.pick(("1g.5gb", "2g.10gb", "3g.20gb")), cpu=cpu),
        "none": shape(gpus=0, cpu=cpu + 100),
    }[kind]
    if by.number(0, 3) == 3:
        plain = replace(plain, tolerations=(Toleration("t", "Exists"),))
    if by.number(0, 5) == 5:
        plain = replace(plain, selector=(("zone", "x"),))
    if by.number(0, 5) == 5:
        plain = replace(plain, ports=(80,))
    return a_social(by, plain) if by.number(0, 2) == 2 else plain


def a_social(by: Chooser, plain: Shape) -> Shape:
    """Return a shape with labels and perhaps a term."""
    app = (("app", by.pick(("a", "b"))),)
    term = TaskTerm(by.pick(("node", "rack")), (("app", by.pick(("a", "b"))),), by.pick((0, 0, 5)))
    kind = by.pick(("", "apart", "near", "spread"))
    return replace(
        plain,
        labels=app,
        apart=(term,) if kind == "apart" else (),
        near=(term,) if kind == "near" else (),
        spread=(SpreadTerm("node", app, by.number(1, 2)),) if kind == "spread" else (),
    )


def a_leaf(by: Chooser, name: str) -> PodGroup:
    """Return a group with tasks: rigid or elastic, with a level, slices or neither."""
    least = by.pick((1, 2, 3, 4, 0))
    most = least + by.pick((0, 0, 1, 2)) if least else by.number(1, 2)
    level = by.pick(("", "", "", "rack", "pod", "node"))
    slices: Sequence[tuple[str, int]] = ()
    if least in (2, 4) and by.number(0, 2) == 2:
        slices = [("rack", 2)] if level in ("", "pod") else []
    request = near_by(level, "rack" if not level and by.number(0, 3) == 3 else "", *slices)
    return PodGroup(name, a_shape(by), least, most, request)


def a_workload(by: Chooser, name: str, now: float) -> Workload:
    """Return a workload of any kind."""
    groups: tuple[PodGroup, ...] = tuple(
        a_leaf(by, each) for each in ("a", "b", "c")[: by.pick((1, 1, 1, 2, 3))]
    )
    if len(groups) > 2:
        inner = together("in", *groups[1:], level=by.pick(("", "pod", "rack")))
        groups = (groups[0], inner)
    return Workload(
        name,
        groups,
        queue=by.pick(("default", "other")),
        priority=by.number(0, 2),
        submitted_at=now,
        topology=near_by(by.pick(("", "", "", "pod"))),
        service=by.number(0, 3) == 3,
    )


def resized(by: Chooser, wanted: Workload) -> Workload:
    """Return a workload with other priority and queue, and leaves of another size."""

    def one(leaf: PodGroup) -> PodGroup:
        if leaf.groups:
            return replace(leaf, groups=tuple(one(child) for child in leaf.groups))
        step = leaf.topology.slices[0].size if leaf.topology.slices else 1
        least = max(0, leaf.min + step * by.pick((0, 0, 0, 1, -1)))
        return replace(leaf, min=least, max=max(1, least, leaf.most + by.pick((0, 0, 1, -1))))

    return replace(
        wanted,
        groups=tuple(one(leaf) for leaf in wanted.groups),
        priority=by.number(0, 2),
        queue=by.pick(("default", "other")),
    )


STEPS = 500
"""Bound of every search: a story has many, and none of them must take long."""
POLICIES = (
    Policy(search_steps=STEPS),
    Policy(small="e-binpack", search_steps=STEPS),
    Policy(small="binpack", gang="spread", service="first-fit", search_steps=STEPS),
    Policy(
        small="fgd", gang="potential", spread_within="rack", devices="lowest", search_steps=STEPS
    ),
    Policy(gang_grace_s=5.0, search_steps=STEPS),
)


# -- the world ------------------------------------------------------------------------------


class Story:
    """Plays the world for one engine, and remembers all that it told it."""

    def __init__(self, policy: Policy | None = None, queues: tuple[Queue, ...] = QUEUES) -> None:
        self.begins = (policy or POLICIES[0], queues)
        self.engine = Engine(LEVELS, self.begins[0], queues=queues)
        self.now = 0.0
        self.told: list[tuple[float, tuple[Event, ...], Plan | None]] = []
        """When, what the engine saw, and what it decided; None: it was started anew."""
        self.fresh: list[Event] = []
        self.nodes: dict[str, Node] = {}
        self.count = 0
        self.edited: set[str] = set()
        """Workloads whose size was changed."""
        self.changed: set[str] = set()
        """Nodes whose facts were changed after they had joined."""
        self.rests = True
        """Whether the rules are such that all comes to rest."""
        self.reserved: dict[str, Reserve] = {}
        """What was last reserved for each workload."""

    def see(self, event: Event) -> None:
        """Tell the engine a fact."""
        self.engine.observe(event)
        self.fresh.append(event)

    # -- things that happen

    def node_comes(self, by: Chooser) -> None:
        """Let a node join, or change."""
        name = by.pick(sorted(PATHS))
        found = a_node(by, name)
        if name in self.nodes:
            self.changed.add(name)
        kind = NodeChanged if name in self.nodes and by.number(0, 1) else NodeJoined
        self.nodes[name] = found
        self.see(kind(found))

    def node_wavers(self, by: Chooser) -> None:
        """Let a node lose or regain its health, a device, or some CPU."""
        if not self.nodes:
            return
        name = by.pick(sorted(self.nodes))
        self.changed.add(name)
        old = self.nodes[name]
        there = list(old.devices)
        if there:
            index = by.number(0, len(there) - 1)
            there[index] = replace(there[index], healthy=not there[index].healthy)
        what = by.pick(("ready", "device", "cpu", "fewer", "model"))
        capacity = dict(old.capacity) | {"cpu": by.pick((500, 4000))}
        self.nodes[name] = {
            "ready": replace(old, ready=not old.ready),
            "device": replace(old, devices=tuple(there)),
            "cpu": replace(old, capacity=tuple(sorted(capacity.items()))),
            "fewer": replace(old, devices=old.devices[:-1]),
            "model": replace(old, gpu_model=by.pick(("H100", "A100"))),
        }[what]
        self.see(NodeChanged(self.nodes[name]))

    def node_goes(self, by: Chooser) -> None:
        """Let a node leave."""
        if self.nodes:
            name = by.pick(sorted(self.nodes))
            del self.nodes[name]
            self.see(NodeLeft(name))

    def submit(self, by: Chooser) -> None:
        """Ask for something to run."""
        self.count += 1
        self.see(Submitted(a_workload(by, f"w{self.count:03}", self.now)))

    def edit(self, by: Chooser) -> None:
        """Change a workload in some way that does not touch its shapes."""
        names = sorted(self.engine.entries())
        if names:
            old = self.engine.entries()[by.pick(names)].workload
            self.edited.add(old.name)
            self.see(WorkloadChanged(resized(by, old)))

    def end(self, by: Chooser) -> None:
        """Let a workload be over."""
        names = sorted(self.engine.entries())
        if names:
            self.see(Ended(by.pick(names), failed=by.number(0, 1) == 1))

    def policy(self, by: Chooser) -> None:
        """Let another policy decide."""
        self.see(PolicyChanged(by.pick(POLICIES)))

    def answer(self, by: Chooser) -> None:
        """Let the world answer for tasks that have a place."""
        places = [
            (name, part, task, TaskState(members.states[task]))
            for name, entry in sorted(self.engine.entries().items())
            for part, members in entry.members.items()
            for task in members.holding()
        ]
        if not places:
            return
        name, part, task, state = by.pick(places)
        alike = [t for n, p, t, s in places if (n, p, s) == (name, part, state)]
        tasks = tuple(alike) if by.number(0, 2) else (task,)
        answers = {
            TaskState.ASSUMED: ("bound", "running", "running", "refused", "failed"),
            TaskState.BOUND: ("running", "releasing", "failed"),
            TaskState.RUNNING: ("finished", "failed", "releasing"),
            TaskState.RELEASING: ("pending", "pending", "running", "finished", "failed"),
        }[state]
        said = by.pick(answers)
        if said == "refused":
            self.see(BindRefused(name, part, tasks))
        else:
            self.see(TasksChanged(name, part, tasks, TaskState[said.upper()]))

    def nonsense(self, by: Chooser) -> None:
        """Tell the engine something that cannot be: it refuses and goes on as before."""
        events: tuple[Event, ...] = (
            Ended("nobody"),
            NodeLeft("nowhere"),
            TasksChanged("nobody", "a", (0,), TaskState.RUNNING),
            BindRefused("nobody", "a", (0,)),
        )
        before = self.engine.snapshot(self.now)
        with pytest.raises(EventError):
            self.engine.observe(by.pick(events))
        assert self.engine.snapshot(self.now) == before

    def cycle(self, by: Chooser) -> Plan:
        """Let time pass and decide; Replay: a fork must come to the same plan."""
        self.now += by.pick((0.0, 1.0, 10.0, 100.0))
        fork = self.engine.fork() if by.number(0, 2) == 2 else None
        plan = self.decide()
        if fork is not None:
            assert fork.decide(self.now) == plan, "a fork decides otherwise"
        return plan

    def decide(self) -> Plan:
        """Decide and remember."""
        plan = self.engine.decide(self.now)
        self.reserved.update((d.workload, d) for d in plan.decisions if isinstance(d, Reserve))
        check_binds(self.engine, plan)
        self.told.append((self.now, tuple(self.fresh), plan))
        self.fresh.clear()
        return plan

    def restart(self, by: Chooser) -> None:
        """Let the engine be killed: a new one is told what can be seen, and has its memory."""
        self.told.append((self.now, tuple(self.fresh), None))
        self.fresh.clear()
        self.engine = fresh_engine(self.engine, self.now)
        Story.decide(self)

    # -- the end

    def come_true(self) -> None:
        """Confirm all that was decided: what is bound runs, what is evicted is released."""
        groups = [
            (name, part, members)
            for name, entry in sorted(self.engine.entries().items())
            for part, members in entry.members.items()
        ]
        for name, part, members in groups:
            for old, new in COMES_TRUE.items():
                tasks = tuple(t for t, s in enumerate(members.states) if s == old)
                if tasks:
                    self.see(TasksChanged(name, part, tasks, new))

    def rest(self) -> None:
        """Rest: events stop and timers run out; then nothing more is decided, however late."""
        for _ in range(100):
            self.come_true()
            plan = self.decide()
            if not plan.decisions and plan.wake_at is None:
                break
            self.now = max(self.now + 1.0, plan.wake_at or 0.0)
        else:
            assert not self.rests, "it does not come to rest"
            return
        for _ in range(5):
            self.now += 1000.0
            assert self.decide().decisions == ()

    def again(self) -> None:
        """Replay: tell the whole story to a new engine: the plans are the same."""
        other = Engine(LEVELS, self.begins[0], queues=self.begins[1])
        for now, events, plan in self.told:
            for event in events:
                other.observe(event)
            if plan is None:
                other = fresh_engine(other, now)
            else:
                assert other.decide(now) == plan

    def sketch(self) -> str:
        """Return all that happened in few words."""
        lines = []
        for now, events, plan in self.told:
            lines += [sketch(event) for event in events]
            if plan is None:
                lines.append(f"   at {now}: started anew")
            for decision in plan.decisions if plan else ():
                lines.append(f"   at {now}: {decision}")
        return "\n".join(["", *lines, *(sketch(event) for event in self.fresh)])

    def digest(self) -> str:
        """Return all plans as one short text."""
        text = "\n".join(repr(encode(plan)) for _, _, plan in self.told if plan)
        return sha256(text.encode()).hexdigest()


def differing(value: object, plain: object) -> str:
    """Return the fields of a value that differ from a plain one."""
    assert is_dataclass(value)
    pairs = [(each.name, getattr(value, each.name)) for each in fields(value) if each.compare]
    return " ".join(f"{name}={mine}" for name, mine in pairs if mine != getattr(plain, name))


def sketch(event: Event) -> str:
    """Return an event in few words."""
    match event:
        case NodeJoined(facts) | NodeChanged(facts):
            healthy = "".join("-+"[device.healthy] for device in facts.devices)
            plain = replace(facts, devices=(), path=())
            return f"node {'/'.join(facts.path)} [{healthy}] {differing(plain, Node(''))}"
        case Submitted(wanted) | WorkloadChanged(wanted):
            lines = [f"{type(event).__name__} {differing(replace(wanted, groups=()), NOTHING)}"]
            for leaf in wanted.leaves():
                near = differing(leaf.topology, near_by())
                lines.append(f"   {leaf.name} {leaf.min}-{leaf.most} {near}")
                lines[-1] += f" | {differing(leaf.shape, Shape())}"
            return "\n".join(lines)
        case _:
            return str(event)


# -- invariants -----------------------------------------------------------------------------


def settle(engine: Engine) -> None:
    """Let nodes that came or went into the books."""
    engine.headroom()


def placed(engine: Engine) -> Iterator[tuple[Entry, Members, int, int, int]]:
    """Yield entry, members, task, row and devices of every task that has a place."""
    groups = [(entry, m) for entry in engine.entries().values() for m in entry.members.values()]
    for entry, members in groups:
        for task, row in enumerate(members.rows):
            assert (row >= 0) == (members.states[task] in HOLDING)
            if row >= 0:
                yield entry, members, task, row, members.devices[task]


def held(engine: Engine) -> Iterator[tuple[Entry, Members, int, int]]:
    """Yield entry, members, row and devices of every task for which room is kept."""
    for name, hold in engine.desk.holds.items():
        entry = engine.entries()[name]
        for tasks, seats in hold.seats:
            assert len(tasks) == len(seats.rows) == len(seats.devices)
            for row, mask in zip(seats.rows, seats.devices, strict=True):
                yield entry, entry.members[seats.part.name], row, mask


def amounts_of(wanted: Shape) -> list[tuple[str, int]]:
    """Return what a task takes of a node, but for devices."""
    return [*wanted.amounts, (PODS, 1), *wanted.port_amounts]


def weight(wanted: Shape) -> int:
    """Return what a task adds to the use of its node."""
    by_thousandths = not wanted.mig and not wanted.gpu_memory
    return 1 + wanted.gpus * (wanted.milli if by_thousandths else WHOLE)


def check_amounts(engine: Engine) -> None:
    """Free and releasing amounts, ports and counts follow from the entries."""
    books = engine.books
    taken: Counter[tuple[str, int]] = Counter()
    leaving: Counter[tuple[str, int]] = Counter()
    for _, members, task, row, _ in placed(engine):
        for name, amount in amounts_of(members.group.shape):
            taken[name, row] += amount
            if members.states[task] == TaskState.RELEASING:
                leaving[name, row] += amount
    kept: Counter[tuple[str, int]] = Counter()
    for _, members, row, _ in held(engine):
        for name, amount in amounts_of(members.group.shape):
            kept[name, row] += amount
    for row, facts in enumerate(books.nodes):
        capacity = {PODS: UNLIMITED} | dict(facts.capacity)
        for r, name in enumerate(books.order.names):
            has = of_ports(name) or capacity.get(name, 0)
            at = (name, row)
            if name != GPU and books.present[row]:
                assert books.open[r, row] == has - taken[at] - kept[at], (name, facts.name)
            assert books.releasing[r, row] == leaving[at], (name, facts.name)
            assert books.held[r, row] == kept[at], (name, facts.name)


def thousandths(engine: Engine, wanted: Shape, row: int, device: int) -> int:
    """Return what a task takes of a device; more than all where the memory is too small by now."""
    memory = int(engine.books.device_memory[device, row])
    if not wanted.gpu_memory:
        return wanted.milli
    if memory < wanted.gpu_memory:
        return WHOLE + 1
    return (wanted.gpu_memory * WHOLE + memory - 1) // memory


def bits_of(mask: int) -> list[int]:
    """Return the positions of the set bits."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def check_devices(engine: Engine) -> None:
    """Shares follow from the entries; nothing is given twice, and whole ones are not shared."""
    milli: Counter[tuple[int, int]] = Counter()
    slices: set[tuple[int, int]] = set()
    here: dict[tuple[bool, int, int], list[Shape]] = {}
    """Who has each device (or slice) now, and who will have it when all have left who must."""
    seats = [(m, row, mask, m.states[t]) for _, m, t, row, mask in placed(engine)]
    seats += [(m, row, mask, TaskState.PENDING) for _, m, row, mask in held(engine)]
    for members, row, mask, state in seats:
        wanted = members.group.shape
        for bit in bits_of(mask):
            if wanted.mig:
                slices.add((row, bit))
            else:
                milli[row, bit] += thousandths(engine, wanted, row, bit)
            key = ~bit if wanted.mig else bit
            if state != TaskState.PENDING:
                here.setdefault((False, row, key), []).append(wanted)
            if state != TaskState.RELEASING:
                here.setdefault((True, row, key), []).append(wanted)
    for (_, row, bit), shapes in here.items():
        where = f"device {bit} of row {row}"
        assert len(shapes) == 1 or not any(each.mig or each.is_whole for each in shapes), where
        assert sum(0 if each.gpu_memory else each.milli for each in shapes) <= WHOLE, where
    check_shares(engine, milli, slices)


def check_shares(
    engine: Engine, milli: Counter[tuple[int, int]], slices: set[tuple[int, int]]
) -> None:
    """What is open of each device follows from what is taken and kept of it."""
    books = engine.books
    for row, facts in enumerate(books.nodes):
        for d in range(len(books.share)):
            device = facts.devices[d] if d < len(facts.devices) else None
            usable = device is not None and device.healthy and not device.mig
            bits = sum(1 << s for s in range(8) if (row, 8 * d + s) in slices)
            assert books.mig_used[d, row] == bits
            usable = usable and not bits  # instances may outlive the MIG mode
            assert books.share[d, row] == WHOLE * usable - milli[row, d]
            if device is not None and not milli[row, d]:
                assert books.device_memory[d, row] == device.memory
    whole_ones = books.share == WHOLE
    assert books.open[GPU_ROW].tolist() == whole_ones.sum(axis=0).tolist()
    powers = 1 << np.arange(len(books.share))[:, None]
    assert books.whole.tolist() == (whole_ones * powers).sum(axis=0).tolist()


def check_sums(engine: Engine) -> None:
    """Use per level, tallies and charges follow from the entries."""
    books = engine.books
    used = np.zeros(books.count, np.int64)
    tally: Counter[tuple[int, int]] = Counter()
    charges: Counter[tuple[str, str]] = Counter()
    for entry, members, task, row, _ in placed(engine):
        used[row] += weight(members.group.shape)
        tally[members.demand.index, row] += 1
        assert books.queues[entry.queue] == entry.workload.queue
        if members.states[task] != TaskState.RELEASING:  # nobody pays for what is on its way out
            charges.update(charge_of(entry.workload.queue, members.group.shape))
    for entry, members, _, _ in held(engine):
        charges.update(charge_of(entry.workload.queue, members.group.shape))
    for level, column in enumerate(books.used):
        assert column.tolist() == books.tree.sums(level, used).tolist()
    for index, counts in enumerate(books.tally):
        assert counts.tolist() == [tally[index, row] for row in range(books.count)]
    for queue in books.queues:
        total: Counter[str] = Counter()
        for (_, name), amount in books.charged(queue).items():
            assert amount > 0
            total[name] += amount
        assert total == Counter({n: a for (q, n), a in charges.items() if q == queue and a})


def charge_of(queue: str, wanted: Shape) -> dict[tuple[str, str], int]:
    """Return what a queue is charged for one task."""
    amounts = [*amounts_of(wanted), (GPU, weight(wanted) - 1)]
    return {(queue, name): amount for name, amount in amounts}


def check_gangs(story: Story) -> None:
    """A workload has none of its tasks or at least its minimum, unless it is known to lack some."""
    engine = story.engine
    waiting = set(engine.waiting())
    for name, entry in engine.entries().items():
        if not any(state in HOLDING for m in entry.members.values() for state in m.states):
            continue
        short = [
            part
            for part, members in entry.members.items()
            if sum(state != TaskState.PENDING for state in members.states) < members.group.min
        ]
        assert not short or name in waiting or name in story.edited, (name, short)


def check_topology(engine: Engine) -> None:
    """What is required of running groups holds."""
    tree = engine.books.tree

    def rows_of(entry: Entry, part: PodGroup) -> list[int]:
        return [
            entry.members[leaf.name].rows[task]
            for leaf in part.leaves()
            for task in entry.members[leaf.name].staying()
        ]

    def down(entry: Entry, part: PodGroup) -> None:
        required = part.topology.required
        if required:
            level = tree.level_of[required]
            assert len({int(tree.domain[level][row]) for row in rows_of(entry, part)}) <= 1
        for child in part.groups:
            down(entry, child)

    for entry in engine.entries().values():
        down(entry, entry.workload.root)


def check_slices(story: Story) -> None:
    """Every run of tasks of a slice is inside one domain, as long as the size was not edited."""
    tree = story.engine.books.tree
    runs: dict[tuple[str, str, str, int], set[int]] = {}
    for entry, members, task, row, _ in placed(story.engine):
        if members.states[task] == TaskState.RELEASING or entry.workload.name in story.edited:
            continue
        for each in members.group.topology.slices:
            key = (entry.workload.name, members.group.name, each.level, task // each.size)
            runs.setdefault(key, set()).add(int(tree.domain[tree.level_of[each.level]][row]))
    assert all(len(domains) == 1 for domains in runs.values()), runs


def check_excess(story: Story) -> None:
    """Nothing is negative, but on a node that was changed under what runs on it.

    What is held is free, or on its way out.
    """
    books = story.engine.books
    steady = [row for name, row in books.row_of.items() if name not in story.changed]
    but_gpus = [r for r in range(len(books.open)) if r != GPU_ROW]
    assert ((books.open + books.releasing)[np.ix_(but_gpus, steady)] >= 0).all()
    assert (books.open[GPU_ROW] >= 0).all()
    assert (books.releasing >= 0).all()
    assert (books.held >= 0).all()
    leaving = released(story.engine)
    for d, row in ((d, row) for d in range(len(books.share)) for row in steady):
        assert books.share[d, row] + leaving[row, d] >= 0, (books.nodes[row].name, d)
    for level in books.used:
        assert (level >= 0).all()
    for tally in books.tally:
        assert (tally >= 0).all()


def released(engine: Engine) -> Counter[tuple[int, int]]:
    """Return what tasks on their way out have of each (row, device), in thousandths."""
    found: Counter[tuple[int, int]] = Counter()
    for _, members, task, row, mask in placed(engine):
        if members.states[task] == TaskState.RELEASING and not members.group.shape.mig:
            for bit in bits_of(mask):
                found[row, bit] += thousandths(engine, members.group.shape, row, bit)
    return found


def check_holds(story: Story) -> None:
    """Room is kept where it was said, for workloads that have not started; never without end."""
    engine = story.engine
    names = engine.books.tree.names[-1]
    assert set(engine.books.holds) <= set(engine.desk.holds)
    for name, hold in engine.desk.holds.items():
        assert name in engine.waiting()
        said = story.reserved[name]
        assert hold.until == said.until
        for (tasks, seats), placement in zip(hold.seats, said.placements, strict=True):
            assert (seats.part.name, tuple(tasks)) == (placement.group, placement.tasks)
            assert tuple(names[row] for row in seats.rows) == placement.nodes
            assert tuple(seats.devices) == placement.devices
            states = engine.entries()[name].members[placement.group].states
            assert all(states[task] in (TaskState.PENDING, TaskState.RELEASING) for task in tasks)


def check_binds(engine: Engine, plan: Plan) -> None:
    """What was just bound had room: on no changed node was less than nothing taken."""
    books = engine.books
    leaving = released(engine)
    evicted = {(d.workload, d.group) for d in plan.decisions if isinstance(d, Evict)}
    for decision in plan.decisions:
        if not isinstance(decision, Bind):
            continue
        group = decision.placement.group
        members = engine.entries()[decision.workload].members[group]
        if (decision.workload, group) in evicted:
            continue
        for name, mask in zip(decision.placement.nodes, decision.placement.devices, strict=True):
            row = books.row_of[name]
            assert books.present[row]
            assert books.nodes[row].ready
            free = books.open + books.releasing
            assert all(free[r, row] >= 0 for r, _ in members.demand.pairs if r != GPU_ROW)
            if not members.group.shape.mig:
                assert all(books.share[d, row] + leaving[row, d] >= 0 for d in bits_of(mask))


def check_books(story: Story) -> None:
    """Books: free + used + releasing = capacity, 0 <= held <= free + releasing, nothing negative.

    And no device is given twice.
    """
    check_amounts(story.engine)
    check_devices(story.engine)
    check_sums(story.engine)
    check_holds(story)
    check_excess(story)


def check_rollback(engine: Engine) -> None:
    """Books: rollback restores bit for bit, whatever was taken away in between."""
    books = engine.books
    before, mark = state_of(books), books.checkpoint()
    for entry in engine.entries().values():
        remove(engine.desk, whole(entry, "preempt"))
    books.rollback(mark)
    assert state_of(books) == before


def state_of(books: Books) -> dict[str, object]:
    """Return all columns of the books, to be compared."""
    arrays = {n: v.tobytes() for n, v in vars(books).items() if isinstance(v, np.ndarray)}
    lists = [[column.tobytes() for column in columns] for columns in (books.used, books.tally)]
    return {**arrays, "lists": lists, "holds": {n: list(h) for n, h in books.holds.items()}}


def check_whole_gangs(story: Story) -> None:
    """Gangs: the minimum is bound together or not at all, and where it must be."""
    check_gangs(story)
    check_topology(story.engine)
    check_slices(story)


def check_all(story: Story) -> None:
    """Check everything that is true after every cycle."""
    settle(story.engine)
    check_books(story)
    check_whole_gangs(story)


def fresh_engine(engine: Engine, now: float) -> Engine:
    """Return a new engine that was told the present moment."""
    scene = engine.snapshot(now)
    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)
    return other


def check_nothing_could_start(story: Story) -> None:
    """Rest: a new engine that sees the same moment finds nothing to do either.

    It does not know which nodes refused somebody, nor then where one might not be moved to.
    """
    other = fresh_engine(story.engine, story.now)
    plan = other.decide(story.now)
    avoiding = {name for name, entry in story.engine.entries().items() if entry.avoid}
    avoiding |= {name for name, movers in moved_for(plan).items() if movers & unlawful(story, plan)}
    for decision in plan.decisions:
        name = decision.workload
        if isinstance(decision, Evict) and decision.beneficiary:
            name = decision.beneficiary
        if isinstance(decision, Bind | Evict):
            assert name in avoiding, f"{name} could have started: {plan.decisions}"


def moved_for(plan: Plan) -> dict[str, set[str]]:
    """Return who is moved for whom."""
    found: dict[str, set[str]] = {}
    for each in plan.decisions:
        if isinstance(each, Evict) and each.cause == "move":
            found.setdefault(each.beneficiary, set()).add(each.workload)
    return found


def unlawful(story: Story, plan: Plan) -> set[str]:
    """Return those who would be on nodes that have refused them."""
    entries = story.engine.entries()
    return {
        each.workload
        for each in plan.decisions
        if isinstance(each, Reserve)
        for placement in each.placements
        if set(placement.nodes) & set(entries[each.workload].avoid)
    }
