"""Scenario files: YAML or JSON to frozen values, with all mistakes at once, and back."""

from mooring.config.reader import ConfigError, Mistake
from mooring.config.scenario import load_scenario, read_scenario, read_scenario_from
from mooring.config.schema import DEVICE_NAMES, NAMES, scenario_schema
from mooring.config.write import dump_scenario

__all__ = [
    "DEVICE_NAMES",
    "NAMES",
    "ConfigError",
    "Mistake",
    "dump_scenario",
    "load_scenario",
    "read_scenario",
    "read_scenario_from",
    "scenario_schema",
]
