"""One operation on one resource: what it may use, how long it may take, and how it tells where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from crusoe.client import Client, Operation
from crusoe.provider.engine import Engine
from crusoe.provider.existing import Existing
from crusoe.provider.session import Session

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
"""Seconds between two looks at an object that is waited for: doubling from the first to the longest."""


def told_of(task: str, error: object) -> str:
    """Return an error's sentences with the task that it ended, if any: `Creating node pool train: …`."""
    return f"{task[0].upper()}{task[1:]}: {error}" if task else str(error)


@dataclass
class Run:
    """One operation on the resource `urn`, whose logical name is `name`; it may take `seconds` in all.

    `task` says what is being done to what, such as `creating node pool train`, for errors of the API.
    """

    session: Session
    engine: Engine
    urn: str
    name: str
    seconds: float
    task: str
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self.started = self.now

    @property
    def client(self) -> Client:
        """The client of the session."""
        return self.session.client

    @property
    def existing(self) -> Existing:
        """The objects that exist."""
        return self.session.existing

    @property
    def now(self) -> float:
        """Seconds that only ever grow."""
        return self.session.clock.monotonic()

    @property
    def left(self) -> float:
        """Seconds that are left, at least one."""
        return max(1.0, self.started + self.seconds - self.now)

    def about(self, error: object) -> str:
        """Return an error's sentences with what was being done: `Creating node pool train: …`."""
        return told_of(self.task, error)

    def progress(self, message: str) -> None:
        """Show where the operation stands."""
        self.engine.progress(self.urn, message)

    def warn(self, message: str) -> None:
        """Show a warning."""
        self.engine.warn(self.urn, message)

    def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            Cancelled: at once when the run is cancelled.
        """
        self.session.clock.sleep(seconds, self.session.cancel)

    def until(self, look: Callable[[], T | None], seconds: float | None = None) -> T | None:
        """Call `look` until it returns something; None when `seconds` (default: what is left) are over.

        Raises:
            Cancelled: at once when the run is cancelled.
        """
        end = self.now + (self.left if seconds is None else min(self.left, seconds))
        pause = FIRST_PAUSE
        while True:
            found = look()
            if found is not None or self.now + pause > end:
                return found
            self.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def show(self, what: str) -> Callable[[Operation, float], None]:
        """Return a progress callback for the client's wait."""

        def tell(_: Operation, waited: float) -> None:
            if waited >= 1:
                self.progress(f"{what} ({waited:.0f} s)")

        return tell
