"""One moment, decided once or until it rests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.engine import Engine
from mooring.engine.check import check_headroom
from mooring.model.plan import CutShort, Decision, Notice
from mooring.sim.loop import Loop

if TYPE_CHECKING:
    from mooring.model.invoice import Invoice
    from mooring.model.plan import Plan
    from mooring.model.scenario import Scenario
    from mooring.policy.headroom import Promise

MOST_CYCLES = 100


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of a moment: the engine as it stands then, and all that was decided."""

    engine: Engine
    decisions: tuple[Decision, ...]
    cycles: int
    is_settled: bool
    """The last cycle decided nothing."""
    repeats: int = 0
    """How many cycles ago everything was as it is now; 0: never before."""


def decide_once(scenario: Scenario) -> tuple[Plan, Engine]:
    """Return what is to be done at the moment of a scenario, and the engine that says so."""
    engine = _engine(scenario)
    for event in scenario.events():
        engine.observe(event)
    return engine.decide(scenario.now), engine


def standings_of(scenario: Scenario) -> dict[tuple[str, str, str], tuple[int, int | None]]:
    """Return what the queues of a scenario use and what their shares are; empty without nodes."""
    if not scenario.nodes:
        return {}
    engine = _engine(scenario)
    for event in scenario.events():
        engine.observe(event)
    return engine.standings(scenario.now)


def promises_of(scenario: Scenario) -> tuple[Promise, ...]:
    """Return how the promises of a scenario stand; empty without nodes."""
    if not scenario.nodes or not scenario.policy.headroom:
        return ()
    engine = _engine(scenario)
    for event in scenario.events():
        engine.observe(event)
    return engine.headroom()


def invoice_of(scenario: Scenario) -> Invoice | None:
    """Return what could be moved at the moment of a scenario, priced; None: nothing that helps."""
    engine = _engine(scenario)
    for event in scenario.events():
        engine.observe(event)
    return engine.defragmentation(scenario.now)


def settle(scenario: Scenario) -> Settled:
    """Run cycles at the moment of a scenario until one decides nothing, or only tells of limits.

    What is bound runs, what is evicted releases and waits again. The first cycle is that of
    `decide_once`: it sees what is on its way out, the second finds it gone. It ends early if a
    state comes back: what led here would lead here again.
    """
    engine = _engine(scenario)
    decisions: list[Decision] = []
    plans: list[Plan] = []
    loop = Loop(engine, listeners=[lambda now, events, plan: plans.append(plan)])
    for event in scenario.events():
        loop.at(scenario.now, event)
    some_leave = any(adopted.releasing for adopted in scenario.running)
    seen: dict[object, int] = {}
    for cycle in range(1, MOST_CYCLES + 1):
        loop.wake(scenario.now)
        loop.step()
        decisions += plans[-1].decisions
        told = [each for each in plans[-1].decisions if not isinstance(each, Notice)]
        if not told and not _goes_on(engine) and not (some_leave and cycle == 1):
            return Settled(engine, tuple(decisions), cycle, is_settled=True)
        before = seen.setdefault(_state(engine), cycle)
        if before != cycle and told:
            return Settled(engine, tuple(decisions), cycle, False, cycle - before)
    return Settled(engine, tuple(decisions), MOST_CYCLES, is_settled=False)


def _engine(scenario: Scenario) -> Engine:
    check_headroom(scenario.policy, scenario.queues, scenario.nodes)
    return Engine(scenario.topology, scenario.policy, scenario.memory, scenario.queues)


def _goes_on(engine: Engine) -> bool:
    """Return whether a search was cut short that goes on in the next cycle."""
    reasons = [reason for name in engine.waiting() for reason in engine.reasons(name)]
    return any(isinstance(reason, CutShort) and reason.goes_on for reason in reasons)


def _state(engine: Engine) -> object:
    """Return where every task is and in which state, to tell two moments apart."""
    return tuple(
        (name, group, bytes(members.states), *members.rows, *members.devices)
        for name, entry in sorted(engine.entries().items())
        for group, members in entry.members.items()
    )
