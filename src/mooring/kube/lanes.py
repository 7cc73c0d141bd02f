"""Connections for writes: one small request and its answer at a time, with little ado.

A general HTTP library takes four times the CPU for a binding and cannot say whether a request has
left. Here the fence is asked in the same step in which the bytes are given to the socket, and a
failure tells whether they were. Reads, watches and proxies are left to the library.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.kube.credentials import Credentials

_IDLE_S = 30.0
"""A connection that rested longer is not used again: the server may be closing it just now."""
_MOST_HEAD = 1 << 16
_MOST_BODY = 1 << 26
_NO_BODY = (204, 304)


class Answer(NamedTuple):
    """What came back."""

    status: int
    retry_after: str | None
    body: bytes


class NotSent(Exception):  # noqa: N818 (a fact, not a mistake)
    """No connection could be made: no byte has left."""


class Lost(Exception):  # noqa: N818 (a fact, not a mistake)
    """The request was given to the network, and no answer came that can be understood."""


class Lanes:
    """The connections to one server; as many as requests are under way at the same time."""

    def __init__(self, credentials: Credentials) -> None:
        parts = urlsplit(credentials.server)
        self._credentials = credentials
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._idle: list[_Lane] = []
        self._all: set[_Lane] = set()
        self._generation = credentials.generation

    async def exchange(
        self, request: bytes, seconds: float, fence: Callable[[], None] | None = None
    ) -> Answer:
        """Send a request if the fence allows it, and return its answer."""
        lane = self._rested() or await self._connect(seconds * 0.7)
        lane.socket.fence = fence
        timer = lane.loop.call_later(seconds, lane.give_up)
        sent_at = time.monotonic()
        try:
            answer = await lane.send(request)
        except BaseException:
            lane.transport.abort()
            self._close_idle(sent_at)
            raise
        finally:
            timer.cancel()
        if lane.reusable:
            self._rest(lane)
        else:
            lane.transport.close()
        return answer

    def close(self) -> None:
        """Close all connections."""
        for lane in list(self._all):
            lane.transport.abort()
        self._idle.clear()

    def _rest(self, lane: _Lane) -> None:
        lane.rests_since = time.monotonic()
        self._idle.append(lane)

    def _rested(self) -> _Lane | None:
        """Return the connection that was used last, if it can be used again."""
        if self._generation != self._credentials.generation:
            self._generation = self._credentials.generation
            self._close_idle(time.monotonic())
        if not self._idle:
            return None
        lane = self._idle.pop()
        if time.monotonic() - lane.rests_since > _IDLE_S:
            lane.transport.close()
            self._close_idle(lane.rests_since)  # they rested even longer
            return None
        return lane

    def _close_idle(self, heard_before: float) -> None:
        """Close what rests since a moment: where one connection is dead, others may be."""
        for lane in self._idle:
            if lane.rests_since <= heard_before:
                lane.transport.close()
        self._idle = [lane for lane in self._idle if lane.rests_since > heard_before]

    async def _connect(self, seconds: float) -> _Lane:
        loop = asyncio.get_running_loop()
        secure = self._credentials.ssl if self._secure else None
        try:
            async with asyncio.timeout(seconds):
                made = await self._socket(loop)
                _, lane = await loop.create_connection(
                    lambda: _Lane(loop, self._ended, made),
                    sock=made,
                    ssl=secure,
                    server_hostname=(self._credentials.server_name or self._host)
                    if secure
                    else None,
                )
        except (OSError, ValueError) as error:
            words = str(error) or "no connection in time"
            raise NotSent(f"{self._host}:{self._port}: {words}") from error
        self._all.add(lane)
        return lane

    async def _socket(self, loop: asyncio.AbstractEventLoop) -> _Socket:
        """Return a socket that is connected to the first address of the server that answers."""
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        problem: OSError = OSError("the name of the server has no address")
        for family, kind, protocol, _, address in found:
            made = _Socket(family, kind, protocol)
            try:
                made.setblocking(False)
                await loop.sock_connect(made, address)
            except OSError as error:
                made.close()
                problem = error
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise problem

    def _ended(self, lane: _Lane) -> None:
        self._all.discard(lane)
        if lane in self._idle:
            self._idle.remove(lane)


class _Refused(OSError):  # noqa: N818 (a fact, not a mistake)
    """The fence said no. An `OSError`, for which the transport just ends the connection."""


class _Socket(socket.socket):
    """A socket that asks the fence right before the bytes of a request go to the kernel.

    Between a question further up and that moment a process would encrypt, and could be frozen.
    """

    fence: Callable[[], None] | None = None

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send bytes, if they may go out."""
        fence = self.fence
        if fence is not None:
            self.fence = None
            try:
                fence()
            except Exception as refusal:
                raise _Refused(str(refusal)) from refusal
        return _raw_send(self, data, flags)


