"""A load of gangs that is more than there is room for, and what must be true of it in the end.

load = Load(live, seed=1, gangs=40)
load.submit(10)            # the next ten; those of the last quarter never end
load.fill()                # single pods for whatever room gangs leave
load.until_rest()          # nothing moves any more
load.check()               # whole or not at all, nobody is lost, all room is used
load.clear()               # for another on the same plane
"""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from tests.kube.kubelet import GPU, RUN_SECONDS
from tests.kube.live import condition, job
from tests.kube.plane import pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kube.api import Object
    from tests.kube.live import Live

POLICY = "policy: {gang_grace: 3s}\n"
"""A gang that cannot be completed is undone soon."""
QUEUES = """
queues:
  - {name: org, quotas: [{resource: gpu, quota: 48}]}
  - {name: a, parent: org, quotas: [{resource: gpu, quota: 24}]}
  - {name: b, parent: org, quotas: [{resource: gpu, quota: 24}]}
"""
"""Each may borrow what the other does not use, and gives it back."""
MOST_PODS = 6
MOST_GPUS = 4
QUIET_S = 4.0
"""Nothing has moved for so long: nothing will. It is longer than the grace of gangs."""


class Load:
    """Gangs in the namespace of a test."""

    def __init__(
        self, live: Live, *, seed: int, gangs: int, nodes: int = 6, queues: Sequence[str] = ()
    ) -> None:
        """Know the gangs, and make the nodes.

        With two queues those of the first never end, and those of the second do.
        """
        self.live = live
        self._queues = queues
        self.sizes: dict[str, int] = {}
        """Pods of every gang that was submitted."""
        draw = Random(seed)
        stays = gangs - max(3, gangs // 4)
        if queues:
            ends = [number % 2 == 1 for number in range(gangs)]
        else:
            ends = [number < stays for number in range(gangs)]
        self._left = [_gang(draw, number, ends=ends[number]) for number in range(gangs)]
        for number, each in enumerate(self._left) if queues else ():
            notes = each["spec"]["template"]["metadata"]["annotations"]
            notes["mooring.dev/queue"] = queues[number % len(queues)]
        self.room = 8 * nodes
        live.plane.nodes(nodes)

    @property
    def left(self) -> int:
        """Return how many gangs were not submitted yet."""
        return len(self._left)

    def submit(self, count: int) -> None:
        """Submit the next gangs."""
        some, self._left = self._left[:count], self._left[count:]
        self.sizes |= {each["metadata"]["name"]: each["spec"]["parallelism"] for each in some}
        self.live.submit(*some)

    def fill(self) -> None:
        """Submit what is left, and then more single pods than there is room: one always waits."""
        self.submit(len(self._left))
        if not self._queues:
            self.live.submit(*(pod(f"single-{i:02}", gpus=1) for i in range(self.room + 1)))
            return
        for i in range(self.room + 1):  # of Jobs: a pod that is evicted comes again
            notes = {"mooring.dev/queue": self._queues[i % len(self._queues)]}
            self.live.submit(job(f"single-{i:02}", 1, gpus=1, annotations=notes))

    # -- the end ------------------------------------------------------------------------------

    def until_rest(self, timeout: float = 90) -> None:
        """Wait until nothing has moved for a while, and all who wait have been told why."""
        last: object = None
        since = time.monotonic()

        def rests() -> bool:
            nonlocal last, since
            pods = self.live.pods()
            now = {name: _shown(each) for name, each in pods.items()}
            moves = any(_moves(each) or is_silent(each) for each in pods.values())
            if now != last or moves or (not self._queues and self._awaits_pods()):
                last, since = now, time.monotonic()
            time.sleep(0.1)
            return time.monotonic() - since > QUIET_S

        with suppress(AssertionError):  # `check` says more
            self.live.plane.wait_for(rests, timeout)

    def _jobs(self) -> dict[str, Object]:
        path = f"/apis/batch/v1/namespaces/{self.live.namespace}/jobs"
        return {each["metadata"]["name"]: each for each in self.live.plane.api.items(path)}

    def _awaits_pods(self) -> bool:
        """Return whether a Job is about to make pods: after an eviction it may take its time."""
        return any(
            not _is_complete(each) and each["status"].get("active", 0) < each["spec"]["parallelism"]
            for each in self._jobs().values()
        )

    def check(self) -> None:
        """Fail if a gang is bound in part or lost, or room is not used."""
        jobs = self._jobs()
        wrong = [line for name in self.sizes if (line := self._wrong(name, jobs[name]))]
        used = self.used()
        if used != self.room:
            wrong.append(f"{used} of {self.room} GPUs are in use")
        for name, each in self.live.pods().items():
            if is_silent(each):
                wrong.append(f"{name} waits and does not say why")
        assert not wrong, "\n".join([*wrong, *self._shown()])

    def clear(self) -> None:
        """Remove all of it, and the nodes, as if it had never been."""
        path = f"/apis/batch/v1/namespaces/{self.live.namespace}/jobs"
        self.live.plane.api.delete(path, propagationPolicy="Background")
        self.live.plane.wait_for(lambda: not self._jobs(), 60, "all Jobs are gone")
        self.live.plane.empty(self.live.namespace)

    def _shown(self) -> list[str]:
        """Return where the pods are that have not ended, and what those are told that wait."""
        lines = []
        for name, each in self.live.pods().items():
            where = each["spec"].get("nodeName") or condition(each).get("message")
            leaves = "leaves " if "deletionTimestamp" in each["metadata"] else ""
            if each["status"]["phase"] not in ("Succeeded", "Failed"):
                lines.append(f"{name}: {leaves}{each['status']['phase']} {where}")
        return lines

    def used(self) -> int:
        """Return the GPUs of pods that run."""
        return sum(
            int(each["spec"]["containers"][0]["resources"]["requests"][GPU])
            for each in self.live.pods().values()
            if each["spec"].get("nodeName") and each["status"]["phase"] == "Running"
        )

    def _wrong(self, name: str, found: Object) -> str:
        """Return what is wrong with a gang; nothing: empty."""
        if _is_complete(found):
            return ""
        pods = list(self.live.pods(run=name).values())
        bound = [each for each in pods if each["spec"].get("nodeName")]
        if self._queues and not bound:
            return ""  # after evictions its controller takes up to ten minutes to make pods again
        if len(pods) != self.sizes[name]:
            return f"{name}: {len(pods)} pods of {self.sizes[name]}: {found['status']}"
        if len(bound) not in (0, len(pods)):
            return f"{name}: {len(bound)} pods of {len(pods)} are bound"
        return ""


def _is_complete(found: Object) -> bool:
    conditions = found["status"].get("conditions", [])
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def _gang(draw: Random, number: int, *, ends: bool) -> Object:
    pods, gpus = draw.randint(2, MOST_PODS), draw.choice((1, 2, 2, MOST_GPUS))
    seconds = draw.uniform(1, 6)
    notes = {RUN_SECONDS: f"{seconds:.1f}"} if ends else {}
    made = job(f"gang-{number:02}", pods, gpus=gpus, annotations=notes)
    evicted = [{"type": "DisruptionTarget", "status": "True"}]
    rule = {"action": "Ignore", "onPodConditions": evicted}  # it is no failure, and not punished
    made["spec"]["podFailurePolicy"] = {"rules": [rule]}
    return made


def _shown(each: Object) -> tuple[object, ...]:
    meta = each["metadata"]
    return (
        *(meta["uid"], each["spec"].get("nodeName"), each["status"]["phase"]),
        "deletionTimestamp" in meta,
    )


def is_silent(each: Object) -> bool:
    """Return whether a pod waits and has not been told why."""
    return not each["spec"].get("nodeName") and not condition(each).get("reason")


def _moves(each: Object) -> bool:
    """Return whether something is about to happen to a pod by itself."""
    if "deletionTimestamp" in each["metadata"]:
        return True
    is_bound = bool(each["spec"].get("nodeName"))
    phase = each["status"]["phase"]
    ends = RUN_SECONDS in each["metadata"].get("annotations", {})
    return (is_bound and phase == "Pending") or (ends and phase == "Running")
