"""Fixtures with a real control plane. What can be done with it: see `tests/kube/plane.py`.

A worker of pytest starts one plane, when the first test asks for it, and keeps it for all. Pods of
tests are told apart by namespace; nodes belong to one test at a time.
"""

from __future__ import annotations

import itertools
import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.kube.kubelet import Kubelet
from tests.kube.live import Live
from tests.kube.plane import Parts, Plane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    """Return the plane of this worker: etcd, kube-apiserver, kube-controller-manager."""
    with Plane() as plane:
        yield plane


@pytest.fixture(scope="session")
def gang_plane() -> Iterator[Plane]:
    """Return a plane whose server knows the upstream gang API; it has a kube-scheduler too."""
    with Plane(Parts(gangs=True, scheduler=True)) as plane:
        yield plane


@pytest.fixture
def namespace(plane: Plane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return a fresh namespace; afterwards it, its pods and all nodes are gone."""
    name = fresh_namespace(plane, request.node.name)
    yield name
    plane.wipe(name)


@pytest.fixture
def gang_namespace(gang_plane: Plane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return a fresh namespace of the plane with the upstream gang API, wiped likewise."""
    name = fresh_namespace(gang_plane, request.node.name)
    yield name
    gang_plane.wipe(name)


@pytest.fixture
def kubelet(plane: Plane, namespace: str) -> Iterator[Kubelet]:
    """Return a kubelet that runs the pods of all nodes; the test fails if it saw a mistake."""
    with Kubelet(plane) as kubelet:
        yield kubelet
        kubelet.check()


@pytest.fixture
def live(plane: Plane, namespace: str, kubelet: Kubelet, tmp_path: Path) -> Iterator[Live]:
    """Return Mooring itself, to be started; at the end none of its processes has died."""
    live = Live(plane, namespace, tmp_path)
    yield live
    live.close()


@pytest.fixture
def kube_scheduler(plane: Plane) -> Iterator[Plane]:
    """Let a kube-scheduler run on the plane; it takes pods with scheduler `default-scheduler`."""
    plane.add("kube-scheduler")
    yield plane
    plane.signal("kube-scheduler", signal.SIGKILL)


@pytest.fixture(scope="session")
def jobset(plane: Plane) -> Plane:
    """Let the controller of JobSets run on the plane, from now on."""
    plane.add("jobset")
    return plane


@pytest.fixture(scope="session")
def lws(plane: Plane) -> Plane:
    """Let the controller of LeaderWorkerSets run on the plane, from now on."""
    plane.add("lws")
    return plane


def fresh_namespace(plane: Plane, test: str) -> str:
    """Make a namespace that is named after a test."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_"))[:40].strip("-")
    name = f"{words}-{next(_NUMBERS)}"
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name
