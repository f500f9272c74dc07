"""Probes as a kubelet makes them (Kubernetes: "Configure Liveness, Readiness and Startup Probes")."""

from __future__ import annotations

import contextlib
import os
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
    """One probe of one running container: asked every period, each time in a process of its own with a deadline."""

    wanted: Mapping[str, Any]
    run: Callable[[list[str]], int]
    """Starts a program in the container; returns its pid."""
    begun: float
    passed: bool = False
    failures: int = 0
    asked_at: float = 0.0
    pid: int | None = None

    def tick(self, now: float, address: str) -> None:
        """Ask if it is time to; `address` is the pod's. An answer that takes too long is a failure."""
        if self.pid is not None:
            if now - self.asked_at > self.wanted["timeout"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            return
        due = self.asked_at + self.wanted["period"] if self.asked_at else self.begun + self.wanted["delay"]
        if now >= due:
            self.asked_at = now
            argv = self.wanted.get("exec")
            self.pid = self.run(argv) if argv else forked(lambda: _asked(self.wanted, address))

    def answered(self, status: int) -> None:
        """Take the exit status of the process that asked."""
        self.pid = None
        if status == 0:
            self.passed, self.failures = True, 0
        else:
            self.failures += 1
            if self.failures >= self.wanted["failures"]:
                self.passed = False

    @property
    def failed(self) -> bool:
        """Whether it has failed often enough in a row to count."""
        return self.failures >= self.wanted["failures"]


def _asked(wanted: Mapping[str, Any], address: str) -> int:
    """Ask by network; 0 if the answer is good."""
    tcp, http = wanted.get("tcp"), wanted.get("http")
    port = int(tcp or (http["port"] if http else 0))
    try:
        with socket.create_connection((address, port), timeout=wanted["timeout"]) as connection:
            if http is None:
                return 0
            connection.sendall(f"GET {http['path']} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            words = connection.makefile("rb").readline().split()
            return 0 if len(words) > 1 and int(words[1]) in _OK else 1
    except (OSError, ValueError):
        return 1


def now() -> float:
    """The clock that all of a pod's waits use; it isn't moved by changes of the machine's time."""
    return time.monotonic()
