"""Broken files: whatever the text, the answer is a scenario or a `ConfigError`."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from mooring.config import ConfigError, dump_scenario, read_scenario, scenario_schema
from mooring.config.parse import parse
from mooring.config.schema import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join((DOCS / page).read_text("utf-8") for page in ("scenario.md", "policy.md"))
PAGE = re.findall(r"^```yaml\n(.*?)^```$", PAGES, re.M | re.S)
FILES = [path.read_text("utf-8") for path in sorted((DOCS / "examples").glob("*.yaml"))]
GOOD = [*FILES, *PAGE, *(json.dumps(parse(text), indent=1) for text in FILES)]

TOKEN = re.compile(r"\n *|[\w.-]+|\s|.")
KEY_LIST = sorted({key for keys in KEYS.values() for key in keys})
ODD = [
    *("", "null", "~", "true", "-1", "0", "1", "2", "1.5", "1e400", ".nan", "-.inf", "9" * 30),
    *("9" * 5000, "0x" + "f" * 5000, "''", '"\\0"', '"\\ud800"', "[]", "{}", "[[]]", "[{}]"),
    *(
        "{a: b}",
        "a",
        "node",
        "cluster",
        "main",
        "64Gi",
        "500m",
        "2h",
        "1d12h",
        "1g.5gb",
        "&x [*x]",
        "unlimited",
    ),
    *("&y {groups: [*y]}", "*x", "*y", "!!binary x", "? x", "- x", "|", ">", "<<", "%", "@", "`"),
    *(
        "---",
        "...",
        "#",
        "\t",
        "\x00",
        "\x85",
        "\u2028",
        "\ud800",
        "\ufeff",
        "é",
        "名",
        "{i}",
        "\\",
    ),
    *("[" * 70, "- " * 70, "{a: " * 70, "&" + "z" * 99, "1:30:00", "2024-01-01", "2024-99-99"),
]
ODD_DATA: list[object] = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 1000, 10**6, 10**7, 1 << 41, 10**400, 0.5, 1e300, -0.0),
    *(float("nan"), float("inf"), "", "a", "node", "leaf", "cluster", "main", "default", "gpu-000"),
    *(
        "64Gi",
        "-1",
        "500m",
        "2h",
        "1g.5gb",
        "2g.10gb",
        "a100-40gb",
        "\0",
        "\ud800",
        "x" * 2000,
        "{i}",
    ),
    *([], {}, [[]], [{}], ["a"], [0], [0, 0], [[0, 4]], {"a": "b"}, {"name": "a"}, [{"name": "a"}]),
]
SECTIONS = ("fairness", "eviction", "backfill", "failure", "defragmentation")
STRUCTURE = [*"[]{},:-#&*!|>'\"%@`", "\n", "\n  ", "\n    "]


def broken(seed: int) -> str:
    """Return a good text with a few random edits: a third in its letters, the rest in its data."""
    random = Random(seed)
    return broken_text(random) if seed % 3 == 0 else broken_data(random)


def broken_data(random: Random) -> str:
    """Return JSON of good data in which values and keys were swapped, dropped or replaced."""
    data = parse(random.choice(GOOD))
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        places = [(box, key) for box in boxes(data) for key in keys_of(box)]
        box, key = random.choice(places)
        other, other_key = random.choice(places)
        match random.randrange(6):
            case 0:
                del box[key]
            case 1:
                box[key] = deepcopy(other[other_key])
            case 2 if isinstance(box, list):
                box.append(deepcopy(box[key]))
            case 2 | 3 if isinstance(box, dict):
                box[random.choice(KEY_LIST)] = box.pop(key)
            case 4:
                box[key] = [deepcopy(box[key])]
            case _:
                box[key] = deepcopy(random.choice(ODD_DATA))
        if not any(boxes(data)):
            break
    return json.dumps(data)


def boxes(data: Any) -> Iterator[Any]:
    """Yield every list and mapping in the data."""
    if isinstance(data, list | dict):
        yield data
        for key in keys_of(data):
            yield from boxes(data[key])


def keys_of(box: Any) -> list[Any]:
    return list(box) if isinstance(box, dict) else list(range(len(box)))


def broken_text(random: Random) -> str:
    """Return a good text in which tokens were dropped, doubled, swapped, replaced or cut off."""
    tokens = TOKEN.findall(random.choice(GOOD))
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        i = random.randrange(len(tokens))
        j = min(len(tokens), i + random.choice((1, 1, 1, 2, 5, 30)))
        match random.randrange(10):
            case 0:
                del tokens[i:j]
            case 1:
                tokens[i:i] = tokens[i:j]
            case 2:
                tokens[i] = random.choice(ODD)
            case 3 | 7 | 8:
                words = [k for k, token in enumerate(tokens) if token.strip(" \n,:[]{}")]
                tokens[random.choice(words or [i])] = random.choice(ODD + KEY_LIST)
            case 4:
                tokens[i] = random.choice(STRUCTURE)
            case 5:
                k = random.randrange(len(tokens))
                tokens[i], tokens[k] = tokens[k], tokens[i]
            case _:
                del tokens[random.randrange(len(tokens) + 1) :]
        tokens = tokens or [""]
    return "".join(tokens)


VALIDATOR = Draft202012Validator(scenario_schema())


def outcome(text: str) -> str:
    """Read a text; what reads must be valid by the schema and come back the same."""
    try:
        scenario = read_scenario(text)
    except ConfigError as error:
        return "mistakes" if error.mistakes and str(error) else "nothing said"
    VALIDATOR.validate(parse(text))
    assert read_scenario(dump_scenario(scenario)) == scenario
    return "scenario"


@pytest.mark.parametrize("part", range(10))
def test_broken_files_give_mistakes_and_nothing_else(part: int) -> None:
    outcomes = {outcome(broken(seed)) for seed in range(part * 50, part * 50 + 50)}
    assert outcomes <= {"scenario", "mistakes"}


@pytest.mark.soak
def test_many_broken_files_give_mistakes_and_nothing_else() -> None:
    for seed in range(500, 20_000):
        outcome(broken(seed))


def test_good_files_are_good() -> None:
    assert {outcome(text) for text in GOOD} == {"scenario"}


@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_anywhere_is_no_crash(value: str) -> None:
    """Every key of every kind, with a value that it does not expect."""
    for kind, keys in KEYS.items():
        for key in keys:
            item = f"{{name: n, {key}: {value}}}"
            bare = f"{{{key}: {value}}}"
            text = {
                "workload": f"workloads: [{item}]",
                "group": f"workloads: [{{name: w, groups: [{item}]}}]",
                "node": f"nodes: [{item}]",
                "device": f"nodes: [{{name: n, devices: [{item}]}}]",
                "placement": f"nodes: [{{name: n, gpus: 1}}]\nworkloads: [{{name: w, gpus: 1, "
                f"running: true, placements: [{item}]}}]",
                "scenario": f"{key}: {value}",
                "queue": f"queues: [{item}]",
                "quota": f"queues: [{{name: q, quotas: [{{resource: gpu, {key}: {value}}}]}}]",
                "resource_group": f"queues: [{{name: q, groups: [{bare}]}}]",
                "fungibility": f"queues: [{{name: q, fungibility: {bare}}}]",
                "eviction_rules": f"queues: [{{name: q, eviction: {bare}}}]",
                "flavor": f"policy: {{flavors: [{item}]}}",
                "headroom": f"policy: {{headroom: [{bare}]}}",
                "minimum_run": f"policy: {{eviction: {{minimum_run: {bare}}}}}",
                "some_tasks": f"workloads: [{{name: w, running: true, finished: [{bare}], "
                f"releasing: [{bare}]}}]",
                "memory": f"memory: {bare}\n",
                "policy": f"policy: {bare}",
                **{one: f"policy: {{{one}: {bare}}}" for one in SECTIONS},
            }.get(kind, f"{kind}: {item}\nmemory: {{mix: [{item}]}}\nqueues: [{item}]")
            outcome(text)
