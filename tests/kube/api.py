"""A plain, blocking client of the API server for tests: dicts in, dicts out, many at once."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_AT_ONCE = 16
_TIMEOUT_S = 30


class ApiError(Exception):
    """The server has refused something: `status` is its HTTP code, `reason` its word for it."""

    def __init__(self, status: int, answer: Object) -> None:
        self.status = status
        self.reason = str(answer.get("reason", ""))
        super().__init__(f"{status} {self.reason}: {answer.get('message', '')}")


class Api:
    """Requests as one user: a client certificate, or a bearer token. Any thread may use it."""

    def __init__(
        self,
        url: str,
        ca: Path,
        certificate: tuple[Path, Path] | None = None,
        token: str | None = None,
    ) -> None:
        self.url = url
        self._host = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            self._tls.load_cert_chain(*certificate)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._mine = threading.local()
        self._open: list[http.client.HTTPSConnection] = []
        self._paths: dict[tuple[str, str], tuple[str, bool]] = {}
        self.pool = ThreadPoolExecutor(_AT_ONCE, "api")

    def close(self) -> None:
        """Close the connections of all threads."""
        self.pool.shutdown()
        while self._open:
            self._open.pop().close()

    def request(
        self, method: str, path: str, body: object = None, kind: str = JSON, **query: object
    ) -> Object:
        """Return the answer to a request; raise ApiError where it is refused."""
        if query:
            path += "?" + urlencode(query)
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": kind} if sent is not None else {})
        status, answer = self._send(method, path, sent, headers)
        if status >= http.client.BAD_REQUEST:
            raise ApiError(status, answer)
        return answer

    def get(self, path: str, **query: object) -> Object:
        """Return what is at a path."""
        return self.request("GET", path, None, JSON, **query)

    def items(self, path: str, **query: object) -> list[Object]:
        """Return the objects of a collection."""
        found: list[Object] = self.get(path, **query)["items"]
        return found

    def create(self, thing: Object) -> Object:
        """Create an object in its namespace (`default` if it names none)."""
        return self.request("POST", self.path(thing), thing)

    def create_all(self, things: Iterable[Object]) -> list[Object]:
        """Create many objects at once; return them in the same order."""
        return list(self.pool.map(self.create, things))

    def apply(self, thing: Object) -> Object:
        """Create an object, or change it to what is given."""
        try:
            return self.create(thing)
        except ApiError as error:
            if error.status != http.client.CONFLICT:
                raise
        return self.request(
            "PATCH", self._at(thing), thing, APPLY, fieldManager="tests", force="true"
        )

    def patch(self, path: str, change: Mapping[str, object], **query: object) -> Object:
        """Merge a change into the object at a path (with `/status` for its status)."""
        return self.request("PATCH", path, change, MERGE, **query)

    def delete(self, path: str, **query: object) -> Object:
        """Delete the object or the collection at a path; nothing there is no error."""
        try:
            return self.request("DELETE", path, None, JSON, **query)
        except ApiError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return {}

    def path(self, thing: Object) -> str:
        """Return the path of the collection that an object belongs to."""
        plural, namespaced = self._resource(thing["apiVersion"], thing["kind"])
        version = thing["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        namespace = thing["metadata"].get("namespace", "default")
        return f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"

    def _at(self, thing: Object) -> str:
        return f"{self.path(thing)}/{thing['metadata']['name']}"

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """Return the plural of a kind and whether it is namespaced, as the server says."""
        if (version, kind) not in self._paths:
            known = self.get(f"/apis/{version}" if "/" in version else f"/api/{version}")
            for resource in known["resources"]:
                if "/" not in resource["name"]:
                    key = (version, resource["kind"])
                    self._paths[key] = (resource["name"], resource["namespaced"])
        return self._paths[version, kind]

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Object]:
        """Send over the connection of this thread; again once if the server had closed it."""
        for last in (False, True):
            connection = getattr(self._mine, "connection", None) or self._connect()
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                self._mine.connection = None
                if last:
                    raise
                continue
            return answer.status, _decoded(content)
        raise AssertionError("the second try returns or raises")

    def _connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=_TIMEOUT_S)
        self._mine.connection = connection
        self._open.append(connection)
        return connection


def _decoded(content: bytes) -> Object:
    """Return JSON as it is, and any other text as a message."""
    try:
        answer = json.loads(content)
    except ValueError:
        return {"message": content.decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"message": answer}
