"""The manual: nothing in it is out of date, and it names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.cli.main import parser
from mooring.model.plan import Reason
from mooring.policy.placing.devices import RULES
from mooring.policy.placing.profile import BY_DOMAIN
from mooring.policy.placing.score import SCORES
from tools import docs

ROOT = Path(__file__).parents[1]


def test_generated_pages_are_up_to_date() -> None:
    """`make docs` would write nothing new."""
    for path, text in docs.generated().items():
        assert path.read_text("utf-8") == text, path.name


def test_links_lead_somewhere() -> None:
    assert docs.broken_links() == []


@pytest.mark.parametrize("name", [*SCORES, *BY_DOMAIN])
def test_every_rule_is_explained(name: str) -> None:
    assert name in (ROOT / "docs/placement.md").read_text("utf-8")


@pytest.mark.parametrize("name", RULES)
def test_every_device_rule_is_named(name: str) -> None:
    assert name in (ROOT / "docs/scenario.md").read_text("utf-8")


@pytest.mark.parametrize("reason", Reason.__args__, ids=lambda reason: reason.__name__)
def test_every_reason_is_explained(reason: type) -> None:
    assert f"| {reason.__name__} |" in (ROOT / "docs/concepts.md").read_text("utf-8")


def test_readme_names_commands_and_targets_that_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.M)
    for target in re.findall(r"make ([a-z]+)", readme):
        assert target in targets or target == "and"
    for line in re.findall(r"^\$ mooring ([^#\n]*)", readme, re.M):
        words = line.replace("FILE", "x").replace("DIR", "x").split()
        parser().parse_args(words)  # exits if it does not understand


def test_benchmarks_are_explained() -> None:
    """Every benchmark with a target is in the table of the manual."""
    source = (ROOT / "bench/core.py").read_text("utf-8")
    page = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    for name in re.findall(r'"(core\.[a-z0-9.]+)', source):
        assert f"`{name.rstrip('.')}`" in page
