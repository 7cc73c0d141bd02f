"""The manual: nothing in it is out of date, and it names what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mooring.cli.main import main, parser
from mooring.cli.numbers import SHOWN as TOLD
from mooring.metrics import Summary
from mooring.model.plan import Reason
from mooring.policy.own import NodeStates, Own, Task
from mooring.policy.placing.devices import RULES
from mooring.policy.placing.profile import BY_DOMAIN
from mooring.policy.placing.score import SCORES
from mooring.sim.mixes import MIXES
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.study import NAMED, Source, Trial
from mooring.sim.sweep import Cell, run_cell
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


SIMULATE = (ROOT / "docs/simulate.md").read_text("utf-8")
SAID = re.findall(r"^mooring ([^\n]*)$", SIMULATE, re.M)


NUMBERS = [field.name for field in fields(Summary)][7:-4]
"""From GAR on, without the curve and who waited longest, or waits still."""


def test_commands_of_the_page_on_simulation_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One after the other: the last ones read what the first one wrote."""
    monkeypatch.chdir(tmp_path)
    assert len(SAID) == 12
    for command in SAID:
        assert main(command.split()) == 0, command
    assert {path.name for path in tmp_path.iterdir()} == {
        *("report.html", "run.json", "run.journal", "runs.csv", "half.run", "half.journal"),
        "compared",
    }


def test_every_column_of_a_sweep_is_explained() -> None:
    """Those of the table and of waits by size are explained there."""
    trial = Trial(Source("lab", MixOptions(gpus=8, days=0.001)), NAMED["default"], until_s=60.0)
    shown = {key for _, key, _ in TOLD} | {"gar_mean", "took_s"}
    for column in run_cell(Cell(trial)):
        assert column in shown or re.match(r"p\d\d_", column) or f"`{column}`" in SIMULATE, column


@pytest.mark.parametrize("name", [*MIXES, *NAMED, *NUMBERS])
def test_mixes_policies_and_numbers_are_explained(name: str) -> None:
    assert f"`{name}`" in SIMULATE


OWN = (ROOT / "docs/own-policy.md").read_text("utf-8")
(PYTHON,) = re.findall(r"^```python\n(.*?)^```$", OWN, re.M | re.S)
(OWN_OUTPUT,) = re.findall(r"^```console\n(.*?)^```$", OWN, re.M | re.S)


def test_the_own_policy_of_the_manual_has_ten_lines_that_matter() -> None:
    """What comes of it is what `make docs` writes; there every policy does something else."""
    assert len(PYTHON.splitlines()) <= 10
    (waiting,) = re.findall(r"^waiting (.*)$", OWN_OUTPUT, re.M)
    assert len(set(waiting.split())) == 3


@pytest.mark.parametrize("of", [NodeStates, Task, Own], ids=lambda of: of.__name__)
def test_all_that_own_functions_see_is_explained(of: type) -> None:
    for name in (name for name in dir(of) if name[0] != "_" and name not in ("of",)):
        assert re.search(rf"`{name}[`(]", OWN), name


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
