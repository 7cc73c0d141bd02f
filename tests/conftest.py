"""What every test may use: Hypothesis profiles, and the folder of trace files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("MOORING_TRACES") or ROOT.parent / "shared" / "traces")
NO_TRACES = "trace files not found"

# The machine may be slow and busy: time never decides whether a property holds.
settings.register_profile(
    "quick",
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci", settings.get_profile("quick"), max_examples=100, stateful_step_count=50, derandomize=True
)
settings.register_profile(
    "night", settings.get_profile("quick"), max_examples=2000, stateful_step_count=100
)
settings.load_profile(os.environ.get("MOORING_PROFILE") or "quick")


def _trace_folder() -> Path:
    if not TRACES.is_dir():
        pytest.skip(f"{NO_TRACES}: set MOORING_TRACES to their folder")
    return TRACES


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of trace files; skip the test where there is none."""
    return _trace_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the fixture `traces`."""
    for item in items:
        if "traces" in getattr(item, "fixturenames", ()):
            item.add_marker("traces")
        if item.get_closest_marker("traces"):
            item.user_properties.append(("traces", True))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test without trace files, even if it does not use the fixture."""
    if item.get_closest_marker("traces"):
        _trace_folder()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what random worlds saw, and how many tests saw real traces: green is not all."""

    def properties(report: pytest.TestReport) -> list[tuple[str, object]]:
        return getattr(report, "user_properties", [])

    def marked(*kinds: str) -> list[pytest.TestReport]:
        reports = [report for kind in kinds for report in terminalreporter.getreports(kind)]
        return [report for report in reports if ("traces", True) in map(tuple, properties(report))]

    told = [
        counts
        for report in terminalreporter.getreports("passed")
        for name, counts in getattr(report, "user_properties", ())
        if name == "told"
    ]
    if told:
        steps, exchanges, evictions, starts = [sum(column) for column in zip(*told, strict=True)]
        terminalreporter.write_line(
            f"Random worlds: {steps} steps, {starts} starts, {evictions} evictions,"
            f" {exchanges} exchanges that were judged by the measure."
        )
    ran = {report.nodeid for report in marked("passed", "failed", "error", "xfailed", "xpassed")}
    missed = [report for report in marked("skipped") if NO_TRACES in str(report.longrepr)]
    if ran or missed:
        terminalreporter.write_line(
            f"Tests on traces: {len(ran)} ran, {len(missed)} skipped because {NO_TRACES}."
        )
