"""A fake kubelet for all nodes: it runs and ends pods, and checks what it is given.

    with Kubelet(plane) as kubelet:   # in tests: the fixture `kubelet`
        …
        kubelet.check()               # nothing was over-committed, no device was given twice

A bound pod is set Running and Ready. A pod with the annotation `test/run-seconds` ends after so
long as Succeeded, or as what `test/ends-as` says (Failed). A pod that is deleted is gone after
`test/stop-seconds` (at once without it, and never later than its grace); as of a real kubelet, the
last that is heard of it is that it Failed. On a node that is not
Ready nothing happens, as if the machine were lost. `kubelet.paused = True` holds everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import ssl
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from mooring.kube.client import Response
from tests.kube.api import STRATEGIC, Object

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping

    from tests.kube.plane import Plane

RUN_SECONDS = "test/run-seconds"
ENDS_AS = "test/ends-as"
STOP_SECONDS = "test/stop-seconds"

DEVICES = "mooring.dev/devices"
FRACTION = "mooring.dev/gpu-fraction"
MEMORY = "mooring.dev/gpu-memory"
GPU = "nvidia.com/gpu"
_DEVICE_MEMORY = "nvidia.com/gpu.memory"  # a label of nodes, in MiB

_AT_ONCE = 32
_AGAIN_S = 0.1
_CLOSING_S = 0.05  # connections with TLS need a moment
_WATCH_S = 600
_LONGEST_LINE = 1 << 22
_OVER = ("Succeeded", "Failed")
_DEFAULT_GRACE_S = 30

_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "E": Fraction(10**18),
    "Ei": Fraction(2**60),
}  # fmt: skip


class Kubelet:
    """Plays the kubelets of all nodes, in a thread of its own."""

    def __init__(self, plane: Plane) -> None:
        self.violations: list[str] = []
        self.paused = False
        self.ran: dict[str, str] = {}  # namespace/name: node, of all pods that were started
        self._server = plane.url
        self._tls = ssl.create_default_context(cafile=plane.ca)
        self._tls.load_cert_chain(*plane.certificate("kubelet", ["system:masters"]))
        self._nodes: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._on: dict[str, dict[str, Object]] = {}  # node: uid: pod that has not ended
        self._steps: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._listed = 0
        self._ready = threading.Event()
        self._problem: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._main, name="kubelet")
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # it broke, and `check` has said so
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def check(self) -> None:
        """Fail if anything that was given to a node does not fit on it."""
        assert self._problem is None, f"the fake kubelet broke: {self._problem!r}"
        assert not self.violations, "\n".join(self.violations)

    # --- the loop

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as problem:
            self._problem = problem
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=_AT_ONCE + 2)
        headers = {"User-Agent": "fake-kubelet"}
        async with aiohttp.ClientSession(
            self._server,
            connector=connector,
            headers=headers,
            read_bufsize=_LONGEST_LINE,
            response_class=Response,
        ) as self._http:
            watches = [
                self._loop.create_task(self._watch("/api/v1/nodes", self._node_seen)),
                self._loop.create_task(self._watch("/api/v1/pods", self._pod_seen)),
            ]
            end = self._loop.create_task(self._end.wait())
            done, _ = await asyncio.wait([*watches, end], return_when=asyncio.FIRST_COMPLETED)
            left = [*watches, end, *self._steps.values()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(_CLOSING_S)
        for task in done - {end}:
            task.result()

    async def _watch(self, path: str, seen: Any) -> None:
        """Tell of every object and every change; start afresh whenever the server ends it."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                await self._watch_once(path, seen)
            await asyncio.sleep(_AGAIN_S)

    async def _watch_once(self, path: str, seen: Any) -> None:
        async with self._http.get(path) as answer:
            answer.raise_for_status()
            listed = json.loads(await answer.read())
        seen("LISTED", listed["items"])
        self._listed += 1
        if self._listed == 2:
            self._ready.set()
        query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        query["timeoutSeconds"] = str(_WATCH_S)
        no_end = aiohttp.ClientTimeout(total=None)
        async with self._http.get(path, params=query, timeout=no_end) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                seen(event["type"], [event["object"]])

    # --- what is seen

    def _node_seen(self, change: str, nodes: list[Object]) -> None:
        if change == "LISTED":
            self._nodes.clear()
        for node in nodes:
            name = node["metadata"]["name"]
            if change == "DELETED":
                self._nodes.pop(name, None)
                continue
            new = name not in self._nodes
            self._nodes[name] = node
            if new and self._on.get(name):
                self._check(name)

    def _pod_seen(self, change: str, pods: list[Object]) -> None:
        if change == "LISTED":
            listed = {pod["metadata"]["uid"] for pod in pods}
            for uid in [uid for uid in self._pods if uid not in listed]:
                self._forget(uid)
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if change == "DELETED":
                self._forget(uid)
                continue
            self._pods[uid] = pod
            node = pod["spec"].get("nodeName")
            if node is None:
                continue
            if pod["status"].get("phase") in _OVER:
                self._on.get(node, {}).pop(uid, None)
            else:
                new = uid not in self._on.setdefault(node, {})
                self._on[node][uid] = pod
                if new:
                    self._check(node)
            self._act(pod)

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._on.get(pod["spec"].get("nodeName"), {}).pop(uid, None)
        for step in ("run", "end", "stop"):
            if task := self._steps.pop((uid, step), None):
                task.cancel()

    # --- what is done

    def _act(self, pod: Object) -> None:
        """Begin what a pod needs next, unless it is under way; a lost node comes to it later."""
        phase = pod["status"].get("phase", "Pending")
        notes = pod["metadata"].get("annotations", {})
        if "deletionTimestamp" in pod["metadata"]:
            grace = pod["metadata"].get("deletionGracePeriodSeconds", _DEFAULT_GRACE_S)
            self._begin(pod, "stop", self._stop(pod, min(grace, float(notes.get(STOP_SECONDS, 0)))))
        elif phase == "Pending":
            self._begin(pod, "run", self._start(pod))
        elif phase == "Running" and RUN_SECONDS in notes:
            ends_as = notes.get(ENDS_AS, "Succeeded")
            self._begin(pod, "end", self._end_later(pod, float(notes[RUN_SECONDS]), ends_as))

    def _is_ready(self, name: str) -> bool:
        conditions = self._nodes.get(name, {}).get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _begin(self, pod: Object, step: str, work: Coroutine[Any, Any, None]) -> None:
        key = (pod["metadata"]["uid"], step)
        if key in self._steps:
            work.close()
            return
        self._steps[key] = self._loop.create_task(work)

    async def _start(self, pod: Object) -> None:
        await self._until_ready(pod)
        self.ran[_name(pod)] = pod["spec"]["nodeName"]
        await self._set(pod, _running(pod))

    async def _end_later(self, pod: Object, seconds: float, phase: str) -> None:
        await asyncio.sleep(seconds)
        await self._until_ready(pod)
        await self._set(pod, _ended(pod, phase))

    async def _stop(self, pod: Object, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._until_ready(pod)
        if pod["status"].get("phase") not in _OVER:
            await self._set(pod, _ended(pod, "Failed"))
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._send("DELETE", _path(pod), body, "application/json")

    async def _until_ready(self, pod: Object) -> None:
        while self.paused or not self._is_ready(pod["spec"]["nodeName"]):  # noqa: ASYNC110
            await asyncio.sleep(_AGAIN_S)

    async def _set(self, pod: Object, status: Object) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._send("PATCH", f"{_path(pod)}/status", body, STRATEGIC)

    async def _send(self, method: str, path: str, body: Object, kind: str) -> None:
        """Send until the server has taken it, or has refused it because the pod is another."""
        headers = {"Content-Type": kind}
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                async with self._http.request(
                    method, path, data=json.dumps(body), headers=headers
                ) as answer:
                    await answer.read()
                    if answer.status < 500 and answer.status != 429:
                        return
            await asyncio.sleep(_AGAIN_S)

    # --- what is checked

    def _check(self, name: str) -> None:
        """Look at all pods of a node when another has come."""
        node = self._nodes.get(name)
        if node is None:
            return
        pods = list(self._on[name].values())
        room = {key: quantity(value) for key, value in node["status"]["allocatable"].items()}
        for problem in [*over_committed(pods, room), *devices_wrong(pods, node)]:
            names = ", ".join(sorted(_name(pod) for pod in pods))
            self.violations.append(f"{name}: {problem}; there are {names}")


def over_committed(pods: list[Object], room: Mapping[str, Fraction]) -> Iterator[str]:
    """Tell what pods ask together beyond what a node has."""
    asked: dict[str, Fraction] = {"pods": Fraction(len(pods))}
    for pod in pods:
        for key, amount in requests(pod).items():
            asked[key] = asked.get(key, Fraction(0)) + amount
    for key, amount in sorted(asked.items()):
        if amount > room.get(key, 0):
            yield f"{key}: {float(amount):g} asked of {float(room.get(key, 0)):g}"


def devices_wrong(pods: list[Object], node: Object) -> Iterator[str]:
    """Tell which devices of a node are given twice, do not exist or are too few."""
    count = quantity(node["status"]["allocatable"].get(GPU, "0"))
    used: dict[str, Fraction] = {}
    for pod in pods:
        whole = requests(pod).get(GPU, Fraction(0))
        share = _share(pod, node)
        given = _given(pod)
        if given and share is None and whole and len(given) != whole:
            yield f"{_name(pod)} asks for {whole} devices and was given {len(given)}"
        if share is not None and not given:
            yield f"{_name(pod)} shares a device, and it is not said which"
        for device in given:
            used[device] = used.get(device, Fraction(0)) + (1 if share is None else share)
    for device, amount in sorted(used.items()):
        if amount > 1:
            yield f"device {device} is given {float(amount):g} times"
        number, _, part = device.partition(".")
        if part and number in used:
            yield f"device {number} is given whole and in parts"
        if not part and int(number) >= count:
            yield f"device {device} does not exist"
    unnamed = sum(
        (requests(pod).get(GPU, Fraction(0)) for pod in pods if not _given(pod)), Fraction(0)
    )
    if unnamed + sum("." not in device for device in used) > count:
        yield f"{unnamed} devices and those named {sorted(used)} are more than {count}"


def requests(pod: Object) -> dict[str, Fraction]:
    """Return what a pod needs of its node, as a kubelet counts it."""
    spec = pod["spec"]
    running: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    for container in spec.get("initContainers", []):
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            running = _sum(running, asked)
            most = _most(most, running)
        else:
            most = _most(most, _sum(running, asked))
    for container in spec["containers"]:
        running = _sum(running, _asked(container))
    of_pod = {k: quantity(v) for k, v in spec.get("resources", {}).get("requests", {}).items()}
    overhead = {key: quantity(value) for key, value in spec.get("overhead", {}).items()}
    return _sum(_most(most, running) | of_pod, overhead)


def quantity(text: str) -> Fraction:
    """Return an amount such as 500m, 2Gi or 1e3."""
    number = text.rstrip("numkKMGTPEi")
    return Fraction(number) * _SUFFIXES.get(text[len(number) :], Fraction(1))


def _asked(container: Object) -> dict[str, Fraction]:
    resources = container.get("resources", {})
    asked = resources.get("limits", {}) | resources.get("requests", {})
    return {key: quantity(value) for key, value in asked.items()}


def _sum(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {
        key: one.get(key, Fraction(0)) + other.get(key, Fraction(0)) for key in {**one, **other}
    }


def _most(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {
        key: max(one.get(key, Fraction(0)), other.get(key, Fraction(0))) for key in {**one, **other}
    }


def _given(pod: Object) -> list[str]:
    text = pod["metadata"].get("annotations", {}).get(DEVICES, "")
    return [device.strip() for device in text.split(",") if device.strip()]


def _share(pod: Object, node: Object) -> Fraction | None:
    """Return the part of each of its devices that a pod has; none: it has them whole."""
    notes = pod["metadata"].get("annotations", {}) | pod["metadata"].get("labels", {})
    if FRACTION in notes:
        return Fraction(notes[FRACTION])
    if MEMORY in notes:
        mebibytes = notes[MEMORY] + ("Mi" if notes[MEMORY].isdecimal() else "")
        size = node["metadata"].get("labels", {}).get(_DEVICE_MEMORY)
        return quantity(mebibytes) / (Fraction(size) * 2**20) if size else Fraction(1)
    return None


def _running(pod: Object) -> Object:
    now = _now()
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("Initialized", "ContainersReady", "Ready")
    ]
    return {"phase": "Running", "startTime": now, "conditions": ready} | {
        "containerStatuses": [
            _container(container, {"running": {"startedAt": now}})
            for container in pod["spec"]["containers"]
        ]
    }


def _ended(pod: Object, phase: str) -> Object:
    code = 0 if phase == "Succeeded" else 1
    over = [
        {"type": kind, "status": "False", "lastTransitionTime": _now(), "reason": "PodCompleted"}
        for kind in ("ContainersReady", "Ready")
    ]
    return {"phase": phase, "conditions": over} | {
        "containerStatuses": [
            _container(container, {"running": None, "terminated": {"exitCode": code}})
            for container in pod["spec"]["containers"]
        ]
    }


def _container(container: Object, state: Object) -> Object:
    same = {"name": container["name"], "image": container["image"], "imageID": ""}
    running = bool(state.get("running"))
    return same | {"state": state, "ready": running, "started": running, "restartCount": 0}


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
