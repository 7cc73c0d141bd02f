"""The engine's memory in one small object of the API server.

It is a ConfigMap with one binary entry: compressed JSON, as `model.codec` writes it, under a
version. Two things guard it. A resourceVersion: who did not write or read the last one may not
write the next. And a claim: who takes over writes at once that it is now theirs, so that all that
an earlier leader may still send is refused.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.log import fields
from mooring.kube.logins import CredentialsError
from mooring.kube.resources import CONFIG_MAPS
from mooring.model.codec import CodecError, decode, encode
from mooring.model.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.kube.resources import Resource

log = logging.getLogger(__name__)

FORMAT = 1
"""Version of what is written. A field that is added with a default needs no new one."""
ENTRY = "memory"
WRITER = "mooring.dev/written-by"
ASIDE = "-aside"
"""What is added to the name of an object under which an unreadable memory is kept."""
MOST_BYTES = 750_000
"""The server takes 1 MiB; as text it is a third more, and a request should have less than that."""
_MOST_PLAIN = 256 * 1024 * 1024
"""Bytes that are unpacked at most."""
_CLAIMS = 5

DROPPED = (
    "shadow",
    "run_times",
    "run_times_all",
    "defragmented",
    "freed",
    "node_failures",
    "latest_starts",
    "capacity_steps",
    "usage_steps",
    "penalties",
    "consumed",
    "mix",
    "overtakers",
    "pasts",
)
"""What is left out of a memory that is too large, in this order, until it is small enough. The
shadow is cast anew, run times and the mix are learnt again; usage begins at zero; and at last
workloads forget what they have been through. Holds, reserved nodes and loans always stay."""


class Objects(Protocol):
    """What is used of the client."""

    async def create(self, resource: Resource, body: bytes | object, namespace: str = "") -> bytes:
        """Create an object."""

    async def replace(
        self, resource: Resource, name: str, body: bytes | object, namespace: str = ""
    ) -> bytes:
        """Put an object in the place of another."""

    async def request(self, method: str, path: str) -> bytes:
        """Send a request."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the memory is."""

    namespace: str
    name: str = "mooring-memory"
    writer: str = "mooring"
    """Who we are: the identity of the lease."""
    most_bytes: int = MOST_BYTES


@dataclass(slots=True)
class Counts:
    """What became of the memory."""

    size: int = 0
    """Bytes that were written last."""
    dropped: tuple[str, ...] = ()
    """What had to be left out of it."""
    saved: int = 0
    failed: int = 0
    unreadable: int = 0


class NotOursError(Exception):
    """Another has written the memory since: we do not lead any more."""


