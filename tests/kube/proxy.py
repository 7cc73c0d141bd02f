"""A proxy before the API server that counts every request and makes faults on demand.

    with Proxy(plane, faults=Faults(seed=1, http=0.05, reset=0.02, slow=0.02, cut=0.2)) as proxy:
        config = plane.service_account("lab", "mooring", server=proxy.url)
        …
        assert not proxy.seen(after=T, writes=True)

It speaks TLS on both sides, so a client must tell who it is in a way that passes through:

- a bearer token (`plane.service_account`) is forwarded as it is;
- a client certificate (`plane.user`) is checked by the proxy, which then tells the server the user
  and the groups in the headers of an authenticating proxy. The server trusts it with that.

Faults are drawn per request from a seeded plan, so the same requests in the same order meet the
same faults. `proxy.faults = Faults()` ends them; `proxy.do_next(Fault.CONFLICT, "binding")` makes
one for the next request whose path has a word. `proxy.cut_all()` resets all connections.
`proxy.block(agent)` refuses everybody whose user agent has that word, as a network partition does.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import json
import random
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.kube.plane import free_ports

if TYPE_CHECKING:
    from tests.kube.plane import Plane

_CLOSING_S = 0.2
"""Connections that were just being made take so long to close by themselves."""
_HEAD_MOST = 1 << 16
_CHUNK = 1 << 16
_LOOK_S = 0.5
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


class Fault(enum.Enum):
    """What can go wrong with one request."""

    CONFLICT = 409
    GONE = 410
    TOO_MANY = 429
    BROKEN = 500
    RESET = "reset before the request reaches the server"
    LOST = "reset after the server has done it: the answer is lost"
    SLOW = "the answer comes late"
    CUT = "a watch is cut in the middle"


_HTTP = (Fault.CONFLICT, Fault.GONE, Fault.TOO_MANY, Fault.BROKEN)
_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How likely each kind of fault is for a request; `most` limits how many there are in all."""

    seed: int = 0
    http: float = 0.0
    """An answer 409, 410, 429 or 500 in place of the server's."""
    reset: float = 0.0
    """A connection that breaks, half of the times after the server has done its work."""
    slow: float = 0.0
    cut: float = 0.0
    """Of watches only: cut after a few bytes."""
    most: int | None = None
    seconds: float = 1.0
    """The longest delay of a slow answer, and of a watch before it is cut."""
    agent: str = ""
    """Only for clients whose user agent has this word."""


@dataclass(frozen=True)
class Request:
    """A request as the proxy has seen it: when, what, by whom, and what became of it."""

    time: float
    """Of time.monotonic, when its head had been read."""
    method: str
    path: str
    agent: str
    identity: str
    """The user of the client certificate, or the last characters of the token."""
    fault: Fault | None
    forwarded: float | None = None
    """When its first byte went to the server; none: it never did."""
    status: int | None = None
    """What the server answered."""

    @property
    def is_write(self) -> bool:
        """Tell whether the request wants to change something."""
        return self.method in _WRITES

    @property
    def is_watch(self) -> bool:
        """Tell whether the request is a watch."""
        return "watch=1" in self.path or "watch=true" in self.path


