"""A list and then a watch of one resource, for ever: nothing is missed, nothing kills it.

    list ──▶ Replaced ──▶ watch ──▶ Change, Change … ──cut──▶ watch from the last version
      ▲                                                 │
      └───────────────── 410: too old ──────────────────┘

After a list the receiver gets all objects at once (`Replaced`), so that it sees what was deleted
in the meantime. One object that cannot be read is delivered as `Unreadable` and stops nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import aiohttp
import msgspec

from mooring.kube.backoff import Backoff
from mooring.kube.client import ONE_METADATA, Client, Reader
from mooring.kube.errors import ApiError, Unreachable
from mooring.kube.logins import CredentialsError
from mooring.kube.resources import ALL, Resource, Select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.kube.objects import Unreadable

T = TypeVar("T", bound=msgspec.Struct)
Verb = Literal["put", "gone"]


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object is there as it is now, or it is gone."""

    kind: Resource
    verb: Verb
    object: T | Unreadable


class Replaced(msgspec.Struct, Generic[T], frozen=True):
    """These are all objects that there are; what is not among them is gone."""

    kind: Resource
    objects: list[T | Unreadable]


Batch = Sequence[Change[T]] | Replaced[T]
Receiver = Callable[["Batch[T]"], None]
"""Takes what has come, in order. It must not raise, and should be quick."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of a watch, in seconds."""

    quiet_s: float = 90.0
    """Nothing heard for so long, not even a bookmark (one a minute): the connection is dead."""
    turn_s: float = 300.0
    """The server ends a watch after this much to twice as much."""
    first_wait_s: float = 0.05
    most_wait_s: float = 10.0
    steady_s: float = 5.0
    """A stream that lived so long was a good one: the next trouble waits shortly again."""
    stubborn: int = 5
    """Failures in a row after which a resumed watch gives up and lists again."""


class _Stale(Exception):  # noqa: N818 (a fact, not a mistake)
    """The version to go on from is too old."""


class _Cut(Exception):  # noqa: N818 (a fact, not a mistake)
    """The stream ended with an error that the server told."""


class _Event(msgspec.Struct, Generic[T]):
    object: T
    type: str = ""


class _RawEvent(msgspec.Struct):
    object: msgspec.Raw = msgspec.Raw(b"{}")
    type: str = ""


class Watch(Generic[T]):
    """Follows one resource and hands all changes to a receiver.

    `synced` is set when the first list was delivered. `trouble` says in words what is wrong now,
    and is empty while the stream is well.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        kind: type[T],
        receiver: Receiver[T],
        select: Select = ALL,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.trouble = ""
        self.heard_at = time.monotonic()
        """When the server was last heard, by the monotonic clock."""
        self.lists = 0
        """Full lists that were delivered."""
        self.pace = Pace()
        self.random = Random()
        self._client = client
        self._kind = kind
        self._receive = receiver
        self._select = select
        self._reader = Reader(kind)
        self._line = msgspec.json.Decoder(_Event[kind])  # type: ignore[valid-type]
        self._version = ""
        self._failures = 0
        self._answer: aiohttp.ClientResponse | None = None
        self._asked = 0
        """How often somebody has asked for a new list, and how many of these were met."""
        self._met = 0
        self._news = asyncio.Event()
        """Set, and replaced by another, with every list."""

    async def again(self) -> None:
        """Read everything again; return when that was delivered.

        Then all is known that was written before the call, however far the stream was behind.
        """
        self._asked = wanted = self._asked + 1
        if self._answer is not None:
            self._answer.close()
        while self._met < wanted:
            await self._news.wait()

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = Backoff(self.pace.first_wait_s, self.pace.most_wait_s, self.random)
        while True:
            began = time.monotonic()
            wish: float | None = None
            try:
                if not self._version or self._met < self._asked:
                    await self._relist()
                if self._met == self._asked:
                    await self._follow()
                self._failures = 0
            except _Stale:
                self._version = ""
                self.trouble = "the watch was too far behind: listing again"
            except ApiError as error:
                wish = error.retry_after
                self._failed(error, gone=error.is_gone)
            except (Unreachable, _Cut, CredentialsError, aiohttp.ClientError, OSError) as error:
                self._failed(error, gone=False)
            if time.monotonic() - began >= self.pace.steady_s:
                backoff.reset()
            if self._answer is None or self._met == self._asked:  # else nothing is wrong
                await asyncio.sleep(backoff.next(wish))
            self._answer = None

    def _failed(self, error: Exception, *, gone: bool) -> None:
        self._failures += 1
        self.trouble = str(error) or type(error).__name__
        if gone or self._failures >= self.pace.stubborn:
            self._failures = 0
            self._version = ""

    async def _relist(self) -> None:
        asked = self._asked
        found = await self._client.list(self.resource, self._kind, self._select)
        self._heard()
        self._version = found.resource_version
        self.lists += 1
        self._receive(Replaced(self.resource, found.objects))
        self.synced.set()
        self._met = asked
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _follow(self) -> None:
        """Read one stream to its end."""
        seconds = int(self.pace.turn_s * (1 + self.random.random()))
        query = self._select.query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=str(max(1, seconds)),
        )
        answer = await self._client.stream(
            self.resource.path(self._select.namespace) + query,
            self.resource,
            accept=ONE_METADATA if self._select.metadata_only else "",
            quiet_s=self.pace.quiet_s,
        )
        self.trouble = ""
        self._answer = answer
        try:
            if self._met == self._asked:
                await self._read(answer)
        finally:
            answer.close()

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        rest = b""
        parts: list[bytes] = []
        async for chunk in answer.content.iter_any():
            self._heard()
            self._failures = 0
            if b"\n" not in chunk:
                parts.append(chunk)
                continue
            lines = b"".join((rest, *parts, chunk)).split(b"\n")
            parts.clear()
            rest = lines.pop()
            self._deliver(lines)

    def _deliver(self, lines: list[bytes]) -> None:
        """Hand over what a piece of the stream holds, also if an error follows in it."""
        changes: list[Change[T]] = []
        try:
            for line in lines:
                if line:
                    changes += self._changes(line)
        finally:
            if changes:
                self._receive(changes)

    def _changes(self, line: bytes) -> Iterator[Change[T]]:
        try:
            event = self._line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield from self._odd(line)
            return
        verb = _VERBS.get(event.type)
        found = event.object
        if verb is None:
            self._not_a_change(event.type, line)
        version = cast("Any", found).metadata.resource_version
        if version:
            self._version = version
        if verb is not None:
            yield Change(self.resource, verb, found)

    def _odd(self, line: bytes) -> Iterator[Change[T]]:
        """Read a line that is not as expected: an error, or an object with wrong types."""
        try:
            event = msgspec.json.decode(line, type=_RawEvent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Half a line, or not from an API server: what it said is lost, so read it all again.
            raise _Stale from error
        verb = _VERBS.get(event.type)
        if verb is None:
            self._not_a_change(event.type, line)
            return
        found = self._reader.one(event.object)
        version = cast("Any", found).metadata.resource_version
        if version:
            self._version = version
        yield Change(self.resource, verb, found)

    def _not_a_change(self, kind: str, line: bytes) -> None:
        if kind == "BOOKMARK":
            return
        error = ApiError.read(0, bytes(msgspec.json.decode(line, type=_RawEvent).object))
        if error.is_gone:
            raise _Stale
        raise _Cut(f"{kind or 'no type'}: {error}")

    def _heard(self) -> None:
        self.heard_at = time.monotonic()


_VERBS: dict[str, Verb] = {"ADDED": "put", "MODIFIED": "put", "DELETED": "gone"}
