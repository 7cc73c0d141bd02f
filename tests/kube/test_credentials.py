"""Who we are: kubeconfig files as kubectl reads them, plugins, pods; mistakes with file and fix."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from mooring.kube.credentials import Credentials, in_cluster
from mooring.kube.kubeconfig import find_credentials, load_kubeconfig
from mooring.kube.logins import CredentialsError
from tests.kube.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
V1 = "client.authentication.k8s.io/v1"


def config(
    user: Object | None = None, cluster: Object | None = None, name: str = "home", **more: Any
) -> Object:
    """Return a file with one context."""
    server = {"server": "https://127.0.0.1:6443"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    } | more  # fmt: skip


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def header(credentials: Credentials) -> str:
    asyncio.run(credentials.refresh())
    return credentials.header


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_a_token_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config({"token": "secret"}))
    found = load_kubeconfig([path])
    assert found.server == "https://127.0.0.1:6443"
    assert found.header == "Bearer secret"
    assert found.fresh_until == math.inf
    assert found.namespace == "default"


def test_the_namespace_of_the_context_is_taken(tmp_path: Path) -> None:
    contexts = [
        {"name": "home", "context": {"cluster": "home", "user": "home", "namespace": "lab"}}
    ]
    path = write(tmp_path / "config", config(contexts=contexts))
    assert load_kubeconfig([path]).namespace == "lab"


def test_of_merged_files_the_first_wins_and_missing_ones_are_passed_over(tmp_path: Path) -> None:
    one = write(tmp_path / "one", config({"token": "first"}))
    two = write(tmp_path / "two", config({"token": "second"}))
    other = write(tmp_path / "other", config({"token": "third"}, name="away"))
    listed = ":".join(map(str, [tmp_path / "missing", one, two, other]))
    assert find_credentials(environ={"KUBECONFIG": listed}).header == "Bearer first"
    away = find_credentials(context="away", environ={"KUBECONFIG": listed})
    assert away.header == "Bearer third"


def test_a_context_may_take_its_user_from_another_file(tmp_path: Path) -> None:
    one = write(tmp_path / "one", config({"token": "mine"}) | {"users": []})
    two = write(tmp_path / "two", {"users": [{"name": "home", "user": {"token": "theirs"}}]})
    assert load_kubeconfig([one, two]).header == "Bearer theirs"


def test_the_home_folder_is_looked_at_last(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config({"token": "at home"}))
    assert find_credentials(environ={"HOME": str(tmp_path)}).header == "Bearer at home"


def test_a_token_file_that_rotates_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config({"tokenFile": "token"}))
    token = write(tmp_path / "token", "one\n")  # meant from the folder of the config file
    found = load_kubeconfig([path])
    assert header(found) == "Bearer one"
    assert found.fresh_until < time.monotonic() + 60
    token.write_text("two\n")
    assert header(found) == "Bearer two"
    token.unlink()  # being replaced: the last one goes on
    assert header(found) == "Bearer two"


def test_name_and_password(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config({"username": "ann", "password": "x"}))
    shown = load_kubeconfig([path]).header.removeprefix("Basic ")
    assert base64.b64decode(shown) == b"ann:x"


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_from_a_file_or_inline(
    tmp_path: Path, authority: Authority, inline: bool
) -> None:
    certificate, key = authority.client("ann", ["lab"])
    user: Object = {"client-certificate": str(certificate), "client-key": str(key)}
    cluster: Object = {"certificate-authority": str(authority.file)}
    if inline:
        user, cluster = (
            {f"{k}-data": encoded(v) for k, v in part.items()} for part in (user, cluster)
        )
    found = load_kubeconfig([write(tmp_path / "config", config(user, cluster))])
    asyncio.run(found.refresh())
    assert found.ssl is not None
    assert found.ssl.get_ca_certs()


def encoded(path: str) -> str:
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def test_a_renewed_certificate_file_asks_for_new_connections(
    tmp_path: Path, authority: Authority
) -> None:
    def renew(name: str) -> None:
        for target, made in zip(("tls.crt", "tls.key"), authority.client(name, []), strict=True):
            (tmp_path / target).write_bytes(made.read_bytes())

    renew("ann")
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    found = load_kubeconfig([write(tmp_path / "config", config(user))])
    asyncio.run(found.refresh())
    asyncio.run(found.refresh())
    assert found.generation == 0
    renew("ben")
    asyncio.run(found.refresh())
    assert found.generation == 1


def plugin(tmp_path: Path, answers: list[Object] | str, **more: Any) -> Path:
    """Write a plugin that gives one answer after the other, and a file that names it."""
    program = tmp_path / "bin" / "login"
    told = answers if isinstance(answers, str) else json.dumps(answers)
    write(program, f"#!{sys.executable}\nTOLD = {told!r}\n" + PROGRAM)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    part = {"apiVersion": V1, "command": "bin/login", "interactiveMode": "Never"} | more
    return write(tmp_path / "config", config({"exec": part}))


PROGRAM = """
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
(here / "asked").write_text(os.environ["KUBERNETES_EXEC_INFO"])
(here / "said").write_text(" ".join(sys.argv[1:]) + os.environ.get("COLOUR", ""))
count = here / "count"
runs = int(count.read_text()) if count.exists() else 0
count.write_text(str(runs + 1))
try:
    answers = json.loads(TOLD)
