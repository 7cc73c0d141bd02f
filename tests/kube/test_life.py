"""Stories on a real control plane: stop, standby, advisor, snapshot, journal, and the policy."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from mooring.cli.main import main
from tests.kube.live import HOME, condition, devices, job
from tests.kube.plane import pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.api import Object
    from tests.kube.live import Live
    from tests.kube.plane import Plane

HALVES = """
queues:
  - {name: a, quotas: [{resource: gpu, quota: 8}]}
  - {name: b, quotas: [{resource: gpu, quota: 8}]}
"""
MINE = """
queues:
  - {{name: private, namespaces: [{0}]}}
  - {{name: open}}
"""


def cli(*words: str | Path) -> str:
    """Return what a command of Mooring prints; it must go well."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([str(word) for word in words]) == 0, out.getvalue()
    return out.getvalue()


def replayed(live: Live) -> list[bool]:
    """Return of each life, in order, whether its journal gives the same plans again."""
    files = sorted(live.journals.glob("*.journal"))
    return [json.loads(cli("replay", "-o", "json", file))["same"] for file in files]


def asked(live: Live, path: str, name: str = "mooring") -> str:
    """Return what a process answers over HTTP."""
    with urllib.request.urlopen(f"http://127.0.0.1:{live.port(name)}{path}", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def holder(live: Live) -> str:
    """Return who has the lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/mooring"
    return str(live.plane.api.get(path)["spec"].get("holderIdentity") or "")


def test_a_graceful_stop_hands_the_lease_over_at_once(live: Live) -> None:
    """The standby has seen everything already: it leads within a moment, and goes on."""
    live.plane.nodes(2)
    live.start(identity="first")
    live.submit(job("train", 2, gpus=4), pod("wide", gpus=9))
    live.until_started("train", 2)
    live.until_says("wide", "Unschedulable")
    assert asked(live, "/healthz") == "ok\n"
    assert asked(live, "/readyz") == "ok: leader\n"
    numbers = dict(
        line.rsplit(" ", 1) for line in asked(live, "/metrics").splitlines() if line[0] != "#"
    )
    wanted = {
        "mooring_nodes": 2,
        "mooring_gpus": 16,
        "mooring_gpus_allocated": 8,
        "mooring_gpu_allocation_ratio": 0.5,
        "mooring_leader": 1,
        "mooring_synced": 1,
        'mooring_binds_total{outcome="bound"}': 2,
        "mooring_bind_latency_seconds_count": 2,
        'mooring_queue_running{queue="default"}': 1,
        'mooring_queue_waiting{queue="default"}': 1,
        'mooring_waiting{reason="Unschedulable"}': 1,
        "mooring_cycles_not_counted_total": 0,
    }
    assert {key: float(numbers[key]) for key in wanted} == wanted
    (journal,) = live.journals.glob("*.journal")
    told = json.loads(cli("measure", "-o", "json", journal))  # while it is written
    assert (told["name"], told["submitted"], told["started"]) == (journal.stem, 2, 1)
    live.start(name="second", identity="second")
    assert asked(live, "/readyz", "second") == "ok: standby\n"
    assert holder(live).startswith("first_")

    live.stop()

    assert not holder(live).startswith("first_"), "the lease is free at once"
    live.plane.wait_for(lambda: holder(live).startswith("second_"), 5, "the standby leads")
    live.submit(pod("next", gpus=1))
    live.until_bound("next")
    assert asked(live, "/readyz", "second") == "ok: leader\n"


def test_an_advisor_beside_kube_scheduler_writes_nothing_but_its_lease(
    live: Live, kube_scheduler: Plane
) -> None:
    """What it would do stands in its log; all that happens is what kube-scheduler does."""
    live.plane.nodes(2)
    before = len(live.plane.audit(agent="mooring"))
    live.start(HALVES, "--advisor", scheduler="default-scheduler")
    a, b = ({"mooring.dev/queue": name} for name in "ab")
    theirs: dict[str, Any] = {"gpus": 8, "scheduler": "default-scheduler"}
    live.plane.signal("kube-scheduler", signal.SIGSTOP)
    live.submit(job("borrower", 2, annotations={**a, "mooring.dev/min": "1"}, **theirs))
    live.until_logs("would bind", workload="job/borrower")
    live.plane.signal("kube-scheduler", signal.SIGCONT)
    live.until_bound(count=2)

    live.submit(pod("owner", annotations=b, **theirs))

    live.until_logs("would evict", workload="job/borrower", tasks=1, beneficiary="pod/owner")
    time.sleep(1)
    writes = live.plane.audit(agent="mooring")[before:]
    assert {(each["objectRef"]["resource"], each["objectRef"]["name"]) for each in writes} == {
        ("leases", "mooring-advisor")
    }
    assert len(live.nodes_of()) == 2


def test_a_snapshot_decides_as_the_live_scheduler_does(live: Live, tmp_path: Path) -> None:
    """Who may only read takes it while work waits; then the scheduler starts and binds the same."""
    live.plane.nodes(3, labels=lambda i: {"example.com/rack": f"rack-{i % 2}"})
    live.policy.write_text(HALVES)
    a, b = {"mooring.dev/queue": "a"}, {"mooring.dev/queue": "b"}
    live.submit(
        job("train", 2, gpus=4, annotations=a),
        job("other", 3, gpus=4, annotations=b),
        pod("half", annotations={**b, "mooring.dev/gpu-fraction": "0.5"}),
        pod("wide", gpus=9, annotations=a),
    )
    live.plane.wait_for(lambda: len(live.pods()) == 7, what="the pods are made")
    reader = live.plane.user("reader", ["readers"])
    read_all(live.plane, "readers")
    file = tmp_path / "cluster.yaml"
    file.write_text(
        cli("snapshot", "--kubeconfig", reader, "--namespace", HOME, "--policy", live.policy)
    )

    plan = json.loads(cli("decide", "-o", "json", file))

    live.start()
    live.until_bound(count=len(planned(plan)))
    time.sleep(0.5)
    assert bound(live) == planned(plan)
    assert len(planned(plan)) == 6
    words = {each["workload"]: each["reasons"] for each in plan["waiting"]}
    assert list(words) == [f"{live.namespace}/pod/wide"]
    live.until_says("wide", "Unschedulable")


def read_all(plane: Plane, group: str) -> None:
    """Let a group read everything."""
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    base = "rbac.authorization.k8s.io"
    role: Object = {"apiVersion": f"{base}/v1", "kind": "ClusterRole", "metadata": {"name": group}}
    subject = {"apiGroup": base, "kind": "Group", "name": group}
    plane.apply({**role, "rules": rules})
    plane.apply(
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": base, "kind": "ClusterRole", "name": group},
            "subjects": [subject],
        }
    )


def planned(plan: Any) -> dict[tuple[str, int], tuple[str, int]]:
    """Return node and devices of each task that a plan binds, by name and rank."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for decision in plan["decisions"]:
        if "placement" in decision:
            place, name = decision["placement"], decision["workload"].rsplit("/", 1)[1]
            rows = zip(place["tasks"], place["nodes"], place["devices"], strict=True)
            found |= {(name, task): (node, mask) for task, node, mask in rows}
    return found


def bound(live: Live) -> dict[tuple[str, int], tuple[str, int]]:
    """Return node and devices of each pod that is bound, by name and rank."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for name, each in live.pods().items():
        labels = each["metadata"].get("labels", {})
        rank = labels.get("batch.kubernetes.io/job-completion-index", "0")
        if node := each["spec"].get("nodeName"):
            mask = sum(1 << int(device) for device in devices(each).split(","))
            found[labels.get("run", name), int(rank)] = (node, mask)
    return found


def test_an_edit_of_the_policy_takes_effect_and_a_bad_one_does_not(
    live: Live, tmp_path: Path
) -> None:
    """The file changes as that of a ConfigMap does: by a swap of a link to its folder."""

    def write(version: str, text: str) -> None:
        folder = tmp_path / version
        folder.mkdir()
        (folder / "policy.yaml").write_text(text)
        link = tmp_path / "..new"
        link.symlink_to(folder)
        os.replace(link, tmp_path / "..data")

    live.plane.nodes(1)
    write("one", MINE.format("elsewhere"))
    live.policy.symlink_to(tmp_path / "..data" / "policy.yaml")
    live.start()
    live.submit(pod("mine", gpus=1, annotations={"mooring.dev/queue": "private"}))
    said = live.until_says("mine", "QueueNotAllowed")
    assert said == f"Queue private is not for namespace {live.namespace}."

    write("two", MINE.format(live.namespace) + "  - {name: third, parent: nobody, quotas: 7}\n")

    live.plane.wait_for(lambda: live.says("policy refused"), what="the edit is refused")
    live.submit(pod("yours", gpus=1, annotations={"mooring.dev/queue": "open"}))
    live.until_bound("yours")
    assert condition(live.pods()["mine"])["reason"] == "QueueNotAllowed"

    write("three", MINE.format(live.namespace))

    live.until_bound("mine")
