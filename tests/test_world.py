"""A whole world at random: whatever happens, the invariants hold, and the story can be told again.

One class plays the world; Hypothesis chooses what happens, or a generator with a fixed seed does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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
from mooring.model.plan import (
    Behind,
    Bind,
    CutShort,
    Excluded,
    Impossible,
    NoRoom,
    NotTogether,
    Unknown,
)
from mooring.model.queues import EvictionRules
from mooring.model.resources import GPU, GPU_ROW, PODS, UNLIMITED
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
from tests.build import QUEUES as RIVALS
from tests.build import gpus, group, near_by, node, shape, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypothesis.strategies import DataObject

    from mooring.model.entry import Entry, Members
    from mooring.model.events import Event
    from mooring.model.plan import Plan, Reason

QUEUES = tuple(replace(queue, eviction=EvictionRules("never", "never")) for queue in RIVALS)
"""Here nobody leaves for another: stories of the core. Those of queues have worlds of their own."""
ROOT = Path(__file__).parents[1]
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

    def __init__(self) -> None:
        self.engine = Engine(LEVELS, POLICIES[0], queues=QUEUES)
        self.now = 0.0
        self.told: list[tuple[float, tuple[Event, ...], Plan]] = []
        self.fresh: list[Event] = []
        self.nodes: dict[str, Node] = {}
        self.count = 0
        self.edited: set[str] = set()
        """Workloads whose size was changed."""
        self.changed: set[str] = set()
        """Nodes whose facts were changed after they had joined."""

    def see(self, event: Event) -> None:
        """Tell the engine a fact."""
        self.fresh.append(event)
        self.engine.observe(event)

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
        """Let time pass and decide; a fork must come to the same plan."""
        self.now += by.pick((0.0, 1.0, 10.0, 100.0))
        fork = self.engine.fork() if by.number(0, 2) == 2 else None
        plan = self.decide()
        if fork is not None:
            assert fork.decide(self.now) == plan
        return plan

    def decide(self) -> Plan:
        """Decide and remember."""
        plan = self.engine.decide(self.now)
        check_binds(self.engine, plan)
        self.told.append((self.now, tuple(self.fresh), plan))
        self.fresh.clear()
        return plan

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
        """Let events stop and timers run out; then nothing more is decided, however late."""
        for _ in range(100):
            self.come_true()
            plan = self.decide()
            if not plan.decisions and plan.wake_at is None:
                break
            self.now = max(self.now + 1.0, plan.wake_at or 0.0)
        else:
            raise AssertionError("it does not come to rest")
        for _ in range(5):
            self.now += 1000.0
            assert self.decide().decisions == ()

    def again(self) -> None:
        """Tell the whole story to a new engine: the plans are the same."""
        other = Engine(LEVELS, POLICIES[0], queues=QUEUES)
        for now, events, plan in self.told:
            for event in events:
                other.observe(event)
            assert other.decide(now) == plan

    def sketch(self) -> str:
        """Return all that happened in few words."""
        lines = []
        for now, events, plan in self.told:
            lines += [sketch(event) for event in events]
            for decision in plan.decisions:
                lines.append(f"   at {now}: {decision}")
        return "\n".join(["", *lines, *(sketch(event) for event in self.fresh)])

    def digest(self) -> str:
        """Return all plans as one short text."""
        text = "\n".join(repr(encode(plan)) for _, _, plan in self.told)
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


def placed(engine: Engine) -> Iterator[tuple[Entry, Members, int, int, int]]:
    """Yield entry, members, task, row and devices of every task that has a place."""
    groups = [(entry, m) for entry in engine.entries().values() for m in entry.members.values()]
    for entry, members in groups:
        for task, row in enumerate(members.rows):
            assert (row >= 0) == (members.states[task] in HOLDING)
            if row >= 0:
                yield entry, members, task, row, members.devices[task]


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
        wanted = members.group.shape
        pairs = [*wanted.amounts, (PODS, 1), *((f"port/{port}", 1) for port in wanted.ports)]
        for name, amount in pairs:
            taken[name, row] += amount
            if members.states[task] == TaskState.RELEASING:
                leaving[name, row] += amount
    for row, facts in enumerate(books.nodes):
        capacity = {PODS: UNLIMITED} | dict(facts.capacity)
        for r, name in enumerate(books.order.names):
            has = 1 if name.startswith("port/") else capacity.get(name, 0)
            if name != GPU and books.present[row]:
                assert books.open[r, row] == has - taken[name, row], (name, facts.name)
            assert books.releasing[r, row] == leaving[name, row], (name, facts.name)
    assert not books.held.any()


def thousandths(engine: Engine, wanted: Shape, row: int, device: int) -> int:
    """Return what a task takes of a device; more than all where the memory is too small by now."""
    memory = int(engine.books.device_memory[device, row])
    if not wanted.gpu_memory:
        return wanted.milli
    if memory < wanted.gpu_memory:
        return WHOLE + 1
    return (wanted.gpu_memory * WHOLE + memory - 1) // memory


def check_devices(engine: Engine) -> None:
    """Shares follow from the entries; nothing is given twice, and whole ones are not shared."""
    books = engine.books
    milli: Counter[tuple[int, int]] = Counter()
    plain: Counter[tuple[int, int]] = Counter()
    owners: dict[tuple[int, int], list[bool]] = {}
    slices: Counter[tuple[int, int]] = Counter()
    for _, members, _, row, mask in placed(engine):
        wanted = members.group.shape
        for bit in (i for i in range(mask.bit_length()) if mask >> i & 1):
            if wanted.mig:
                slices[row, bit] += 1
                continue
            milli[row, bit] += thousandths(engine, wanted, row, bit)
            plain[row, bit] += wanted.milli if not wanted.gpu_memory else 0
            owners.setdefault((row, bit), []).append(wanted.is_whole)
    assert all(count == 1 for count in slices.values())
    for (row, bit), whole in owners.items():
        assert len(whole) == 1 or not any(whole), f"device {bit} of row {row} is shared"
        assert plain[row, bit] <= WHOLE
    for row, facts in enumerate(books.nodes):
        for d in range(len(books.share)):
            device = facts.devices[d] if d < len(facts.devices) else None
            usable = device is not None and device.healthy and not device.mig
            bits = sum(1 << s for s in range(8) if slices[row, 8 * d + s])
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
        wanted = members.group.shape
        used[row] += weight(wanted)
        tally[members.demand.index, row] += 1
        assert books.queues[entry.queue] == entry.workload.queue
        if members.states[task] == TaskState.RELEASING:
            continue  # nobody pays for what is on its way out
        pairs = [*wanted.amounts, (PODS, 1), *((f"port/{port}", 1) for port in wanted.ports)]
        for name, amount in (*pairs, (GPU, weight(wanted) - 1)):
            charges[entry.workload.queue, name] += amount
    for level, column in enumerate(books.used):
        assert column.tolist() == books.tree.sums(level, used).tolist()
    for index, counts in enumerate(books.tally):
        assert counts.tolist() == [tally[index, row] for row in range(books.count)]
    for queue in ("default", "other"):
        total: Counter[str] = Counter()
        for (_, name), amount in books.charged(queue).items():
            assert amount > 0
            total[name] += amount
        assert total == Counter({n: a for (q, n), a in charges.items() if q == queue and a})


def check_gangs(story: Story) -> None:
    """A workload has none of its tasks or at least its minimum, unless it is known to lack some."""
    engine = story.engine
    for name, entry in engine.entries().items():
        if not any(state in HOLDING for m in entry.members.values() for state in m.states):
            continue
        short = [
            part
            for part, members in entry.members.items()
            if sum(state != TaskState.PENDING for state in members.states) < members.group.min
        ]
        assert not short or name in engine._needs.incomplete or name in story.edited, (name, short)


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
    """Nothing is negative, but on a node that was changed under what runs on it."""
    books = story.engine.books
    steady = [row for name, row in books.row_of.items() if name not in story.changed]
    assert (books.open[:, steady] >= 0).all()
    assert (books.share[:, steady] >= 0).all()
    assert (books.releasing >= 0).all()
    for level in books.used:
        assert (level >= 0).all()
    for tally in books.tally:
        assert (tally >= 0).all()


def check_binds(engine: Engine, plan: Plan) -> None:
    """What was just bound had room: on no changed node was less than nothing taken."""
    books = engine.books
    for decision in plan.decisions:
        if not isinstance(decision, Bind):
            continue
        members = engine.entries()[decision.workload].members[decision.placement.group]
        for name, mask in zip(decision.placement.nodes, decision.placement.devices, strict=True):
            row = books.row_of[name]
            assert books.present[row]
            assert books.nodes[row].ready
            assert all(books.open[r, row] >= 0 for r, _ in members.demand.pairs)
            chosen = [d for d in range(len(books.share)) if mask >> d & 1]
            assert members.group.shape.mig or all(books.share[d, row] >= 0 for d in chosen)


def check_all(story: Story) -> None:
    """Check everything that is true after every cycle."""
    engine = story.engine
    engine.snapshot(story.now)  # lets nodes that came or went into the books
    check_amounts(engine)
    check_devices(engine)
    check_sums(engine)
    check_gangs(story)
    check_topology(engine)
    check_slices(story)
    check_excess(story)


def fresh_engine(engine: Engine, now: float) -> Engine:
    """Return a new engine that was told the present moment."""
    scene = engine.snapshot(now)
    other = Engine(scene.topology, scene.policy, scene.memory, scene.queues)
    for event in scene.events():
        other.observe(event)
    return other


def check_nothing_could_start(story: Story) -> None:
    """A new engine that sees the same moment finds nothing to do either."""
    other = fresh_engine(story.engine, story.now)
    plan = other.decide(story.now)
    avoiding = {name for name, entry in story.engine.entries().items() if entry.avoid}
    started = {decision.workload for decision in plan.decisions}
    assert started <= avoiding, f"{sorted(started)} could have started"


# -- the machine ----------------------------------------------------------------------------


class Machine(RuleBasedStateMachine):
    """Hypothesis plays the world."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()

    @rule(data=st.data())
    def node_comes(self, data: DataObject) -> None:
        self.story.node_comes(Drawn(data))

    @rule(data=st.data())
    def node_wavers(self, data: DataObject) -> None:
        self.story.node_wavers(Drawn(data))

    @rule(data=st.data())
    def node_goes(self, data: DataObject) -> None:
        self.story.node_goes(Drawn(data))

    @rule(data=st.data())
    def submit(self, data: DataObject) -> None:
        self.story.submit(Drawn(data))

    @rule(data=st.data())
    def submit_and_decide(self, data: DataObject) -> None:
        self.story.submit(Drawn(data))
        self.story.cycle(Drawn(data))

    @rule(data=st.data())
    def edit(self, data: DataObject) -> None:
        self.story.edit(Drawn(data))

    @rule(data=st.data())
    def end(self, data: DataObject) -> None:
        self.story.end(Drawn(data))

    @rule(data=st.data())
    def policy(self, data: DataObject) -> None:
        self.story.policy(Drawn(data))

    @rule(data=st.data())
    def answer(self, data: DataObject) -> None:
        self.story.answer(Drawn(data))

    @rule(data=st.data())
    def nonsense(self, data: DataObject) -> None:
        self.story.nonsense(Drawn(data))

    @rule(data=st.data())
    def cycle(self, data: DataObject) -> None:
        self.story.cycle(Drawn(data))

    @invariant()
    def holds(self) -> None:
        check_all(self.story)

    def teardown(self) -> None:
        note(self.story.sketch())
        self.story.rest()
        check_all(self.story)
        check_nothing_could_start(self.story)
        self.story.again()


