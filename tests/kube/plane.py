"""A real Kubernetes control plane on loopback, for tests and benchmarks.

    with Plane() as plane:                     # etcd, kube-apiserver, kube-controller-manager
        plane.nodes(100, gpus=8)               # Ready and schedulable at once
        plane.api.create(pod("a", gpus=1))     # dicts in, dicts out, as administrator
        plane.wait_for(lambda: plane.pod("a")["spec"].get("nodeName"), what="a is bound")

`Plane(Parts(scheduler=True, gangs=True, jobset=True, lws=True))` starts more; `Parts()` says what
there is. In tests take the fixtures of `tests/kube/conftest.py`: `plane` is shared by all tests of
a worker, `namespace` is a fresh one that is wiped afterwards, with all nodes; `kubelet` runs pods.

- `plane.kubeconfig` is a file for the administrator. `plane.user("ann", ["lab"])` gives one for any
  user, by client certificate; `plane.service_account("lab", "bot")` one with a bearer token.
  Both take `server=` to go through a proxy that makes faults (`tests/kube/proxy.py`).
- `plane.api` is a blocking client (`tests/kube/api.py`): `get`, `items`, `create`, `create_all`,
  `apply`, `patch`, `delete`, each with a path. `plane.api_of(file)` is one for another user.
- `plane.apply(…)` takes dicts and paths of YAML files. `plane.crds("kuberay/rayclusters")`
  installs a CRD, of jobset, lws, training-operator or kuberay; the first two do it themselves.
- `plane.audit()` lists the writes that the server has seen, with user and user agent.
- `plane.add("kube-scheduler")` starts a part later (also jobset, lws);
  `plane.signal("kube-scheduler", SIGSTOP)`, `plane.restart("kube-apiserver")`; `plane.tail(name)`
  is the end of a log. `plane.spawn(name, argv)` starts a program that ends with the plane.
- Everything ends, and its files are removed, with the `with`, and also when the test process dies.

Differences from a production server: pods need no service account, and a new node is not tainted
before its controller has seen it. There is no kubelet: `tests/kube/kubelet.py` plays it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import signal
import socket
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from tests.kube.api import STRATEGIC, Api, ApiError, Object
from tests.kube.certificates import Authority, signing_key
from tests.kube.keeper import Keeper
from tools.controlplane import manifests, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_START_S = 60.0
_POLL_S = 0.02
_TRIES = 3
_TAIL_LINES = 30
_GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CRD = re.compile(r"^kind: CustomResourceDefinition$.*?^  name: (\S+)$", re.M | re.S)
_MOST_SHOWN = 40
_PORT_TAKEN = "address already in use"


# The label of the pods that the webhooks of a module want to see.
_OWN_PODS = {
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "lws": "leaderworkerset.sigs.k8s.io/name",
}


class StartError(Exception):
    """A program of the plane did not start; the text has the end of its log."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a plane has beside etcd and kube-apiserver."""

    controllers: bool = True
    scheduler: bool = False
    gangs: bool = False  # the feature gates of the upstream gang API, everywhere
    jobset: bool = False
    lws: bool = False
    audit: bool = True  # writes are recorded, see Plane.audit


