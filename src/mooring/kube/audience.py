"""Who is told: the pods of a workload that wait, and what its Events are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.kube.crew import waits
from mooring.kube.tell import PodRef, Subject

if TYPE_CHECKING:
    from mooring.kube.world import World


class Audience:
    """Answers for `Tell` from what the world knows."""

    def __init__(self, world: World) -> None:
        self._world = world

    def waiting(self, workload: str) -> list[str]:
        """Return the uids of its pods that wait, without those that have gates."""
        crew = self._world.crew_of(workload)
        pods = crew.pods.items() if crew else ()
        return [uid for uid, pod in pods if waits(pod)]

    def pod(self, workload: str, uid: str) -> PodRef | None:
        """Return a pod that still waits and has no task; None: it does not."""
        crew = self._world.crew_of(workload)
        pod = crew.pods.get(uid) if crew else None
        if crew is None or pod is None or uid in crew.seats or not waits(pod):
            return None
        meta = pod.metadata
        told = next(
            (
                each
                for each in pod.status.conditions
                if each.type == "PodScheduled" and each.status == "False"
            ),
            None,
        )
        return PodRef(
            meta.namespace,
            meta.name,
            uid,
            meta.resource_version,
            told.reason if told else "",
            told.message if told else "",
        )

    def subject(self, workload: str) -> Subject | None:
        """Return what Events are about; None: it is gone."""
        crew = self._world.crew_of(workload)
        if crew is None or not crew.members:
            return None
        first = next(iter(crew.members.values()))
        top = first.top
        return Subject(
            self._world.grouping.api_version_of(workload) or ("v1" if top.kind == "Pod" else ""),
            top.kind,
            top.namespace,
            top.name,
            top.uid,
            is_alone=crew.workload is None or len(crew.workload.groups) == 1,
        )