TestWorld = Machine.TestCase


# -- stories with a seed --------------------------------------------------------------------

NOTHING = Workload("", ())
VERBS = (
    *("node_comes", "node_comes", "node_wavers", "node_goes", "submit", "submit", "submit"),
    *("edit", "end", "answer", "answer", "answer", "policy", "cycle", "cycle", "cycle"),
)


def story_of(seed: int, steps: int) -> Story:
    """Return a story of so many steps."""
    by, story = Rolled(seed), Story()
    for _ in range(3):
        story.node_comes(by)
    for _ in range(steps):
        getattr(story, by.pick(VERBS))(by)
    story.cycle(by)
    return story


@pytest.mark.parametrize("seed", range(6))
def test_long_stories_hold_and_come_to_rest(seed: int) -> None:
    """The same as the machine, over more steps than it takes."""
    by, story = Rolled(1000 + seed), Story()
    for _ in range(4):
        story.node_comes(by)
    for step in range(300):
        getattr(story, by.pick(VERBS))(by)
        if step % 10 == 0:
            check_all(story)
    story.rest()
    check_all(story)
    check_nothing_could_start(story)
    story.again()


def digests() -> str:
    """Return the digest of a few stories; for another process."""
    return " ".join(story_of(seed, 120).digest() for seed in range(4))


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    """The same story, in other processes with other seeds: the same plans to the letter."""
    found = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        script = "from tests.test_world import digests; print(digests())"
        run = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1


