"""Made-up load, from a seed: training mixes drawn from published curves, and inference services."""

from mooring.sim.mixes.make import MIXES, Options, make_load

__all__ = ["MIXES", "Options", "make_load"]
