"""SIGTERM, noticed also while the trainer is blocked in a call that never comes back.

Python runs a signal's handler only between two of the main thread's own instructions, so one that waits in a collective
for a dead rank would never see it. The interpreter's wakeup file (`signal.set_wakeup_fd`) is written at once; a thread
reads it, and ends the process when the trainer does not answer in time. Slurm and torchrun both send the signal, so it
comes twice.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

_POLL_SECONDS = 0.05


class Termination:
    """Whether this process was told to end.

    `seconds` is how long the trainer may take from the first signal until it calls `answered`, saves apart (`saving`);
    then `stuck` is called and the process ends with `code`, without waiting for anybody.
    """

    def __init__(self, seconds: float, code: int) -> None:
        self._seconds = seconds
        self._code = code
        self._asked = threading.Event()
        self._answered = threading.Event()
        self._saving = False
        self.noticed: Callable[[], None] = lambda: None
        self.stuck: Callable[[], None] = lambda: None

    @property
    def asked(self) -> bool:
        """Whether the signal has come."""
        return self._asked.is_set()

    def answered(self) -> None:
        """The trainer has seen that it is to end, and does so."""
        self._answered.set()

    @contextmanager
    def saving(self) -> Generator[None]:
        """A save is under way, which has a limit of its own."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    def watch(self) -> None:
        """Begin. Called by the main thread, before anything slow."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)
        threading.Thread(target=self._run, args=(reading,), name="termination", daemon=True).start()

    def _run(self, reading: int) -> None:
        while signal.SIGTERM not in os.read(reading, 64):
            pass
        self._asked.set()
        self.noticed()
        left = self._seconds
        while left > 0:
            if self._answered.wait(_POLL_SECONDS):
                return
            left -= 0.0 if self._saving else _POLL_SECONDS
        self.stuck()
        os._exit(self._code)
