"""What a pod asks for, counted as kubelet counts it. The numbers are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.resources import amount_of
from tests.kube.convert.manifests import container, pod, shaped, wrong

ALWAYS = {"restartPolicy": "Always"}

CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing": (pod(), {}),
    "one container": (pod(container(cpu="500m", memory="1Gi")), {"cpu": 500, "memory": 1024}),
    "two containers run together": (
        pod(container(cpu="500m"), container(cpu="1", memory="100Mi")),
        {"cpu": 1500, "memory": 100},
    ),
    "zero is nothing": (pod(container(cpu="0")), {}),
    "parts are added before they are rounded": (
        pod(container(cpu="0.4m"), container(cpu="0.4m")),
        {"cpu": 1},
    ),
    "an init container that needs more than all that run later": (
        pod(container(cpu="1", memory="2Gi"), initContainers=[container(cpu="3", memory="1Gi")]),
        {"cpu": 3000, "memory": 2048},
    ),
    "init containers run one after the other": (
        pod(container(cpu="1"), initContainers=[container(cpu="2"), container(cpu="3")]),
        {"cpu": 3000},
    ),
    "a sidecar runs beside the containers": (
        pod(container(cpu="1"), initContainers=[{**container(cpu="500m"), **ALWAYS}]),
        {"cpu": 1500},
    ),
    "an init container beside the sidecar that started before it": (
        # 2 + 3 while it runs; later 2 + 1
        pod(
            container(cpu="1"),
            initContainers=[{**container(cpu="2"), **ALWAYS}, container(cpu="3")],
        ),
        {"cpu": 5000},
    ),
    "an init container before the sidecar does not see it": (
        # 4 alone; later 2 + 1
        pod(
            container(cpu="1"),
            initContainers=[container(cpu="4"), {**container(cpu="2"), **ALWAYS}],
        ),
        {"cpu": 4000},
    ),
    "two sidecars and an init container between them": (
        # 1 alone; 1 + 5 = 6; then 1 + 2 = 3; later 1 + 2 + 3 = 6: and memory 7 + 1 later
        pod(
            container(cpu="3", memory="1Gi"),
            initContainers=[
                {**container(cpu="1", memory="7Gi"), **ALWAYS},
                container(cpu="5"),
                {**container(cpu="2"), **ALWAYS},
            ],
        ),
        {"cpu": 6000, "memory": 8192},
    ),
    "overhead comes on top": (
        pod(container(cpu="1", memory="1Gi"), overhead={"cpu": "250m", "memory": "64Mi"}),
        {"cpu": 1250, "memory": 1088},
    ),
    "what the pod says as a whole goes before what its containers say": (
        pod(
            container(cpu="1", memory="1Gi"),
            resources={"requests": {"cpu": "5"}},
            overhead={"cpu": "1"},
        ),
        {"cpu": 6000, "memory": 1024},
    ),
    "but not for resources that a pod cannot ask for as a whole": (
        pod(
            container(**{"example.com/fpga": "2"}),
            resources={"requests": {"example.com/fpga": "9", "hugepages-2Mi": "8Mi"}},
        ),
        {"example.com/fpga": 2, "hugepages-2Mi": 8},
    ),
    "a limit without a request is one": (
        pod({"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}}),
        {"cpu": 2000, "memory": 1024},
    ),
    "a request goes before its limit": (
        pod({"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}),
        {"cpu": 1000},
    ),
    "storage and huge pages are counted in MiB": (
        pod(container(**{"ephemeral-storage": "1Gi", "hugepages-1Gi": "2Gi"})),
        {"ephemeral-storage": 1024, "hugepages-1Gi": 2048},
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), CASES.values(), ids=CASES)
def test_what_a_pod_asks_for(manifest: dict[str, Any], expected: dict[str, int]) -> None:
    assert dict(shaped(manifest).amounts) == expected


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no quantity": (
        pod(container(cpu="lots")),
        "spec.containers[0].resources.requests.cpu",
        "quantity",
    ),
    "less than nothing": (
        pod(container(memory="-1Gi")),
        "spec.containers[0].resources.requests.memory",
        "no less than 0",
    ),
    "more than any node has": (
        pod(container(cpu="1E")),
        "spec.containers[*].resources.requests.cpu",
        "less",
    ),
    "far more": (
        pod(container(cpu="1e30")),
        "spec.containers[0].resources.requests.cpu",
        "less",
    ),
    "a part of something whole": (
        pod(container(**{"example.com/fpga": "1500m"})),
        "spec.containers[*].resources.requests[example.com/fpga]",
        "whole",
    ),
    "a name of the engine's own": (
        pod(container(pods="1")),
        "spec.containers[*].resources.requests.pods",
        "can ask for",
    ),
    "in overhead": (pod(overhead={"cpu": "x"}), "spec.overhead.cpu", "quantity"),
    "in a limit": (
        pod({"name": "c", "resources": {"limits": {"cpu": "x"}}}),
        "spec.containers[0].resources.limits.cpu",
        "quantity",
    ),
    "of the pod": (
        pod(resources={"requests": {"cpu": "x"}}),
        "spec.resources.requests.cpu",
        "quantity",
    ),
    "an unknown way to restart": (
        pod(initContainers=[{"name": "i", "restartPolicy": "Sometimes"}]),
        "spec.initContainers[0].restartPolicy",
        "Always",
    ),
}


@pytest.mark.parametrize(("manifest", "field", "fix"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_counted_is_told(manifest: dict[str, Any], field: str, fix: str) -> None:
    (problem,) = wrong(manifest)
    assert problem.field == field
    assert fix in problem.fix


def test_all_mistakes_are_told() -> None:
    problems = wrong(pod(container(cpu="x", memory="y"), overhead={"cpu": "z"}))
    assert [problem.value for problem in problems] == ["x", "y", "z"]


amount = st.integers(0, 64)


@given(
    st.lists(amount, min_size=1, max_size=3),
    st.lists(st.tuples(amount, st.booleans()), max_size=4),
)
def test_requests_are_the_most_that_is_used_at_once(
    main: list[int], first: list[tuple[int, bool]]
) -> None:
    """The start of the pod, played step by step, never uses more, and at some step just as much."""
    inits = [{**container(cpu=str(cores)), **(ALWAYS if stays else {})} for cores, stays in first]
    there, most = 0, 0
    for cores, stays in first:
        most = max(most, there + cores)
        there += cores if stays else 0
    most = max(most, there + sum(main))
    found = shaped(pod(*(container(cpu=str(cores)) for cores in main), initContainers=inits))
    assert amount_of(found.amounts, "cpu") == most * 1000
