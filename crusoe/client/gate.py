"""One gate for all calls of a client: when the API says "too many requests" to one of them, all of them pause."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crusoe.client.clock import Clock

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 8.0
"""Seconds to pause after a 429 that does not say how long: doubling from the first to the longest."""

LONGEST_ASKED = 120.0
"""Seconds that are waited at most when the API says how long, so that a slip of a server can't stop a run for good."""

SPACING = 0.05
"""Seconds between the callers that waited, so that they do not all knock at once when the gate opens."""


class Gate:
    """Counts the 429 answers in a row and knows until when nothing should be sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open_at = self._next_turn = clock.monotonic()
        self._refusals = 0

    def turn(self) -> float:
        """Return the seconds this caller has to wait; callers that have to wait get turns one after the other."""
        with self._lock:
            now = self._clock.monotonic()
            at = max(self._open_at, self._next_turn)
            if at <= now:
                return 0.0
            self._next_turn = at + SPACING
            return at - now

    def remaining(self) -> float:
        """Return the seconds until the gate opens, 0 when it is open."""
        with self._lock:
            return max(0.0, self._open_at - self._clock.monotonic())

    def close(self, retry_after: float | None) -> None:
        """Close the gate after a 429, for as long as the API asked; never shorten a longer pause."""
        with self._lock:
            now = self._clock.monotonic()
            if self._open_at <= now:  # Answers to requests that were already under way are one refusal, not many.
                self._refusals += 1
            pause = min(FIRST_PAUSE * 2 ** max(0, self._refusals - 1), LONGEST_PAUSE)
            if retry_after is not None:
                pause = min(retry_after, LONGEST_ASKED)
            self._open_at = max(self._open_at, now + pause)

    def passed(self) -> None:
        """Note that a request was let through, so the next refusal starts with a short pause again."""
        with self._lock:
            self._refusals = 0
