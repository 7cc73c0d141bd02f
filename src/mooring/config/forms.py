"""The pieces of which the JSON schemas are made."""

from __future__ import annotations

from typing import Any

from mooring.config.units import AMOUNT_MOST, COUNT_MOST
from mooring.config.units import DURATION as DURATION_PATTERN
from mooring.config.units import QUANTITY as QUANTITY_PATTERN

Schema = dict[str, Any]
"""A JSON Schema is JSON: any."""


def say(words: str, schema: Schema) -> Schema:
    """Return the schema with a description."""
    return {"description": words, **schema}


def whole(least: int = 0, most: int = COUNT_MOST) -> Schema:
    """Return the schema of a whole number."""
    return {"type": "integer", "minimum": least, "maximum": most}


def number(least: float = -AMOUNT_MOST, most: float = AMOUNT_MOST) -> Schema:
    """Return the schema of a number."""
    return {"type": "number", "minimum": least, "maximum": most}


def word_of(words: tuple[str, ...]) -> Schema:
    """Return the schema of one of these words."""
    return {"enum": list(words)}


def list_of(items: Schema, **more: int) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **more}


def map_of(values: Schema) -> Schema:
    """Return the schema of a mapping with any keys."""
    return {"type": "object", "additionalProperties": values}


def object_of(properties: dict[str, Schema], *required: str) -> Schema:
    """Return the schema of a mapping with these keys."""
    needed = {"required": list(required)} if required else {}
    return {
        "type": "object",
        "properties": properties,
        **needed,
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def bare_or(name: str) -> Schema:
    """Return the schema of a name, or of an object with more than a name."""
    return {"anyOf": [NAME, ref(name)]}


FLAG: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
LABELS = map_of(TEXT)
QUANTITY: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": f"^{QUANTITY_PATTERN}$"},
    ]
}
DURATION: Schema = {
    "anyOf": [number(0), {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "minLength": 2}]
}
BOUND: Schema = {"anyOf": [*QUANTITY["anyOf"], {"enum": [-1, "unlimited"]}]}
"""An amount, or no bound."""
WEIGHT = number(0)
PRIORITY_MOST = (1 << 31) - 1
PRIORITY = whole(-PRIORITY_MOST, PRIORITY_MOST)
STEPS_MOST = 1_000_000_000
STEPS = whole(1, STEPS_MOST)
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
