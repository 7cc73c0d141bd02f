"""What people are told: conditions on waiting pods, and Events, written behind all else.

    tell.hear(plan)                  each cycle: what waits, what must leave
    tell.started(workload, nodes)    its tasks were bound
    tell.problems(workload, lines)   it cannot be understood
    tell.say(workload, verdict)      anything else
    tell.forget(workload)            it is gone

None of these writes or waits. Tasks of their own write, slowly: only the newest text of a workload,
only to pods that do not have it, one pod of each workload in turn; Events with a bound on how many
may wait. `docs/conditions.md` is the manual.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Protocol

from mooring.kube.bucket import Bucket
from mooring.kube.client import MERGE, STRATEGIC
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.log import fields
from mooring.kube.resources import EVENTS, PODS
from mooring.kube.verdict import clock_time, message_of, mistakes, word_of
from mooring.model.plan import Evict, Notice, Reason
from mooring.words import cause_in_words, counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mooring.kube.resources import Resource
    from mooring.kube.verdict import Verdict
    from mooring.model.plan import Plan

log = logging.getLogger(__name__)

CONTROLLER = "mooring.dev/scheduler"
_NOTE_BYTES = 1_000
"""The server takes 1,024."""
_NAMES_SHOWN = 3
_AGAIN_S, _MOST_AGAIN_S = 0.5, 30.0
"""How long a condition waits that could not be written, every time for twice as long."""
_POLITE_S = 0.02
_MEANWHILE, _BUSY = (404, 409), (409, 429)
"""Answers that tell of a change that we have not seen yet, and those after which one asks again."""
_LAST_S = 1.0
"""So long the last write has: one that is broken off may still be made, and others wait for it."""
_SERIES_S = 3600.0
"""How long the API server keeps Events, as a rule."""
_MOST_SERIES = 4096


@dataclass(frozen=True, slots=True)
class PodRef:
    """A waiting pod, and what it has been told."""

    namespace: str
    name: str
    uid: str
    version: str
    """Its resourceVersion: what has changed meanwhile is not overwritten."""
    reason: str = ""
    """Of its condition `PodScheduled=False`; empty: it has none."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the Events of a workload are about: its top owner, or its only pod."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    is_alone: bool = True
    """Whether the workload has only one group, which is not named then."""

    def reference(self) -> dict[str, str]:
        """Return it as an ObjectReference."""
        found = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in found.items() if value}


class Audience(Protocol):
    """Who knows the pods. All answers are of the moment of the question."""

    def waiting(self, workload: str) -> Iterable[str]:
        """Return the uids of its pods that wait, without those that have gates."""

    def pod(self, workload: str, uid: str) -> PodRef | None:
        """Return a pod that still waits and has no task; None: it does not."""

    def subject(self, workload: str) -> Subject | None:
        """Return what Events are about; None: it is gone."""


class Writer(Protocol):
    """What is used of the client."""

    async def create(self, resource: Resource, body: bytes | object, namespace: str = "") -> bytes:
        """Create an object."""

    # wide: as the client has it
    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes | object,
        namespace: str = "",
        *,
        form: str = MERGE,
        sub: str = "",
        repeat: bool = True,
    ) -> bytes:
        """Change an object."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How much is written."""

    conditions: float = 20.0
    """A second."""
    events: float = 10.0
    """A second."""
    most_events: int = 1_000
    """That wait."""
    patience_s: float = 2.0
    """How long one write waits at most for bindings that are under way."""
    quiet_s: float = 30.0
    """How long a text stays if only its message changes."""


@dataclass(slots=True)
class Counts:
    """What became of what was to be told."""

    conditions: int = 0
    events: int = 0
    dropped: int = 0
    """Events, because too many waited."""
    errors: int = 0


@dataclass(frozen=True, slots=True)
class _Text:
    """Why a workload waits; sentences are made of it when they are written."""

    word: str
    warns: bool
    reasons: tuple[Reason, ...] = ()
    message: str = ""

    def in_words(self, *, is_alone: bool) -> str:
        """Return the message."""
        return self.message or message_of(self.reasons, is_alone=is_alone)


