"""Ways to get what shows who we are and does not last: files that rotate, and plugins."""

from __future__ import annotations

import asyncio
import base64
import math
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

EXEC_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_FILES_FRESH_S = 10.0
_PLUGIN_S = 60.0
_LONGEST_TEXT = 300


class CredentialsError(Exception):
    """No server, or no way to say who we are: all problems, each with file, field and fix."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown to the server, and for how long it is good."""

    header: str = ""
    fresh_s: float = math.inf
    certificate: tuple[bytes, bytes] | None = None
    """Certificate and key, in PEM form."""


class Login(Protocol):
    """A way to get something to show."""

    async def show(self) -> Shown:
        """Return what to show, newly got."""


@dataclass
class TokenFile:
    """A token in a file that somebody else renews."""

    path: Path
    last: str = ""

    async def show(self) -> Shown:
        """Return the token that is there now; the last one while the file is being replaced."""
        try:
            self.last = self.path.read_text().strip() or self.last
        except (OSError, UnicodeDecodeError) as error:
            if not self.last:
                raise CredentialsError(f"{self.path}: cannot be read: {error}") from error
        if not self.last:
            raise CredentialsError(f"{self.path}: empty: put a token into it")
        return Shown(f"Bearer {self.last}", _FILES_FRESH_S)


@dataclass
class CertificateFiles:
    """A client certificate and its key in files that somebody else renews."""

    certificate: Path
    key: Path
    header: str = ""
    last: tuple[bytes, bytes] | None = None

    async def show(self) -> Shown:
        """Return the certificate that is there now; the last one while files are replaced."""
        try:
            self.last = self.certificate.read_bytes(), self.key.read_bytes()
        except OSError as error:
            if self.last is None:
                raise CredentialsError(f"{error.filename}: cannot be read: {error}") from error
        return Shown(self.header, _FILES_FRESH_S, self.last)


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


@dataclass
class Plugin:
    """A program that gives a token or a certificate (an exec plugin of kubectl)."""

    where: str
    """File and field, for messages."""
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    version: str = EXEC_VERSIONS[0]
    hint: str = ""
    """What to say when the program is not there."""
    cluster: dict[str, Any] | None = None
    """What the program wants to know about the cluster, if it does."""

    async def show(self) -> Shown:
        """Run the program and return what it gives."""
        return self._read(await self._run())

    async def _run(self) -> bytes:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        told = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        environ = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": _text(told)}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                self.command, *self.args, env=environ,
                stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe,
            )  # fmt: skip
        except OSError as error:
            hint = f" {self.hint}" if self.hint else " install it, or write its whole path"
            raise CredentialsError(f"{self.where}.command: {error}:{hint}") from error
        try:
            async with asyncio.timeout(_PLUGIN_S):
                out, said = await process.communicate()
        except BaseException as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(error, TimeoutError):
                problem = f"{self.where}: {self.command} took longer than {_PLUGIN_S:.0f} s"
                raise CredentialsError(problem) from error
            raise
        if process.returncode:
            words = said.decode("utf-8", "replace").strip()[-_LONGEST_TEXT:]
            raise CredentialsError(
                f"{self.where}: {self.command} ended with {process.returncode}: {words}"
            )
        return out

    def _read(self, out: bytes) -> Shown:
        try:
            given = msgspec.json.decode(out, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._odd(f"not an ExecCredential ({error})") from error
        status = given.status
        if given.kind != "ExecCredential" or status is None:
            raise self._odd("not an ExecCredential with a status")
        if given.api_version != self.version:
            raise self._odd(f"apiVersion {given.api_version!r}, the file says {self.version!r}")
        certificate = status.client_certificate_data.encode(), status.client_key_data.encode()
        if not status.token and not all(certificate):
            raise self._odd("neither a token nor a certificate with its key")
        header = f"Bearer {status.token}" if status.token else ""
        return Shown(
            header, _left(status.expiration_timestamp), certificate if all(certificate) else None
        )

    def _odd(self, what: str) -> CredentialsError:
        return CredentialsError(f"{self.where}: {self.command} gave {what}: see its manual")


def basic(username: str, password: str) -> str:
    """Return the header for a name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _left(end: datetime | None) -> float:
    """Return the seconds until a moment of the wall clock, less a little for the way."""
    if end is None:
        return math.inf
    if end.tzinfo is None:
        end = end.replace(tzinfo=UTC)
    return max(0.0, (end - datetime.now(UTC)).total_seconds() - 5.0)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
