"""How a pod asks for GPUs: by resource, or by annotation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.convert.manifests import container, pod, shaped, wrong

MIG = "nvidia.com/mig-1g.10gb"


def noted(*containers: dict[str, Any], **notes: str) -> dict[str, Any]:
    """Return a pod with annotations; `_` in their names is `-`."""
    given = {f"mooring.dev/gpu-{key}": value for key, value in notes.items()}
    return pod(*containers, annotations=given)


RIGHT: dict[str, tuple[dict[str, Any], tuple[int, int, int, str, tuple[str, ...]]]] = {
    "none": (pod(), (0, 1000, 0, "", ())),
    "whole ones, of all containers": (
        pod(container(gpu="2"), container(gpu="1")),
        (3, 1000, 0, "", ()),
    ),
    "MIG instances": (pod(container(**{MIG: "2"})), (2, 1000, 0, "1g.10gb", ())),
    "half of one": (noted(fraction="0.5"), (1, 500, 0, "", ())),
    "a third, rounded up": (noted(fraction=".3333"), (1, 334, 0, "", ())),
    "all of one": (noted(fraction="1"), (1, 1000, 0, "", ())),
    "half of each of two": (noted(fraction="0.5", count="2"), (2, 500, 0, "", ())),
    "memory of one": (noted(memory="20Gi"), (1, 1000, 20_480, "", ())),
    "memory in MiB": (noted(memory="20480"), (1, 1000, 20_480, "", ())),
    "models": (
        noted(container(gpu="1"), model="NVIDIA-H100, NVIDIA-A100"),
        (1, 1000, 0, "", ("NVIDIA-H100", "NVIDIA-A100")),
    ),
    "models of no device do not matter": (noted(model="H100"), (0, 1000, 0, "", ())),
    "a label will do": (
        pod(labels={"mooring.dev/gpu-fraction": "0.25"}),
        (1, 250, 0, "", ()),
    ),
    "an annotation goes before a label": (
        pod(
            labels={"mooring.dev/gpu-fraction": "0.25"},
            annotations={"mooring.dev/gpu-fraction": "0.75"},
        ),
        (1, 750, 0, "", ()),
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), RIGHT.values(), ids=RIGHT)
def test_what_is_asked_of_devices(
    manifest: dict[str, Any], expected: tuple[int, int, int, str, tuple[str, ...]]
) -> None:
    found = shaped(manifest)
    asked = (found.gpus, found.milli, found.gpu_memory, found.mig, found.gpu_models)
    assert asked == expected


def test_instances_are_also_counted() -> None:
    """The plugin has cut the devices: there are no more of a profile than it tells."""
    assert dict(shaped(pod(container(**{MIG: "2"}))).amounts) == {MIG: 2}


_HALF = "metadata.annotations[mooring.dev/gpu-fraction]"
_REQUESTS = "spec.containers[*].resources.requests"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a part and whole ones": (noted(container(gpu="1"), fraction="0.5"), _HALF),
    "a part and instances": (noted(container(**{MIG: "1"}), fraction="0.5"), _HALF),
    "a part and memory": (
        noted(fraction="0.5", memory="1Gi"),
        "metadata.annotations[mooring.dev/gpu-memory]",
    ),
    "whole ones and instances": (
        pod(container(**{"nvidia.com/gpu": "1", MIG: "1"})),
        f"{_REQUESTS}[{MIG}]",
    ),
    "no part": (noted(fraction="0"), _HALF),
    "more than one": (noted(fraction="1.5"), _HALF),
    "half of a thousand": (noted(fraction="500m"), _HALF),
    "words": (noted(fraction="half"), _HALF),
    "no number": (noted(fraction="nan"), _HALF),
    "a label": (
        pod(labels={"mooring.dev/gpu-fraction": "x"}),
        "metadata.labels[mooring.dev/gpu-fraction]",
    ),
    "memory of words": (noted(memory="much"), "metadata.annotations[mooring.dev/gpu-memory]"),
    "no memory": (noted(memory="0"), "metadata.annotations[mooring.dev/gpu-memory]"),
    "a count alone": (noted(count="2"), "metadata.annotations[mooring.dev/gpu-count]"),
    "a count of none": (
        noted(fraction="0.5", count="0"),
        "metadata.annotations[mooring.dev/gpu-count]",
    ),
    "a model without a name": (
        noted(container(gpu="1"), model="H100,,"),
        "metadata.annotations[mooring.dev/gpu-model]",
    ),
    "an unknown profile": (
        pod(container(**{"nvidia.com/mig-9g.1gb": "1"})),
        f"{_REQUESTS}[nvidia.com/mig-9g.1gb]",
    ),
    "a million": (pod(container(gpu="1000001")), f"{_REQUESTS}[nvidia.com/gpu]"),
}


@pytest.mark.parametrize(("manifest", "field"), WRONG.values(), ids=WRONG)
def test_contradictions_are_told(manifest: dict[str, Any], field: str) -> None:
    (problem,) = wrong(manifest)
    assert problem.field == field
