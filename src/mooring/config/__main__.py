"""Write a schema: `python -m mooring.config [policy] > docs/scenario.schema.json`."""

from __future__ import annotations

import json
import sys

from mooring.config import policy_schema, scenario_schema

schema = policy_schema() if sys.argv[1:] == ["policy"] else scenario_schema()
sys.stdout.write(json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
