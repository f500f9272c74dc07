"""Time as this client sees it, so that tests need no waiting."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from crusoe.client.errors import Cancelled

if TYPE_CHECKING:
    import threading


class Clock(Protocol):
    """What this client needs to know about time."""

    def now(self) -> datetime:
        """Return the wall clock's time in UTC, for signatures."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow, for limits."""
        ...

    def sleep(self, seconds: float, cancel: threading.Event) -> None:
        """Wait, and raise `Cancelled` as soon as `cancel` is set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the wall clock's time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def sleep(self, seconds: float, cancel: threading.Event) -> None:
        """Wait on the event, so that a cancel ends the wait at once."""
        if cancel.wait(max(0.0, seconds)):
            raise Cancelled("The run was cancelled.")
