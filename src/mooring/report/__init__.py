"""The report: runs side by side in one HTML file that opens without a server."""

from mooring.report.page import (
    Run,
    as_data,
    full_row,
    headline,
    sentences,
    waited_as_data,
    why,
    write_csv,
    write_page,
)
from mooring.report.spread import Spread

__all__ = [
    "Run",
    "Spread",
    "as_data",
    "full_row",
    "headline",
    "sentences",
    "waited_as_data",
    "why",
    "write_csv",
    "write_page",
]
