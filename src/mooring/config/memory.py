"""The memory: the mix in words, everything else as in the journal."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any, get_type_hints

from mooring.config.coded import read_coded
from mooring.config.schema import KEYS
from mooring.config.units import AMOUNT_MOST, instant, name, number, read_amounts, whole
from mooring.model.cluster import WHOLE
from mooring.model.memory import Memory, TaskType

if TYPE_CHECKING:
    from mooring.config.reader import Fields


def read_memory(fields: Fields) -> Memory:
    """Read the section `memory`. A new field of the class needs nothing here."""
    default = Memory()
    if "memory" not in fields:
        return default
    given = fields.at("memory").fields([field.name for field in fields_of(Memory)])
    hints = get_type_hints(Memory)
    found: dict[str, Any] = {
        field.name: read_coded(given.at(field.name), hints[field.name], field.default)
        for field in fields_of(Memory)
        if field.name in given and field.name not in KEYS["memory"]
    }
    found["mix"] = _read_mix(given)
    found["arrivals"] = given.take("arrivals", whole(0, AMOUNT_MOST), default.arrivals)
    found["mix_at"] = given.take("mix_at", instant, default.mix_at)
    return Memory(**found)


def _read_mix(given: Fields) -> tuple[tuple[TaskType, float], ...]:
    mix: dict[TaskType, float] = {}
    for cursor in given.items("mix"):
        entry = cursor.fields(KEYS["task_type"])
        gpus = entry.take("gpus", whole(), 0)
        kind = TaskType(
            amounts=read_amounts(entry),
            gpus=gpus,
            milli=entry.take("milli", whole(0, WHOLE), WHOLE if gpus else 0),
            gpu_models=entry.each("gpu_models", name),
        )
        if kind in mix:
            cursor.wrong("give each type of task once")
        mix[kind] = entry.need("count", number(0), 0.0)
    return tuple(mix.items())
