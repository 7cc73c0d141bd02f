"""The loop of a live cluster: watches in, one engine, its plans carried out.

    watch ──▶ inbox ──▶ world.settle ──▶ engine.observe ──▶ engine.decide ──▶ carry, tell, journal

One task decides; everything else only puts something into its inbox. Before we lead, the world is
kept up to date and nothing is decided. Who is deposed stops, and begins anew as a standby.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from mooring.engine import Engine
from mooring.engine.check import EventError
from mooring.journal import Recorded
from mooring.kube.adopt import refusal
from mooring.kube.advice import Advice
from mooring.kube.carry import Carrier, Remember
from mooring.kube.client import Client
from mooring.kube.intake import Intake
from mooring.kube.log import fields
from mooring.kube.moments import Clock, seconds
from mooring.kube.resources import NAMESPACES
from mooring.kube.tell import Tell
from mooring.kube.verdict import Verdict
from mooring.kube.watch import Batch, Replaced
from mooring.model.events import BindRefused, Ended, TasksChanged, WorkloadChanged
from mooring.model.plan import Bind, Stopped
from mooring.model.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.config import PolicyFile
    from mooring.kube.objects import Pod
    from mooring.kube.world import World
    from mooring.model.events import Event
    from mooring.model.memory import Memory
    from mooring.model.plan import Plan, Waiting
    from mooring.model.queues import Queue
    from mooring.model.workload import Workload

PAUSE_S = 0.02
"""Between two cycles: what happens in between is decided together."""
REST_S = 1.0
"""At the end of a term writes have so much more than the longest one may take."""
LOOK_S = 5.0
"""So often it looks around even if nothing happens."""
ANEW = "labels matter that did not"
"""Why a lead ends that should begin anew at once: shapes have other labels then."""
ANEW_S = 60.0
"""At most so often, whatever labels anybody names."""
_LABELS = (
    "It names labels of other pods that no pod named before; they are looked up once a minute."
)
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Inbox:
    """What has happened since the last cycle."""

    batches: list[Batch[Any]] = field(default_factory=list)
    facts: list[Callable[[], None]] = field(default_factory=list)
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, batch: Batch[Any]) -> None:
        """Take what a watch has seen."""
        self.batches.append(batch)
        self._stirred.set()

    def do(self, fact: Callable[[], None]) -> None:
        """Let something be done before the next cycle, by the loop itself."""
        self.facts.append(fact)
        self._stirred.set()

    async def wait(self, seconds: float) -> None:
        """Return when something has happened, or the time is over."""
        if not self._stirred.is_set():
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    await self._stirred.wait()
            except TimeoutError:
                pass
        self._stirred.clear()

    def take(self, intake: Intake) -> int:
        """Apply everything; return how many changes that were."""
        batches, self.batches = self.batches, []
        facts, self.facts = self.facts, []
        batches.sort(
            key=lambda batch: not _is_of_namespaces(batch)
        )  # pods are read by their labels
        count = sum(intake.take(batch) for batch in batches)
        for fact in facts:
            fact()
        return count + len(facts)


def _is_of_namespaces(batch: Batch[Any]) -> bool:
    kind = batch.kind if isinstance(batch, Replaced) else batch[0].kind if batch else None
    return kind == NAMESPACES


class Hearer(Protocol):
    """Who hears of every cycle."""

    # wide: one cycle
    def cycle(self, now: float, events: Sequence[Event], plan: Plan, seconds: float) -> None:
        """Take when it was, what the engine was told, what it said and how long that took."""

    def bound(self, seconds: float) -> None:
        """Take that a pod was bound so long after its creation."""

    def refused(self) -> None:
        """Take that a bind was refused."""


@dataclass(frozen=True, slots=True)
class Office:
    """What it takes to lead: an engine, and hands. Without a client nothing is carried out."""

    engine: Engine
    recorded: Recorded
    client: Client | None = None
    tell: Tell | None = None
    remember: Remember | None = None
    """Returns when all that was decided is stored."""


class Driver:
    """Keeps one world, and drives an engine while we lead."""

    def __init__(self, world: World, inbox: Inbox, hearer: Hearer) -> None:
        self.world = world
        self.inbox = inbox
        self.at = 0.0
        """When the last cycle was."""
        self.clock = Clock()
        self._hearer = hearer
        self._intake = Intake(world)
        self._office: Office | None = None
        self._carrier: Carrier | None = None
        self._advice = Advice()
        self._observed: list[Event] = []
        self._heard: dict[str, Waiting] = {}
        """Why workloads wait, as the engine last said."""
        self._withheld: dict[str, None] = {}
        """Workloads that wait for their own pods, and are told that instead."""
        self._stopped = ""
        self._anew_at = -inf
        """When a lead last ended for a new engine."""
        self._rules: tuple[tuple[Queue, ...], dict[str, Queue]] = ((), {})
        """The queues in force, also by name."""

    @property
    def is_busy(self) -> bool:
        """Return whether binds or evictions are under way."""
        return self._carrier is not None and self._carrier.is_busy

    # -- what the carrier tells ---------------------------------------------------------------

    def fact(self, event: Event, about: Pod | None = None) -> None:
        """Take a fact for the engine; it is void if another pod has the task by now."""
        office = self._office
        self.inbox.do(lambda: self._correct(event, about) if office is self._office else None)

    def seen(self, pod: Pod) -> None:
        """Take a pod as it was when somebody looked; it may be gone by now."""
        self.inbox.do(lambda: self._intake.look_at(pod))

    def gone(self, pod: Pod) -> None:
        """Take that a pod is gone."""
        self.inbox.do(lambda: self.world.drop_pod(pod))

    def bound(self, pod: Pod) -> None:
        """Take that a pod was bound."""
        made_at = seconds(pod.metadata.creation_timestamp)
        self._hearer.bound(time.time() - made_at if made_at is not None else 0.0)

    def stop(self, why: str) -> None:
        """Stop: we may not write any more, or are asked to."""
        self._stopped = self._stopped or why
        self.inbox.do(lambda: None)

    def _correct(self, event: Event, about: Pod | None) -> None:
        """Tell the engine what came of a decision, unless the world has moved on since."""
        if self._office is None:
            return
        if about is not None and isinstance(event, BindRefused | TasksChanged):
            now = self.world.pod_at(event.workload, event.group, event.tasks[0])
            if now is None or now.metadata.uid != about.metadata.uid:
                return
        if isinstance(event, BindRefused):
            self._hearer.refused()
            self.world.unseat(event.workload, event.group, event.tasks)
        try:
            self._observe(event)
        except EventError as error:
            _LOG.info("fact overtaken", extra=fields(fact=type(event).__name__, error=error))

    def _observe(self, event: Event) -> None:
        assert self._office is not None
        self._office.recorded.observe(event)
        self._observed.append(event)

    # -- the loop -----------------------------------------------------------------------------

    async def look_around(self) -> None:
        """Wait for something to happen and keep the world up to date; nothing is decided."""
        await self.inbox.wait(LOOK_S)
        self.inbox.take(self._intake)
        self.world.stand_by()

    async def lead(self, office: Office, beat: Callable[[], None]) -> str:
        """Tell the engine all that is known, and decide until we are stopped; return why.

        `ANEW`: another engine should go on, with the memory of this one.
        """
        self._office, self._stopped, self._carrier = office, "", None
        self._heard, self._withheld = {}, {}
        self._observed.clear()
        self.inbox.take(self._intake)
        self.world.begin()
        self.world.refusal = self._refusal
        work: asyncio.Task[None] | None = None
        if office.client is not None:
            self._carrier = Carrier(office.client, self.world, self, office.remember)
            work = asyncio.create_task(self._carrier.run(), name="carry")
        try:
            await self._tell_all(beat)
            while not self._stopped:
                beat()
                wake_at = self.cycle()
                if self._is_due_anew():
                    return ANEW
                await asyncio.sleep(PAUSE_S)
                await self.inbox.wait(self._patience(wake_at))
                if work is not None and work.done():
                    work.result()
            return self._stopped
        finally:
            await self._rest(office.client, work)

    async def _rest(self, client: Client | None, work: asyncio.Task[None] | None) -> None:
        """End what is under way: nothing that was sent may be done after the world is looked at."""
        carrier, is_done = self._carrier, True
        if carrier is not None and client is not None:
            is_done = await carrier.rest(client.limits.write_timeout_s + REST_S)
        self._carrier = self._office = None
        if work is not None:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        if client is not None and not is_done:
            with suppress(TimeoutError):  # by then the server has given up, whoever else writes
                async with asyncio.timeout(client.limits.write_timeout_s + REST_S):
                    await client.at_rest()

    def _refusal(self, workload: Workload) -> str:
        """Return why a workload may not use its queue, by the policy in force."""
        queues = self._office.engine.queues if self._office else ()
        if queues is not self._rules[0]:
            self._rules = queues, {queue.name: queue for queue in queues}
        return refusal(self._rules[1], workload)

    def _is_due_anew(self) -> bool:
        """Return whether a new engine is wanted, and the last one is old enough; note when."""
        if not self.world.wants_anew or not self._may_begin_anew():
            return False
        self._anew_at = time.monotonic()
        return True

    def _may_begin_anew(self) -> bool:
        return time.monotonic() >= self._anew_at + ANEW_S

    async def _tell_all(self, beat: Callable[[], None]) -> None:
        """Tell a new engine the whole cluster, and let others by: the lease must be renewed.

        Of all this nothing is garbage, so the collector does not look at it, now and later.
        """
        assert self._office is not None
        gc.unfreeze()
        gc.collect()
        gc.disable()
        try:
            self.at = self.clock.now()
            entries = self._office.engine.entries()
            for _ in self.world.settle_slowly(self.at, entries, self._observe):
                beat()
                await asyncio.sleep(0)
                if self._stopped:
                    return
        finally:
            gc.enable()
            gc.freeze()

    def _patience(self, wake_at: float | None) -> float:
        """Return how long nothing needs to be done if nothing happens."""
        times = [wake_at, self._carrier.next_at if self._carrier else None]
        due = min((at for at in times if at is not None), default=self.at + LOOK_S)
        return min(due - self.clock.now(), LOOK_S)

    def cycle(self) -> float | None:
        """Take in what has happened, decide, begin to carry it out; return when to look again."""
        office, world, carrier = self._office, self.world, self._carrier
        assert office is not None
        self.inbox.take(self._intake)
        self.at = now = self.clock.now()
        entries = office.engine.entries()
        world.settle(now, entries, self._observe)
        if carrier is not None:
            carrier.look(now, entries)
        began = time.perf_counter()
        plan = office.recorded.decide(now) if carrier else office.engine.fork().decide(now)
        took = time.perf_counter() - began
        if carrier is not None:
            carrier.carry_out(plan, now)
        else:
            self._advice.hear(plan)
        ended = world.take_forgotten()
        if office.tell is not None:
            for name in ended:
                office.tell.forget(name)
            self._tell_people(office.tell, plan)
        observed, self._observed = self._observed, []
        self._hearer.cycle(now, observed, plan, took)
        for error in world.errors:
            _LOG.warning("fact not taken", extra=fields(error=error))
        world.errors.clear()
        return plan.wake_at

    def _tell_people(self, tell: Tell, plan: Plan) -> None:
        started: dict[str, list[str]] = {}
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                started.setdefault(decision.workload, []).extend(decision.placement.nodes)
        for name, nodes in started.items():
            tell.forget(name)
            tell.started(name, nodes)
        world = self.world
        tell.hear(replace(plan, waiting=self._to_tell(plan, started)))
        for name, missing in world.take_short(self.at):
            self._withheld[name] = None
            tell.say(name, Verdict("WaitsForPods", f"It waits for its own pods: {missing}."))
        for name, words in world.take_orphans(self.at):
            if words:
                tell.say(name, Verdict("WaitsForOwner", words, warns=True))
            else:
                tell.forget(name)
        for name, lines in world.take_news():
            tell.problems(name, lines)
        if not self._may_begin_anew():
            for name in world.take_held():
                tell.say(name, Verdict("WaitsForLabels", _LABELS))
        for event in self._observed:
            if isinstance(event, Ended):
                self._heard.pop(event.workload, None)
                tell.forget(event.workload)
            elif isinstance(event, WorkloadChanged):
                tell.refresh(event.workload.name)
        for name in world.take_joined():
            tell.refresh(name)

    def _to_tell(self, plan: Plan, started: Iterable[str]) -> tuple[Waiting, ...]:
        """Return whose reasons are told now: not of those that wait for their own pods.

        The engine says a reason once. So it is kept, and told when the pods are there.
        """
        for name in started:
            self._heard.pop(name, None)
        told = {name: None for name in self._withheld if not self.world.is_short(name)}
        for each in plan.waiting:
            is_short = self.world.is_short(each.workload)
            (self._withheld if is_short else told)[each.workload] = None
            if not (is_short and Stopped("") in each.reasons):  # that is only why it is short
                self._heard[each.workload] = each
        for name in told:
            self._withheld.pop(name, None)
        return tuple(self._heard[name] for name in told if name in self._heard)


def start_of(file: PolicyFile, memory: Memory, now: float) -> Scenario:
    """Return the moment at which an engine begins that knows nothing of the world yet."""
    return Scenario(now, file.topology, queues=file.queues, policy=file.policy, memory=memory)


def engine_of(start: Scenario) -> Engine:
    """Return an engine that stands at that moment."""
    return Engine(start.topology, start.policy, start.memory, start.queues)
