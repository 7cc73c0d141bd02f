"""The Kubernetes client: CPU and memory per watched pod, and CPU per binding on a real server."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import msgspec

from bench.measure import Result
from mooring.kube.client import Client, Reader
from mooring.kube.credentials import Credentials
from mooring.kube.kubeconfig import load_kubeconfig
from mooring.kube.objects import Pod
from mooring.kube.resources import PODS
from mooring.kube.watch import Replaced, Watch
from tests.kube.plane import Parts, Plane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.kube.watch import Batch

COUNT, PAGE, BINDS, NODES = 20_000, 500, 2_000, 100


def run(prefixes: Sequence[str] = ()) -> Iterator[Result]:
    """Yield the results whose names begin with one of the prefixes; none: all."""
    if _wanted("kube.pod", prefixes):
        yield from _watching()
    if _wanted("kube.bind", prefixes):
        yield asyncio.run(_binding())


def _wanted(name: str, prefixes: Sequence[str]) -> bool:
    return not prefixes or any(p.startswith(name) or name.startswith(p) for p in prefixes)


def _watching() -> Iterator[Result]:
    pods = [msgspec.json.encode(pod(i)) for i in range(COUNT)]
    note = f"{COUNT:,} pods of {len(pods[0]):,} bytes, read and stored"
    lines = [b'{"type":"MODIFIED","object":%b}' % each for each in pods]
    taken = min(asyncio.run(_events(lines)) for _ in range(3))
    yield Result("kube.pod-event", taken / COUNT * 1e6, "µs", "lower", 50.0, note)
    taken = min(_listed(pods)[0] for _ in range(3))
    yield Result("kube.pod-listed", taken / COUNT * 1e6, "µs", "lower", None, note)
    tracemalloc.start()
    _, kept = _listed(pods)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    yield Result("kube.pod-memory", size / 1024, "KiB", "lower", None, note)


async def _events(lines: list[bytes]) -> float:
    """Return the CPU seconds for events that come twenty at a time."""
    store: dict[str, object] = {}

    def receive(batch: Batch[Pod]) -> None:
        assert not isinstance(batch, Replaced)
        for change in batch:
            store[change.object.metadata.uid] = change.object

    async with Client(Credentials("http://127.0.0.1:1")) as client:
        watch = Watch(client, PODS, Pod, receive)
        gc.collect()
        start = time.process_time()
        for at in range(0, len(lines), 20):
            watch._deliver(lines[at : at + 20])
        taken = time.process_time() - start
    assert len(store) == len(lines)
    return taken


def _listed(pods: list[bytes]) -> tuple[float, dict[str, object]]:
    """Return the CPU seconds for lists of all pods in pages, and what is stored of them."""
    pages = [
        b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % b",".join(pods[at : at + PAGE])
        for at in range(0, len(pods), PAGE)
    ]
    reader = Reader(Pod)
    gc.collect()
    start = time.process_time()
    store: dict[str, object] = {}
    for page in pages:
        for each in reader.page(page)[0]:
            store[each.metadata.uid] = each
    return time.process_time() - start, store


async def _binding() -> Result:
    """Bind pods on a real server, 64 at a time."""
    with Plane(Parts(controllers=False, audit=False)) as plane:
        plane.nodes(NODES)
        async with Client(load_kubeconfig([plane.kubeconfig])) as client:
            await _sixty_four(
                client.create(PODS, pod(i, waiting=True), "default") for i in range(BINDS)
            )
            notes = {"mooring.dev/devices": "0"}
            start, wall = time.process_time(), time.perf_counter()
            await _sixty_four(
                client.bind("default", f"train-{i}", f"node-{i % NODES}", annotations=notes)
                for i in range(BINDS)
            )
            taken, wall = time.process_time() - start, time.perf_counter() - wall
    note = f"{BINDS:,} bindings, 64 under way, {BINDS / wall:,.0f}/s"
    return Result("kube.bind-cpu", taken / BINDS * 1e3, "ms", "lower", 0.2, note)


async def _sixty_four(wishes: Iterator[Any]) -> None:
    async def work() -> None:
        for wish in wishes:
            await wish

    await asyncio.gather(*(work() for _ in range(64)))


# long: one literal
def pod(number: int, *, waiting: bool = False) -> dict[str, Any]:
    """Return a pod as a server sends it, with all that nobody here reads; or one to be created."""
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    container: dict[str, Any] = {
        "name": "main",
        "image": "train:v1",
        "resources": {"limits": amounts, "requests": amounts},
    }
    meta: dict[str, Any] = {
        "name": f"train-{number}",
        "labels": {"app": "train", "job-name": "train", "index": str(number)},
        "annotations": {"mooring.dev/queue": "research"},
    }
    spec: dict[str, Any] = {"schedulerName": "mooring", "containers": [container]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if waiting:
        return made
    meta |= {
        "namespace": "lab",
        "uid": f"6d9f8a7c-1f2e-4c3b-9a8d-{number:012d}",
        "resourceVersion": str(100_000 + number),
        "creationTimestamp": "2026-05-01T12:00:00Z",
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
        ],
        "managedFields": [
            {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {f"f:field{i}": {".": {}, "f:inner": {}} for i in range(20)}}}
        ],
    }  # fmt: skip
    container |= {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets"}],
    }
    spec |= {
        "nodeName": f"node-{number % 1000}",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
             "tolerationSeconds": 300}
        ],
        "volumes": [{"name": "token", "projected": {"sources": [], "defaultMode": 420}}],
    }  # fmt: skip
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
    return made | {"status": {"phase": "Running", "conditions": conditions}}
