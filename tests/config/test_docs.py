"""The manual's pages of the format: their examples read, and they name everything."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from mooring.config import (
    dump_policy,
    dump_scenario,
    load_policy,
    load_scenario,
    policy_schema,
    read_policy,
    read_scenario,
    scenario_schema,
)
from mooring.config.parse import parse
from mooring.config.rules import CHOICES
from mooring.config.schema import KEYS
from mooring.config.units import duration
from mooring.config.write_policy import key_of
from mooring.model.mig import GEOMETRIES
from mooring.model.settings import Policy

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scenario.md").read_text("utf-8")
RULES_PAGE = (DOCS / "policy.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RULES = re.findall(r"^```yaml\n(.*?)^```$", RULES_PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = sorted((DOCS / "examples").glob("*.yaml"))
VALIDATOR = Draft202012Validator(scenario_schema())
SECTIONS = ("fairness", "eviction", "backfill", "failure", "defragmentation")
POLICY_VALIDATOR = Draft202012Validator(policy_schema())


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 4
    assert len(RULES) >= 5
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_of_the_page_read(text: str) -> None:
    scenario = read_scenario(text)
    assert read_scenario(dump_scenario(scenario)) == scenario
    VALIDATOR.validate(parse(text))


@pytest.mark.parametrize("text", RULES, ids=range(len(RULES)))
def test_examples_of_the_page_on_policies_read(text: str) -> None:
    policy = read_policy(text)
    assert read_policy(dump_policy(policy)) == policy
    POLICY_VALIDATOR.validate(parse(text))


def test_the_example_of_a_policy_is_one() -> None:
    policy = load_policy(DOCS / "examples" / "policy.yaml")
    assert read_policy(dump_policy(policy)) == policy
    POLICY_VALIDATOR.validate(parse((DOCS / "examples" / "policy.yaml").read_text("utf-8")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_files_read(path: Path) -> None:
    scenario = load_scenario(path)
    assert read_scenario(dump_scenario(scenario)) == scenario
    VALIDATOR.validate(parse(path.read_text("utf-8")))


@pytest.mark.parametrize("kind", KEYS)
def test_the_page_names_every_key(kind: str) -> None:
    missing = [key for key in KEYS[kind] if not re.search(rf"\b{key}\b", PAGE)]
    assert missing == []


DEFAULTS = [
    (section, key_of(field.name), getattr(value, field.name), field.name.endswith("_s"))
    for section, value in (
        ("policy", Policy()),
        *((name, getattr(Policy(), name)) for name in SECTIONS),
    )
    for field in fields(value)
    if isinstance(getattr(value, field.name), bool | int | float)
    or getattr(value, field.name) in CHOICES
]


@pytest.mark.parametrize(
    ("section", "key", "default", "is_duration"), DEFAULTS, ids=[".".join(d[:2]) for d in DEFAULTS]
)
def test_the_page_tells_defaults_as_they_are(
    section: str, key: str, default: object, is_duration: bool
) -> None:
    """A line may be about two keys: then their defaults stand in the same order."""
    page, sections = PAGE[PAGE.index("## Policy") : PAGE.index("## Workloads")].split("| section |")
    lines = (page if section == "policy" else sections.partition(f"| `{section}` |")[2]).split("\n")
    lines = [line if line.startswith("|") else f"| |{line}" for line in lines]
    line = next(line for line in lines if f"`{key}`" in "|".join(line.split("|")[1:-2]))
    keys = re.findall(r"`(\w+)`", "|".join(line.split("|")[1:-2]).replace(f"`{section}`", ""))
    told = re.findall(r"left out:? ([^;(|]*)", line)[-1].strip().split(", ")
    said = told[keys.index(key)] if len(told) == len(keys) else told[0]
    if isinstance(default, bool):
        assert said == str(default).lower()
    elif is_duration:
        assert duration(said if not said.isdigit() else int(said)) == default
    else:
        assert said == (f"{default:g}" if isinstance(default, int | float) else default)


def test_the_page_names_every_choice() -> None:
    words = [*CHOICES, *GEOMETRIES]
    assert [word for word in words if word not in PAGE] == []
