"""A server that says what it is told to say, for answers that a real one gives too seldom.

Only for odd answers: what a real API server does is tested with a real one.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Answer:
    """One answer; `cut` closes the connection instead of, or in the middle of, the body."""

    status: int = 200
    body: object = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    cut: bool = False
    after_s: float = 0.0
    stream: tuple[bytes, ...] = ()
    """Pieces of a body without an end; then the connection is cut, or stays open."""


CUT = Answer(cut=True)


@dataclass
class Request:
    """What was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Scripted:
    """Answers in the given order, over any connection; the last answer is for all further ones."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.seen: list[Request] = []
        self.connections = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def hang_up(self) -> None:
        """Close all connections."""
        for writer in self._open:
            writer.close()

    def paths(self, method: str = "") -> list[str]:
        """Return what was asked for, in order."""
        return [seen.path for seen in self.seen if method in ("", seen.method)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._open.discard(writer)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append(Request(method, path, headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(answer.after_s)
        if answer.stream:
            writer.write(_head(answer.status, (*answer.headers, "Transfer-Encoding: chunked")))
            await _pieces(writer, answer.stream)
            if not answer.cut:
                await asyncio.sleep(60)
            return False
        if answer.cut:
            return False
        content = (
            answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        )
        writer.write(_head(answer.status, (*answer.headers, f"Content-Length: {len(content)}")))
        writer.write(content)
        return True


class Relay:
    """Passes bytes on to a server, and can cut all connections or refuse new ones."""

    def __init__(self, url: str) -> None:
        self._host, port = url.removeprefix("https://").split(":")
        self._port = int(port)
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refusing = False
        self.flowing = asyncio.Event()
        """Cleared: bytes are held back, as if the cable was pulled."""
        self.flowing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> int:
        """Reset all connections; return how many there were."""
        there = list(self._open)
        for writer in there:
            writer.transport.abort()
        return len(there) // 2

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self._host, self._port)
        self._open |= {writer, back}
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self.flowing.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            self._open.discard(target)
            target.transport.abort()


async def _pieces(writer: asyncio.StreamWriter, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(0.01)


def _head(status: int, headers: Iterable[str]) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", *headers, "", ""]).encode()
