"""The provider's service over gRPC, anew for each run, with time that passes as soon as somebody waits for it.

It is the plugin without the process around it, which `test_process.py` and the runs through the real CLI have. Of the
waits only those for the cloud itself are real, so a cell of the matrix takes a tenth of a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from crusoe.client import Cancelled, Client, connect
from crusoe.provider.server import serve
from crusoe.provider.service import Service
from crusoe.provider.session import Configuration
from tests.provider.engine import Log, Plugin

REAL_SECONDS = 0.004
"""The most that a wait takes, so that the cloud's own work gets on meanwhile."""


class SkippingClock:
    """The machine's clock, which jumps ahead by whatever is waited for."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The wall clock's time, as signatures need it."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        return time.monotonic() + self._ahead

    def sleep(self, seconds: float, cancel: threading.Event) -> None:
        """Wait a moment, and count it as all of it."""
        if cancel.wait(min(seconds, REAL_SECONDS)):
            raise Cancelled("The run was cancelled.")
        with self._lock:
            self._ahead += seconds


@contextmanager
def one_run(endpoint: str, environment: Mapping[str, str], project: str = "local") -> Generator[Plugin]:
    """The provider as one run of Pulumi has it: configured, and with nothing learned yet."""
    clock = SkippingClock()
    keys = {**environment, "HOME": os.devnull}

    def connected(configuration: Configuration, cancel: threading.Event) -> Client:
        return connect(configuration.endpoint, configuration.project, environ=keys, cancel=cancel, clock=clock)

    service = Service(connect=connected)
    service.session.clock = clock
    log = Log()
    server, port = serve(service)
    plugin = Plugin(port, log)
    try:
        plugin.configure(endpoint, project)
        yield plugin
    finally:
        plugin.channel.close()
        server.stop(None)
        service.session.close()
