"""Logs: one line an event, of fields and not of sentences.

    log.info("bound", extra=fields(workload=name, tasks=8))

gives `{"time": "…", "level": "info", "event": "bound", "workload": "lab/job/a", "tasks": 8}`,
or the same as `time=… level=info event=bound …`. What is said is a fixed word or two; what
varies is a field.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO

_FIELDS = "mooring"
"""The attribute of a log record that has the fields."""
FORMS = ("json", "text")
_MOST = 2_000
"""Characters of one value."""


def fields(**given: object) -> dict[str, Any]:
    """Return what is handed to a logger as `extra`."""
    return {_FIELDS: given}


class _Lines(logging.Formatter):
    """Makes one line of a record."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._is_json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "from": record.name.removeprefix("mooring."),
            "event": record.getMessage(),
        }
        for key, value in getattr(record, _FIELDS, {}).items():
            line[f"{key}_" if key in line else key] = _plain(value)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        if self._is_json:
            return json.dumps(line, ensure_ascii=False)
        return " ".join(f"{key}={_quoted(value)}" for key, value in line.items())


def set_up(level: str = "info", form: str = "json", out: TextIO | None = None) -> None:
    """Send all logs of Mooring, and warnings of others, to a stream (standard error)."""
    if form not in FORMS:
        raise ValueError(f"give one of {', '.join(FORMS)}, not {form!r}")
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(_Lines(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("mooring").setLevel(level.upper())


def _plain(value: object) -> object:
    """Return a value that JSON has; long text is cut."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    text = str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    is_bare = isinstance(value, str) and value and not any(c in value for c in ' "=\\\n\t')
    return str(value) if is_bare else text
