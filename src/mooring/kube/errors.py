"""What can go wrong with a request to the API server: refused, unanswered, forbidden by the fence.

The difference matters for writes: after `ApiError` and `Unreachable` the caller knows that nothing
was done, after `Unanswered` it knows nothing and must look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


class _Status(msgspec.Struct, rename="camel"):
    """The body of an error of the API server; also the object of an ERROR event of a watch."""

    reason: str = ""
    message: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


_status = msgspec.json.Decoder(_Status)
_LONGEST_TEXT = 500


@dataclass(eq=False)
class ApiError(Exception):
    """The server answered, and the answer is no."""

    status: int
    reason: str = ""
    message: str = ""
    retry_after: float | None = None
    """Seconds after which the server is willing to hear it again."""
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
        """Return the error that an answer tells of; also of a proxy that does not speak JSON."""
        try:
            told = _status.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            told = _Status(message=body[:_LONGEST_TEXT].decode("utf-8", "replace").strip())
        details = told.details or {}
        wait = retry_after if retry_after is not None else details.get("retryAfterSeconds")
        return cls(
            status or told.code, told.reason, told.message, retry_after=_seconds(wait),
            details=details,
        )  # fmt: skip

    @property
    def is_gone(self) -> bool:
        """Tell whether a resourceVersion or a page is too old: list again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_budget(self) -> bool:
        """Tell whether a disruption budget refused an eviction."""
        causes = self.details.get("causes") or ()
        return any(
            isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget"
            for cause in causes
        )

    def __str__(self) -> str:
        return (
            f"{self.status} {self.reason}: {self.message}"
            if self.reason
            else (f"{self.status}: {self.message}")
        )


class Unreachable(Exception):  # noqa: N818 (a fact, not a mistake)
    """Nothing was sent, or it was a read: no connection to the server."""


class Unanswered(Exception):  # noqa: N818 (a fact, not a mistake)
    """A write was or may have been sent, and no clear answer came: it may have been done."""


class NotLeader(Exception):  # noqa: N818 (a fact, not a mistake)
    """The fence forbids to write: the lease is another's, or ran out by our own clock."""


def _seconds(value: object) -> float | None:
    """Return the seconds of a Retry-After; a date counts as none."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 3600 else None
