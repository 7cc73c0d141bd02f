"""The device layout of a node, from its annotation.

`mooring.dev/device-layout` is a short text of sizes, for nodes whose devices are all alike:

    island=8 switch=2 numa=4 nic=1 unhealthy=3,5

(so many devices to each NVLink island, PCIe switch, NUMA node and NIC; left out: all in one), or
JSON, one object a device, in the order of their indices:

    [{"island": 0, "switch": 0, "numa": 0, "nic": 0, "healthy": true, "memory": "80Gi"}, …]
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mooring.kube.convert import quantity
from mooring.kube.convert.gpus import PREFIX
from mooring.model.cluster import Device
from mooring.model.mig import GEOMETRIES
from mooring.model.resources import MEMORY

if TYPE_CHECKING:
    from mooring.kube.convert.notes import Notes

LAYOUT = f"{PREFIX}device-layout"
DEVICES_MOST = 62
"""Devices of a node: a set of them is a signed word of 64 bits."""
_PLACES = ("island", "switch", "numa", "nic")
_KEYS = (*_PLACES, "healthy", "memory", "mig")
_NUMBER_MOST = 1 << 20
_TEXT_MOST = 1 << 16


def lay_out(devices: list[Device], given: str, field: str, notes: Notes) -> list[Device]:
    """Return devices where an annotation says that they are."""
    if len(given) > _TEXT_MOST:
        notes.wrong(field, given, f"give at most {_TEXT_MOST} characters")
        return devices
    if given.lstrip().startswith("["):
        return _from_json(devices, given, field, notes)
    sizes: dict[str, int] = {}
    bad: list[int] = []
    for word in given.split():
        key, _, value = word.partition("=")
        if key == "unhealthy":
            numbers = [_number(each, len(devices) - 1) for each in value.split(",")]
            bad += [number for number in numbers if number is not None]
            right = None not in numbers
        else:
            size = _number(value, DEVICES_MOST)
            right = key in _PLACES and bool(size)
            sizes[key] = size or 1
        if not right:
            notes.wrong(field, word, "give words like island=8 switch=2 numa=4 nic=1 unhealthy=3,5")
    if notes:
        return devices
    island, switch, numa, nic = (sizes.get(key, DEVICES_MOST) for key in _PLACES)
    return [
        replace(
            device,
            healthy=device.healthy and i not in bad,
            island=i // island,
            switch=i // switch,
            numa=i // numa,
            nic=i // nic,
        )
        for i, device in enumerate(devices)
    ]


def _number(word: str, most: int) -> int | None:
    if word.isascii() and word.isdigit() and len(word) < 8 and int(word) <= most:
        return int(word)
    return None


def _from_json(devices: list[Device], given: str, field: str, notes: Notes) -> list[Device]:
    try:
        entries = json.loads(given)
    except (ValueError, RecursionError):
        notes.wrong(field, given, "give valid JSON: a list with an object for each device")
        return devices
    if len(entries) > DEVICES_MOST or not all(isinstance(one, dict) for one in entries):
        notes.wrong(field, given, f"give an object for each device, at most {DEVICES_MOST}")
        return devices
    if len(entries) < len(devices):
        fix = f"give all {len(devices)} devices that the node has"
        notes.wrong(field, given, fix)
        return devices
    each = devices[0] if devices else Device()
    known = devices + [replace(each, healthy=False)] * (len(entries) - len(devices))
    return [
        _device(device, entry, f"{field}[{i}]", notes)
        for i, (device, entry) in enumerate(zip(known, entries, strict=True))
    ]


def _device(device: Device, entry: dict[str, Any], field: str, notes: Notes) -> Device:
    found: dict[str, Any] = {}
    for key, value in entry.items():
        where = f"{field}.{key}"
        if not notes.one_of(where, key, _KEYS):
            continue
        if key in _PLACES:
            if isinstance(value, bool) or not isinstance(value, int) or not _is_small(value):
                notes.wrong(where, value, "give a number, counted from 0")
            else:
                found[key] = value
        elif key == "healthy":
            if isinstance(value, bool):
                found[key] = device.healthy and value
            else:
                notes.wrong(where, value, "give true or false")
        elif key == "mig":
            if not isinstance(value, str) or value not in GEOMETRIES:
                notes.wrong(where, value, f"give one of {', '.join(GEOMETRIES)}")
            else:
                found[key] = value
        else:
            found[key] = _memory(value, where, notes)
    return replace(device, **found)


def _is_small(value: int) -> bool:
    return 0 <= value < _NUMBER_MOST


def _memory(value: object, field: str, notes: Notes) -> int:
    exact = quantity.parse(value) if isinstance(value, str) else None
    if exact is None or not 0 <= quantity.given(MEMORY, exact) <= quantity.MOST:
        notes.wrong(field, value, "give memory, like 80Gi")
        return 0
    return quantity.given(MEMORY, exact)
