"""The engine: facts in, plans out."""

from mooring.engine.check import EventError
from mooring.engine.engine import Engine

__all__ = ["Engine", "EventError"]