# -- truth of reasons -----------------------------------------------------------------------


def crowded(by: Chooser) -> Story:
    """Return a small world in which some workloads run and some wait."""
    story = Story()
    for name in sorted(PATHS)[: by.number(1, 4)]:
        story.nodes[name] = a_node(by, name)
        story.see(NodeJoined(story.nodes[name]))
    for _ in range(by.number(2, 6)):
        story.submit(by)
    story.decide()
    story.come_true()
    story.now += 1.0
    story.decide()
    note(story.sketch())
    return story


def waiting_to_start(engine: Engine) -> list[str]:
    """Return the workloads of which nothing runs and something must."""
    entries = engine.entries()
    return [n for n in engine.waiting() if entries[n].is_incomplete and not entries[n].has_begun]


def without_reason(story: Story, name: str, reason: Reason) -> Engine:
    """Return a fork of the engine in whose world the reason has been taken away."""
    engine = story.engine.fork()
    match reason:
        case Behind(other):
            engine.observe(Ended(other))
        case NoRoom():
            end_all_but(engine, name)
        case Impossible():
            add_room(engine)
        case Excluded(by=by):
            end_all_but(engine, name)
            for facts in story.nodes.values():
                engine.observe(NodeChanged(relieved(facts, by)))
        case NotTogether():
            engine.observe(WorkloadChanged(first_group(engine.entries()[name].workload)))
        case _:  # not in these stories
            raise AssertionError(reason)
    engine.decide(story.now + 1.0)
    return engine