_raw_send = socket.socket.send


class _Lane(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ended: Callable[[_Lane], None], made: _Socket
    ) -> None:
        self.loop = loop
        self.socket = made
        self.reusable = False
        self.rests_since = 0.0
        self._ended = ended
        self._come = b""
        self._waiter: asyncio.Future[Answer] | None = None

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Write a request; the future has its answer."""
        self._waiter = waiter = self.loop.create_future()
        if self.transport.is_closing():
            self._fail("the connection was closed")
        else:
            self._come = b""
            self.transport.write(request)
        return waiter

    def give_up(self) -> None:
        """Stop waiting for an answer."""
        self._fail("no answer in time")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the connection."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        keep_alive(self.socket)

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer, and give the answer if that was the last piece."""
        self._come = come = self._come + data if self._come else data
        if self._waiter is None:  # nothing was asked
            self.transport.abort()
            return
        try:
            found = parse(come)
        except ValueError as error:
            self._fail(str(error))
            return
        if found is not None and not self._waiter.done():
            answer, self.reusable = found
            self._waiter.set_result(answer)
            self._waiter = None

    def eof_received(self) -> None:
        """Take the end of the stream, which is the end of an answer without a length."""
        if self._waiter is not None and not self._waiter.done():
            try:
                found = parse(self._come, ended=True) if self._come else None
            except ValueError:
                found = None
            if found is not None:
                self.reusable = False
                self._waiter.set_result(found[0])
                self._waiter = None

    def connection_lost(self, error: Exception | None) -> None:
        """Tell who waits."""
        self.reusable = False
        waiter = self._waiter
        if isinstance(error, _Refused) and error.__cause__ and waiter and not waiter.done():
            self._waiter = None
            waiter.set_exception(error.__cause__)
        self._fail(str(error) if error else "the server closed the connection")
        self._ended(self)

    def _fail(self, why: str) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(Lost(why))


def parse(come: bytes, *, ended: bool = False) -> tuple[Answer, bool] | None:
    """Return an answer and whether the connection can be used again; None: more is to come.

    Raise `ValueError` for what is not an answer.
    """
    end = come.find(b"\r\n\r\n")
    if end < 0:
        if len(come) > _MOST_HEAD or not come.startswith(b"HTTP/1."[: len(come)]):
            raise ValueError("not an answer of HTTP/1")
        return None
    head = come[:end].lower()
    status = int(head[9:12])
    if not head.startswith(b"http/1.") or status < 100:
        raise ValueError("not an answer of HTTP/1")
    if status < 200:  # only that the request has come
        return parse(come[end + 4 :], ended=ended) if len(come) > end + 4 else None
    fields = head + b"\r\n"
    reusable = head.startswith(b"http/1.1") and _field(fields, b"connection") != b"close"
    retry_after = _field(fields, b"retry-after")
    length = _field(fields, b"content-length")
    if status in _NO_BODY:
        body: bytes | None = b""
        reusable = reusable and len(come) == end + 4
    elif _field(fields, b"transfer-encoding") is not None:
        body = _unchunked(come, end + 4)
    elif length is not None:
        body = _of_length(come, end + 4, int(length))
    else:
        body, reusable = (come[end + 4 :] if ended else None), False
    if body is None:
        return None
    return Answer(status, retry_after.decode() if retry_after is not None else None, body), reusable


def _field(head: bytes, name: bytes) -> bytes | None:
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    return head[start : head.index(b"\r\n", start)].strip()


def _of_length(come: bytes, start: int, length: int) -> bytes | None:
    if not 0 <= length <= _MOST_BODY:
        raise ValueError(f"a body of {length} bytes")
    if len(come) < start + length:
        return None
    if len(come) > start + length:
        raise ValueError("more than one answer")
    return come[start:]


def _unchunked(come: bytes, at: int) -> bytes | None:
    """Return the body of an answer that comes in chunks, if the last one has come."""
    if not come.endswith(b"\r\n\r\n"):
        return None
    parts: list[bytes] = []
    while True:
        line = come.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(come[at:line].partition(b";")[0], 16)
        if not 0 <= size <= _MOST_BODY:
            raise ValueError(f"a chunk of {size} bytes")
        at = line + 2
        if size == 0:
            return b"".join(parts)
        if len(come) < at + size + 2:
            return None
        parts.append(come[at : at + size])
        at += size + 2


def keep_alive(made: socket.socket) -> None:
    """Let a socket notice within half a minute that the other side is gone."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
