"""Why those who are followed waited, and how long for what, up to their first start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.config.reader import WORDS_MOST
from mooring.model.events import Submitted
from mooring.model.plan import Bind, Blocked, Excluded, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.metrics.summary import Waited
    from mooring.model.events import Event
    from mooring.model.plan import Plan

Reasons = tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """What one waited for, all such times together."""

    seconds: float
    reasons: Reasons
    """As was said last; empty: it had its place and was about to start."""


@dataclass(slots=True)
class Whys:
    """Listens to a run; numbers that change while the reason stays do not make another reason."""

    names: tuple[str, ...] = ()
    told: dict[str, dict[object, Why]] = field(default_factory=dict)
    came: set[str] = field(default_factory=set)
    """Names of workloads, of the first that came, whoever is followed."""
    _since: dict[str, tuple[float, Reasons]] = field(default_factory=dict)
    """Of those who wait: since when, and for what."""

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Hear of a cycle."""
        for event in events:
            if isinstance(event, Submitted):
                self._take(event.workload.name, now)
        if not self._since:
            return
        for waiting in plan.waiting:
            if waiting.workload in self._since:
                self._turn(waiting.workload, now, waiting.reasons)
        for decision in plan.decisions:
            if isinstance(decision, Bind) and decision.workload in self._since:
                self._turn(decision.workload, now, ())

    def _take(self, name: str, now: float) -> None:
        if len(self.came) < WORDS_MOST:
            self.came.add(name)
        if name in self.names:
            self._since[name] = now, ()

    def over(self, waited: Waited) -> None:
        """Take in that the wait of one is over, or the run is."""
        if waited.name in self._since:
            self._turn(waited.name, waited.submitted_at + waited.wait_s, ())
            del self._since[waited.name]

    def of(self, name: str) -> list[Why]:
        """Return what one waited for, longest first."""
        some = self.told.get(name, {}).values()
        return sorted((why for why in some if why.seconds > 0), key=lambda why: -why.seconds)

    def _turn(self, name: str, now: float, reasons: Reasons) -> None:
        """Count what one has waited for up to now, and what it waits for from now on."""
        since, before = self._since[name]
        told = self.told.setdefault(name, {})
        key = tuple(_kind(reason) for reason in before)
        known = told.get(key)
        told[key] = Why(max(now - since, 0.0) + (known.seconds if known else 0.0), before)
        self._since[name] = now, reasons


def _kind(reason: Reason) -> tuple[str, str]:
    """Return what makes a reason another one than others."""
    match reason:
        case Blocked(workload):
            return "Blocked", workload
        case Excluded(group, by, _):
            return "Excluded", f"{group} {by}"
        case _:
            return type(reason).__name__, ""