def end_all_but(engine: Engine, name: str) -> None:
    """End everything else."""
    for other in sorted(engine.entries()):
        if other != name:
            engine.observe(Ended(other))


def add_room(engine: Engine) -> None:
    """Let four big nodes of every kind join one new rack."""
    for index in range(12):
        model, partition = (("H100", ""), ("A100", ""), ("A100", "a100-40gb"))[index % 3]
        facts = node(
            f"new-{index}",
            16,
            "p9",
            "r9",
            model=model,
            devices=gpus(16, mig=partition),
            labels={"zone": "x"},
        )
        engine.observe(NodeJoined(facts))


def relieved(facts: Node, by: str) -> Node:
    """Return a node that no longer excludes for that reason."""
    if by == "not-ready":
        return replace(facts, ready=True)
    if by == "taint":
        return replace(facts, taints=())
    if by == "selector":
        return replace(facts, labels=(("zone", "x"),))
    if by == "gpu":
        bare = node(facts.name, 16, *facts.path).devices
        cut = gpus(16, mig="a100-40gb")
        return replace(facts, devices=bare + cut, gpu_model=facts.gpu_model or "H100")
    if by in ("tasks", "refused") or by.startswith("port/"):
        return facts
    capacity = dict(facts.capacity) | {by: 1 << 20}
    return replace(facts, capacity=tuple(sorted(capacity.items())))


