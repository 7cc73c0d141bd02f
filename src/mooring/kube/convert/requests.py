"""What a pod asks for, counted as kubelet and kube-scheduler count it.

Containers and sidecars (init containers that restart always) run together; before them each init
container runs alone but for the sidecars that were started before it. The larger of both is asked
for, resource by resource; what the pod as a whole says goes before that; overhead comes on top.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from mooring.kube.convert import quantity
from mooring.kube.convert.notes import entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.kube.convert.notes import Notes
    from mooring.kube.objects import Container, PodSpec, Quantity

Totals = dict[str, Fraction]
"""Exact amounts by resource, in the units of Kubernetes."""

ALWAYS = "Always"
_RESTART = ("", ALWAYS, "Never", "OnFailure")
_NONE = Fraction(0)
_MOST = quantity.MOST << 20
POD_LEVEL = ("cpu", "memory")
"""Resources that a pod may ask for as a whole, besides huge pages."""


def total_requests(spec: PodSpec, notes: Notes) -> Totals:
    """Return what a pod asks for of each resource."""
    together: Totals = {}
    for index, container in enumerate(spec.containers):
        _add(together, _requests(container, f"spec.containers[{index}]", notes))
    first: Totals = {}
    sidecars: Totals = {}
    for index, container in enumerate(spec.init_containers):
        field = f"spec.initContainers[{index}]"
        here = _requests(container, field, notes)
        if notes.one_of(f"{field}.restartPolicy", container.restart_policy, _RESTART):
            if container.restart_policy == ALWAYS:
                _add(together, here)
                _add(sidecars, here)
                here = dict(sidecars)
            else:
                _add(here, sidecars)
        _most(first, here)
    _most(together, first)
    if spec.resources is not None:
        field = "spec.resources.requests"
        whole = _read(spec.resources.requests, field, notes)
        together |= {name: amount for name, amount in whole.items() if _is_pod_level(name)}
    _add(together, _read(spec.overhead, "spec.overhead", notes))
    return together


def _is_pod_level(resource: str) -> bool:
    return resource in POD_LEVEL or resource.startswith("hugepages-")


def _requests(container: Container, field: str, notes: Notes) -> Totals:
    """Return what a container asks for; a limit without a request is one, as for the server."""
    resources = container.resources
    found = _read(resources.requests, f"{field}.resources.requests", notes)
    rest = {name: most for name, most in resources.limits.items() if name not in resources.requests}
    return found | _read(rest, f"{field}.resources.limits", notes)


def _read(given: Mapping[str, Quantity], field: str, notes: Notes) -> Totals:
    found: Totals = {}
    for name, written in given.items():
        amount = quantity.parse(written)
        if amount is None:
            notes.wrong(entry(field, name), written, quantity.FORM)
        elif amount < 0:
            notes.wrong(entry(field, name), written, "give no less than 0")
        elif amount > _MOST:
            notes.wrong(entry(field, name), written, quantity.LESS)
        else:
            found[name] = amount
    return found


def _add(into: Totals, more: Totals) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, _NONE) + amount


def _most(into: Totals, other: Totals) -> None:
    for name, amount in other.items():
        into[name] = max(into.get(name, _NONE), amount)
