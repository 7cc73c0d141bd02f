"""Who is measured. A further scheduler is one class and a line in `ALL`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bench.kube.site import Site

RBAC = Path(__file__).parents[2] / "deploy/rbac.yaml"
HOME = "mooring"


class Scheduler(Protocol):
    """Something that gives pods nodes."""

    name: str
    """In the results."""
    process: str
    """Of the process on the plane."""
    pods: str
    """What its pods have as `schedulerName`."""

    def prepare(self, site: Site) -> None:
        """Do what must be done on a site that was cleared, before it is started."""

    def start(self, site: Site) -> None:
        """Start it; it need not work yet."""


class Ceiling:
    """No scheduler at all: what waits is bound to any node, as fast as the server can."""

    name = process = "ceiling"
    pods = "nobody"

    def prepare(self, site: Site) -> None:
        """Do nothing."""

    def start(self, site: Site) -> None:
        """Start it, as administrator."""
        site.spawn(self.process, [sys.executable, "-m", "bench.kube.binder", str(site.kubeconfig)])


class KubeScheduler:
    """The scheduler of Kubernetes, with its gang gates."""

    name = process = "kube-scheduler"
    pods = "default-scheduler"

    def prepare(self, site: Site) -> None:
        """Do nothing."""

    def start(self, site: Site) -> None:
        """Start it, as administrator."""
        site.add(self.process)


class Mooring:
    """This project, as a user gets it: `mooring run` with its defaults, under its own rights."""

    name = process = "mooring"
    pods = "mooring"

    def prepare(self, site: Site) -> None:
        """Give it its rights, and let it begin without a memory."""
        site.apply(RBAC)
        site.api.delete(f"/api/v1/namespaces/{HOME}/configmaps/mooring-memory")
        self._account = site.service_account(HOME, "mooring")

    def start(self, site: Site) -> None:
        """Start it, as its service account."""
        flags = ["--kubeconfig", str(self._account), "--namespace", HOME, "--listen", "127.0.0.1:0"]
        site.spawn(self.process, [sys.executable, "-m", "mooring", "run", *flags])


ALL: tuple[Scheduler, ...] = (Ceiling(), KubeScheduler(), Mooring())
