"""The cloud's own clock, which can be moved away from the machine's to see what clients make of it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """Seconds since the epoch, plus an offset."""

    def __init__(self, offset: float = 0.0) -> None:
        """Start `offset` seconds ahead of the machine."""
        self.offset = offset

    def now(self) -> float:
        """The cloud's time in seconds."""
        return time.time() + self.offset

    def stamp(self) -> str:
        """The cloud's time as the API writes it, such as `2026-11-29T17:38:45Z`."""
        return rfc3339(self.now())


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as an RFC 3339 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