except ValueError:
    sys.exit(TOLD)
print(json.dumps(answers[min(runs, len(answers) - 1)]))
"""


def answer(status: Object, version: str = V1) -> Object:
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def runs(tmp_path: Path) -> int:
    return int((tmp_path / "bin" / "count").read_text())


@pytest.mark.parametrize("version", [V1, V1 + "beta1"])
def test_a_plugin_is_told_and_asked(tmp_path: Path, version: str) -> None:
    more = {
        "apiVersion": version, "args": ["--as", "bot"], "provideClusterInfo": True,
        "env": [{"name": "COLOUR", "value": "red"}],
    }  # fmt: skip
    found = load_kubeconfig([plugin(tmp_path, [answer({"token": "t1"}, version)], **more)])
    assert header(found) == "Bearer t1"
    asked = json.loads((tmp_path / "bin" / "asked").read_text())
    assert asked["apiVersion"] == version
    assert asked["spec"]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert (tmp_path / "bin" / "said").read_text() == "--as botred"
    assert found.fresh_until == math.inf  # no end was given: until it is refused


def test_a_plugin_is_asked_again_when_its_answer_ends_or_is_refused(tmp_path: Path) -> None:
    statuses = [
        {"token": "old", "expirationTimestamp": "2020-01-01T00:00:00Z"},
        {"token": "new", "expirationTimestamp": "2999-01-01T00:00:00Z"},
        {"token": "newer"},
    ]
    found = load_kubeconfig([plugin(tmp_path, [answer(status) for status in statuses])])
    assert header(found) == "Bearer old"
    assert found.fresh_until <= time.monotonic()
    assert header(found) == "Bearer new"
    assert found.fresh_until > time.monotonic() + 3600

    async def sixty_are_refused() -> None:
        for _ in range(60):
            await found.rejected()

    asyncio.run(sixty_are_refused())
    assert found.header == "Bearer newer"
    assert runs(tmp_path) == 3


def test_a_plugin_may_give_a_certificate(tmp_path: Path, authority: Authority) -> None:
    both = [path.read_text() for path in authority.client("ann", [])]
    status = {"clientCertificateData": both[0], "clientKeyData": both[1]}
    found = load_kubeconfig([plugin(tmp_path, [answer(status)])])
    assert header(found) == ""
    assert found.generation == 0


def test_tls_and_proxy_fields(tmp_path: Path) -> None:
    cluster = {
        "insecure-skip-tls-verify": True, "tls-server-name": "api.example",
        "proxy-url": "http://127.0.0.1:3128",
    }  # fmt: skip
    found = load_kubeconfig([write(tmp_path / "config", config(cluster=cluster))])
    assert found.ssl is not None
    assert not found.ssl.check_hostname
    assert found.server_name == "api.example"
    assert found.proxy == "http://127.0.0.1:3128"


def test_a_pod_takes_its_service_account(tmp_path: Path, authority: Authority) -> None:
    write(tmp_path / "token", "one")
    write(tmp_path / "ca.crt", authority.file.read_text())
    write(tmp_path / "namespace", "mooring-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(environ, tmp_path)
    assert found.server == "https://[fd00::1]:443"
    assert found.namespace == "mooring-system"
    assert header(found) == "Bearer one"
    write(tmp_path / "token", "two")
    assert header(found) == "Bearer two"


def test_what_a_pod_lacks_is_all_said(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as caught:
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    assert len(caught.value.problems) == 3
    for word in ("KUBERNETES_SERVICE_PORT", "token: not there", "ca.crt: not there"):
        assert word in str(caught.value)


MISTAKES: dict[str, tuple[object, str]] = {
    "not yaml": ("a: [", "cannot be read"),
    "a list": ("- a", "must be a map"),
    "no context": (config() | {"current-context": ""}, "choose one of home"),
    "unknown context": (config() | {"current-context": "x"}, "'x' is not one of the contexts"),
    "unknown cluster": (config() | {"clusters": []}, "'home' is not one of the clusters"),
    "unknown user": (config() | {"users": []}, "'home' is not one of the users"),
    "clusters not a list": (config() | {"clusters": {"a": 1}}, "clusters: not a list"),
    "an entry without a name": (config() | {"users": [{"user": {}}]}, "users[0].name"),
    "no server": (config(cluster={"server": ""}), "clusters[0].cluster.server"),
    "a server without a scheme": (config(cluster={"server": "host:1"}), "write https://host:port"),
    "a number as token": (config({"token": 5}), "users[0].user.token: 5 is not text"),
    "authority missing": (config(cluster={"certificate-authority": "no.crt"}), "no such file"),
    "authority not base64": (
        config(cluster={"certificate-authority-data": "%%%"}), "authority-data: not base64"
    ),
    "authority not PEM": (
        config(cluster={"certificate-authority-data": "aGVsbG8="}), "not certificates in PEM form"
    ),
    "insecure beside an authority": (
        config(cluster={"certificate-authority-data": "aGk=", "insecure-skip-tls-verify": True}),
        "leave one",
    ),
    "insecure not a flag": (
        config(cluster={"insecure-skip-tls-verify": "yes"}), "neither true nor false"
    ),
    "certificate without key": (
        config({"client-certificate-data": "aGVsbG8="}), "client-key: missing"
    ),
    "certificate not PEM": (
        config({"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}),
        "client-certificate: not a certificate",
    ),
    "an auth provider": (config({"auth-provider": {"name": "gcp"}}), "use an exec plugin"),
    "a plugin of an old version": (
        config({"exec": {"apiVersion": V1 + "alpha1", "command": "x"}}), "exec.apiVersion"
    ),
    "a plugin without a command": (config({"exec": {"apiVersion": V1}}), "exec.command: missing"),
    "a plugin that wants to talk": (
        config({"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}}),
        "interactiveMode",
    ),
    "odd arguments": (
        config({"exec": {"apiVersion": V1, "command": "x", "args": [1]}}), "exec.args"
    ),
    "odd environment": (
        config({"exec": {"apiVersion": V1, "command": "x", "env": [{"name": "A"}]}}), "exec.env[0]"
    ),
    "a socks proxy": (config(cluster={"proxy-url": "socks5://x:1"}), "proxy-url"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    content, words = MISTAKES[name]
    path = write(tmp_path / "config", content)
    with pytest.raises(CredentialsError) as caught:
        load_kubeconfig([path])
    assert words in str(caught.value)
    if "is not one of" not in words:
        assert str(path) in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config({"token": 5}, {"server": "x", "proxy-url": "ftp://x"}))
    with pytest.raises(CredentialsError) as caught:
        load_kubeconfig([path])
    assert len(caught.value.problems) == 3


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"no such file: set KUBECONFIG"):
        find_credentials(environ={"HOME": str(tmp_path)})


BROKEN: dict[str, tuple[list[Object] | str, str]] = {
    "fails": ("no network", "ended with 1: no network"),
    "gives something else": ([{"kind": "Pod"}], "not an ExecCredential"),
    "gives another version": ([answer({"token": "x"}, V1 + "beta1")], "the file says"),
    "gives nothing": ([answer({})], "neither a token nor a certificate"),
    "gives half a certificate": ([answer({"clientCertificateData": "x"})], "neither a token"),
    "gives an odd date": (
        [answer({"token": "x", "expirationTimestamp": "soon"})], "not an ExecCredential"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_plugin_that_fails_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    answers, words = BROKEN[name]
    found = load_kubeconfig([plugin(tmp_path, answers)])
    with pytest.raises(CredentialsError) as caught:
        asyncio.run(found.refresh())
    assert words in str(caught.value)
    assert "users[0].user.exec" in str(caught.value)


def test_a_plugin_that_is_not_there_gives_its_hint(tmp_path: Path) -> None:
    path = plugin(tmp_path, [], command="bin/none", installHint="ask Ann for it")
    with pytest.raises(CredentialsError, match="ask Ann for it"):
        asyncio.run(load_kubeconfig([path]).refresh())
