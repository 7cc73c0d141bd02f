"""Requests to the API server: bounded, repeated where that is safe, fenced where they write.

A read is repeated on 429, 5xx and lost connections. A write is repeated if the server said that it
did nothing (429, or Retry-After), if nothing was sent, or if the caller says that sending it twice
does no harm; otherwise the caller learns that the outcome is unknown (`Unanswered`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import dataclass
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from mooring import __version__
from mooring.kube.backoff import Backoff
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.lanes import Answer, Lanes, Lost, NotSent, keep_alive
from mooring.kube.logins import CredentialsError
from mooring.kube.objects import Unreadable, read
from mooring.kube.resources import ALL, PODS, Resource, Select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

    from mooring.kube.credentials import Credentials

_LOG = logging.getLogger(__name__)
T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
"""Content types of patches; JSON is YAML, so an apply takes JSON too."""

ONE_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""What a watch of metadata alone asks for."""
_LIST_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
OLD_S = 900.0
"""So long connections with a former certificate may be used by who has begun: watches."""
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Errors of making a connection: no byte of the request has left."""


class Observer(Protocol):
    """Who counts requests; `code` is 0 where no answer came."""

    def answered(self, method: str, resource: str, code: int, seconds: float) -> None:
        """Take note of one answer, or of one that did not come."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much and how long the client tries."""

    under_way: int = 64
    """Requests at the same time; watches and what is urgent are not counted."""
    timeout_s: float = 30.0
    """For one try of a read."""
    write_timeout_s: float = 5.0
    """For one try of a write, told to the server too: later it will not be done any more."""
    tries: int = 7
    patience_s: float = 30.0
    """No try begins later than this after the first one."""
    page: int = 500


@dataclass(frozen=True, slots=True)
class How:
    """How one kind of request is sent. Made once, not per request."""

    content_type: str = ""
    accept: str = ""
    repeat: bool = False
    """Whether sending it twice does no harm."""
    urgent: bool = False
    """Whether it goes before all that waits for its turn."""


READ = How(repeat=True)
CREATE = How(JSON)
_BINDING = How(JSON)
_EVICTION = How(JSON, repeat=True)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects that were asked for, as of one moment."""

    objects: list[T | Unreadable]
    resource_version: str


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[T]):
    items: list[T] | None = None
    metadata: _ListMeta = _ListMeta()


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta = _ListMeta()


class Reader(Generic[T]):
    """Reads lists of one type of object, fast if all are as expected, else one by one."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._page = msgspec.json.Decoder(_Page[kind])  # type: ignore[valid-type]

    def page(self, body: bytes) -> tuple[list[T | Unreadable], _ListMeta]:
        """Return the objects of a page and where it goes on."""
        try:
            page = self._page.decode(body)
            return page.items or [], page.metadata
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            raw = msgspec.json.decode(body, type=_RawPage)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(200, "Unreadable", f"not a list: {error}") from error
        return [self.one(item) for item in raw.items or ()], raw.metadata

    def one(self, raw: msgspec.Raw | bytes) -> T | Unreadable:
        """Return one object, or what is wrong with it."""
        return cast("T | Unreadable", read(cast("Any", self.kind), raw))


