"""Replay: feed a journal to a fresh engine and compare its plans with the recorded ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

from mooring.model.codec import encode
from mooring.model.plan import Bind, Evict, Notice, Reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mooring.journal import Journal, Recorded
    from mooring.model.memory import Memory
    from mooring.model.plan import Decision, Plan, Record
    from mooring.model.queues import Queue
    from mooring.model.scenario import Scenario
    from mooring.model.settings import Policy
    from mooring.model.topology import Topology
    from mooring.model.workload import Placement

MOST_DIFFERENCES = 20
"""A replay ends here: after the first difference the recorded events fit less and less."""
MOST_LINES = 8
"""Lines that one difference shows of each side."""


class EngineFactory(Protocol):
    """Makes a fresh engine; `Engine` itself is one."""

    def __call__(
        self, topology: Topology, policy: Policy, memory: Memory, queues: Sequence[Queue], /
    ) -> Recorded:
        """Return an engine that has observed nothing yet."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One record whose plan came out otherwise."""

    index: int
    now: float
    lines: tuple[str, ...]
    """`- ` only recorded, `+ ` only replayed, `! ` anything else."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a replay."""

    records: int
    decisions: int
    """Decisions in the replayed plans."""
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Return whether every plan was the recorded one."""
        return not self.differences


def begin(start: Scenario, engine_factory: EngineFactory) -> Recorded:
    """Return a fresh engine that has observed all that was there at the start."""
    engine = engine_factory(start.topology, start.policy, start.memory, start.queues)
    for event in start.events():
        engine.observe(event)
    return engine


def replay(
    journal: Journal,
    engine_factory: EngineFactory,
    progress: Callable[[int], None] | None = None,
) -> Replay:
    """Feed every record to a fresh engine, and compare. `progress` hears how many are done.

    An engine that fails before the first difference fails here too, with the record in a note. One
    that fails later was fed events of another life: that only ends the replay.
    """
    engine = begin(journal.header, engine_factory)
    record_count = decision_count = 0
    differences: list[Difference] = []
    for index, record in enumerate(journal.records()):
        try:
            plan = _cycle(engine, record)
        except Exception as error:
            if not differences:
                error.add_note(f"in record {index} of {journal.path}, at {record.now}")
                raise
            differences.append(Difference(index, record.now, (f"! the engine failed: {error!r}",)))
            break
        record_count += 1
        decision_count += len(plan.decisions)
        if plan != record.plan:
            differences.append(Difference(index, record.now, _compare(record.plan, plan)))
        if progress:
            progress(record_count)
        if len(differences) == MOST_DIFFERENCES:
            break
    return Replay(record_count, decision_count, tuple(differences))


def _cycle(engine: Recorded, record: Record) -> Plan:
    for event in record.events:
        engine.observe(event)
    return engine.decide(record.now)


def _compare(recorded: Plan, replayed: Plan) -> tuple[str, ...]:
    """Return the first lines of what only one of two unequal plans has."""
    old, new = Counter(_lines(recorded)), Counter(_lines(replayed))
    lines = [*_shown("- ", old - new), *_shown("+ ", new - old)]
    return tuple(lines) or ("! the same decisions, in another order or divided otherwise",)


def _shown(sign: str, only_here: Counter[str]) -> Iterator[str]:
    lines = list(only_here.elements())
    yield from (sign + line for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield f"{sign}… and {len(lines) - MOST_LINES} more"


def _lines(plan: Plan) -> Iterator[str]:
    """Yield a plan in lines, one a task, so that large decisions differ in few of them."""
    for decision in plan.decisions:
        yield from _decision_lines(decision)
    for waiting in plan.waiting:
        yield f"waiting {waiting.workload}: {[encode(reason) for reason in waiting.reasons]}"
    yield f"wake at {plan.wake_at}"


def _decision_lines(decision: Decision) -> Iterator[str]:
    match decision:
        case Bind(workload, placement, flavor):
            tail = f" as {flavor}" if flavor else ""
            yield from _placement_lines(f"bind {workload}", placement, tail)
        case Evict(workload, group, tasks, cause, beneficiary):
            why = f"{cause} for {beneficiary}" if beneficiary else cause
            yield from (f"evict {workload}/{group} task {task}: {why}" for task in tasks)
        case Reserve(workload, placements, until):
            for placement in placements:
                yield from _placement_lines(f"reserve {workload}", placement, f" until {until}")
        case Notice(workload, cause, at):
            yield f"notice {workload}: {cause} at {at}"
        case _:
            assert_never(decision)


def _placement_lines(verb: str, placement: Placement, tail: str = "") -> Iterator[str]:
    rows = zip(placement.tasks, placement.nodes, placement.devices, strict=True)
    for task, node, devices in rows:
        yield f"{verb}/{placement.group} task {task} on {node}, devices {devices:#x}{tail}"