class Plane:
    """A control plane with TLS and RBAC on free ports of 127.0.0.1."""

    def __init__(self, parts: Parts = Parts()) -> None:  # noqa: B008 - it is frozen
        self.parts = parts
        self._started = False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- life

    def start(self) -> Self:
        """Start everything and return when it works."""
        memory = Path("/dev/shm")
        place = memory if os.access(memory, os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="mooring-plane-", dir=place))
        self._keeper = Keeper(self.folder)
        self._started = True
        self._argv: dict[str, tuple[list[str], dict[str, str]]] = {}
        try:
            self._start_server()
            for name, wanted in _wanted(self.parts):
                if wanted:
                    self.add(name)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End everything and remove its files."""
        if self._started:
            self._started = False
            if hasattr(self, "api"):
                self.api.close()
            self._keeper.stop()

    def spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
        """Start a program that ends with the plane; its output is what `tail(name)` shows."""
        self._argv[name] = [str(word) for word in argv], dict(os.environ if env is None else env)
        return self._keeper.start(name, self._argv[name][0], self.log(name), self._argv[name][1])

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a program of the plane; SIGKILL waits for its end."""
        self._keeper.signal(name, number)

    def ended(self, name: str) -> int | None:
        """Return the exit code of a program of the plane, or none while it runs."""
        return self._keeper.ended(name)

    def restart(self, name: str) -> None:
        """Kill a program of the plane and start it again, as it was."""
        self.signal(name, signal.SIGKILL)
        argv, env = self._argv[name]
        self._keeper.start(name, argv, self.log(name), env)
        if name == "kube-apiserver":
            self._until(name, lambda: self.api.get("/readyz"))

    def log(self, name: str) -> Path:
        """Return the file with the output of a program."""
        return self.folder / f"{name}.log"

    def tail(self, name: str) -> str:
        """Return the end of the output of a program."""
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(lines[-_TAIL_LINES:])

    # --- who one is

    def user(self, name: str, groups: Sequence[str] = (), server: str | None = None) -> Path:
        """Return a kubeconfig for a user with groups; nothing need be done on the server."""
        certificate, key = self._authority.client(name, groups)
        secrets = {
            "client-certificate-data": _base64(certificate),
            "client-key-data": _base64(key),
        }
        return self._write_kubeconfig(certificate.stem, secrets, server)

    def service_account(self, namespace: str, name: str, server: str | None = None) -> Path:
        """Return a kubeconfig with a token of a service account, which is made if need be."""
        return self._write_kubeconfig(
            f"{namespace}-{name}", {"token": self.token(namespace, name)}, server
        )

    def token(self, namespace: str, name: str) -> str:
        """Return a bearer token of a service account, which is made if need be."""
        account = {"name": name, "namespace": namespace}
        self.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token: str = self.api.request("POST", path, asked)["status"]["token"]
        return token

    def certificate(self, name: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Return the files of a client certificate and its key for a user with groups."""
        return self._authority.client(name, groups)

    def server_certificate(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate and its key for a further server on 127.0.0.1."""
        return self._authority.server(name)

    def api_of(self, kubeconfig: Path) -> Api:
        """Return a blocking client for the user of a kubeconfig; close it after use."""
        config = json.loads(kubeconfig.read_text())
        server = config["clusters"][0]["cluster"]["server"]
        user = config["users"][0]["user"]
        if "token" in user:
            return Api(server, self.ca, token=user["token"])
        files = (kubeconfig.with_suffix(".crt"), kubeconfig.with_suffix(".key"))
        for file, what in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
            file.write_bytes(base64.b64decode(user[what]))
        return Api(server, self.ca, files)

    # --- what is in it

    def apply(self, *things: Object | Path) -> None:
        """Create or change objects: dicts, or paths of files or of folders with YAML."""
        for thing in things:
            documents = [thing] if isinstance(thing, dict) else _documents(thing)
            for document in documents:
                self.api.apply(document)

    def crds(self, *families: str) -> None:
        """Install the CRDs of modules, and wait until they serve.

        `jobset` are all of a module; `kuberay/rayclusters` is one, for large ones take seconds.
        """
        names = []
        for wanted in families:
            family, _, only = wanted.partition("/")
            for file in sorted(manifests(family).glob(f"*{only}.yaml")):
                text = file.read_text("utf-8")
                if found := _CRD.search(text):
                    names.append(found[1])
                    self._post_once(_CRDS, text)
        for name in names:
            self.wait_for(partial(self._serves, name), what=f"{name} is served")

    def nodes(
        self,
        count: int,
        gpus: int = 8,
        labels: Mapping[str, str] | Callable[[int], Mapping[str, str]] | None = None,
        **more: Any,
    ) -> list[str]:
        """Make Ready nodes named `node-0`…; `labels` may depend on the index. See `node`."""
        prefix = more.pop("prefix", "node-")
        made = [
            node(f"{prefix}{i}", gpus, labels(i) if callable(labels) else labels, **more)
            for i in range(count)
        ]
        return [str(thing["metadata"]["name"]) for thing in self.api.create_all(made)]

    def set_ready(self, name: str, ready: bool) -> None:
        """Let a node be lost, or come back: its Ready condition, from which taints follow.

        NoSchedule comes at once, NoExecute within 2 s, but not while every node is lost. Pods stand
        that for 300 s unless their tolerations say otherwise.
        """
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "reason": "Test"}
        change = {"status": {"conditions": [condition]}}
        self.api.request("PATCH", f"/api/v1/nodes/{name}/status", change, STRATEGIC)

    def pod(self, name: str, namespace: str = "default") -> Object:
        """Return a pod."""
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def pods(self, namespace: str | None = None, **query: object) -> list[Object]:
        """Return the pods of a namespace, or of all."""
        where = f"/namespaces/{namespace}" if namespace else ""
        return self.api.items(f"/api/v1{where}/pods", **query)

    def wait_for(
        self, predicate: Callable[[], object], timeout: float = 15, what: str = "it happens"
    ) -> Any:
        """Return what the predicate returns once it is true; else fail, and show the pods."""
        end = time.monotonic() + timeout
        while True:
            try:
                if result := predicate():
                    return result
                problem = ""
            except ApiError as error:
                problem = f" ({error})"
            if time.monotonic() > end:
                raise AssertionError(
                    f"waited {timeout} s in vain until {what}{problem}\n{self.shown()}"
                )
            time.sleep(_POLL_S)

    def shown(self, namespace: str | None = None) -> str:
        """Return the pods in words, for a message."""
        pods = self.pods(namespace)
        lines = [_in_words(pod) for pod in pods[:_MOST_SHOWN]]
        return "\n".join([f"{len(pods)} pods:", *lines])

    def wipe(self, *namespaces: str) -> None:
        """Remove namespaces with all pods in them, and all nodes; wait until pods are gone."""
        for namespace in namespaces:
            self.api.delete(f"/api/v1/namespaces/{namespace}")
        self.empty(*namespaces)

    def empty(self, *namespaces: str) -> None:
        """Remove all pods in namespaces, and all nodes; wait until pods are gone."""
        for namespace in namespaces:
            self.wait_for(partial(self._emptied, namespace), 60, f"{namespace} is empty")
        self.api.delete("/api/v1/nodes")

    def audit(self, user: str = "", agent: str = "") -> list[Object]:
        """Return the writes that the server has answered, in order, of a user or user agent."""
        log = self.folder / "audit.log"
        lines = log.read_text().splitlines() if log.exists() else []
        events = [json.loads(line) for line in lines]
        return [
            event
            for event in events
            if user in event["user"]["username"] and agent in event.get("userAgent", "")
        ]

    # --- the parts

    def _start_server(self) -> None:
        self._authority = Authority(self.folder)
        self.ca = self._authority.file
        self._account_key = signing_key(self.folder / "accounts.key")
        certificate = self._authority.client("admin", ["system:masters"])
        serving = self._authority.server("server")
        for _ in range(_TRIES):
            etcd, peer, port = free_ports(3)
            self.url = f"https://127.0.0.1:{port}"
            self.api = Api(self.url, self.ca, certificate)
            self.spawn("etcd", self._etcd(etcd, peer), {})
            self.spawn("kube-apiserver", self._apiserver(port, etcd, serving), {})
            if self._until("kube-apiserver", lambda: self.api.get("/readyz"), "etcd"):
                break
            self.api.close()
            said = f"{self.tail('etcd')}\n\n{self.tail('kube-apiserver')}"
            if _PORT_TAKEN not in said:
                raise StartError(said)
        else:
            raise StartError("other processes take all ports")
        self.kubeconfig = self.user("admin", ["system:masters"])

    def add(self, name: str) -> None:
        """Start a further program: kube-scheduler, kube-controller-manager, jobset or lws."""
        if name in _OWN_PODS:
            self._start_operator(name)
            return
        (port,) = free_ports(1)
        flags = self._scheduler() if name == "kube-scheduler" else self._controllers()
        self.spawn(name, [str(program(name)), *self._common(port), *flags], {})
        probe = Api(f"https://127.0.0.1:{port}", self.ca)
        try:
            if not self._until(name, partial(probe.get, "/healthz")):
                raise StartError(self.tail(name))
        finally:
            probe.close()

    def _start_operator(self, family: str) -> None:
        """Start the controller of JobSet or LeaderWorkerSet, its webhooks on loopback."""
        self.crds(family)
        webhooks, health = free_ports(2)
        folder = self.folder / family
        folder.mkdir()
        for file, name in zip(self._authority.server(family), ("tls.crt", "tls.key"), strict=True):
            file.rename(folder / name)
        config = folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": f"config.{family}.x-k8s.io/v1alpha1",
                    "kind": "Configuration",
                    "leaderElection": {"leaderElect": False},
                    "internalCertManagement": {"enable": False},
                    "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(folder)},
                    "metrics": {"bindAddress": "0"},
                    "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
                }
            )
        )
        env = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(folder)}
        self.spawn(family, [str(program(family)), f"--config={config}"], env)
        probe = Api(f"https://127.0.0.1:{webhooks}", self.ca)
        try:
            # Any answer will do, a refusal too: the webhooks listen.
            if not self._until(family, partial(_answers, probe)):
                raise StartError(self.tail(family))
        finally:
            probe.close()
        self.apply(*_webhooks(family, f"https://127.0.0.1:{webhooks}", self.ca))

    def _etcd(self, port: int, peer: int) -> list[str]:
        url, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
        return [
            str(program("etcd")),
            f"--data-dir={self.folder}/etcd-{port}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--quota-backend-bytes=8589934592",
            "--unsafe-no-fsync",
            "--log-level=error",
        ]

    def _apiserver(self, port: int, etcd: int, serving: tuple[Path, Path]) -> list[str]:
        flags = [
            str(program("kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={serving[0]}",
            f"--tls-private-key-file={serving[1]}",
            f"--client-ca-file={self.ca}",
            f"--cert-dir={self.folder}/server",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._account_key}",
            f"--service-account-signing-key-file={self._account_key}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--allow-privileged=true",
            # tests/kube/proxy.py may speak for others.
            f"--requestheader-client-ca-file={self.ca}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]
        if self.parts.gangs:
            flags.append(f"--feature-gates={_GATES}")
            flags.append("--runtime-config=scheduling.k8s.io/v1beta1=true")
        if self.parts.audit:
            policy = self.folder / "audit-policy.json"
            policy.write_text(json.dumps(_AUDIT_POLICY))
            flags.append(f"--audit-policy-file={policy}")
            flags.append(f"--audit-log-path={self.folder}/audit.log")
        return flags

    def _controllers(self) -> list[str]:
        return [
            f"--service-account-private-key-file={self._account_key}",
            f"--root-ca-file={self.ca}",
            "--use-service-account-credentials=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--node-monitor-grace-period=87600h",
            "--node-monitor-period=1s",
            "--node-eviction-rate=100",
            "--secondary-node-eviction-rate=100",
        ]

    def _scheduler(self) -> list[str]:
        return ["--kube-api-qps=5000", "--kube-api-burst=5000"]

    def _common(self, port: int) -> list[str]:
        certificate, key = self._authority.server(f"server-{port}")
        gates = [f"--feature-gates={_GATES}"] if self.parts.gangs else []
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            *gates,
        ]

    def _until(self, name: str, works: Callable[[], object], *others: str) -> bool:
        """Wait until a program works; tell whether it did before one of them ended."""
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            try:
                works()
            except (OSError, ApiError):
                pass
            else:
                return True
            if any(self.ended(other) is not None for other in (name, *others)):
                return False
            time.sleep(_POLL_S)
        return False

    # --- small steps

    def _write_kubeconfig(self, name: str, user: Object, server: str | None) -> Path:
        cluster = {
            "server": server or self.url,
            "certificate-authority-data": _base64(self.ca),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        }
        descriptor, file = tempfile.mkstemp(".kubeconfig", f"{name}-", self.folder)
        with open(descriptor, "w", encoding="utf-8") as out:
            json.dump(config, out)
        return Path(file)

    def _post_once(self, path: str, text: str) -> None:
        try:
            self.api.request("POST", path, text.encode(), "application/yaml")
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _serves(self, crd: str) -> bool:
        """Tell whether a CRD is served: it is not yet when it says that it is established."""
        found = self.api.get(f"{_CRDS}/{crd}")
        conditions = found.get("status", {}).get("conditions") or []
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return False
        group, kind = found["spec"]["group"], found["spec"]["names"]["kind"]
        served = [version["name"] for version in found["spec"]["versions"] if version["served"]]
        return all(kind in self._kinds(f"/apis/{group}/{version}") for version in served)

    def _kinds(self, path: str) -> set[str]:
        try:
            return {each["kind"] for each in self.api.get(path)["resources"]}
        except ApiError as error:
            if error.status != 404:
                raise
            return set()

    def _emptied(self, namespace: str) -> bool:
        path = f"/api/v1/namespaces/{namespace}/pods"
        if not (left := self.api.items(path)):
            return True
        self.api.delete(path, gracePeriodSeconds=0)
        for pod in left:
            if pod["metadata"].get("finalizers"):
                self.api.patch(
                    f"{path}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}}
                )
        return False


def node(
    name: str,
    gpus: int = 8,
    labels: Mapping[str, str] | None = None,
    *,
    amounts: Mapping[str, str] | None = None,
    taints: Iterable[Object] = (),
) -> Object:
    """Return a Ready node: 64 CPUs, 512 GiB, 110 pods and GPUs, unless `amounts` says else."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110"} | dict(amounts or {})
    if gpus:
        capacity.setdefault("nvidia.com/gpu", str(gpus))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
        },
    }


def pod(
    name: str,
    gpus: int = 0,
    *,
    namespace: str = "default",
    scheduler: str = "mooring",
    **more: Any,
) -> Object:
    """Return a pod: `more` is `labels`, `annotations`, `requests`, and fields of its spec."""
    metadata: Object = {"name": name, "namespace": namespace}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | {
        "spec": pod_spec(gpus, scheduler, **more)
    }


def pod_spec(gpus: int = 0, scheduler: str = "mooring", **more: Any) -> Object:
    """Return the spec of a pod with one container, for a pod or the template of a job."""
    amounts = {"cpu": "1", "memory": "1Gi"} | more.pop("requests", {})
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {"schedulerName": scheduler, "containers": [container]} | more


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody has, outside the range of outgoing connections."""
    drawn = random.SystemRandom()
    ports: list[int] = []
    while len(ports) < count:
        port = drawn.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if port not in ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "nonResourceURLs": ["*"]},
        {"level": "Metadata"},
    ],
}


