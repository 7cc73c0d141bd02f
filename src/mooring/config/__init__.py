"""Scenario and policy files: YAML or JSON to frozen values, with all mistakes at once, and back."""

from mooring.config.reader import ConfigError, Mistake
from mooring.config.rules import DEVICE_NAMES, NAMES
from mooring.config.scenario import (
    PolicyFile,
    load_policy,
    load_scenario,
    read_policy,
    read_scenario,
    read_scenario_from,
)
from mooring.config.schema import policy_schema, scenario_schema
from mooring.config.write import dump_scenario
from mooring.config.write_policy import dump_policy

__all__ = [
    "DEVICE_NAMES",
    "NAMES",
    "ConfigError",
    "Mistake",
    "PolicyFile",
    "dump_policy",
    "dump_scenario",
    "load_policy",
    "load_scenario",
    "policy_schema",
    "read_policy",
    "read_scenario",
    "read_scenario_from",
    "scenario_schema",
]
