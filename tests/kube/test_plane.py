"""The test control plane itself: real programs, real rights, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kube.api import Api, ApiError, Object
from tests.kube.plane import Parts, Plane, StartError, pod, pod_spec

if TYPE_CHECKING:
    from tests.kube.kubelet import Kubelet

ROOT = Path(__file__).parents[2]


def test_the_server_is_the_pinned_one(plane: Plane) -> None:
    pins = (ROOT / "tools/controlplane.d/kubernetes/go.mod").read_text()
    assert f"k8s.io/kubernetes {plane.api.get('/version')['gitVersion']} " in pins


def test_nodes_are_ready_and_stay_so(plane: Plane, namespace: str) -> None:
    assert plane.nodes(100, gpus=4, labels=lambda i: {"rack": f"r{i % 5}"})[7] == "node-7"
    nodes = plane.api.items("/api/v1/nodes")
    assert len(nodes) == 100
    assert all("taints" not in node["spec"] for node in nodes)
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"4"}
    assert len(plane.api.items("/api/v1/nodes", labelSelector="rack=r3")) == 20


def test_kube_scheduler_binds_and_the_kubelet_runs_and_ends(
    kube_scheduler: Plane, namespace: str, kubelet: Kubelet
) -> None:
    plane = kube_scheduler
    plane.nodes(3, gpus=2)
    notes: dict[str, dict[str, str]] = {f"long-{i}": {} for i in range(4)} | {
        "short": {"test/run-seconds": "0.1"},
        "wrong": {"test/run-seconds": "0.1", "test/ends-as": "Failed"},
    }
    for name, note in notes.items():
        plane.api.create(
            pod(
                *(name, 1),
                namespace=namespace,
                scheduler="default-scheduler",
                annotations=note,
                restartPolicy="Never",
            )
        )

    def phases() -> dict[str, str]:
        return {p["metadata"]["name"]: p["status"]["phase"] for p in plane.pods(namespace)}

    ends = {f"long-{i}": "Running" for i in range(4)} | {"short": "Succeeded", "wrong": "Failed"}
    plane.wait_for(lambda: phases() == ends, what="all have run")
    assert len(kubelet.ran) == 6
    plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/long-0")
    plane.wait_for(lambda: "long-0" not in phases(), what="long-0 is gone")


def test_a_job_is_run_to_its_end(kube_scheduler: Plane, namespace: str, kubelet: Kubelet) -> None:
    plane = kube_scheduler
    plane.nodes(1)
    spec = pod_spec(1, "default-scheduler", restartPolicy="Never")
    template = {"metadata": {"annotations": {"test/run-seconds": "0.2"}}, "spec": spec}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": namespace},
        "spec": {"completions": 3, "parallelism": 3, "template": template},
    }
    plane.api.create(job)
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/j"
    plane.wait_for(lambda: plane.api.get(path)["status"].get("succeeded") == 3, what="j succeeds")


def test_a_lost_node_is_tainted_and_runs_nothing(
    plane: Plane, namespace: str, kubelet: Kubelet
) -> None:
    plane.nodes(3)
    plane.set_ready("node-0", False)

    def taints() -> int:
        return len(plane.api.get("/api/v1/nodes/node-0")["spec"].get("taints", []))

    plane.wait_for(lambda: taints() == 2, what="node-0 is tainted")
    plane.api.create(pod("a", namespace=namespace, nodeName="node-0", tolerations=[ANY]))
    time.sleep(0.3)
    assert plane.pod("a", namespace)["status"]["phase"] == "Pending"
    plane.set_ready("node-0", True)
    plane.wait_for(lambda: taints() == 0, what="node-0 is back")
    plane.wait_for(lambda: plane.pod("a", namespace)["status"]["phase"] == "Running", what="a runs")


ANY = {"operator": "Exists"}


def test_a_job_set_gets_its_pods(jobset: Plane, namespace: str, kubelet: Kubelet) -> None:
    spec = {"completions": 2, "parallelism": 2, "template": {"spec": pod_spec(1, **NEVER)}}
    made = jobset.api.create(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": namespace},
            "spec": {
                "replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": spec}}],
            },
        }
    )
    assert made["spec"]["network"], "its webhook has filled in what was left out"
    pods = jobset.wait_for(lambda: all_of(jobset, namespace, 4), what="js has four pods")
    labels = [pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"] for pod in pods]
    assert sorted(labels) == ["0", "0", "1", "1"]


def test_a_leader_worker_set_gets_its_pods(lws: Plane, namespace: str, kubelet: Kubelet) -> None:
    lws.nodes(1)
    template = {"spec": pod_spec(1, nodeName="node-0")}
    group = {"size": 3, "workerTemplate": template}
    lws.api.create(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "s", "namespace": namespace},
            "spec": {"replicas": 2, "leaderWorkerTemplate": group},
        }
    )
    pods = lws.wait_for(lambda: all_of(lws, namespace, 6), what="s has two groups of three")
    key = "leaderworkerset.sigs.k8s.io/worker-index"
    assert sorted(pod["metadata"]["labels"][key] for pod in pods) == sorted("001122")


def test_a_server_can_know_the_upstream_gangs(gang_plane: Plane, gang_namespace: str) -> None:
    plane = gang_plane
    plane.nodes(2, gpus=2)
    for name, size in (("fits", 4), ("large", 5)):
        plane.api.create(
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": gang_namespace},
                "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
            }
        )
        group = {"podGroupName": name}
        pods = [
            pod(
                f"{name}-{i}",
                1,
                namespace=gang_namespace,
                scheduler="default-scheduler",
                schedulingGroup=group,
            )
            for i in range(size)
        ]
        plane.api.create_all(pods)
        if name == "fits":
            plane.wait_for(lambda: len(bound(plane)) == 4, what="the gang that fits is bound")
    time.sleep(0.5)
    assert {name.partition("-")[0] for name in bound(plane)} == {"fits"}


def bound(plane: Plane) -> list[str]:
    return [p["metadata"]["name"] for p in plane.pods() if "nodeName" in p["spec"]]


@pytest.mark.parametrize(
    ("family", "kind", "version"),
    [
        ("training-operator/pytorchjobs", "PyTorchJob", "kubeflow.org/v1"),
        ("kuberay/rayclusters", "RayCluster", "ray.io/v1"),
    ],
)
def test_crds_are_served(plane: Plane, family: str, kind: str, version: str) -> None:
    plane.crds(family)
    assert kind in {found["kind"] for found in plane.api.get(f"/apis/{version}")["resources"]}


NEVER = {"restartPolicy": "Never"}


def all_of(plane: Plane, namespace: str, count: int) -> list[Object] | None:
    """Return the pods of a namespace once there are so many."""
    pods = plane.pods(namespace)
    return pods if len(pods) == count else None


def test_strangers_may_do_nothing_and_others_what_they_were_given(
    plane: Plane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "readers", "namespace": namespace},
            "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": ""},
            "subjects": [
                {"kind": "Group", "name": "lab", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "bot", "namespace": namespace},
            ],
        }
    )
    stranger = plane.api_of(plane.user("eve"))
    member = plane.api_of(plane.user("ann", ["lab"]))
    account = plane.api_of(plane.service_account(namespace, "bot"))
    try:
        with pytest.raises(ApiError, match="403"):
            stranger.items(path)
        for reader in (member, account):
            plane.wait_for(partial(may_list, reader, path), what="rights are known")
            with pytest.raises(ApiError, match="403"):
                reader.create(pod("a", namespace=namespace))
    finally:
        for api in (stranger, member, account):
            api.close()
    plane.wait_for(lambda: plane.audit(user="ann"), what="the attempt is on record")
    assert [event["verb"] for event in plane.audit(user="ann")] == ["create"]


def test_nothing_is_left_when_a_plane_stops() -> None:
    with Plane(Parts(controllers=False)) as plane:
        folder, url = plane.folder, plane.url
        pids = descendants(os.getpid())
        assert folder.exists()
        plane.api.get("/readyz")
    assert not folder.exists()
    gone = [pid for pid in pids if url.rpartition(":")[2] in command_line(pid)]
    assert gone == []


CRASH = """
import os, signal, sys, time
from tests.kube.plane import Plane
plane = Plane().start()
print(plane.folder, plane.url, flush=True)
time.sleep(600)
"""


def test_nothing_is_left_when_the_test_process_is_killed() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CRASH], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child, child.stdout:
        folder, _ = child.stdout.readline().split()
        pids = descendants(child.pid)
        assert len(pids) == 4, "the keeper, etcd, the server and the controllers"
        child.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while time.monotonic() < end and (Path(folder).exists() or any(map(command_line, pids))):
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert [command_line(pid) for pid in pids if command_line(pid)] == []


def test_a_program_that_does_not_start_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kube.plane.program", lambda name: "/bin/false")
    with pytest.raises(StartError), Plane():
        pass


def may_list(api: Api, path: str) -> bool:
    """Tell that a user has got rights: a refusal raises."""
    return api.items(path) == []


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    direct = [int(word) for file in children for word in file.read_text().split()]
    return direct + [below for child in direct for below in descendants(child)]


def command_line(pid: int) -> str:
    """Return how a process was started; empty if it is gone, or dead and not yet buried."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""
