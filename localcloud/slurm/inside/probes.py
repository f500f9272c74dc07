"""Probes as a kubelet makes them (Kubernetes: "Configure Liveness, Readiness and Startup Probes")."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.slurm.inside.container import forked

_OK = range(200, 400)


@dataclass
class Probe:
    """One probe of one running container; a program or an HTTP request runs in a process of its own with a deadline.

    It is asked every `period` until it passes and while it fails, and else every `calm` seconds, as a kubelet does.
    """

    wanted: Mapping[str, Any]
    run: Callable[[list[str]], int]
    """Starts a program in the container; returns its pid."""
    begun: float
    passed: bool = False
    failures: int = 0
    asked_at: float = 0.0
    pid: int | None = None
    connecting: socket.socket | None = None

    def tick(self, now: float, address: str) -> None:
        """Ask if it is time to; `address` is the pod's. An answer that takes too long is a failure."""
        late = now - self.asked_at > self.wanted["timeout"]
        if self.pid is not None:
            if late:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
        elif self.connecting is not None:
            self._wait_for_connection(self.connecting, late=late)
        elif now >= self._due:
            self.asked_at = now
            self._ask(address)

    @property
    def _due(self) -> float:
        if not self.asked_at:
            return self.begun + self.wanted["delay"]
        return self.asked_at + self.wanted["calm" if self.calm else "period"]

    def _ask(self, address: str) -> None:
        argv, http = self.wanted.get("exec"), self.wanted.get("http")
        if argv:
            self.pid = self.run(argv)
        elif http:
            self.pid = forked(lambda: _http(http, address, self.wanted["timeout"]))
        else:
            self._connect(address)

    def _connect(self, address: str) -> None:
        """Without a process of its own: these are the most common probes."""
        made = socket.socket()
        made.setblocking(False)
        code = made.connect_ex((address, int(self.wanted["tcp"])))
        if code == errno.EINPROGRESS:
            self.connecting = made
            # On the same machine it is there by now, and what is started meanwhile would inherit it.
            self._wait_for_connection(made, late=False)
        else:
            made.close()
            self.answered(code)

    def _wait_for_connection(self, made: socket.socket, *, late: bool) -> None:
        done = bool(select.select([], [made], [], 0)[1])
        if done or late:
            code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if done else errno.ETIMEDOUT
            made.close()
            self.connecting = None
            self.answered(code)

    def answered(self, status: int) -> None:
        """Take the answer: the exit status of the process that asked, or the error of the connection."""
        self.pid = None
        if status == 0:
            self.passed, self.failures = True, 0
        else:
            self.failures += 1
            if self.failures >= self.wanted["failures"]:
                self.passed = False

    @property
    def calm(self) -> bool:
        """Whether it passes and nobody is being asked."""
        return self.passed and not self.failures and self.pid is None and self.connecting is None

    @property
    def failed(self) -> bool:
        """Whether it has failed often enough in a row to count."""
        return self.failures >= self.wanted["failures"]


def _http(http: Mapping[str, Any], address: str, timeout: float) -> int:
    """Ask by HTTP; 0 if the answer is good."""
    try:
        with socket.create_connection((address, int(http["port"])), timeout=timeout) as connection:
            connection.sendall(f"GET {http['path']} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            words = connection.makefile("rb").readline().split()
            return 0 if len(words) > 1 and int(words[1]) in _OK else 1
    except (OSError, ValueError):
        return 1


def now() -> float:
    """The clock that all of a pod's waits use; it isn't moved by changes of the machine's time."""
    return time.monotonic()
