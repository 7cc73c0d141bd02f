"""Write the schema: `python -m mooring.config > docs/scenario.schema.json`."""

from __future__ import annotations

import json
import sys

from mooring.config import scenario_schema

sys.stdout.write(json.dumps(scenario_schema(), indent=1, ensure_ascii=False) + "\n")
