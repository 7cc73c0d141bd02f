"""A load of gangs that is more than there is room for, and what must be true of it in the end.

load = Load(live, seed=1, gangs=40)
load.submit(10)            # the next ten; those of the last quarter never end
load.fill()                # single pods for whatever room gangs leave
load.until_rest()          # nothing moves any more
load.check()               # whole or not at all, nobody is lost, all room is used
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
    from tests.kube.api import Object
    from tests.kube.live import Live

POLICY = "policy: {gang_grace: 3s}\n"
"""A gang that cannot be completed is undone soon."""
MOST_PODS = 6
MOST_GPUS = 4
QUIET_S = 4.0
"""Nothing has moved for so long: nothing will. It is longer than the grace of gangs."""


class Load:
    """Gangs in the namespace of a test."""

    def __init__(self, live: Live, *, seed: int, gangs: int, nodes: int = 6) -> None:
        self.live = live
        self.sizes: dict[str, int] = {}
        """Pods of every gang that was submitted."""
        draw = Random(seed)
        stays = gangs - max(3, gangs // 4)
        self._left = [_gang(draw, number, ends=number < stays) for number in range(gangs)]
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
        self.live.submit(*(pod(f"single-{i:02}", gpus=1) for i in range(self.room + 1)))

    # -- the end ------------------------------------------------------------------------------

    def until_rest(self, timeout: float = 90) -> None:
        """Wait until nothing has moved for a while, and all who wait have been told why."""
        last: object = None
        since = time.monotonic()

        def rests() -> bool:
            nonlocal last, since
            pods = self.live.pods()
            now = {name: _shown(each) for name, each in pods.items()}
            if now != last or any(_moves(each) or is_silent(each) for each in pods.values()):
                last, since = now, time.monotonic()
            time.sleep(0.1)
            return time.monotonic() - since > QUIET_S

        with suppress(AssertionError):  # `check` says more
            self.live.plane.wait_for(rests, timeout)

    def check(self) -> None:
        """Fail if a gang is bound in part or lost, or room is not used."""
        jobs = {
            each["metadata"]["name"]: each
            for each in self.live.plane.api.items(
                f"/apis/batch/v1/namespaces/{self.live.namespace}/jobs"
            )
        }
        wrong = [line for name in self.sizes if (line := self._wrong(name, jobs[name]))]
        used = self.used()
        if used != self.room:
            wrong.append(f"{used} of {self.room} GPUs are in use")
        for name, each in self.live.pods().items():
            if is_silent(each):
                wrong.append(f"{name} waits and does not say why")
        assert not wrong, "\n".join([*wrong, self.live.plane.shown(self.live.namespace)])

    def used(self) -> int:
        """Return the GPUs of pods that run."""
        return sum(
            int(each["spec"]["containers"][0]["resources"]["requests"][GPU])
            for each in self.live.pods().values()
            if each["spec"].get("nodeName") and each["status"]["phase"] == "Running"
        )

    def _wrong(self, name: str, found: Object) -> str:
        """Return what is wrong with a gang; nothing: empty."""
        conditions = found["status"].get("conditions", [])
        if any(each["type"] == "Complete" and each["status"] == "True" for each in conditions):
            return ""
        pods = list(self.live.pods(run=name).values())
        bound = [each for each in pods if each["spec"].get("nodeName")]
        if len(pods) != self.sizes[name]:
            return f"{name}: {len(pods)} pods of {self.sizes[name]}"
        if len(bound) not in (0, len(pods)):
            return f"{name}: {len(bound)} pods of {len(pods)} are bound"
        return ""


def _gang(draw: Random, number: int, *, ends: bool) -> Object:
    pods, gpus = draw.randint(2, MOST_PODS), draw.choice((1, 2, 2, MOST_GPUS))
    seconds = draw.uniform(1, 6)
    notes = {RUN_SECONDS: f"{seconds:.1f}"} if ends else {}
    return job(f"gang-{number:02}", pods, gpus=gpus, annotations=notes)


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
