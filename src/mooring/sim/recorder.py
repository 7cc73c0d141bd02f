"""The recorder: an engine whose every cycle goes into a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.plan import Plan, Record

if TYPE_CHECKING:
    from mooring.journal import Journal
    from mooring.model.events import Event
    from mooring.sim.replay import Decider

_NOTHING = Plan()


class Recorder:
    """Stands in for an engine that stands at the journal's start (`sim.replay.begin`).

    A cycle without events whose plan is empty leaves no record: it must leave no trace in the
    engine either. A cycle that fails is recorded with an empty plan, so that a replay fails too.
    """

    def __init__(self, engine: Decider, journal: Journal) -> None:
        self._engine = engine
        self._journal = journal
        self._events: list[Event] = []
        self._now = journal.header.now

    def observe(self, event: Event) -> None:
        """Take in a fact about the world."""
        self._events.append(event)
        try:
            self._engine.observe(event)
        except Exception:
            self._append(_NOTHING)
            raise

    def decide(self, now: float) -> Plan:
        """Return all that should be done at this instant, and write it down."""
        self._now = now
        try:
            plan = self._engine.decide(now)
        except Exception:
            self._append(_NOTHING)
            raise
        if self._events or plan != _NOTHING:
            self._append(plan)
        return plan

    def _append(self, plan: Plan) -> None:
        self._journal.append(Record(self._now, tuple(self._events), plan))
        self._events.clear()
