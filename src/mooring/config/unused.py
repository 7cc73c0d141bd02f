"""Keys that a profile does not go by: rather a mistake than silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.config.parse import Table
from mooring.config.reader import Cursor
from mooring.config.rules import DEFAULT
from mooring.model.settings import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.config.reader import Fields

OF_KAI, OF_KUEUE = "profile kai", "profile kueue"
NOT_DEFAULT = {
    "eviction_rules": dict.fromkeys(("while_borrowing", "borrowing_threshold"), OF_KUEUE),
    "policy": {"undeclared": OF_KUEUE},
    "fairness": {"strategies": OF_KUEUE},
    "eviction": dict.fromkeys(
        ("preempt_minimum_run", "reclaim_minimum_run", "minimum_run_by", "saturation"), OF_KAI
    ),
}
"""Keys of each form that mean nothing in profile default, and where they do."""


def find_unused(fields: Fields, policy: Policy) -> None:
    """Find keys of a file that has been read that its profile does not go by."""
    given = fields.at("policy")
    profile = given.value.get("profile", DEFAULT) if isinstance(given.value, Table) else DEFAULT
    if profile != policy.profile:
        return  # what it is to be nobody knows
    wrong = [mistake.path for mistake in fields.cursor.notes.mistakes]
    found = _in_default(fields) if profile == DEFAULT else _elsewhere(given)
    for cursor, fix in (*found, *_without_spread(given, policy)):
        if not any(path.startswith(cursor.path) for path in wrong):
            cursor.wrong(fix)


def _in_default(fields: Fields) -> Iterator[tuple[Cursor, str]]:
    """Yield what only another profile goes by."""
    for form, place in _places(fields):
        for key, used_by in NOT_DEFAULT[form].items():
            if isinstance(place.value, Table) and key in place.value:
                yield _at(place, key), f"remove it: only {used_by} goes by it"


def _without_spread(given: Cursor, policy: Policy) -> Iterator[tuple[Cursor, str]]:
    """Yield where services spread, if the rule that places them does not go by it."""
    if policy.spread_within and policy.service != Policy().service and policy.profile == DEFAULT:
        yield (
            _at(given, "spread_within"),
            "remove it, or give `service: e-spread`, which goes by it",
        )


def _elsewhere(given: Cursor) -> Iterator[tuple[Cursor, str]]:
    """Yield what only profile default does."""
    automatic = _at(_at(given, "defragmentation"), "automatic")
    if automatic.value is True:
        yield automatic, "remove it: only profile default moves running work to close gaps"


def _places(fields: Fields) -> Iterator[tuple[str, Cursor]]:
    """Yield each form with such keys, and where it is."""
    given, queues = fields.at("policy"), fields.at("queues")
    yield "policy", given
    yield "fairness", _at(given, "fairness")
    yield "eviction", _at(given, "eviction")
    for index, value in enumerate(queues.value if isinstance(queues.value, list) else ()):
        queue = Cursor(f"{queues.path}[{index}]", value, queues.notes)
        yield "eviction_rules", _at(queue, "eviction")


def _at(cursor: Cursor, key: str) -> Cursor:
    """Return the place of a key; nothing may be there."""
    value = cursor.value.get(key) if isinstance(cursor.value, Table) else None
    return Cursor(f"{cursor.path}.{key}", value, cursor.notes)
