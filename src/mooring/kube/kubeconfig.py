"""Kubeconfig files: several merged, one context of them, all mistakes at once."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

import yaml

from mooring.kube.credentials import (
    SERVICE_ACCOUNT,
    Credentials,
    check_address,
    in_cluster,
    load_certificate,
    tls_context,
)
from mooring.kube.logins import (
    EXEC_VERSIONS,
    CertificateFiles,
    CredentialsError,
    Login,
    Plugin,
    TokenFile,
    basic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_credentials(
    kubeconfig: str = "", context: str = "", environ: Mapping[str, str] | None = None
) -> Credentials:
    """Return the credentials that are meant: as told, else by $KUBECONFIG, pod or home folder."""
    environ = os.environ if environ is None else environ
    listed = kubeconfig or environ.get("KUBECONFIG", "")
    if listed:
        paths = [Path(path).expanduser() for path in listed.split(os.pathsep) if path]
        return load_kubeconfig(paths, context)
    home = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    if not context and environ.get("KUBERNETES_SERVICE_HOST") and not home.is_file():
        return in_cluster(environ, SERVICE_ACCOUNT)
    return load_kubeconfig([home], context)


def load_kubeconfig(paths: Sequence[Path], context: str = "") -> Credentials:
    """Return the credentials of one context (the current one by default) of merged files."""
    merged = _merge(paths)
    files = ", ".join(map(str, paths))
    name = context or merged.current
    if not name:
        raise CredentialsError(
            f"{files}: current-context: not set: choose one of {_names(merged.contexts)}"
        )
    chosen = merged.pick("contexts", name, "current-context" if not context else "--context")
    cluster = merged.pick("clusters", chosen.text("cluster"), f"{chosen.where}.cluster")
    user_name = chosen.text("user")
    user = (
        merged.pick("users", user_name, f"{chosen.where}.user")
        if user_name
        else _Part({}, Path(), "", cluster.problems)
    )
    made = _credentials(cluster, user)
    made.namespace = chosen.text("namespace") or "default"
    if cluster.problems:
        raise CredentialsError(*cluster.problems)
    return made


@dataclass
class _Part:
    """One entry of a file: a cluster, a user or a context."""

    values: dict[str, Any]
    folder: Path
    """Paths in it are meant from here."""
    where: str
    problems: list[str]
    """Of the whole reading; added to."""

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        self.wrong(key, f"{value!r} is not text: put it in quotes")
        return ""

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.wrong(key, f"{value!r} is neither true nor false")
        return False

    def path(self, key: str) -> Path | None:
        """Return the path of a file that must be there."""
        text = self.text(key)
        if not text:
            return None
        path = self.folder / Path(text).expanduser()
        if not path.is_file():
            self.wrong(key, f"{path}: no such file: write it again, or make it")
        return path

    def data(self, key: str) -> bytes | None:
        """Return what `key-data` holds or else what the file of `key` holds."""
        text = self.text(f"{key}-data")
        if text:
            try:
                return base64.b64decode("".join(text.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                self.wrong(f"{key}-data", f"not base64 ({error}): encode the PEM file")
                return None
        path = self.path(key)
        try:
            return path.read_bytes() if path and path.is_file() else None
        except OSError as error:
            self.wrong(key, f"cannot be read: {error}")
            return None

    def part(self, key: str) -> _Part | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(key, "not a map of fields")
            return None
        return _Part(value, self.folder, f"{self.where}.{key}", self.problems)

    def wrong(self, key: str, what: str) -> None:
        self.problems.append(f"{self.where}.{key}: {what}")


@dataclass
class _Merged:
    """Files in one: of two entries with the same name the first is taken."""

    current: str = ""
    clusters: dict[str, _Part] = field(default_factory=dict)
    users: dict[str, _Part] = field(default_factory=dict)
    contexts: dict[str, _Part] = field(default_factory=dict)
    files: str = ""

    def pick(self, kind: str, name: str, asked_by: str) -> _Part:
        parts: dict[str, _Part] = getattr(self, kind)
        found = parts.get(name)
        if found is None:
            raise CredentialsError(
                f"{asked_by}: {name!r} is not one of the {kind} in {self.files}: {_names(parts)}"
            )
        return found


def _merge(paths: Sequence[Path]) -> _Merged:
    there = [path for path in paths if path.is_file()]
    files = ", ".join(map(str, paths))
    if not there:
        raise CredentialsError(
            f"{files or 'no kubeconfig file'}: no such file: set KUBECONFIG, or give --kubeconfig"
        )
    merged = _Merged(files=files)
    problems: list[str] = []
    for path in there:
        _add_file(merged, path, problems)
    if problems:
        raise CredentialsError(*problems)
    return merged


def _add_file(merged: _Merged, path: Path, problems: list[str]) -> None:
    try:
        # The C loader, as everywhere.
        tree = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problems.append(f"{path}: cannot be read: {error}")
        return
    if tree is None:
        return
    if not isinstance(tree, dict):
        problems.append(f"{path}: not a kubeconfig file: it must be a map of fields")
        return
    top = _Part(tree, path.parent, str(path), problems)
    merged.current = merged.current or top.text("current-context")
    for kind, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        entries = tree.get(kind) or []
        if not isinstance(entries, list):
            top.wrong(kind, "not a list")
            continue
        for place, entry in enumerate(entries):
            where = f"{path}: {kind}[{place}]"
            _add_entry(getattr(merged, kind), entry, inner, _Part({}, path.parent, where, problems))


def _add_entry(into: dict[str, _Part], entry: object, inner: str, frame: _Part) -> None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        frame.wrong("name", "missing or not text: every entry has a name")
        return
    values = entry.get(inner) or {}
    if not isinstance(values, dict):
        frame.wrong(inner, "not a map of fields")
        return
    into.setdefault(
        entry["name"], _Part(values, frame.folder, f"{frame.where}.{inner}", frame.problems)
    )


def _credentials(cluster: _Part, user: _Part) -> Credentials:
    user.problems = cluster.problems
    server = cluster.text("server")
    mistake = check_address(server)
    if mistake:
        cluster.wrong("server", mistake)
    insecure = cluster.flag("insecure-skip-tls-verify")
    authority = cluster.data("certificate-authority")
    if insecure and authority:
        cluster.wrong("insecure-skip-tls-verify", "true beside a certificate-authority: leave one")
    login, certificate, header = _login(user, cluster)
    proxy = _proxy(cluster, server)
    if cluster.problems:
        raise CredentialsError(*cluster.problems)
    tls = None
    if server.startswith("https"):
        where = f"{cluster.where}.certificate-authority"
        tls = tls_context(authority=authority, insecure=insecure, where=where)
        if certificate:
            load_certificate(tls, *certificate, where=f"{user.where}.client-certificate")
    made = Credentials(server, tls=tls, login=login)
    made.header = header
    made.server_name = cluster.text("tls-server-name") or None
    made.proxy = proxy
    return made


def _login(user: _Part, cluster: _Part) -> tuple[Login | None, tuple[bytes, bytes] | None, str]:
    """Return what renews itself, a certificate that does not, and a header that does not."""
    header = ""
    token, token_file = user.text("token"), user.path("tokenFile")
    if token:
        header = f"Bearer {token}"
    elif user.text("username"):
        header = basic(user.text("username"), user.text("password"))
    if user.values.get("auth-provider") is not None:
        user.wrong("auth-provider", "no longer part of Kubernetes: use an exec plugin")
    certificate, key = user.data("client-certificate"), user.data("client-key")
    if bool(certificate) != bool(key):
        lacking = "client-key" if certificate else "client-certificate"
        user.wrong(lacking, "missing: a certificate and its key go together")
    both = (certificate, key) if certificate and key else None
    plugin = user.part("exec")
    if plugin is not None and not header and token_file is None:
        return _plugin(plugin, cluster), both, header
    if token_file is not None:
        return TokenFile(token_file), both, header
    files = user.path("client-certificate"), user.path("client-key")
    if both and all(files) and not user.text("client-certificate-data"):
        return CertificateFiles(*files, header), None, header  # type: ignore[arg-type]
    return None, both, header


def _plugin(part: _Part, cluster: _Part) -> Plugin:
    version = part.text("apiVersion")
    if version not in EXEC_VERSIONS:
        part.wrong("apiVersion", f"{version!r} is not known: {' or '.join(EXEC_VERSIONS)}")
    command = part.text("command")
    if not command:
        part.wrong("command", "missing: the program to run")
    elif os.sep in command:
        command = str(part.folder / command)
    if part.text("interactiveMode") == "Always":
        part.wrong("interactiveMode", "Always: nobody is there to answer: use another way")
    args = part.values.get("args") or []
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        part.wrong("args", "not a list of texts: put each in quotes")
        args = []
    told = None
    if part.flag("provideClusterInfo"):
        told = {key: value for key, value in cluster.values.items() if key in _TOLD}
    return Plugin(
        part.where, command, tuple(args), _environ(part), version, part.text("installHint"), told
    )


_TOLD = (
    "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data",
    "proxy-url",
)  # fmt: skip
"""What a plugin may learn about the cluster."""


def _environ(part: _Part) -> dict[str, str]:
    entries = part.values.get("env") or []
    if not isinstance(entries, list):
        part.wrong("env", "not a list of name and value")
        return {}
    found = {}
    for place, entry in enumerate(entries):
        match entry:
            case {"name": str(name), "value": str(value)}:
                found[name] = value
            case _:
                part.wrong(f"env[{place}]", "not a name and a value, both texts")
    return found


def _proxy(cluster: _Part, server: str) -> str | None:
    """Return the proxy that the file or else the environment names."""
    proxy = cluster.text("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        cluster.wrong("proxy-url", f"{proxy!r}: only http:// and https:// are possible")
    if proxy or check_address(server):
        return proxy or None
    scheme, _, rest = server.partition("://")
    if proxy_bypass(rest.split("/")[0]):
        return None
    return getproxies().get(scheme)


def _names(parts: Mapping[str, object]) -> str:
    return ", ".join(sorted(parts)) or "there are none"
