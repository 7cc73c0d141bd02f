"""Numbers for Prometheus. `docs/metrics.md` names them all.

What happens often is counted as it happens; what merely is, is read when somebody asks.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics import disable_created_metrics

from mooring import __version__
from mooring.kube.verdict import word_of
from mooring.metrics.live import Live
from mooring.model.events import Ended
from mooring.model.plan import Bind, Evict
from mooring.model.resources import CPU, GPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Standings = Mapping[tuple[str, str, str], tuple[int, int | None]]

    from prometheus_client.core import Metric

    from mooring.kube.policyfile import PolicyWatch
    from mooring.kube.serve import Health
    from mooring.kube.store import Store
    from mooring.kube.tell import Tell
    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.model.queues import Queue

log = logging.getLogger(__name__)

_LATENCY = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
_DECIDE = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_REQUEST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
_PER_UNIT = {GPU: 0.001, CPU: 0.001, MEMORY: 1024.0 * 1024.0}
"""GPUs, cores and bytes."""
_REFRESH_S = 5.0
"""How long the standings of queues are believed."""


class Meters:
    """All metrics of one process, in a registry of its own.

    The parts that are read (`health`, `tell`, …) are set by whoever makes them.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.live = Live()
        self.health: Health | None = None
        self.tell: Tell | None = None
        self.store: Store | None = None
        self.policy: PolicyWatch | None = None
        self.queues: Callable[[], Sequence[Queue]] = tuple
        """The queues that are in force."""
        self.standings: Callable[[float], Standings] = lambda now: {}
        """What is used and what the share is now: `Engine.standings`."""
        self._standing: tuple[float, Standings] = (-_REFRESH_S, {})
        self._clock = clock
        self._cycles = 0
        self._broken = 0
        self._evictions = Counter[str]()
        self._binds = Counter[str]()
        self._errors = Counter[tuple[str, str, str]]()
        self._words: dict[str, str] = {}
        """Why workloads wait."""
        self._decide = self._histogram("mooring_decide_seconds", "Time of one decision.", _DECIDE)
        self._latency = self._histogram(
            "mooring_bind_latency_seconds", "From the creation of a pod to its bind.", _LATENCY
        )
        self._request = Histogram(
            "mooring_api_request_seconds",
            "Time of a request to the API server; code 0: no answer.",
            ("verb", "resource", "code"),
            buckets=_REQUEST,
            registry=self.registry,
        )
        self._answers: dict[tuple[str, str, int], Histogram] = {}
        """Of each verb, resource and code: to find one anew takes longer than to count."""
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)

    # -- what happens -----------------------------------------------------------------------

    def begin(self) -> None:
        """Forget who waits and runs: a new engine is told all of it again."""
        self.live = Live()
        self._words.clear()

    def answered(self, method: str, resource: str, code: int, seconds: float) -> None:
        """Count one answer of the API server; the client's observer."""
        key = method, resource, code
        answers = self._answers.get(key)
        if answers is None:
            answers = self._answers[key] = self._request.labels(*key)
        answers.observe(seconds)
        if not code or code >= 400:
            self._errors[method, resource, str(code)] += 1

    def bound(self, seconds: float) -> None:
        """Count a pod that was bound so long after its creation."""
        self._binds["bound"] += 1
        self._latency.observe(max(seconds, 0.0))

    def refused(self) -> None:
        """Count a bind that was refused, or is not known to have been done."""
        self._binds["refused"] += 1

    # wide: one cycle
    def cycle(self, now: float, events: Sequence[Event], plan: Plan, seconds: float) -> None:
        """Count one cycle: what the engine was told, what it said, and how long that took."""
        self._cycles += 1
        self._decide.observe(seconds)
        evicted = {d.workload: d.cause for d in plan.decisions if isinstance(d, Evict)}
        self._evictions.update(evicted.values())
        for event in events:
            if isinstance(event, Ended):
                self._words.pop(event.workload, None)
        for waiting in plan.waiting:
            if waiting.reasons:
                self._words[waiting.workload] = word_of(waiting.reasons)[0]
            else:
                self._words.pop(waiting.workload, None)
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                self._words.pop(decision.workload, None)
        try:
            self.live.hear(now, events, plan)
        except Exception:  # a number that is wrong stops no work
            self._broken += 1
            log.exception("cycle not counted")

    # -- what is ----------------------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        """Return nothing: names are known when they are read."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield everything that is not a histogram."""
        info = GaugeMetricFamily("mooring_build_info", "Always 1.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield from self._cluster()
        yield from self._lines()
        yield from self._charges()
        yield from self._counters()
        yield from self._life()
        yield from self._parts()

    def _cluster(self) -> Iterator[Metric]:
        live = self.live
        if self._cycles:
            live.pass_time(self._clock())
        yield _gauge("mooring_gpu_allocation_ratio", "GAR: GPUs allocated / installed.", live.gar)
        yield _gauge(
            "mooring_scheduling_occupancy_ratio",
            "SOR: GPU-seconds held / installed, since the start of this process.",
            live.sor,
        )
        yield _gauge("mooring_gpu_fragmentation_ratio", "GFR: nodes in part use / nodes.", live.gfr)
        yield _gauge("mooring_gpus", "GPUs on ready nodes.", live.totals.installed / 1000)
        yield _gauge("mooring_gpus_allocated", "Of those, in use.", live.totals.allocated / 1000)
        yield _gauge("mooring_nodes", "Nodes.", live.nodes)
        yield _counter("mooring_gpu_seconds", "GPU-seconds installed.", live.installed_gpu_s)
        yield _counter("mooring_gpu_held_seconds", "GPU-seconds held.", live.held_gpu_s)

    def _lines(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            "mooring_queue_waiting", "Workloads that have nothing.", labels=["queue"]
        )
        running = GaugeMetricFamily(
            "mooring_queue_running", "Workloads that have something.", labels=["queue"]
        )
        lines = {queue.name: (0, 0) for queue in self.queues()} | self.live.lines()
        for queue, (without, having) in lines.items():
            waiting.add_metric([queue], without)
            running.add_metric([queue], having)
        yield waiting
        yield running
        self._words = {name: word for name, word in self._words.items() if self.live.waits(name)}
        words = GaugeMetricFamily(
            "mooring_waiting", "Workloads that wait, by the word on their pods.", labels=["reason"]
        )
        for word, count in sorted(Counter(self._words.values()).items()):
            words.add_metric([word], count)
        yield words

    def _charges(self) -> Iterator[Metric]:
        labels = ["queue", "flavor", "resource"]
        used = GaugeMetricFamily("mooring_queue_used", "What a queue uses.", labels=labels)
        share = GaugeMetricFamily("mooring_queue_share", "Its fair share now.", labels=labels)
        quota = GaugeMetricFamily("mooring_queue_quota", "Its quota.", labels=labels)
        for (queue, flavor, resource), (amount, fair) in self._standings().items():
            unit = _PER_UNIT.get(resource, 1.0)
            used.add_metric([queue, flavor, resource], amount * unit)
            if fair is not None:
                share.add_metric([queue, flavor, resource], fair * unit)
        for each in self.queues():
            for given in each.quotas:
                if given.quota is not None:
                    unit = _PER_UNIT.get(given.resource, 1.0)
                    labels = [each.name, given.flavor, given.resource]
                    quota.add_metric(labels, given.quota * unit)
        yield from (used, share, quota)

    def _standings(self) -> Standings:
        at, found = self._standing
        now = self._clock()
        if now - at >= _REFRESH_S:
            found = self.standings(now)
            self._standing = now, found
        return found

    def _counters(self) -> Iterator[Metric]:
        yield _counter("mooring_cycles", "Decisions.", self._cycles)
        yield _counter("mooring_cycles_not_counted", "Cycles these numbers miss.", self._broken)
        evictions = CounterMetricFamily(
            "mooring_evictions", "Workloads evicted, by cause.", labels=["cause"]
        )
        for cause, count in sorted(self._evictions.items()):
            evictions.add_metric([cause], count)
        binds = CounterMetricFamily("mooring_binds", "Pods, by outcome.", labels=["outcome"])
        for outcome in ("bound", "refused"):
            binds.add_metric([outcome], self._binds[outcome])
        errors = CounterMetricFamily(
            "mooring_api_errors",
            "Requests that failed; code 0: no answer.",
            labels=["verb", "resource", "code"],
        )
        for labels, count in sorted(self._errors.items()):
            errors.add_metric(labels, count)
        yield from (evictions, binds, errors)

    def _life(self) -> Iterator[Metric]:
        health = self.health
        if health is not None:
            yield _gauge("mooring_leader", "1: this process leads.", health.is_leader)
            yield _gauge("mooring_synced", "1: it has seen the whole cluster.", health.is_synced)
            yield _gauge("mooring_heartbeat_age_seconds", "Age of the last turn.", health.age_s())

    def _parts(self) -> Iterator[Metric]:
        if self.tell is not None:
            told = self.tell.counts
            yield _counter("mooring_conditions_written", "Conditions on pods.", told.conditions)
            yield _counter("mooring_events_written", "Events.", told.events)
            yield _counter("mooring_events_dropped", "Events: too many waited.", told.dropped)
            yield _counter("mooring_tell_errors", "Conditions and Events refused.", told.errors)
            yield _gauge("mooring_tell_backlog", "Texts that wait.", self.tell.backlog)
        if self.store is not None:
            kept = self.store.counts
            yield _gauge("mooring_memory_bytes", "Size of the stored memory.", kept.size)
            yield _gauge("mooring_memory_left_out", "Fields left out of it.", len(kept.dropped))
            yield _counter("mooring_memory_saves", "Times it was stored.", kept.saved)
            yield _counter("mooring_memory_failures", "Times it could not be.", kept.failed)
            yield _counter("mooring_memory_unreadable", "Times it was put aside.", kept.unreadable)
        if self.policy is not None:
            yield _counter("mooring_policy_changes", "Edits taken.", self.policy.taken)
            yield _counter("mooring_policy_refusals", "Edits refused.", self.policy.refused)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=float(value))
