"""A scenario file: everything, from text to values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.config.nodes import read_nodes
from mooring.config.parse import FILE_MOST, ParseError, parse
from mooring.config.reader import ConfigError, Cursor, EnoughError, Mistake, Notes, nearest
from mooring.config.schema import DEVICE_NAMES, KEYS, NAMES, STEPS_MOST
from mooring.config.shapes import Known
from mooring.config.units import (
    AMOUNT_MOST,
    duration,
    flag,
    instant,
    name,
    number,
    one_of,
    positive_duration,
    read_amounts,
    whole,
)
from mooring.config.workloads import WorkloadReader
from mooring.model.cluster import WHOLE
from mooring.model.memory import Memory, TaskType
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.topology import CLUSTER, NODE, Level, Topology

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

    from mooring.config.reader import Fields


def read_scenario(text: str, source: str = "") -> Scenario:
    """Return the scenario that a YAML or JSON text holds; raise `ConfigError` with all mistakes."""
    notes = Notes()
    try:
        values = parse(text)
        if values is None:
            raise ParseError("the file is empty")
        scenario = _read(Cursor("", values, notes))
    except ParseError as error:
        where = f"line {error.line}" if error.line else ""
        raise ConfigError([Mistake("", where, error.problem)], source) from None
    except EnoughError:
        raise ConfigError(notes.mistakes, source) from None
    if notes.mistakes:
        raise ConfigError(notes.mistakes, source)
    return scenario


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Return the scenario in a file."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_MOST + 1)
    except (FileNotFoundError, NotADirectoryError):
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "this is a folder; give a file"
    except OSError as error:
        problem = f"this cannot be read: {error.strerror or error}"
    except ValueError:
        problem = "give a path without null characters"
    else:
        return _read_bytes(data, str(path))
    raise ConfigError([Mistake("", "", problem)], str(path))


def read_scenario_from(file: BinaryIO, source: str) -> Scenario:
    """Return the scenario in an open file, of which no more is read than a scenario may have."""
    return _read_bytes(file.read(FILE_MOST + 1), source)


def _read_bytes(data: bytes, source: str) -> Scenario:
    if len(data) > FILE_MOST:
        problem = f"this is larger than {FILE_MOST >> 20} MiB; give less"
        raise ConfigError([Mistake("", "", problem)], source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError([Mistake("", "", "this is not text (UTF-8)")], source) from None
    return read_scenario(text, source)


def _read(cursor: Cursor) -> Scenario:
    fields = cursor.fields(KEYS["scenario"])
    topology = _read_topology(fields)
    levels = tuple(level.name for level in topology.levels)
    queues = _read_queues(fields)
    known = Known(
        levels={level: index for index, level in enumerate(topology.names)},
        queues={queue.name: None for queue in queues},
        cluster=read_nodes(fields, levels),
    )
    policy = _read_policy(fields, known)
    workloads = WorkloadReader(known)
    for item in fields.items("workloads"):
        workloads.read(item)
    return Scenario(
        now=fields.take("now", instant, 0.0),
        topology=topology,
        nodes=tuple(known.cluster.nodes),
        queues=queues,
        policy=policy,
        waiting=tuple(workloads.waiting),
        running=tuple(workloads.running),
        memory=_read_memory(fields),
    )


def _read_topology(fields: Fields) -> Topology:
    if "topology" not in fields:
        return Topology()
    levels: dict[str, Level] = {}
    for cursor in fields.at("topology").fields(KEYS["topology"]).items("levels"):
        if isinstance(cursor.value, dict):
            entry = cursor.fields(KEYS["level"])
            bandwidth = entry.take("bandwidth", number(0), 0.0)
            level = Level(entry.need("name", name, ""), bandwidth)
        else:
            level = Level(cursor.take(name, ""))
        if level.name in levels:
            cursor.wrong("give another name: there is already such a level")
        elif level.name in (CLUSTER, NODE):
            cursor.wrong(f"give another name: {level.name} is a level of every topology")
        elif level.name:
            levels[level.name] = level
    return Topology(tuple(levels.values()))


def _read_queues(fields: Fields) -> tuple[Queue, ...]:
    """Read the list at `queues`; left out: the default queue."""
    if "queues" not in fields:
        return (DEFAULT_QUEUE,)
    queues: dict[str, Queue] = {}
    places: dict[str, Cursor] = {}
    for cursor in fields.items("queues"):
        place = cursor
        if isinstance(cursor.value, dict):
            entry = cursor.fields(KEYS["queue"])
            queue = Queue(entry.need("name", name, ""), entry.take("parent", name, ""))
            place = entry.at("parent")
        else:
            queue = Queue(cursor.take(name, ""))
        if queue.name in queues:
            cursor.wrong("give another name: there is already such a queue")
        elif queue.name:
            queues[queue.name], places[queue.name] = queue, place
    _check_parents(queues, places)
    return tuple(queues.values())


def _check_parents(queues: dict[str, Queue], places: dict[str, Cursor]) -> None:
    """Find parents that do not exist, and cycles; each cycle once, at its first queue."""
    done: set[str] = set()
    for queue in queues.values():
        if queue.parent and queue.parent not in queues:
            fix = f"give the name of a queue as parent{nearest(queue.parent, queues)}"
            places[queue.name].wrong(fix)
        way: dict[str, None] = {}
        at: Queue | None = queue
        while at and at.name not in done and at.name not in way:
            way[at.name] = None
            at = queues.get(at.parent)
        if at and at.name in way:
            places[at.name].wrong("give another parent: cyclic queues, each is above the other")
        done.update(way)


def _read_policy(fields: Fields, known: Known) -> Policy:
    if "policy" not in fields:
        return Policy()
    default = Policy()
    given = fields.at("policy").fields(KEYS["policy"])
    return Policy(
        small=given.take("small", one_of(NAMES), default.small),
        gang=given.take("gang", one_of(NAMES), default.gang),
        service=given.take("service", one_of(NAMES), default.service),
        spread_within=given.take("spread_within", known.level, default.spread_within),
        devices=given.take("devices", one_of(DEVICE_NAMES), default.devices),
        search_steps=given.take("search_steps", whole(1, STEPS_MOST), default.search_steps),
        mix_half_life_s=given.take("mix_half_life_s", positive_duration, default.mix_half_life_s),
        mix_learns=given.take("mix_learns", flag, default.mix_learns),
        gang_grace_s=given.take("gang_grace_s", duration, default.gang_grace_s),
    )


def _read_memory(fields: Fields) -> Memory:
    if "memory" not in fields:
        return Memory()
    given = fields.at("memory").fields(KEYS["memory"])
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
    return Memory(
        mix=tuple(mix.items()),
        arrivals=given.take("arrivals", whole(0, AMOUNT_MOST), 0),
        mix_at=given.take("mix_at", instant, 0.0),
    )