@dataclass
class _Head:
    """The first lines of a request or an answer."""

    first: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def text(self) -> bytes:
        lines = [self.first, *(f"{key}: {value}" for key, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")


class _CutError(Exception):
    """The connection shall break now."""


class Proxy:
    """Runs in a thread of its own; any thread may ask what it has seen."""

    def __init__(self, plane: Plane, faults: Faults | None = None) -> None:
        (port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{port}"
        self.requests: list[Request] = []
        self.made: Counter[Fault] = Counter()
        self._port = port
        self._upstream = int(plane.url.rpartition(":")[2])
        self._plain = ssl.create_default_context(cafile=plane.ca)
        self._as_proxy = ssl.create_default_context(cafile=plane.ca)
        self._as_proxy.load_cert_chain(*plane.certificate("front-proxy"))
        self._outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=plane.ca)
        self._outside.load_cert_chain(*plane.server_certificate(f"proxy-{port}"))
        self._outside.verify_mode = ssl.CERT_OPTIONAL
        self._blocked: set[str] = set()
        self._next: list[tuple[Fault, str]] = []
        self._connections: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self.faults = faults or Faults()

    @property
    def faults(self) -> Faults:
        """Return the plan of faults; a new one starts from its seed."""
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._draw = random.Random(faults.seed)
        self._left = itertools.count() if faults.most is None else iter(range(faults.most))
        self._faults = faults

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxy")
        self._thread.start()
        assert self._ready.wait(10), "the proxy does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def seen(
        self, after: float = 0.0, agent: str = "", word: str = "", *, writes: bool = False
    ) -> list[Request]:
        """Return the requests that went on to the server, from a moment on, of an agent."""
        return [
            request
            for request in list(self.requests)
            if request.forwarded is not None
            and request.forwarded >= after
            and agent in request.agent
            and word in request.path
            and (request.is_write or not writes)
        ]

    def do_next(self, fault: Fault, word: str = "") -> None:
        """Make a fault of the next request whose method and path have a word."""
        self._next.append((fault, word))

    def block(self, agent: str = "") -> None:
        """Break all connections of clients whose user agent has this word, until `unblock`."""
        self._blocked.add(agent)
        self.cut_all()

    def unblock(self) -> None:
        """Let everybody through again."""
        self._blocked.clear()

    def cut_all(self) -> None:
        """Reset all connections, watches too."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    # --- the loop

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, ssl=self._outside, limit=_HEAD_MOST
        )
        self._ready.set()
        await self._end.wait()
        server.close()
        self._abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(_CLOSING_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client, over one connection of its own to the server."""
        self._connections.add(writer)
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        broken = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, _CutError)
        try:
            with contextlib.suppress(*broken):
                # The certificate of the proxy would count for more than the token of a client.
                tls = self._as_proxy if writer.get_extra_info("peercert") else self._plain
                upstream = await asyncio.open_connection(
                    "127.0.0.1", self._upstream, ssl=tls, limit=_HEAD_MOST
                )
                while await self._exchange(reader, writer, *upstream):
                    pass
        finally:
            self._connections.discard(writer)
            writer.transport.abort()
            if upstream is not None:
                upstream[1].transport.abort()

    # wide: the two ends of two connections
    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> bool:
        """Pass one request on and its answer back; tell whether the connection goes on."""
        head = await _read_head(reader)
        if head is None:
            return False
        body = await _read_body(head, reader)
        identity = self._identify(head, writer)
        request = self._note(head, identity)
        fault = request.fault
        if fault is Fault.RESET or any(agent in request.agent for agent in self._blocked):
            raise _CutError
        if fault in _HTTP:
            writer.write(_refusal(int(fault.value)))
            await writer.drain()
            return True
        if fault is Fault.SLOW:
            await asyncio.sleep(self._draw.uniform(0, self._faults.seconds))
        up_writer.write(head.text() + body)
        self._went_on(request)
        answer = await _read_head(up_reader)
        if answer is not None:
            object.__setattr__(request, "status", int(answer.first.split(" ", 2)[1]))
        if answer is None or fault is Fault.LOST:
            raise _CutError
        writer.write(answer.text())
        passing = _pass_body(answer, request.method, up_reader, writer)
        if request.is_watch:
            await self._pass_watch(asyncio.ensure_future(passing), reader, fault)
        else:
            await passing
        await writer.drain()
        return "close" not in (head.get("connection") + answer.get("connection")).lower()

    async def _pass_watch(
        self, passing: asyncio.Future[None], reader: asyncio.StreamReader, fault: Fault | None
    ) -> None:
        """Wait until a watch has ended, its client has gone, or it is to be cut."""
        seconds = self._draw.uniform(0, self._faults.seconds) if fault is Fault.CUT else None
        try:
            async with asyncio.timeout(seconds):
                while not (await asyncio.wait({passing}, timeout=_LOOK_S))[0]:
                    if reader.at_eof():
                        raise _CutError
        finally:
            passing.cancel()
        passing.result()

    # --- who, what, and what goes wrong

    def _identify(self, head: _Head, writer: asyncio.StreamWriter) -> str:
        """Return who it is; in place of a certificate the server gets the headers of a proxy."""
        head.headers = [
            (key, value) for key, value in head.headers if not key.lower().startswith("x-remote-")
        ]
        if token := head.get("authorization"):
            return f"token …{token[-8:]}"
        certificate: dict[str, Any] = writer.get_extra_info("peercert") or {}
        parts = [part for group in certificate.get("subject", ()) for part in group]
        user = next((value for key, value in parts if key == "commonName"), "")
        if user:
            groups = [value for key, value in parts if key == "organizationName"]
            head.headers.append(("X-Remote-User", user))
            head.headers += [("X-Remote-Group", group) for group in groups]
            head.headers.append(("X-Remote-Group", "system:authenticated"))
        return user

    def _note(self, head: _Head, identity: str) -> Request:
        method, path, _ = head.first.split(" ", 2)
        agent = head.get("user-agent")
        request = Request(time.monotonic(), method, path, agent, identity, None)
        fault = self._choose(request)
        if fault is not None:
            self.made[fault] += 1
            request = Request(request.time, method, path, agent, identity, fault)
        self.requests.append(request)
        return request

    def _went_on(self, request: Request) -> None:
        object.__setattr__(request, "forwarded", time.monotonic())

    def _choose(self, request: Request) -> Fault | None:
        what = f"{request.method} {request.path}"
        for i, (fault, word) in enumerate(self._next):
            if word in what:
                del self._next[i]
                return fault
        plan = self._faults
        luck = self._draw.random()
        if plan.agent not in request.agent:
            return None
        kinds = [
            (plan.http, _fitting(request)),
            (plan.reset, (Fault.RESET, Fault.LOST)),
            (plan.slow, (Fault.SLOW,)),
            (plan.cut if request.is_watch else 0.0, (Fault.CUT,)),
        ]
        for chance, faults in kinds:
            if luck < chance:
                return self._draw.choice(faults) if next(self._left, None) is not None else None
            luck -= chance
        return None