class _Wire:
    """What all clients of one process share: connections, slots, who we are."""

    def __init__(self, credentials: Credentials, limits: Limits, random: Random) -> None:
        self.credentials = credentials
        self.limits = limits
        self.random = random
        self.slots = asyncio.Semaphore(limits.under_way)
        self.connector = self._connector()
        self.lanes = Lanes(credentials)
        self._generation = credentials.generation
        self._old: list[tuple[float, aiohttp.BaseConnector]] = []
        """Those of former certificates, and when they were replaced."""
        self._refreshing = asyncio.Lock()

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=0,
            ssl=self.credentials.ssl or False,
            keepalive_timeout=30,
            socket_factory=_socket,
        )

    async def refresh(self, *, rejected: bool = False) -> None:
        """Make sure that what says who we are is fresh; new certificates get new connections."""
        async with self._refreshing:
            if rejected:
                await self.credentials.rejected()
            elif time.monotonic() >= self.credentials.fresh_until:
                await self.credentials.refresh()
            if self._generation != self.credentials.generation:
                self._generation = self.credentials.generation
                self._old.append((time.monotonic(), self.connector))
                self.connector = self._connector()
                await self._close_old(time.monotonic() - OLD_S)

    async def close(self) -> None:
        """Close all connections, and wait for nobody at the other end."""
        self.lanes.close()
        await self._close_old(inf)
        await self.connector.close(abort_ssl=True)

    async def _close_old(self, until: float) -> None:
        """Close connections of certificates that were replaced until then."""
        old, self._old = self._old, [each for each in self._old if each[0] > until]
        for at, connector in old:
            if at <= until:
                await connector.close(abort_ssl=True)


