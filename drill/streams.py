"""Programs that go on telling, each read by a thread of its own: watches of Kubernetes, looks at Slurm, files."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from drill.observations import Observation

_AGAIN_SECONDS = 0.5
_END_SECONDS = 5.0
Line = Callable[[str], Observation | None]


@dataclass
class Notebook:
    """What was seen so far. Safe to use from several threads."""

    _kept: list[Observation] = field(default_factory=list[Observation])
    _last: dict[tuple[str, str, str], object] = field(default_factory=dict[tuple[str, str, str], object])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def see(self, each: Observation | None) -> None:
        """Keep an observation, unless it says what was said last of the same thing."""
        if each is None:
            return
        name = str(each.what.get("name") or each.what.get("job") or each.what.get("id") or "")
        key = (each.source, each.kind, name)
        with self._lock:
            if each.kind in ("job", "node", "pod", "operation", "filler"):
                if self._last.get(key) == each.what:
                    return
                self._last[key] = each.what
            self._kept.append(each)

    @property
    def all(self) -> list[Observation]:
        """Everything so far."""
        with self._lock:
            return list(self._kept)


class Streams:
    """Programs that run until `close`; one that ends before is started again."""

    def __init__(self, notebook: Notebook) -> None:
        """Write into `notebook`."""
        self._notebook = notebook
        self._stop = threading.Event()
        self._running: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def lines(self, command: Sequence[str], read: Line) -> None:
        """Follow a program that writes a line for each thing."""

        def loop() -> None:
            while not self._stop.is_set():
                process = self._started(command)
                if process is None or process.stdout is None:
                    return
                for line in process.stdout:
                    with suppress(ValueError, KeyError):
                        self._notebook.see(read(line))
                process.kill()
                process.wait()
                with self._lock:
                    self._running.remove(process)
                self._stop.wait(_AGAIN_SECONDS)

        self._begin(loop)

    def objects(self, command: Sequence[str], read: Callable[[str, dict[str, object], float], Observation]) -> None:
        """Follow `kubectl get --watch --output-watch-events -o json`; `read` gets type, object and moment."""

        def change(line: str) -> Observation:
            found = json.loads(line)
            return read(found["type"], found["object"], time.time())

        self.lines(command, change)

    def repeat(self, work: Callable[[], None], seconds: float) -> None:
        """Do something again and again; what it raises is the end of that turn only."""

        def loop() -> None:
            while not self._stop.is_set():
                with suppress(Exception):
                    work()
                self._stop.wait(seconds)

        self._begin(loop)

    def close(self) -> None:
        """End all of them."""
        self._stop.set()
        with self._lock:
            for process in self._running:
                process.kill()
        for thread in self._threads:
            thread.join(_END_SECONDS)

    def _started(self, command: Sequence[str]) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._stop.is_set():
                return None
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._running.append(process)
            return process

    def _begin(self, loop: Callable[[], None]) -> None:
        thread = threading.Thread(target=loop, daemon=True)
        self._threads.append(thread)
        thread.start()