def _fitting(request: Request) -> tuple[Fault, ...]:
    """Return the answers that a server may give to such a request."""
    if request.is_write:
        return (Fault.CONFLICT, Fault.TOO_MANY, Fault.BROKEN)
    from_then = "resourceVersion=" in request.path or "continue=" in request.path
    return (Fault.GONE,) * from_then + (Fault.TOO_MANY, Fault.BROKEN)


async def _read_head(reader: asyncio.StreamReader) -> _Head | None:
    """Read the first lines; none where the other end has closed."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = text[:-4].split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return _Head(first, [(key, value.strip()) for key, _, value in pairs])


async def _read_body(head: _Head, reader: asyncio.StreamReader) -> bytes:
    if "chunked" in head.get("transfer-encoding").lower():
        return b"".join([part async for part in _chunks(reader)])
    return await reader.readexactly(int(head.get("content-length") or 0))


async def _pass_body(
    head: _Head, method: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass the body of an answer on, in whatever form it comes."""
    status = head.first.split(" ", 2)[1]
    if method == "HEAD" or status in ("204", "304"):
        return
    if "chunked" in head.get("transfer-encoding").lower():
        async for part in _chunks(reader):
            writer.write(part)
            await writer.drain()
        return
    left = int(head.get("content-length") or 0)
    while left:
        part = await reader.read(min(left, _CHUNK))
        if not part:
            raise _CutError
        writer.write(part)
        await writer.drain()
        left -= len(part)


async def _chunks(reader: asyncio.StreamReader) -> Any:
    """Read a body in chunks, and give them with their sizes, as they are on the wire."""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        yield line + await reader.readexactly(size + 2)
        if size == 0:
            return


def _refusal(code: int) -> bytes:
    """Return the answer that the server would give with this code."""
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": _REASONS[code],
        "message": "made by the proxy of the tests",
    }
    body = json.dumps(status).encode()
    again = "Retry-After: 1\r\n" if code == Fault.TOO_MANY.value else ""
    return (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: application/json\r\n{again}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
