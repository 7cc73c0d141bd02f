"""Moments as the API server writes them."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def seconds(text: str) -> float | None:
    """Return a moment in seconds since 1970; None: there is none, or it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