@dataclass(slots=True)
class _Walk:
    """One text on its way to the pods of a workload."""

    text: _Text
    message: str = ""
    left: deque[str] | None = None
    """Pods that may not have it; None: nobody has looked yet."""
    tries: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Event:
    subject: Subject
    reason: str
    note: str
    """Empty: `text` says it."""
    action: str
    warns: bool
    at: float
    related: Subject | None = None
    text: _Text | None = None

    def in_words(self) -> _Event:
        """Return it with its note, which may have so many bytes."""
        note = self.note
        if self.text is not None:
            note = self.text.in_words(is_alone=self.subject.is_alone)
        note = note.encode()[:_NOTE_BYTES].decode("utf-8", "ignore")
        return replace(self, note=note, text=None)

    @property
    def name(self) -> str:
        """Return its name: the same for the same said of the same."""
        text = "\0".join([self.subject.uid, self.reason, self.note])
        return f"{self.subject.name[:200]}.{blake2b(text.encode(), digest_size=8).hexdigest()}"

    def body(self, instance: str) -> dict[str, Any]:
        """Return it as the server takes it."""
        found: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": _micro_time(self.at),
            "reportingController": CONTROLLER,
            "reportingInstance": instance[:128] or "mooring",
            "action": self.action,
            "reason": self.reason,
            "regarding": self.subject.reference(),
            "note": self.note,
            "type": "Warning" if self.warns else "Normal",
        }
        if self.related is not None:
            found["related"] = self.related.reference()
        return found

    @property
    def namespace(self) -> str:
        return self.subject.namespace or "default"


