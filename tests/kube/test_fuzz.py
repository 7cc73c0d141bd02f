"""Manifests with random mistakes on a real server: no crash, no wrong bind, and a clear word.

Most of what is made here the server refuses itself. What it takes, Mooring must place, or say why
not; and what has a mistake that we know of must never be placed, with every mistake told.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.api import ApiError
from tests.kube.convert.test_fuzz import mutate
from tests.kube.kubelet import RUN_SECONDS
from tests.kube.live import condition, job
from tests.kube.plane import pod
from tests.kube.turmoil import is_silent

if TYPE_CHECKING:
    from tests.kube.api import Object
    from tests.kube.live import Live

PREFIX = "mooring.dev/"
WRONG: dict[str, tuple[str, ...]] = {
    "preemptible": ("maybe", "", "TRUE"),
    "service": ("yes!", "1.0"),
    "min": ("0", "-1", "many", "1.5", "1" * 40, " "),
    "partial-min": ("x", "-2"),
    "run-limit": ("soon", "-5s", "1e999"),
    "estimate": ("1x", "½h", "\u202e1h"),
    "minimum-run": ("∞", "-1"),
    "restart-cost": ("dear", "nan"),
    "last-checkpoint": ("yesterday", "2026-13-01T00:00:00Z"),
    "deadline": ("never", "inf"),
    "gpu-fraction": ("2", "0", "half", "-0.5", "nan", "1/2"),
    "gpu-memory": ("lots", "-1Gi"),
    "gpu-count": ("0", "two"),
    "grace": ("a while", "1 s ago"),
    "topology-required": ("galaxy",),
    "topology-slice": ("leaf", "node:0", "node:-1"),
    "volume": ("big", "-1"),
    "quue": ("default",),
    "": ("x",),
}
"""Values that cannot be understood, by name; the last two names do not exist."""
RIGHT = {
    "preemptible": "semi",
    "min": "1",
    "run-limit": "2h",
    "estimate": "90s",
    "last-checkpoint": "2026-05-01T12:00:00Z",
    "gpu-model": "H100, A100",
    "grace": "never",
    "topology-preferred": "node",
    "user": "ann",
}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
NODES = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}
RICH: Object = {
    "initContainers": [
        {"name": "side", "image": "none", "restartPolicy": "Always"},
        {"name": "first", "image": "none", "resources": {"requests": {"cpu": "2"}}},
    ],
    "tolerations": [{"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"}],
    "nodeSelector": {"kubernetes.io/hostname": "node-1"},
    "terminationGracePeriodSeconds": 5,
    "topologySpreadConstraints": [
        {
            "maxSkew": 5,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODES]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": NODES}],
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": TERM}
            ]
        },
    },
}


def drawn(draw: Random, number: int) -> Object:
    """Return a Pod or a Job with annotations and fields, some of them wrong."""
    notes = {RUN_SECONDS: "0.3"}
    for name in draw.sample([*RIGHT], draw.randint(0, 2)):
        notes[PREFIX + name] = RIGHT[name]
    if draw.random() < 0.6:
        for name in draw.sample([*WRONG], draw.choice((1, 1, 2, 3))):
            notes[PREFIX + name] = draw.choice(WRONG[name])
    more: dict[str, Any] = {"annotations": notes, "labels": {"app": "x"}}
    if draw.random() < 0.5:
        keys = draw.sample([*RICH], draw.randint(1, len(RICH)))
        more |= {key: copy.deepcopy(RICH[key]) for key in keys}
    gpus = draw.choice((0, 1, 2))
    if draw.random() < 0.2:
        made = job(f"case-{number}", draw.randint(1, 3), gpus, **more)
        template = made["spec"]["template"]
    else:
        made = template = pod(f"case-{number}", gpus, **more)
    if draw.random() < 0.5:
        template["spec"] = mutate(template["spec"], draw)
    return made


def mistakes(given: Object) -> list[str]:
    """Return the annotations of a pod that we know to be wrong."""
    notes = given["metadata"].get("annotations", {})
    return [
        PREFIX + name for name, wrong in WRONG.items() if notes.get(PREFIX + name) in wrong
    ]  # fmt: skip


@pytest.mark.parametrize("cases", [150, pytest.param(1000, marks=pytest.mark.soak)])
def test_manifests_with_mistakes_are_told_what_is_wrong_and_harm_nobody(
    live: Live, cases: int
) -> None:
    """What the server takes is placed, or is told why not."""
    draw, taken, refused = Random(cases), 0, 0
    live.plane.nodes(4)
    live.start()
    while taken < cases:
        made = [drawn(draw, taken + refused + i) for i in range(50)]
        answers = live.plane.api.pool.map(lambda each: submitted(live, each), made)
        good = sum(answers)
        taken, refused = taken + good, refused + len(made) - good
    with suppress(AssertionError):  # those below say more
        live.plane.wait_for(lambda: not silent(live), 30 + cases / 10)
        live.plane.wait_for(lambda: not wrong(live), 15)
    assert not silent(live)
    assert not wrong(live)
    assert refused > cases / 10, "the server has refused hardly any: try harder"
    live.submit(pod("last", gpus=8))
    live.until_bound("last", timeout=30)


def submitted(live: Live, thing: Object) -> bool:
    """Submit an object; return whether the server has taken it."""
    thing["metadata"]["namespace"] = live.namespace
    try:
        live.plane.api.create(thing)
    except ApiError as error:
        if error.status not in (400, 403, 422):
            raise
        return False
    return True


def ours(live: Live) -> dict[str, Object]:
    """Return the pods that Mooring has to place."""
    return {
        name: each
        for name, each in live.pods().items()
        if each["spec"]["schedulerName"] == "mooring" and not each["spec"].get("schedulingGates")
    }


def silent(live: Live) -> list[str]:
    """Return the pods that have neither a node nor a word why not, with what they ask for."""
    return [f"{name}: {each}" for name, each in ours(live).items() if is_silent(each)]


def wrong(live: Live) -> list[str]:
    """Return what is wrong with how pods were treated."""
    found = []
    for name, each in ours(live).items():
        known = mistakes(each)
        if not known:
            continue
        told = condition(each)
        if each["spec"].get("nodeName"):
            found.append(f"{name} has {known} and was bound")
        elif told["reason"] != "NotUnderstood":
            found.append(f"{name} has {known} and is told {told['reason']}: {told['message']}")
        found += [
            f"{name} is not told of {mistake}: {told.get('message')}"
            for mistake in known
            if mistake not in told.get("message", "")
        ]
    return found
