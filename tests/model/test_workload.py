"""Values of workloads that go to another process, where strings have other hashes."""

from __future__ import annotations

import pickle
import subprocess
import sys

from mooring.model.workload import PodGroup, Shape

VALUE = PodGroup("g", Shape(gpus=1, gpu_models=("H100",), labels=(("app", "x"),)), 2, 3)
LOOK = """
import pickle, sys
from dataclasses import replace
group = pickle.load(sys.stdin.buffer)
assert group in {replace(group)}
assert group.shape in {replace(group.shape)}
print(repr(group))
"""


def test_what_was_pickled_is_found_in_sets_elsewhere() -> None:
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", LOOK],
            input=pickle.dumps(VALUE),
            stdout=subprocess.PIPE,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert told.stdout.decode().strip() == repr(VALUE)