class Tell:
    """Tells people about their workloads."""

    # wide: all but the first two have a good default
    def __init__(
        self,
        writer: Writer,
        audience: Audience,
        rates: Rates = Rates(),  # noqa: B008 (frozen)
        *,
        instance: str = "mooring",
        busy: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counts = Counts()
        self._writer = writer
        self._audience = audience
        self._rates = rates
        self._instance = instance
        self._busy = busy
        """Whether bindings or evictions are under way."""
        self._clock = clock
        self._told: dict[str, tuple[_Text, float]] = {}
        """The last text that was begun, and when, by our own seconds."""
        self._next: dict[str, _Text] = {}
        """A text that is newer, and waits for its time."""
        self._later: list[tuple[float, str]] = []
        self._walks: OrderedDict[str, _Walk] = OrderedDict()
        self._events: OrderedDict[tuple[str, str], _Event] = OrderedDict()
        self._series: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._writing = 0
        self._stirred = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- what is to be told -----------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """Return how many texts and Events wait to be written."""
        return len(self._walks) + len(self._next) + len(self._events)

    def hear(self, plan: Plan) -> None:
        """Take what waits and what must leave by a plan; starts are told once they are bound."""
        evicted: dict[str, list[Evict]] = {}
        for decision in plan.decisions:
            match decision:
                case Evict():
                    evicted.setdefault(decision.workload, []).append(decision)
                case Notice(workload, cause, at):
                    note = f"It will have to leave at {clock_time(at)}: {cause_in_words(cause)}."
                    self._event(workload, "WillBeEvicted", note, "Evicting", warns=True)
                case _:
                    pass
        for workload, decisions in evicted.items():
            self._evicted(workload, decisions)
        for waiting in plan.waiting:
            if waiting.reasons:
                word, warns = word_of(waiting.reasons)
                self._say(waiting.workload, _Text(word, warns, waiting.reasons))
            else:
                self.forget(waiting.workload)

    def problems(self, workload: str, lines: Sequence[str]) -> None:
        """Tell that a workload cannot be understood, with all its mistakes."""
        self.say(workload, mistakes(lines))

    def say(self, workload: str, told: Verdict) -> None:
        """Tell why a workload waits; a new word is also an Event."""
        self._say(workload, _Text(told.reason, told.warns, message=told.message))

    def _say(self, workload: str, told: _Text) -> None:
        last, begun = self._told.get(workload, (None, 0.0))
        newest = self._next.get(workload, last)
        if newest == told:
            return
        if newest is None or newest.word != told.word:
            self._event(workload, told.word, "", "Scheduling", warns=told.warns, text=told)
        if last is not None and last.word == told.word:
            if workload not in self._next:
                heappush(self._later, (begun + self._rates.quiet_s, workload))
            self._next[workload] = told
        else:
            self._begin(workload, told)
        self._stirred.set()

    def refresh(self, workload: str) -> None:
        """Tell new pods of a workload what the others have been told."""
        if workload in self._told and workload not in self._walks:
            self._begin(workload, self._told[workload][0])
            self._stirred.set()

    def started(self, workload: str, nodes: Sequence[str]) -> None:
        """Tell that tasks of a workload were bound, one to each of these nodes."""
        names = list(dict.fromkeys(nodes))
        shown = names[:_NAMES_SHOWN]
        if len(names) > len(shown):
            shown.append(f"{len(names) - len(shown):,} more")
        tasks = counted(len(nodes), "task")
        where = f"node {names[0]}" if len(names) == 1 else counted(len(names), "node")
        note = f"{tasks} on {where}" + (f": {listed(shown)}." if len(names) > 1 else ".")
        self._event(workload, "Scheduled", note, "Binding")

    def forget(self, workload: str) -> None:
        """Tell nothing more about why a workload waits: it does not, or is gone."""
        self._told.pop(workload, None)
        self._next.pop(workload, None)
        self._walks.pop(workload, None)

    def _evicted(self, workload: str, decisions: Sequence[Evict]) -> None:
        tasks = counted(sum(len(each.tasks) for each in decisions), "task")
        causes = dict.fromkeys(cause_in_words(each.cause) for each in decisions)
        winners = [*dict.fromkeys(each.beneficiary for each in decisions if each.beneficiary)]
        note = f"{tasks} must leave: {listed([*causes])}"
        note += f"; for {listed(winners[:_NAMES_SHOWN])}." if winners else "."
        related = self._audience.subject(winners[0]) if winners else None
        self._event(workload, "Evicted", note, "Evicting", warns=True, related=related)

    # wide: the parts of an Event
    def _event(
        self,
        workload: str,
        reason: str,
        note: str,
        action: str,
        *,
        warns: bool = False,
        related: Subject | None = None,
        text: _Text | None = None,
    ) -> None:
        subject = self._audience.subject(workload)
        if subject is None:
            return
        event = _Event(subject, reason, note, action, warns, self._clock(), related, text)
        self._events.pop((workload, reason), None)
        self._events[workload, reason] = event
        while len(self._events) > self._rates.most_events:
            self._events.popitem(last=False)
            self.counts.dropped += 1
        self._stirred.set()

    # -- writing ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write. Call it in the event loop."""
        self._tasks = [
            asyncio.create_task(self._work(self._rates.conditions, self._condition), name="tell"),
            asyncio.create_task(self._work(self._rates.events, self._one_event), name="events"),
        ]

    async def stop(self, within_s: float = 2.0) -> None:
        """Write what waits for at most so long, then no more; what was begun is ended."""
        await self._until(lambda: not self._busy_with() and not self._writing, within_s)
        self._give_up()
        await self._until(lambda: not self._writing, _LAST_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Return when something is so, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks and not is_so():  # noqa: ASYNC110 (bounded)
                    await asyncio.sleep(_POLITE_S)

    def _busy_with(self) -> bool:
        """Return whether something could be written now."""
        due = bool(self._later) and self._later[0][0] <= time.monotonic()
        return bool(self._walks or self._events or due)

    async def _work(self, rate: float, one: Callable[[], Any]) -> None:
        """Write one after the other for ever."""
        bucket = Bucket(rate, rate, time.monotonic)
        while True:
            if not self._has_work(one):
                await self._sleep()
                continue
            await bucket.take()
            await self._let_others_by()
            self._writing += 1
            try:
                await one()
            except NotLeader:
                self._give_up()
            except (ApiError, Unanswered, Unreachable) as error:
                self.counts.errors += 1
                log.warning("not told", extra=fields(error=str(error)))
            except Exception:
                self.counts.errors += 1
                log.exception("not told")
            finally:
                self._writing -= 1

    def _has_work(self, one: Callable[[], Any]) -> bool:
        if one == self._one_event:
            return bool(self._events)
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, workload = heappop(self._later)
            if (told := self._next.pop(workload, None)) is not None:
                self._begin(workload, told)
        return bool(self._walks)

    async def _sleep(self) -> None:
        """Return when there may be work."""
        self._stirred.clear()
        seconds = max(self._later[0][0] - time.monotonic(), 0.0) if self._later else None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()

    async def _let_others_by(self) -> None:
        """Wait while bindings are under way, but not for ever."""
        until = time.monotonic() + self._rates.patience_s
        while self._busy() and time.monotonic() < until:  # noqa: ASYNC110 (bounded)
            await asyncio.sleep(_POLITE_S)

    def _give_up(self) -> None:
        """Forget all: another tells from now on."""
        for each in (self._told, self._next, self._walks, self._events, self._series):
            each.clear()
        self._later.clear()

    def _begin(self, workload: str, told: _Text) -> None:
        self._next.pop(workload, None)
        self._told[workload] = told, time.monotonic()
        self._walks[workload] = _Walk(told)

    def _set_out(self, workload: str, walk: _Walk) -> deque[str]:
        """Look whom to tell, and find the words."""
        subject = self._audience.subject(workload)
        walk.message = walk.text.in_words(is_alone=subject is None or subject.is_alone)
        return deque(self._audience.waiting(workload))

    async def _condition(self) -> None:
        """Write one condition, of the workload whose turn it is; skip pods that have it."""
        while self._walks:
            workload, walk = self._walks.popitem(last=False)
            if walk.left is None:
                walk.left = self._set_out(workload, walk)
            while walk.left:
                pod = self._audience.pod(workload, walk.left.popleft())
                said = (walk.text.word, walk.message)
                if pod is None or (pod.reason, pod.message) == said:
                    continue
                if walk.left:
                    self._walks[workload] = walk
                await self._write_condition(workload, walk, pod)
                return

    async def _write_condition(self, workload: str, walk: _Walk, pod: PodRef) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": walk.text.word,
            "message": walk.message,
        }
        if not pod.reason:
            condition["lastTransitionTime"] = _time(self._clock())
        body = {
            "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
            "status": {"conditions": [condition]},
        }
        try:
            await self._writer.patch(
                PODS, pod.name, body, pod.namespace, form=STRATEGIC, sub="status", repeat=False
            )
        except ApiError as error:
            if error.status in _BUSY or error.status >= 500:
                self._try_again(workload, walk, pod.uid)
            if error.status not in _MEANWHILE:
                raise
            return
        except (Unanswered, Unreachable):
            self._try_again(workload, walk, pod.uid)
            raise
        self.counts.conditions += 1

    def _try_again(self, workload: str, walk: _Walk, uid: str) -> None:
        """Let a pod wait for a moment; if it has changed we will have seen that then."""
        tries = walk.tries[uid] = walk.tries.get(uid, 0) + 1

        def put_back() -> None:
            now = self._told.get(workload)
            if now is None or now[0] != walk.text:
                return
            if self._walks.setdefault(workload, walk) is walk and walk.left is not None:
                walk.left.append(uid)  # else another has just set out, to all
            self._stirred.set()

        pause_s = min(_AGAIN_S * 2.0 ** min(tries - 1, 10), _MOST_AGAIN_S)
        asyncio.get_running_loop().call_later(pause_s, put_back)

    async def _one_event(self) -> None:
        """Write the oldest Event, or that it was so again."""
        if not self._events:
            return  # all was given up meanwhile
        event = self._events.popitem(last=False)[1].in_words()
        count, at = self._series.get(event.name, (0, 0.0))
        if count and event.at - at < _SERIES_S and await self._again(event, count + 1):
            return
        try:
            await self._writer.create(EVENTS, event.body(self._instance), event.namespace)
        except ApiError as error:
            if error.status == 409:
                await self._again(event, max(count, 1) + 1)
            elif error.status != 404:  # its namespace is gone
                raise
            return
        self._note(event, 1)

    async def _again(self, event: _Event, count: int) -> bool:
        """Add to the series of an Event; return whether it is still there."""
        series = {"count": count, "lastObservedTime": _micro_time(event.at)}
        try:
            await self._writer.patch(EVENTS, event.name, {"series": series}, event.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        self._note(event, count)
        return True

    def _note(self, event: _Event, count: int) -> None:
        self.counts.events += 1
        self._series.pop(event.name, None)
        self._series[event.name] = count, event.at
        while len(self._series) > _MOST_SERIES:
            self._series.popitem(last=False)


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _micro_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
