"""How a pod asks for GPUs: whole devices, MIG instances, or a part of a device by annotation."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from mooring.kube.convert import quantity
from mooring.kube.convert.notes import entry
from mooring.model.cluster import WHOLE
from mooring.model.mig import compute_slices
from mooring.model.resources import CPU, GPU, MEMORY, PODS, PORT, PORT_AT, amounts

if TYPE_CHECKING:
    from mooring.kube.convert.notes import Notes
    from mooring.kube.convert.requests import Totals
    from mooring.kube.objects import ObjectMeta, Pod
    from mooring.model.resources import Amounts

PREFIX = "mooring.dev/"
DEVICES = "nvidia.com/gpu"
INSTANCES = "nvidia.com/mig-"
"""Prefix of the resources that are MIG instances."""
FRACTION, MEMORY_OF, COUNT, MODEL = (
    f"{PREFIX}gpu-{word}" for word in ("fraction", "memory", "count", "model")
)
MARKS = (FRACTION, MEMORY_OF, COUNT, MODEL)
"""Annotations, or labels, that say what is asked of devices."""
REQUESTS = "spec.containers[*].resources.requests"
DEVICES_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Gpus:
    """What is asked of devices, in the words of a shape."""

    count: int = 0
    milli: int = WHOLE
    memory: int = 0
    mig: str = ""
    models: tuple[str, ...] = ()


def told(metadata: ObjectMeta, key: str) -> tuple[str | None, str]:
    """Return an annotation or else a label of that name, and where it is; None: there is none."""
    if key in metadata.annotations:
        return metadata.annotations[key], entry("metadata.annotations", key)
    return metadata.labels.get(key), entry("metadata.labels", key)


def claim(pod: Pod) -> tuple[str, str] | None:
    """Return where a part of devices is asked for, and how much, by a note alone; None: it is not.

    Everybody may write such a note at no cost; requests are counted by the server too.
    """
    for key in (FRACTION, MEMORY_OF):
        given, field = told(pod.metadata, key)
        if given is not None:
            return field, given
    return None


def read_gpus(
    pod: Pod, totals: Totals, notes: Notes, *, claims: bool = True
) -> tuple[Amounts, Gpus]:
    """Return what a pod asks for: everything but devices, and devices.

    Without `claims` only those of its requests count.
    """
    plain: dict[str, int] = {}
    devices: dict[str, int] = {}
    for name, exact in totals.items():
        field, amount = entry(REQUESTS, name), quantity.asked(name, exact)
        if amount > (DEVICES_MOST if name == DEVICES else quantity.MOST):
            notes.wrong(field, amount, quantity.LESS)
        elif name in (GPU, PODS) or name.startswith((PORT, PORT_AT)):
            notes.wrong(field, amount, "give a resource that pods can ask for")
        elif exact.denominator != 1 and not _is_divisible(name):
            notes.wrong(field, str(float(exact)), "give a whole number")
        elif amount and (name == DEVICES or name.startswith(INSTANCES)):
            devices[name] = amount
        else:
            plain[name] = amount
    asked = (_part(pod, devices, notes) if claims else None) or _whole(devices, notes)
    if asked.mig:
        plain |= devices  # as many instances as there are made: the plugin has cut the devices
    models = _models(pod, notes)
    if asked.count and models:
        asked = Gpus(asked.count, asked.milli, asked.memory, asked.mig, models)
    return amounts(plain), asked


def _is_divisible(resource: str) -> bool:
    return resource in (CPU, MEMORY) or quantity.in_mebibytes(resource)


def _whole(devices: dict[str, int], notes: Notes) -> Gpus:
    """Return whole devices, or MIG instances of one profile."""
    if not devices:
        return Gpus()
    (name, count), *others = sorted(devices.items())
    for other, amount in others:
        fix = f"remove it, or {name}: a pod asks for one kind of device"
        notes.wrong(entry(REQUESTS, other), amount, fix)
    if name == DEVICES:
        return Gpus(count)
    profile = name.removeprefix(INSTANCES)
    if not compute_slices(profile):
        notes.wrong(entry(REQUESTS, name), count, "give a MIG profile that is known, like 1g.10gb")
    if count > DEVICES_MOST:
        notes.wrong(entry(REQUESTS, name), count, quantity.LESS)
    return Gpus(count, mig=profile)


def _part(pod: Pod, devices: dict[str, int], notes: Notes) -> Gpus | None:
    """Return a part of one or more devices that annotations ask for; None: they ask for none."""
    fraction, at_fraction = told(pod.metadata, FRACTION)
    memory, at_memory = told(pod.metadata, MEMORY_OF)
    number, at_number = told(pod.metadata, COUNT)
    if fraction is None and memory is None:
        if number is not None:
            notes.wrong(at_number, number, f"remove it, or give {FRACTION} or {MEMORY_OF} too")
        return None
    if fraction is not None and memory is not None:
        notes.wrong(
            at_memory, memory, f"remove it, or {FRACTION}: a device is asked for in one way"
        )
    for name in devices:
        fix = f"remove it, or the annotation: {name} is asked for too"
        given = (at_fraction, fraction) if fraction is not None else (at_memory, memory)
        notes.wrong(*given, fix)
    milli = WHOLE if fraction is None else _read_fraction(fraction, at_fraction, notes)
    mebibytes = 0 if memory is None else _read_memory(memory, at_memory, notes)
    count = 1 if number is None else _read_count(number, at_number, notes)
    return Gpus(count, milli, mebibytes)


def _read_fraction(given: str, field: str, notes: Notes) -> int:
    exact = quantity.parse(given) if _is_decimal(given) else None
    if exact is None or not 0 < exact <= 1:
        notes.wrong(field, given, "give a part of a device above 0 and at most 1, like 0.5")
        return WHOLE
    return quantity.asked(CPU, exact)  # thousandths, rounded up, as of a core


def _is_decimal(given: str) -> bool:
    return given.isascii() and len(given) < 20 and given.replace(".", "", 1).isdigit()


def _read_memory(given: str, field: str, notes: Notes) -> int:
    """Return MiB: a plain number is one of MiB, one with a suffix is of bytes."""
    exact = quantity.parse(given)
    if exact is None or exact <= 0:
        notes.wrong(field, given, "give memory of a device, like 20Gi, or a number of MiB")
        return 0
    is_plain = given.isascii() and given.isdigit()
    amount = int(exact) if is_plain else quantity.asked(MEMORY, Fraction(exact))
    if amount > quantity.MOST:
        notes.wrong(field, given, "give less: no device has so much")
        return 0
    return amount


def _read_count(given: str, field: str, notes: Notes) -> int:
    if given.isascii() and given.isdigit() and len(given) < 7 and int(given):
        return int(given)
    notes.wrong(field, given, "give a number of devices, like 2")
    return 1


def _models(pod: Pod, notes: Notes) -> tuple[str, ...]:
    given, field = told(pod.metadata, MODEL)
    if given is None:
        return ()
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        notes.wrong(field, given, "give GPU models with commas between them")
    return tuple(dict.fromkeys(names))
