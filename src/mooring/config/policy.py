"""The policy: sections of names, numbers and durations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.config.forms import STEPS_MOST
from mooring.config.nodes import read_taint
from mooring.config.parse import Table
from mooring.config.queues import priority, weight
from mooring.config.reader import Fields
from mooring.config.rules import (
    DEVICE_NAMES,
    MINIMUM_RUN_BY,
    NAMES,
    PROFILES,
    STRATEGIES,
    UNDECLARED,
)
from mooring.config.schema import KEYS
from mooring.config.units import (
    duration,
    flag,
    name,
    one_of,
    positive,
    positive_duration,
    text,
    whole,
)
from mooring.model.queues import Flavor
from mooring.model.settings import (
    Backfill,
    Defragmentation,
    Eviction,
    Failure,
    Fairness,
    Headroom,
    Policy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.config.known import Known
    from mooring.config.reader import Cursor

_NOTHING = Table()


def read_policy(fields: Fields, known: Known) -> Policy:
    """Read the section `policy`, all but its headroom: that names queues."""
    default = Policy()
    if "policy" not in fields:
        return default
    given = fields.at("policy").fields(KEYS["policy"])
    return Policy(
        profile=given.take("profile", one_of(PROFILES), default.profile),
        flavors=_read_flavors(given),
        priority_classes=given.pairs("priority_classes", priority),
        fairness=_read_fairness(given, known),
        eviction=_read_eviction(given),
        backfill=_read_backfill(given),
        failure=_read_failure(given),
        defragmentation=_read_defragmentation(given),
        undeclared=given.take("undeclared", one_of(UNDECLARED), default.undeclared),
        small=given.take("small", one_of(NAMES), default.small),
        rest=given.take("rest", one_of(NAMES), default.rest),
        gang=given.take("gang", one_of(NAMES), default.gang),
        service=given.take("service", one_of(NAMES), default.service),
        spread_within=given.take("spread_within", known.level, default.spread_within),
        devices=given.take("devices", one_of(DEVICE_NAMES), default.devices),
        search_steps=given.take("search_steps", _steps, default.search_steps),
        mix_half_life_s=_take(given, "mix_half_life", positive_duration, default.mix_half_life_s),
        mix_learns=given.take("mix_learns", flag, default.mix_learns),
        gang_grace_s=_take(given, "gang_grace", duration, default.gang_grace_s),
    )


_steps = whole(1, STEPS_MOST)


def _take(given: Fields, key: str, read: Callable[[object], float], default: float) -> float:
    """Return what stands at a key, or at its old name with `_s`."""
    old = f"{key}_s"
    if key in given and old in given:
        given.wrong(old, f"remove it: `{key}` says the same")
    return given.take(key if key in given else old, read, default)


def read_headroom(fields: Fields, known: Known) -> tuple[Headroom, ...]:
    """Read the list at `headroom` of the policy."""
    policy = fields.values.get("policy")
    given = Fields(fields.at("policy"), policy if isinstance(policy, Table) else _NOTHING)
    entries = [cursor.fields(KEYS["headroom"]) for cursor in given.items("headroom")]
    return tuple(
        Headroom(
            queue=entry.need("queue", known.queue, ""),
            gpus=entry.need("gpus", whole(1), 1),
            within_s=entry.need("within", duration, 0.0),
            flavor=entry.take("flavor", known.flavor, ""),
        )
        for entry in entries
    )


def _section(given: Fields, key: str) -> Fields:
    """Return the fields of a section; left out: none."""
    if key not in given:
        return Fields(given.cursor, _NOTHING)
    return given.at(key).fields(KEYS[key])


def _read_flavors(given: Fields) -> tuple[Flavor, ...]:
    """Read the list at `flavors`: names, or more."""
    flavors: dict[str, Flavor] = {}
    for cursor in given.items("flavors"):
        flavor = _read_flavor(cursor)
        if flavor.name in flavors:
            cursor.wrong("give another name: there is already such a flavor")
        elif flavor.name:
            flavors[flavor.name] = flavor
    return tuple(flavors.values())


def _read_flavor(cursor: Cursor) -> Flavor:
    if not isinstance(cursor.value, dict):
        return Flavor(cursor.take(name, ""))
    fields = cursor.fields(KEYS["flavor"])
    return Flavor(
        name=fields.need("name", name, ""),
        labels=fields.pairs("labels", text),
        taints=tuple(read_taint(item) for item in fields.items("taints")),
        price=fields.take("price", positive, 1.0),
    )


def _read_fairness(given: Fields, known: Known) -> Fairness:
    default, section = Fairness(), _section(given, "fairness")
    strategies = section.each("strategies", one_of(STRATEGIES[-1]))
    if strategies not in ((), *STRATEGIES):
        allowed = ", ".join(f"[{', '.join(one)}]" for one in STRATEGIES)
        section.wrong("strategies", f"give one of {allowed}")
    return Fairness(
        half_life_s=section.take("half_life", positive_duration, default.half_life_s),
        window_s=section.take("window", positive_duration, default.window_s),
        history_weight=section.take("history_weight", weight, default.history_weight),
        strategies=strategies,
        usage_half_life_s=section.take("usage_half_life", duration, default.usage_half_life_s),
        usage_sampling_s=section.take(
            "usage_sampling", positive_duration, default.usage_sampling_s
        ),
        usage_weights=_read_usage_weights(section, known),
    )


def _read_usage_weights(section: Fields, known: Known) -> tuple[tuple[str, float], ...]:
    """Read weights per resource."""
    if "usage_weights" in section:
        for cursor, resource in section.at("usage_weights").entries().each_key():
            replace(cursor, value=resource).take(known.resource, "")
    return section.pairs("usage_weights", weight)


def _read_eviction(given: Fields) -> Eviction:
    default, section = Eviction(), _section(given, "eviction")
    return Eviction(
        minimum_run_s=_read_minimum_run(section),
        preempt_minimum_run_s=section.take(
            "preempt_minimum_run", duration, default.preempt_minimum_run_s
        ),
        reclaim_minimum_run_s=section.take(
            "reclaim_minimum_run", duration, default.reclaim_minimum_run_s
        ),
        minimum_run_by=section.take(
            "minimum_run_by", one_of(MINIMUM_RUN_BY), default.minimum_run_by
        ),
        steps=section.take("steps", _steps, default.steps),
        movers=section.take("movers", whole(-1), default.movers),
        restart_s=section.take("restart", duration, default.restart_s),
        hold_s=section.take("hold", duration, default.hold_s),
        saturation=section.take("saturation", weight, default.saturation),
        consolidates=section.take("consolidates", flag, default.consolidates),
        notice_s=section.take("notice", duration, default.notice_s),
        leave_s=section.take("leave", duration, default.leave_s),
        patience_s=section.take("patience", duration, default.patience_s),
    )


def _read_minimum_run(section: Fields) -> tuple[tuple[str, float], ...]:
    """Read minimum run times per cause; what is left out has its default, and 0 is not written."""
    found = dict(Eviction().minimum_run_s)
    if "minimum_run" in section:
        given = section.at("minimum_run").fields(KEYS["minimum_run"])
        found |= {cause: given.take(cause, duration, 0.0) for cause in given.values}
    return tuple(sorted((cause, seconds) for cause, seconds in found.items() if seconds))


def _read_backfill(given: Fields) -> Backfill:
    default, section = Backfill(), _section(given, "backfill")
    evictions = section.take("quantum_evictions", whole(), default.quantum_evictions)
    return Backfill(
        reservations=section.take("reservations", whole(), default.reservations),
        quantum_s=section.take("quantum", duration, default.quantum_s),
        quantum_evictions=evictions,
        patience_s=section.take("patience", duration, default.patience_s),
        longest_patience_s=section.take("longest_patience", duration, default.longest_patience_s),
    )


def _read_failure(given: Fields) -> Failure:
    default, section = Failure(), _section(given, "failure")
    return Failure(
        restarts=section.take("restarts", whole(), default.restarts),
        node_failures=section.take("node_failures", whole(1), default.node_failures),
        node_window_s=section.take("node_window", duration, default.node_window_s),
    )


def _read_defragmentation(given: Fields) -> Defragmentation:
    default, section = Defragmentation(), _section(given, "defragmentation")
    return Defragmentation(
        automatic=section.take("automatic", flag, default.automatic),
        ratio=section.take("ratio", weight, default.ratio),
        budget=section.take("budget", weight, default.budget),
        moves=section.take("moves", whole(), default.moves),
    )