class Client:
    """A client of one API server. `fenced` gives another one over the same connections."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        observer: Observer | None = None,
        random: Random | None = None,
    ) -> None:
        self.credentials = credentials
        self.limits = limits
        self._observer = observer
        self._wire = _Wire(credentials, limits, random or Random())
        self._fence: Callable[[], None] | None = None
        self._owner = True
        self._prepare()

    def _prepare(self) -> None:
        self._sessions: dict[int, aiohttp.ClientSession] = {}
        self._headers: dict[tuple[str, str, str], CIMultiDict[str]] = {}
        self._heads: dict[tuple[str, str, str], str] = {}
        parts = urlsplit(self.credentials.server)
        self._host, self._prefix = parts.netloc, parts.path
        self._decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
        self._read_timeout = _timeout(self.limits.timeout_s)
        self._write_timeout = _timeout(self.limits.write_timeout_s)
        self._give_up = f"timeout={max(1, int(self.limits.write_timeout_s * 1000))}ms"
        self._writing = 0
        self._rest = asyncio.Event()
        self._rest.set()

    def fenced(self, fence: Callable[[], None]) -> Client:
        """Return a client whose every write is first allowed by `fence`, right before it is sent.

        Reads pass. It shares connections and slots with this one, which closes them.
        """
        other = Client.__new__(Client)
        other.credentials, other.limits = self.credentials, self.limits
        other._observer, other._wire = self._observer, self._wire
        other._fence, other._owner = fence, False
        other._prepare()
        return other

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the session and, if they are our own, the connections."""
        for session in self._sessions.values():
            await session.close()
        if self._owner:
            await self._wire.close()

    async def at_rest(self) -> None:
        """Return when no write of this client is under way.

        One without an answer is, until the server has given up on it: that nobody waits for it
        any more, or that its connection is lost, does not stop it.
        """
        await self._rest.wait()

    def _begin_write(self) -> None:
        self._writing += 1
        self._rest.clear()

    def _end_write(self) -> None:
        self._writing -= 1
        if not self._writing:
            self._rest.set()

    def _leave_alone(self) -> None:
        """Let a write that may be at the server count until that has given up on it."""
        self._begin_write()
        loop = asyncio.get_running_loop()
        loop.call_later(self.limits.write_timeout_s, self._end_write)

    # Reads.

    async def get(
        self, resource: Resource, name: str, kind: type[T], namespace: str = "", sub: str = ""
    ) -> T:
        """Return one object."""
        return self._decode(
            await self.request("GET", resource.path(namespace, name, sub), resource=resource), kind
        )

    async def list(
        self, resource: Resource, kind: type[T], select: Select = ALL, *, since: str = ""
    ) -> Listing[T]:
        """Return all objects, read in pages; `since` is a resourceVersion that is new enough.

        Without `since` the list is as new as the store itself. Pages that have run out of date in
        the middle are begun again, the last time in one piece.
        """
        reader = Reader(kind)
        for page in (self.limits.page, self.limits.page, 0):
            try:
                return await self._pages(resource, reader, select, since, page)
            except ApiError as error:
                if not error.is_gone or not page:
                    raise
                since = ""
        raise AssertionError("the last page size is 0")

    async def _pages(
        self, resource: Resource, reader: Reader[T], select: Select, since: str, page: int
    ) -> Listing[T]:
        how = How(accept=_LIST_METADATA, repeat=True) if select.metadata_only else READ
        path = resource.path(select.namespace)
        found: list[T | Unreadable] = []
        first = {"resourceVersion": since, "resourceVersionMatch": "NotOlderThan" if since else ""}
        more = first
        limit = str(page) if page else ""
        while True:
            query = select.query(limit=limit, **more)
            body = await self.request("GET", path + query, resource=resource, how=how)
            objects, meta = reader.page(body)
            found += objects
            if not meta.continue_:
                return Listing(found, meta.resource_version)
            more = {"continue": meta.continue_}

    async def stream(
        self, path: str, resource: Resource, *, accept: str = "", quiet_s: float = 90.0
    ) -> aiohttp.ClientResponse:
        """Return an open answer to read from, for a watch. The caller closes it.

        Reading raises `TimeoutError` when nothing has come for `quiet_s`.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=quiet_s)
        again = True
        while True:
            started = time.perf_counter()
            try:
                answer = await self._open("GET", path, None, How(accept=accept), timeout)
            except (aiohttp.ClientError, OSError) as error:
                self._seen("WATCH", resource, 0, started)
                raise Unreachable(f"{_words(error)}: {path}") from error
            self._seen("WATCH", resource, answer.status, started)
            if answer.status == 200:
                return answer
            error_body = await answer.read()
            if answer.status != 401 or not again or not await self._renewed():
                raise ApiError.read(answer.status, error_body, answer.headers.get("Retry-After"))
            again = False

    async def discover(self) -> dict[tuple[str, str], tuple[Resource, ...]]:
        """Return what the server has: by group and plural, the preferred version first."""
        found: dict[tuple[str, str], tuple[Resource, ...]] = {}
        for path in ("/api", "/apis"):
            body = await self.request("GET", path, how=_DISCOVERY)
            for resource in _discovered(msgspec.json.decode(body)):
                key = resource.group, resource.plural
                found[key] = (*found.get(key, ()), resource)
        return found

    # Writes.

    async def create(
        self, resource: Resource, body: bytes | object, namespace: str = "", *, how: How = CREATE
    ) -> bytes:
        """Create an object and return it as the server has it."""
        path = resource.path(namespace)
        return await self.request("POST", path, _encoded(body), resource=resource, how=how)

    async def replace(
        self, resource: Resource, name: str, body: bytes | object, namespace: str = "",
        *, how: How = CREATE,
    ) -> bytes:  # fmt: skip
        """Put an object in the place of another; its resourceVersion guards against others."""
        path = resource.path(namespace, name)
        return await self.request("PUT", path, _encoded(body), resource=resource, how=how)

    # wide: which object, and what with it
    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes | object,
        namespace: str = "",
        *,
        form: str = MERGE,
        sub: str = "",
        manager: str = "",
        repeat: bool = True,
    ) -> bytes:
        """Change an object or its sub-resource (`status`); an apply needs the name of a `manager`.

        A patch that says how things shall be may be sent twice. For one that does not (a JSON
        patch that appends), or that carries a resourceVersion, say `repeat=False`.
        """
        path = resource.path(namespace, name, sub)
        if manager:
            force = "true" if form == APPLY else ""
            path += ALL.query(fieldManager=manager, force=force)
        how = _PATCHES[form, repeat]
        return await self.request("PATCH", path, _encoded(body), resource=resource, how=how)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *,
        uid: str = "", grace_s: int | None = None,
    ) -> bytes:  # fmt: skip
        """Delete an object; with its uid it is that one and not a later one of the same name."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        how = _EVICTION if uid else CREATE
        path = resource.path(namespace, name)
        return await self.request("DELETE", path, _encoded(options), resource=resource, how=how)

    async def bind(
        self, namespace: str, pod: str, node: str, *,
        uid: str = "", annotations: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Bind a pod to a node; the annotations are put on the pod in the same write.

        409 means that it is bound or gone already. `Unanswered` means that it may be bound now.
        """
        meta = _Meta(pod, namespace, uid, annotations or {})
        body = _encode(_Binding(meta, _Target(node)))
        await self.request(
            "POST", PODS.path(namespace, pod, "binding"), body, resource=_BINDINGS, how=_BINDING
        )

    async def evict(
        self, namespace: str, pod: str, *, uid: str = "", grace_s: int | None = None
    ) -> None:
        """Ask for the eviction of a pod. `ApiError.is_budget`: a disruption budget says no."""
        options = _Options(grace_s, {"uid": uid} if uid else None)
        body = _encode(_Evict(_Meta(pod, namespace), options))
        path = PODS.path(namespace, pod, "eviction")
        how = _EVICTION if uid else CREATE
        await self.request("POST", path, body, resource=_EVICTIONS, how=how)

    # The one way out.

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        resource: Resource | str = "",
        how: How = READ,
    ) -> bytes:
        """Send a request, again where that is safe, and return the body of a good answer."""
        if method == "GET":
            return await self._send(method, path, body, resource, how)
        # The server gives up too: what was sent before a lease ended is not done long after it.
        path += ("&" if "?" in path else "?") + self._give_up
        self._begin_write()
        try:
            return await self._send(method, path, body, resource, how)
        finally:
            self._end_write()

    async def _send(
        self, method: str, path: str, body: bytes | None, resource: Resource | str, how: How
    ) -> bytes:
        backoff: Backoff | None = None
        began = time.monotonic()
        while True:
            error: Exception
            try:
                return await self._once(method, path, body, resource, how)
            except ApiError as caught:
                error = caught
                again = _may_repeat(caught, how)
                wish = caught.retry_after
                if caught.status == 401 and backoff is None:
                    again, wish = await self._renewed(), None
            except Unreachable as caught:
                error, again, wish = caught, True, None
            except Unanswered as caught:
                error, again, wish = caught, how.repeat, None
            if backoff is None:
                backoff = Backoff(random=self._wire.random)
            wait = backoff.next(wish)
            late = time.monotonic() + wait - began > self.limits.patience_s
            if not again or late or backoff.tries >= self.limits.tries:
                raise _final(error, method, how)
            await asyncio.sleep(wait)

    async def _renewed(self) -> bool:
        """Get other credentials after a refusal; tell whether that went well."""
        try:
            await self._wire.refresh(rejected=True)
        except CredentialsError as error:
            _LOG.warning("credentials: %s", error)
            return False
        return True

    async def _once(
        self, method: str, path: str, body: bytes | None, resource: Resource | str, how: How
    ) -> bytes:
        if how.urgent:
            return await self._exchange(method, path, body, resource, how)
        async with self._wire.slots:
            return await self._exchange(method, path, body, resource, how)

    async def _exchange(
        self, method: str, path: str, body: bytes | None, resource: Resource | str, how: How
    ) -> bytes:
        """Send once; say what is known of the outcome."""
        if self._fence is not None and method != "GET":
            self._fence()  # no connection is made in vain; the answer that counts comes later
        started = time.perf_counter()
        try:
            answer = await self._ask(method, path, body, how)
        except (NotSent, CredentialsError, *_NEVER_SENT) as error:
            self._seen(method, resource, 0, started)
            raise Unreachable(f"{_words(error)}: {method} {path}") from error
        except (Lost, aiohttp.ClientError, OSError) as error:
            self._seen(method, resource, 0, started)
            if method == "GET":
                raise Unreachable(f"{_words(error)}: {method} {path}") from error
            self._leave_alone()
            raise Unanswered(f"{_words(error)}: {method} {path}") from error
        except asyncio.CancelledError:
            if method != "GET":
                self._leave_alone()
            raise
        self._seen(method, resource, answer.status, started)
        if answer.status < 300:
            return answer.body
        raise ApiError.read(answer.status, answer.body, answer.retry_after)

    async def _ask(self, method: str, path: str, body: bytes | None, how: How) -> Answer:
        """Send once over a lane, or by the library where it reads or needs a proxy."""
        credentials = self.credentials
        if method == "GET" or credentials.proxy:
            got = await self._open(method, path, body, how, self._timeout(method))
            return Answer(got.status, got.headers.get("Retry-After"), await got.read())
        if time.monotonic() >= credentials.fresh_until:
            await self._wire.refresh()
        key = (credentials.header, how.content_type, how.accept)
        head = self._heads.get(key) or self._new_head(key)
        sent = body or b""
        target = self._prefix + path
        if not target.isprintable() or " " in target:
            raise ValueError(f"not a path: {target!r}")
        request = f"{method} {target}{head}{len(sent)}\r\n\r\n".encode() + sent
        limit = self.limits.write_timeout_s
        return await self._wire.lanes.exchange(request, limit, self._fence)

    async def _open(
        self, method: str, path: str, body: bytes | None, how: How, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credentials = self.credentials
        if time.monotonic() >= credentials.fresh_until:
            await self._wire.refresh()
        key = (credentials.header, how.content_type, how.accept)
        headers = self._headers.get(key) or self._new_headers(key)
        session = self._sessions.get(id(self._wire.connector)) or self._new_session()
        return await session.request(
            method,
            URL(credentials.server + path, encoded=True),
            data=body,
            headers=headers,
            timeout=limit,
            allow_redirects=False,
            proxy=credentials.proxy,
            server_hostname=credentials.server_name,
        )

    def _new_head(self, key: tuple[str, str, str]) -> str:
        """Return the head of requests, from the path on up to their length."""
        headers = {"Host": self._host, **self._new_headers(key)}
        for value in headers.values():
            if not value.isprintable():
                raise CredentialsError("the token has odd characters in it: write it again")
        lines = "".join(f"\r\n{name}: {value}" for name, value in headers.items())
        head = self._heads[key] = f" HTTP/1.1{lines}\r\nContent-Length: "
        return head

    def _new_headers(self, key: tuple[str, str, str]) -> CIMultiDict[str]:
        authorization, content_type, accept = key
        headers = CIMultiDict({"Accept": accept or JSON, "User-Agent": USER_AGENT})
        if authorization:
            headers["Authorization"] = authorization
        if content_type:
            headers["Content-Type"] = content_type
        if len(self._headers) > 50:  # tokens of yesterday
            self._headers.clear()
            self._heads.clear()
        self._headers[key] = headers
        return headers

    def _new_session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=self._wire.connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
            request_class=_fenced(self._fence) if self._fence else aiohttp.ClientRequest,
            response_class=Response,
            read_bufsize=1 << 18,
        )
        # A write that got no answer is not repeated behind our back, not even a PUT or DELETE.
        session._retry_connection = False
        self._sessions = {key: old for key, old in self._sessions.items() if not old.closed}
        self._sessions[id(self._wire.connector)] = session
        return session

    def _timeout(self, method: str) -> aiohttp.ClientTimeout:
        return self._read_timeout if method == "GET" else self._write_timeout

    def _seen(self, method: str, resource: Resource | str, code: int, started: float) -> None:
        if self._observer is not None:
            name = resource if isinstance(resource, str) else str(resource)
            self._observer.answered(method, name, code, time.perf_counter() - started)

    def _decode(self, body: bytes, kind: type[T]) -> T:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.json.Decoder(kind)
        try:
            found: T = decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(200, "Unreadable", str(error)) from error
        return found


USER_AGENT = f"mooring/{__version__}"
_BINDINGS = "pods/binding"
_EVICTIONS = "pods/eviction"
_DISCOVERY = How(
    accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    repeat=True,
)
_PATCHES = {
    (form, repeat): How(form, repeat=repeat)
    for form in (MERGE, STRATEGIC, JSON_PATCH, APPLY)
    for repeat in (False, True)
}


class _Meta(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str
    uid: str = ""
    annotations: Mapping[str, str] = {}


class _Target(msgspec.Struct, gc=False):
    name: str
    kind: str = "Node"
    api_version: str = msgspec.field(default="v1", name="apiVersion")


class _Binding(msgspec.Struct):
    metadata: _Meta
    target: _Target
    kind: str = "Binding"
    api_version: str = msgspec.field(default="v1", name="apiVersion")


class _Options(msgspec.Struct, rename="camel", omit_defaults=True):
    grace_period_seconds: int | None = None
    preconditions: dict[str, str] | None = None


class _Evict(msgspec.Struct, rename="camel"):
    metadata: _Meta
    delete_options: _Options
    kind: str = "Eviction"
    api_version: str = "policy/v1"


_encode = msgspec.json.Encoder().encode


def _encoded(body: bytes | object) -> bytes:
    return body if isinstance(body, bytes) else _encode(body)


def _may_repeat(error: ApiError, how: How) -> bool:
    """Tell whether a refused request may be sent again: nothing was done, or it is harmless."""
    if error.status == 429:
        return not error.is_budget
    if error.status < 500 or error.status == 501:
        return False
    return how.repeat or (error.status == 503 and error.retry_after is not None)


def _final(error: Exception, method: str, how: How) -> Exception:
    """Return what the caller learns: a 5xx to a write tells nothing about what was done."""
    if isinstance(error, ApiError) and error.status >= 500 and method != "GET":
        if how.repeat or (error.status in (501, 503) and error.retry_after is not None):
            return error
        unknown = Unanswered(str(error))
        unknown.__cause__ = error
        return unknown
    return error


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Return limits of time; to make a connection takes less, so that it is known what was late."""
    return aiohttp.ClientTimeout(total=seconds, sock_connect=seconds * 0.7)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


class Response(aiohttp.ClientResponse):
    """An answer whose connection is cut where it is not read to its end.

    The library would wait for the other end to agree, and nobody would wait for that: a client that
    is closed leaves nothing open behind it.
    """

    def close(self) -> None:
        """Cut the connection, unless the answer was read to its end."""
        connection = self.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        super().close()


def _fenced(fence: Callable[[], None]) -> type[aiohttp.ClientRequest]:
    """Return a request that asks the fence in the same step in which its bytes are written.

    A request first waits for a slot, then for a connection; a frozen process may wake in between.
    So the question is put twice: when the connection is there, and when the body is written, with
    which the head goes out.
    """

    class Fenced(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            if self.method != "GET":
                fence()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            try:
                fence()
            except NotLeader as refusal:
                if conn.protocol is not None:
                    conn.protocol.set_exception(refusal)
                conn.close()
                return
            await super().write_bytes(writer, conn, content_length)

    return Fenced


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that notices within half a minute that the other side is gone."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    keep_alive(made)
    return made


def _discovered(answer: Json) -> Iterator[Resource]:
    """Return the resources of an aggregated discovery, in the order of the server's preference."""
    for group in answer.get("items") or ():
        name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or ():
            for found in version.get("resources") or ():
                yield Resource(
                    name,
                    version["version"],
                    found["resource"],
                    namespaced=found.get("scope") == "Namespaced",
                    kind=(found.get("responseKind") or {}).get("kind") or "",
                )