def _wanted(parts: Parts) -> list[tuple[str, bool]]:
    return [
        ("kube-controller-manager", parts.controllers),
        ("kube-scheduler", parts.scheduler),
        ("jobset", parts.jobset),
        ("lws", parts.lws),
    ]


def _answers(probe: Api) -> None:
    with contextlib.suppress(ApiError):
        probe.get("/")


def _webhooks(family: str, url: str, ca: Path) -> list[Object]:
    """Return the webhook configurations of a module, pointed at a server on loopback."""
    found = _documents(manifests(family) / "manifests.yaml")
    for document in found:
        document["metadata"]["name"] = f"{family}-{document['metadata']['name']}"
        for webhook in document["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": _base64(ca)}
            if any("pods" in rule["resources"] for rule in webhook["rules"]):
                exists = {"key": _OWN_PODS[family], "operator": "Exists"}
                webhook["objectSelector"] = {"matchExpressions": [exists]}
    return found


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _documents(path: Path) -> list[Object]:
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [
        document
        for file in files
        for document in yaml.load_all(file.read_text("utf-8"), yaml.CSafeLoader)
        if document
    ]


def _in_words(pod: Object) -> str:
    status = pod.get("status", {})
    conditions = [
        f"{c['type']}={c['status']} {c.get('reason', '')} {c.get('message', '')}".strip()
        for c in status.get("conditions", [])
    ]
    leaving = " leaving" if "deletionTimestamp" in pod["metadata"] else ""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    where = pod["spec"].get("nodeName", "nowhere")
    return f"  {name}: {status.get('phase')}{leaving} on {where}; {'; '.join(conditions)}"
