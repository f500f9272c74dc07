"""Child processes that never outlive the host: each ends with it, by SIGTERM first."""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

GRACE_SECONDS = 5.0
"""How long a child may take to end by itself once it is asked to."""

_DRAIN_SECONDS = 1.0

Stream = Literal["stdout", "stderr"]


class Children:
    """The running children of the host."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def start(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str], *, stdin: int, piped: bool
    ) -> subprocess.Popen[bytes]:
        """Start a child in a process group of its own: the interrupt that ends the host is not meant for it."""
        pipe = subprocess.PIPE if piped else None
        with self._lock:
            if self._closed:
                raise RuntimeError("the language host is ending")
            child = subprocess.Popen(
                command, cwd=folder, env=environ, stdin=stdin, stdout=pipe, stderr=pipe, process_group=0
            )
            self._running.add(child)
        return child

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for a child's end; return its exit status, 128 + n where signal n ended it."""
        status = child.wait()
        with self._lock:
            self._running.discard(child)
        return status if status >= 0 else 128 - status

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """End a child and what it started, within a bound."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_SECONDS)
                return

    def close(self) -> None:
        """End every child at once and start no more."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        threads = [threading.Thread(target=self.end, args=(child,)) for child in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def output_of(child: subprocess.Popen[bytes]) -> Iterator[tuple[Stream, bytes]]:
    """Yield what a piped child writes as it writes it, until it has ended."""
    chunks: queue.SimpleQueue[tuple[Stream, bytes]] = queue.SimpleQueue()

    def read(stream: Stream, pipe: IO[bytes] | None) -> None:
        while pipe is not None and (chunk := os.read(pipe.fileno(), 1 << 16)):
            chunks.put((stream, chunk))
        chunks.put((stream, b""))

    for stream, pipe in (("stdout", child.stdout), ("stderr", child.stderr)):
        threading.Thread(target=read, args=(stream, pipe), daemon=True).start()
    still_open = 2
    while still_open:
        try:
            stream, chunk = chunks.get(timeout=_DRAIN_SECONDS)
        except queue.Empty:
            # What a child left behind may hold its pipes open after it has ended.
            if child.poll() is not None:
                return
            continue
        if chunk:
            yield stream, chunk
        else:
            still_open -= 1