def first_group(wanted: Workload) -> Workload:
    """Return a workload with only the first of its groups."""
    return replace(wanted, groups=(next(wanted.leaves()),), topology=near_by())


def can_be_helped(story: Story, name: str, reason: Reason) -> bool:
    """Return whether room could help: not where company is missing, or tasks bar each other."""
    leaves = {leaf.name: leaf.shape for leaf in story.engine.entries()[name].workload.leaves()}
    match reason:
        case NoRoom() | Excluded():
            return not leaves[reason.group].near
        case Impossible():
            wanted = leaves[reason.group]
            return not wanted.near and not (
                (wanted.ports or wanted.apart) and reason.level == "node"
            )
        case _:
            return True


def told_of(engine: Engine, name: str) -> list[Reason]:
    """Return the reasons of a workload; none: it has started."""
    if name in engine.entries() and not engine.entries()[name].has_begun:
        return list(engine.reasons(name))
    return []


@given(st.data())
def test_taking_a_reason_away_starts_the_workload_or_changes_the_reason(data: DataObject) -> None:
    """Whatever is named is what is in the way."""
    story = crowded(Drawn(data))
    for name in waiting_to_start(story.engine):
        reasons = story.engine.reasons(name)
        assert reasons, f"{name} waits for nothing"
        for reason in reasons:
            note(f"{name}: {reason}")
            if isinstance(reason, CutShort) or not can_be_helped(story, name, reason):
                continue
            after = told_of(without_reason(story, name, reason), name)
            assert reason not in after


@given(st.data())
def test_numbers_in_reasons_are_exact(data: DataObject) -> None:
    """As many tasks as the best domain is said to take can start, and not one more."""
    story = crowded(Drawn(data))
    for name in waiting_to_start(story.engine):
        leaves = {leaf.name: leaf for leaf in story.engine.entries()[name].workload.leaves()}
        for reason in story.engine.reasons(name):
            note(f"{name}: {reason}")
            if isinstance(reason, Excluded):
                assert 0 < reason.nodes <= len(story.nodes)
            if not isinstance(reason, NoRoom):
                continue
            leaf = leaves[reason.group]
            assert reason.best < reason.wanted == leaf.min
            if leaf.topology.slices:
                continue
            for count in (reason.best, reason.best + 1):
                starts = bool(count) and probe(story, leaf, reason.level, count)
                assert starts == (0 < count <= reason.best)


def probe(story: Story, leaf: PodGroup, level: str, count: int) -> bool:
    """Return whether so many tasks of a group could start together in one domain of a level."""
    engine = story.engine.fork()
    part = replace(leaf, min=count, max=0, topology=near_by(level))
    engine.observe(Submitted(Workload("probe", (part,), priority=9, submitted_at=-1.0)))
    plan = engine.decide(story.now + 1.0)
    return any(decision.workload == "probe" for decision in plan.decisions)


def test_unknown_names_are_reasons_until_they_are_mended() -> None:
    """A level or profile that does not exist is told; the right name starts the workload."""
    story = Story()
    story.see(NodeJoined(node("n0", 4, *PATHS["n0"])))
    right = Workload("w", (group("a", tasks=2, level="rack"),))
    wrong = replace(right, groups=(group("a", tasks=2, level="rak"),))
    story.see(Submitted(wrong))
    assert story.decide().decisions == ()
    assert story.engine.reasons("w") == (Unknown("a", "level", "rak"),)

    story.see(WorkloadChanged(right))

    assert len(story.decide().decisions) == 1
