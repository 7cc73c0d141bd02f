"""Who leads: a Lease of the API server, and the fence that keeps a deposed leader from writing.

    standby ──lease free or run out──▶ leader ──renewed──▶ leader
       ▲                                  │
       └── taken, or not renewed in time ─┘

Only the local clock is used, and one that also runs while the process is frozen or the machine
sleeps. Let a renewal be sent at time s and answered with yes. Others saw it at s or later, and
wait `duration_s` from when they saw it. So nobody else leads before s + duration_s, whatever the
clocks of others say, if clocks run equally fast. The fence closes at s + renew_s, which is
earlier: a write that was on its way when it closed has `margin_s` to be done, and the server
is told to give up on it after that.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.kube.client import JSON, Client, How
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.logins import CredentialsError
from mooring.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_URGENT_READ = How(repeat=False, urgent=True)
_URGENT = How(JSON, urgent=True)
_TROUBLE = (ApiError, Unreachable, Unanswered, CredentialsError)


def new_identity(name: str = "") -> str:
    """Return a name for this process that no other has, not even the next one on this machine.

    Who has the name of a leader is taken for it, and need not wait for its lease to run out.
    """
    return f"{name or socket.gethostname()}_{uuid.uuid4().hex[:12]}"


def boot_clock() -> float:
    """Return seconds of a clock that never jumps and runs on while we are stopped or asleep."""
    return time.clock_gettime(_BOOT) if _BOOT is not None else time.monotonic()


_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


@dataclass(frozen=True, slots=True)
class Times:
    """How long a lease lasts, when its holder stops, and how often it is renewed or looked at."""

    duration_s: int = 15
    renew_s: float = 9.0
    """From a renewal on, the holder may write for so long."""
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_s < self.duration_s:
            raise ValueError(
                f"lease: want 0 < retry ({self.retry_s} s) < renew ({self.renew_s} s)"
                f" < duration ({self.duration_s} s)"
            )

    @classmethod
    def lasting(cls, seconds: float) -> Times:
        """Return times for a lease of so many seconds, in the same proportions."""
        return cls(max(1, round(seconds)), 0.6 * seconds, 0.13 * seconds)

    @property
    def margin_s(self) -> float:
        """Return the time that writes under way have when the fence closes."""
        return self.duration_s - self.renew_s


@dataclass(frozen=True, slots=True)
class Term:
    """One time of leading; no other has the same token."""

    holder: str
    number: int
    """How often the lease has changed hands; it only grows."""

    @property
    def token(self) -> str:
        """Return what may be put on writes, to tell later which leader made them."""
        return f"{self.number}/{self.holder}"


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel"):
    metadata: dict[str, Any]
    spec: _Spec = msgspec.field(default_factory=_Spec)
    kind: str = "Lease"
    api_version: str = "coordination.k8s.io/v1"


class Lease:
    """Takes part in the election under one identity, which must be unique per process.

    `check` is the fence: give it to `Client.fenced`. `run` follows the election until cancelled;
    `stop` leaves it gracefully. `client` itself must not be fenced.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        identity: str,
        *,
        namespace: str = "",
        times: Times = Times(),  # noqa: B008 (frozen)
    ) -> None:
        if client.limits.write_timeout_s > times.margin_s:
            raise ValueError(
                f"lease: a write may take {client.limits.write_timeout_s} s, but between the last"
                f" write and the next leader there are only {times.margin_s} s"
            )
        self.identity = identity
        self.times = times
        self.clock: Callable[[], float] = boot_clock
        self.random = Random()
        self.trouble = ""
        """Why the last try to get or renew it failed."""
        self.holder = ""
        """Who leads, as far as we have seen."""
        self._client = client
        self._name = name
        self._namespace = namespace or client.credentials.namespace
        self._term: Term | None = None
        self._fence_until = float("-inf")
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        self._stopping = False
        self._news = asyncio.Event()
        """Set, and replaced by another, whenever a term begins or ends."""
        self._turning = asyncio.Lock()

    # What the driver asks.

    @property
    def term(self) -> Term | None:
        """Return the term in which we may write now, if any."""
        return self._term if self.clock() < self._fence_until else None

    def check(self) -> None:
        """Raise `NotLeader` if a write must not go out now. It costs less than a microsecond."""
        if self._term is None:
            raise NotLeader(f"{self.holder or 'nobody'} leads")
        if self.clock() >= self._fence_until:
            raise NotLeader("the lease was not renewed in time")

    def check_term(self, term: Term) -> Callable[[], None]:
        """Return a fence for writes that were decided in one term and belong to no later one."""

        def check() -> None:
            self.check()
            if self._term is not term:
                raise NotLeader(f"decided in term {term.token}, which is over")

        return check

    async def leading(self) -> Term:
        """Wait until we lead."""
        while (term := self.term) is None:
            await self._news.wait()
        return term

    async def deposed(self, term: Term) -> None:
        """Wait until a term is over."""
        while self._term is term:
            await self._news.wait()

    # The election.

    async def run(self) -> None:
        """Try to lead, and stay leader, until cancelled or stopped."""
        while not self._stopping:
            began = self.clock()
            try:
                # Never wait for an answer beyond the moment at which the fence closes anyway.
                async with self._turning, asyncio.timeout(self._patience()):
                    await self._turn()
                self.trouble = ""
            except TimeoutError:
                self.trouble = "no answer in time"
            except _TROUBLE as error:
                self.trouble = str(error)
                log.warning("lease %s: %s", self._name, error)
            self._close_if_late()
            await asyncio.sleep(self._pause(began))

    async def stop(self, at_rest: Callable[[], Awaitable[None]] | None = None) -> None:
        """Leave gracefully: close the fence, let writes under way end, then free the lease.

        `at_rest` waits for them (`Client.at_rest` of the fenced client). If they do not end, the
        lease is not freed and runs out by itself.
        """
        self._stopping = True
        self._end("stopping")
        try:
            if at_rest is not None:
                async with asyncio.timeout(self.times.margin_s):
                    await at_rest()
            async with asyncio.timeout(self.times.margin_s), self._turning:
                await self._free()
        except (TimeoutError, *_TROUBLE) as error:
            log.warning("lease %s: not freed: %s", self._name, error)

    def _patience(self) -> float:
        if self._term is None:
            return self.times.renew_s
        return min(self.times.retry_s * 2, max(0.0, self._fence_until - self.clock()))

    def _pause(self, began: float) -> float:
        """Return the seconds until the next turn; before the fence closes there is one more."""
        pause = self.times.retry_s * (0.8 + 0.2 * self.random.random())
        if self.trouble and self._term is not None:
            pause /= 4
        until = began + pause
        if self._term is None and self._seen is not None and not self.trouble:
            until = min(until, max(self._free_at(self._seen), began + 0.05))
        elif self._term is not None:
            until = min(until, self._fence_until)
        return max(0.0, until - self.clock())

    async def _turn(self) -> None:
        """Renew if we lead; else look, and take the lease if it is free."""
        if self._stopping:
            return
        if self._term is not None and self._seen is not None:
            await self._renew(self._seen)
            return
        found = await self._look()
        if found is None or self.clock() >= self._free_at(found):
            await self._acquire(found)

    async def _look(self) -> _Lease | None:
        """Read the lease; note by our own clock when it last changed."""
        try:
            found = await self._get()
        except ApiError as error:
            if error.status != 404:
                raise
            self._seen, self.holder = None, ""
            return None
        last = self._seen
        if last is None or _changed(last, found):
            self._seen_at = self.clock()
        self._seen = found
        self.holder = found.spec.holder_identity or ""
        return found

    def _free_at(self, lease: _Lease) -> float:
        """Return when a lease may be taken: its holder's own duration after its last change."""
        if not lease.spec.holder_identity or lease.spec.holder_identity == self.identity:
            return float("-inf")
        return self._seen_at + float(lease.spec.lease_duration_seconds or self.times.duration_s)

    async def _acquire(self, found: _Lease | None) -> None:
        number = (found.spec.lease_transitions or 0) + 1 if found is not None else 0
        sent_at = self.clock()
        wanted = self._wanted(found, number, _now())
        try:
            written = await self._write(wanted, create=found is None)
        except ApiError as error:
            if error.status != 409:
                raise
            return  # another was faster
        if self._stopping:
            return
        self._term = Term(self.identity, number)
        self._keep(written, sent_at)
        log.info("lease %s: leading, term %d", self._name, number)
        self._tell()

    async def _renew(self, held: _Lease) -> None:
        number = held.spec.lease_transitions or 0
        sent_at = self.clock()
        try:
            written = await self._write(
                self._wanted(held, number, held.spec.acquire_time or _now()), create=False
            )
        except Unanswered:
            # If it was done, our version is old now: the next turn must know.
            await self._look_while_leading()
            raise
        except ApiError as error:
            if error.status == 404:
                self._end("the lease was deleted")
                return
            if error.status != 409:
                raise
            await self._look_while_leading()
            return
        self._keep(written, sent_at)

    async def _look_while_leading(self) -> None:
        """See who holds the lease after a renewal that failed; if still we, renew again later."""
        term = self._term
        found = await self._look()
        if term is None:
            return
        if found is None or found.spec.holder_identity != self.identity:
            self._end(f"taken by {self.holder or 'nobody'}")
        elif (found.spec.lease_transitions or 0) != term.number:
            self._end("taken by one who calls himself as we do")

    def _keep(self, written: _Lease, sent_at: float) -> None:
        self._seen, self._seen_at = written, sent_at
        self.holder = self.identity
        if self._term is not None:
            self._fence_until = sent_at + self.times.renew_s

    def _close_if_late(self) -> None:
        if self._term is not None and self.clock() >= self._fence_until:
            self._end("not renewed in time")

    def _end(self, why: str) -> None:
        if self._term is None:
            return
        log.warning("lease %s: term %d is over: %s", self._name, self._term.number, why)
        self._term = None
        self._fence_until = float("-inf")
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # The object.

    def _wanted(self, base: _Lease | None, number: int, acquired: str) -> _Lease:
        new = {"name": self._name, "namespace": self._namespace}
        meta = base.metadata if base else new
        duration = self.times.duration_s
        return _Lease(meta, _Spec(self.identity, duration, acquired, _now(), number))

    async def _get(self) -> _Lease:
        path = LEASES.path(self._namespace, self._name)
        return _read(await self._client.request("GET", path, resource=LEASES, how=_URGENT_READ))

    async def _write(self, lease: _Lease, *, create: bool) -> _Lease:
        if create:
            body = await self._client.create(LEASES, lease, self._namespace, how=_URGENT)
        else:
            body = await self._client.replace(
                LEASES, self._name, lease, self._namespace, how=_URGENT
            )
        return _read(body)

    async def _free(self) -> None:
        held = await self._look()
        if held is None or held.spec.holder_identity != self.identity:
            return
        spec = _Spec("", 1, held.spec.acquire_time, _now(), held.spec.lease_transitions)
        await self._write(_Lease(held.metadata, spec), create=False)
        self.holder = ""


def _read(body: bytes) -> _Lease:
    try:
        return msgspec.json.decode(body, type=_Lease)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(200, "Unreadable", f"not a lease: {error}") from error


def _changed(last: _Lease, found: _Lease) -> bool:
    """Tell whether a holder has shown signs of life between two looks."""
    keys = "uid", "resourceVersion"
    return any(last.metadata.get(key) != found.metadata.get(key) for key in keys)


def _now() -> str:
    """Return the wall clock, only for people who read the object."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
