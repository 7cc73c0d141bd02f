"""A real `mooring run` beside a real control plane, under the rights that are in the tree.

live.start(policy)                      # a process of its own, as its service account
live.submit(pod("a", gpus=1))           # into the namespace of the test, for our scheduler
live.until_bound("a")                   # {"a": "node-0"}
live.kill(); live.start()               # kill -9, and another life
"""

from __future__ import annotations

import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kube.api import ApiError
from tests.kube.plane import pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kube.api import Object
    from tests.kube.plane import Plane

RBAC = Path(__file__).parents[2] / "deploy/rbac.yaml"
HOME = "mooring"
"""Namespace of the lease and the memory."""


class Live:
    """Processes of Mooring, told apart by name; one test has them for itself."""

    def __init__(self, plane: Plane, namespace: str, folder: Path) -> None:
        self.plane = plane
        self.namespace = namespace
        self.policy = folder / "policy.yaml"
        self.journals = folder / "journals"
        self.running: list[str] = []
        plane.apply(RBAC)
        self.account = plane.service_account(HOME, "mooring")
        for path in ("coordination.k8s.io/v1", "v1"):
            kind = "leases/mooring" if "/" in path else "configmaps/mooring-memory"
            api = "apis" if "/" in path else "api"
            with suppress(ApiError):
                plane.api.delete(f"/{api}/{path}/namespaces/{HOME}/{kind}")

    # -- processes ----------------------------------------------------------------------------

    def start(self, policy: str = "", *more: str, name: str = "mooring", **flags: str) -> None:
        """Start a process and wait until it has seen the cluster; a policy stays for the next."""
        self.launch(policy, *more, name=name, **flags)
        self.until_synced(name)

    def until_synced(self, name: str = "mooring") -> None:
        """Wait until a process has seen the cluster."""
        self.plane.wait_for(lambda: self.says("synced", name), 30, f"{name} has seen all")

    def launch(self, policy: str = "", *more: str, name: str = "mooring", **flags: str) -> None:
        """Start a process and wait for nothing."""
        if policy:  # put in place whole: another process may be about to read it
            new = self.policy.with_suffix(".new")
            new.write_text(policy)
            new.replace(self.policy)
        flags = {
            "kubeconfig": str(self.account),
            "namespace": HOME,
            "listen": "127.0.0.1:0",
            "lease-duration": "6s",
            "journal": str(self.journals),
            "log-format": "text",
            **({"policy": str(self.policy)} if self.policy.exists() else {}),
            **{key.replace("_", "-"): value for key, value in flags.items()},
        }
        argv = [sys.executable, "-m", "mooring", "run", *more]
        for key, value in flags.items():
            argv += [f"--{key}", value]
        self.plane.log(name).unlink(missing_ok=True)
        self.plane.spawn(name, argv)
        self.running.append(name)

    def says(self, event: str, name: str = "mooring") -> bool:
        """Return whether an event stands in the log of a process; one that has ended fails."""
        ended = self.plane.ended(name)
        assert ended is None, f"{name} ended with {ended}:\n{self.plane.tail(name)}"
        log = self.plane.log(name)
        wanted = f'event="{event}"' if " " in event else f"event={event}"
        return log.exists() and wanted in log.read_text()

    def until_logs(self, event: str, **fields: object) -> str:
        """Wait until an event with these fields stands in the log; names may be ends of names."""

        def logged() -> str:
            for line in self.plane.log("mooring").read_text().splitlines():
                found = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))
                if found.get("event", "").strip('"') == event and all(
                    found.get(key, "").endswith(str(value)) for key, value in fields.items()
                ):
                    return line
            return ""

        line: str = self.plane.wait_for(logged, what=f"{event} {fields}")
        return line

    def port(self, name: str = "mooring") -> int:
        """Return where a process answers for its health and has its metrics."""
        found = re.search(r"event=listening port=(\d+)", self.plane.log(name).read_text())
        assert found
        return int(found[1])

    def kill(self, name: str = "mooring") -> None:
        """Kill a process without warning."""
        self.running.remove(name)
        self.plane.signal(name, signal.SIGKILL)

    def stop(self, name: str = "mooring") -> None:
        """Let a process end gracefully."""
        self.running.remove(name)
        self.plane.signal(name, signal.SIGTERM)
        self.plane.wait_for(lambda: self.plane.ended(name) is not None, 15, f"{name} ends")
        assert self.plane.ended(name) == 0, self.plane.tail(name)

    def close(self) -> None:
        """End all that still runs; a process that died by itself is a failure."""
        dead = [name for name in self.running if self.plane.ended(name) is not None]
        tails = {name: self.plane.tail(name) for name in dead}
        for name in list(self.running):
            self.kill(name)
        assert not dead, tails

    # -- the cluster --------------------------------------------------------------------------

    def submit(self, *things: Object) -> None:
        """Create objects in the namespace of the test."""
        for thing in things:
            thing["metadata"]["namespace"] = self.namespace
        self.plane.api.create_all(list(things))

    def pods(self, **labels: str) -> dict[str, Object]:
        """Return the pods of the namespace by name; those with all of these labels."""
        return {
            pod["metadata"]["name"]: pod
            for pod in self.plane.pods(self.namespace)
            if labels.items() <= pod["metadata"].get("labels", {}).items()
        }

    def nodes_of(self, names: Iterable[str] = ()) -> dict[str, str]:
        """Return the nodes of pods that have one, by name: of these, or of all that live."""
        some = set(names)
        return {
            name: pod["spec"]["nodeName"]
            for name, pod in self.pods().items()
            if pod["spec"].get("nodeName")
            and (name in some or not some)
            and "deletionTimestamp" not in pod["metadata"]
        }

    def until_bound(self, *names: str, count: int = 0, timeout: float = 20) -> dict[str, str]:
        """Wait until these pods, or so many, have nodes; return them."""
        wanted = count or len(names)

        def bound() -> dict[str, str]:
            found = self.nodes_of(names)
            return found if len(found) >= wanted else {}

        found: dict[str, str] = self.plane.wait_for(
            bound, timeout, f"{names or wanted} are bound\n{self.plane.tail('mooring')}"
        )
        return found

    def until_started(self, run: str, count: int, timeout: float = 30) -> dict[str, str]:
        """Wait until so many pods of a job run; return their nodes, in order of their names."""

        def started() -> dict[str, str]:
            found = {
                name: pod["spec"]["nodeName"]
                for name, pod in sorted(self.pods(run=run).items())
                if pod["status"].get("phase") == "Running"
                and "deletionTimestamp" not in pod["metadata"]
            }
            return found if len(found) >= count else {}

        found: dict[str, str] = self.plane.wait_for(
            started, timeout, f"{count} of {run} run\n{self.plane.tail('mooring')}"
        )
        return found

    def annotate(self, pod: str, notes: Object) -> None:
        """Change annotations of a pod."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}"
        self.plane.api.patch(path, {"metadata": {"annotations": notes}})

    def until_says(self, pod: str, reason: str, timeout: float = 20) -> str:
        """Wait until a pod says why it waits; return the message."""

        def said() -> str:
            found = condition(self.plane.pod(pod, self.namespace))
            return str(found.get("message")) if found.get("reason") == reason else ""

        message: str = self.plane.wait_for(said, timeout, f"{pod} says {reason}")
        return message

    def events(self) -> list[tuple[str, str, str]]:
        """Return (name of what it is about, reason, note) of all Events that Mooring wrote."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [
            (event["regarding"]["name"], event["reason"], event.get("note", ""))
            for event in self.plane.api.items(path)
            if event.get("reportingController", "").startswith("mooring")
        ]


def condition(pod: Object) -> Object:
    """Return the condition `PodScheduled` of a pod."""
    found = pod["status"].get("conditions", [])
    return next((each for each in found if each["type"] == "PodScheduled"), {})


def stamped(at: float) -> str:
    """Return a moment as annotations have it."""
    return f"{at:.3f}"


def devices(pod: Object) -> str:
    """Return the devices that stand on a pod."""
    return str(pod["metadata"].get("annotations", {}).get("mooring.dev/devices", ""))


def job(name: str, pods: int, gpus: int = 0, **more: Any) -> Object:
    """Return an indexed Job whose pods run together; `more` is annotations, and of `pod_spec`.

    For a pod that is lost its controller makes another 10 s later, then 20 s later.
    """
    annotations, labels = more.pop("annotations", {}), more.pop("labels", {})
    template = {"metadata": {"annotations": annotations, "labels": {"run": name, **labels}}}
    spec = {"restartPolicy": "Never", **pod_spec(gpus, **more)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": 100,
            "template": {**template, "spec": spec},
        },
    }
