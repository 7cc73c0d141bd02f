"""The command line: the one place that reads arguments and prints."""

from mooring.cli.main import main

__all__ = ["main"]
