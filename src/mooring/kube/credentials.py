"""Where the API server is and who we are: kubeconfig files, or the service account of a pod."""

from __future__ import annotations

import math
import os
import ssl
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mooring.kube.logins import CredentialsError, Login, Shown, TokenFile

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SERVICE_ACCOUNT", "Credentials", "CredentialsError", "in_cluster", "tls_context"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_BETWEEN_REFUSALS_S = 5.0
"""Who was refused is not asked again sooner: sixty requests that fail together ask once."""


class Credentials:
    """Where the server is and what to show it.

    `header` is the value of Authorization and good until `fresh_until` by the monotonic clock.
    `generation` counts client certificates: a new one needs new connections.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
        namespace: str = "default",
    ) -> None:
        self.server = server.rstrip("/")
        self.namespace = namespace
        self.ssl = tls
        self.server_name: str | None = None
        """The name that the server's certificate must have, if not that in the address."""
        self.proxy: str | None = None
        self.header = f"Bearer {token}" if token else ""
        self.generation = 0
        self.fresh_until = math.inf if login is None else -math.inf
        self._login = login
        self._certificate: tuple[bytes, bytes] | None = None
        self._refused_at = -math.inf

    async def refresh(self) -> None:
        """Get what is fresh from the file or the program that gives it."""
        if self._login is not None:
            self._take(await self._login.show())

    async def rejected(self) -> None:
        """Forget what the server has refused, and get another."""
        now = time.monotonic()
        if self._login is None or now - self._refused_at < _BETWEEN_REFUSALS_S:
            return
        self._refused_at = now
        await self.refresh()

    def _take(self, shown: Shown) -> None:
        self.fresh_until = time.monotonic() + shown.fresh_s
        self.header = shown.header
        certificate = shown.certificate
        if certificate is None or certificate == self._certificate:
            return
        if self.ssl is None:
            raise CredentialsError(f"{self.server}: a client certificate needs an https address")
        load_certificate(self.ssl, *certificate, where="the client certificate")
        self.generation += self._certificate is not None
        self._certificate = certificate


def in_cluster(
    environ: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT
) -> Credentials:
    """Return the credentials of a pod's service account."""
    environ = os.environ if environ is None else environ
    host, port = (environ.get(f"KUBERNETES_SERVICE_{what}", "") for what in ("HOST", "PORT"))
    problems = [
        f"KUBERNETES_SERVICE_{what} is not set: run in a pod, or give a kubeconfig file"
        for what, value in (("HOST", host), ("PORT", port))
        if not value
    ]
    problems += [
        f"{folder / name}: not there: set automountServiceAccountToken, or give a kubeconfig file"
        for name in ("token", "ca.crt")
        if not (folder / name).is_file()
    ]
    if problems:
        raise CredentialsError(*problems)
    host = f"[{host}]" if ":" in host else host
    try:
        namespace = (folder / "namespace").read_text().strip() or "default"
    except OSError:
        namespace = "default"
    tls = tls_context(authority=(folder / "ca.crt").read_bytes(), where=str(folder / "ca.crt"))
    login = TokenFile(folder / "token")
    return Credentials(f"https://{host}:{port}", tls=tls, login=login, namespace=namespace)


def tls_context(
    *, authority: bytes | None = None, insecure: bool = False, where: str = ""
) -> ssl.SSLContext:
    """Return a context that trusts an authority (the machine's own by default), or everybody."""
    context = ssl.create_default_context()
    # Authorities of clusters often lack the key usage that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authority.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
            raise CredentialsError(
                f"{where}: not certificates in PEM form ({error}): give the cluster's authority"
            ) from error
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes, where: str) -> None:
    """Show a client certificate in all connections to come."""
    # The library reads only files: private ones, and only for a moment.
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        paths = []
        for name, content in (("tls.crt", certificate), ("tls.key", key)):
            path = os.path.join(folder, name)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            paths.append(path)
        try:
            context.load_cert_chain(paths[0], paths[1], "")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise CredentialsError(
                f"{where}: not a certificate and its key in PEM form, without a password ({error})"
            ) from error


def check_address(server: str) -> str | None:
    """Return what is wrong with the address of a server."""
    try:
        parts = urlsplit(server)
        _ = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        return f"{server!r} is not an address: write https://host:port"
    return None