class UnreadableMemoryError(ValueError):
    """What is stored cannot be used."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    binary_data: dict[str, str] | None = None


class Store:
    """Keeps the memory of the leader. `load` when we begin to lead, then `save` now and then."""

    def __init__(self, client: Objects, place: Place) -> None:
        self.place = place
        self.counts = Counts()
        self._client = client
        self._version = ""
        """Of the object as we last read or wrote it; empty: there is none."""
        self._digest = 0
        """Of what was written last."""
        self._last: Memory | None = None
        """What was written last."""

    async def load(self) -> Memory:
        """Return what an earlier life stored, and make it ours.

        What cannot be read is kept aside under another name, and the memory is empty then.
        """
        for _ in range(_CLAIMS):
            found = await self._get()
            memory, blob = Memory(), None
            if found is not None:
                blob = (found.binary_data or {}).get(ENTRY)
                memory = await self._read(blob) if blob is not None else memory
                self._version = found.metadata.resource_version
            else:
                self._version = ""
            self._digest, self._last = 0, None
            try:
                await self._write(blob or _text_of(pack(memory)))
            except ApiError as error:
                if error.status == 409:
                    continue  # the one before us was quicker
                raise
            return memory
        raise NotOursError("the stored memory is written all the time by another")

    async def peek(self) -> Memory:
        """Return what is stored, and write nothing; what cannot be read is as if none were."""
        found = await self._get()
        blob = (found.binary_data or {}).get(ENTRY) if found is not None else None
        try:
            return unpack(blob) if blob is not None else Memory()
        except UnreadableMemoryError as error:
            log.error("memory unreadable", extra=fields(error=str(error)))
            return Memory()

    async def save(self, memory: Memory) -> bool:
        """Store a memory if it has changed; return whether it was written.

        `NotOursError`: another has taken over. An error of the server is counted, and not raised.
        """
        if memory == self._last:
            return False
        try:
            blob, self.counts.dropped = await asyncio.to_thread(fit, memory, self.place.most_bytes)
        except ValueError as error:
            self.counts.failed += 1
            log.error("memory not stored", extra=fields(error=str(error)))
            return False
        digest = zlib.crc32(blob)
        if digest == self._digest:
            return False
        if self.counts.dropped:
            log.warning("memory too large", extra=fields(dropped=list(self.counts.dropped)))
        try:
            await self._write_ours(_text_of(blob))
        except (ApiError, Unanswered, Unreachable, CredentialsError) as error:
            self.counts.failed += 1
            log.warning("memory not stored", extra=fields(error=str(error)))
            return False
        self._digest, self._last, self.counts.size = digest, memory, len(blob)
        self.counts.saved += 1
        return True

    async def _write_ours(self, text: str) -> None:
        """Write over what we wrote; an answer that was lost may have been a yes."""
        try:
            await self._write(text)
        except ApiError as error:
            if error.status != 409:
                raise
            found = await self._get()
            notes = {} if found is None else found.metadata.annotations or {}
            if found is not None and notes.get(WRITER) != self.place.writer:
                raise NotOursError(f"the memory was written by {notes.get(WRITER)}") from error
            self._version = "" if found is None else found.metadata.resource_version
            await self._write(text)

    async def _write(self, text: str) -> None:
        name, namespace = self.place.name, self.place.namespace
        body = self._body(name, text)
        if self._version:
            body["metadata"]["resourceVersion"] = self._version
            try:
                answer = await self._client.replace(CONFIG_MAPS, name, body, namespace)
            except ApiError as error:
                if error.status == 404:  # somebody deleted it
                    raise ApiError(409, "Gone", "the object is gone") from error
                raise
        else:
            answer = await self._client.create(CONFIG_MAPS, body, namespace)
        self._version = _decode(answer).metadata.resource_version

    def _body(self, name: str, text: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": name, "annotations": {WRITER: self.place.writer}},
            "binaryData": {ENTRY: text},
        }

    async def _get(self, name: str = "") -> _ConfigMap | None:
        path = CONFIG_MAPS.path(self.place.namespace, name or self.place.name)
        try:
            return _decode(await self._client.request("GET", path))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _read(self, text: str) -> Memory:
        """Return what is stored, or an empty memory: then the other is kept aside."""
        try:
            return await asyncio.to_thread(unpack, text)
        except UnreadableMemoryError as error:
            self.counts.unreadable += 1
            aside = f"{self.place.name}{ASIDE}"
            log.error("memory unreadable", extra=fields(error=str(error), kept_as=aside))
            body = self._body(aside, text)
            try:
                await self._client.create(CONFIG_MAPS, body, self.place.namespace)
            except ApiError as refused:
                if refused.status != 409:
                    raise
                await self._client.replace(CONFIG_MAPS, aside, body, self.place.namespace)
            return Memory()


class Saver:
    """Saves the memory of an engine at most every so many seconds, and at the end."""

    def __init__(self, store: Store, memory: Callable[[], Memory], every_s: float = 30.0) -> None:
        self._store = store
        self._memory = memory
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._asked: list[asyncio.Future[None]] = []
        """Who waits until all that is known is stored."""
        self._stirred = asyncio.Event()

    async def flush(self) -> None:
        """Return when all that is known now is stored, or could not be."""
        if self._task is None or self._task.done():
            return
        done = asyncio.get_running_loop().create_future()
        self._asked.append(done)
        self._stirred.set()
        await done

    def start(self, lost: Callable[[], None] = lambda: None) -> None:
        """Begin; `lost` is called if another has taken over."""
        self._task = asyncio.create_task(self._run(lost), name="memory")
        self._task.add_done_callback(lambda _: self._answer())

    async def stop(self, within_s: float = 5.0) -> None:
        """Save a last time, for at most so long."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        try:
            async with asyncio.timeout(within_s):
                await self._store.save(self._memory())
        except (TimeoutError, NotOursError, NotLeader) as error:
            log.warning("last memory not stored", extra=fields(error=str(error)))

    async def _run(self, lost: Callable[[], None]) -> None:
        while True:
            self._stirred.clear()
            asked = len(self._asked)
            try:
                await self._store.save(self._memory())
            except (NotOursError, NotLeader) as error:
                log.error("memory not ours", extra=fields(error=str(error)))
                lost()
                return
            except Exception:  # whatever it was, the next save may do
                self._store.counts.failed += 1
                log.exception("memory not stored")
            self._answer(asked)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._stirred.wait()

    def _answer(self, count: int | None = None) -> None:
        """Let the first of those go on who wait, or all."""
        asked, self._asked = self._asked[:count], self._asked[len(self._asked[:count]) :]
        for each in asked:
            if not each.done():
                each.set_result(None)


# -- bytes ----------------------------------------------------------------------------------


def pack(memory: Memory) -> bytes:
    """Return a memory as it is stored."""
    data = {"format": FORMAT, "memory": encode(memory)}
    return zlib.compress(msgspec.json.encode(data), 6)


def fit(memory: Memory, most_bytes: int = MOST_BYTES) -> tuple[bytes, tuple[str, ...]]:
    """Return a memory as it is stored, and what had to be left out of it to make it small enough.

    `ValueError`: what must stay is too large already.
    """
    blob, dropped = pack(memory), list[str]()
    for name in DROPPED:
        if len(blob) <= most_bytes:
            break
        if not getattr(memory, name):
            continue
        nothing: dict[str, Any] = {name: ()}
        memory = replace(memory, **nothing)
        dropped.append(name)
        blob = pack(memory)
    if len(blob) > most_bytes:
        raise ValueError(f"it has {len(blob):,} bytes, and {most_bytes:,} can be stored")
    return blob, tuple(dropped)


def unpack(text: str) -> Memory:
    """Return the memory that a stored text holds; `UnreadableMemoryError` says why it cannot."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), _MOST_PLAIN)
        if not unpacker.eof:
            raise UnreadableMemoryError("it is cut off, or too large")
        found = msgspec.json.decode(data)
    except (ValueError, msgspec.DecodeError, zlib.error, RecursionError) as error:
        raise UnreadableMemoryError(f"it is no compressed JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise UnreadableMemoryError("it has no format")
    if found["format"] > FORMAT:
        raise UnreadableMemoryError(
            f"its format is {found['format']}, and this release knows formats up to {FORMAT}"
        )
    try:
        return decode(Memory, found.get("memory"))
    except CodecError as error:
        raise UnreadableMemoryError(str(error)) from error


def _text_of(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


_config_map = msgspec.json.Decoder(_ConfigMap)


def _decode(body: bytes) -> _ConfigMap:
    return _config_map.decode(body)
