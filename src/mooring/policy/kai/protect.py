"""Who may not be made to leave yet, and who may not yet make others leave."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from mooring.model.workload import NEVER_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.policy.kai.crew import Crew
    from mooring.policy.kai.round import Round


def delayed_until(round_: Round, crew: Crew) -> float | None:
    """Return until when a crew makes nobody leave; None: it may now."""
    entry = crew.entry
    delay = entry.workload.preemption_delay_s
    if delay <= 0:
        return None
    if delay >= NEVER_S:
        return inf
    evicted_at = entry.past.evicted_at
    since = entry.workload.submitted_at
    until = (since if evicted_at is None else max(since, evicted_at)) + delay
    return until if round_.desk.now < until else None


def safe_from_preemption(round_: Round, victim: Crew) -> float | None:
    """Return until when a crew may not be preempted; None: it may now."""
    queues, rules = round_.tree.path[victim.queue], round_.tree.queues
    least = _first(rules[queue].preempt_minimum_run_s for queue in queues)
    if least is None:
        least = round_.desk.policy.eviction.preempt_minimum_run_s
    return _safe_until(round_, victim, least)


def safe_from_reclaim(round_: Round, crew: Crew, victim: Crew) -> float | None:
    """Return until when a victim may not be reclaimed for a crew; None: it may now.

    What counts is the queue at which their ways part, or one above it; or, by policy, the queue
    of the victim, or one above it.
    """
    key = crew.queue, victim.queue
    least = round_.minimum_runs.get(key)
    if least is None:
        least = round_.minimum_runs[key] = _reclaim_minimum(round_, *key)
    return _safe_until(round_, victim, least)


def _reclaim_minimum(round_: Round, mine: int, theirs: int) -> float:
    tree, settings = round_.tree, round_.desk.policy.eviction
    if settings.minimum_run_by == "lca":
        theirs = tree.common(mine, theirs)[1]
    least = _first(tree.queues[queue].reclaim_minimum_run_s for queue in tree.path[theirs])
    return settings.reclaim_minimum_run_s if least is None else least


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _safe_until(round_: Round, victim: Crew, least: float) -> float | None:
    started = victim.entry.started_at
    least = max(least, victim.entry.workload.minimum_run_s)
    if started is None or least <= 0:
        return None
    until = started + least
    return until if round_.desk.now < until else None
