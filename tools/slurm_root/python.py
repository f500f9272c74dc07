"""Compile the Python modules of a folder, as installing its packages would have done.

Pods mount the folder read-only, so they could never keep what they compiled: `import torch` then takes about three
seconds longer in every process (measured).
"""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tools.errors import DownloadError

_SECONDS = 900
_PARTS = ("usr/bin/python3.[0-9]*", "usr/lib*/ld-linux-*.so.*", "usr/lib/*-linux-gnu")
_POLL_SECONDS = 0.2


def compile_python(folder: Path, tick: Callable[[int, int], None]) -> None:
    """Compile all modules with the folder's own Python; `tick` gets how many processes have ended, and of how many.

    A module that doesn't compile (templates and tests of errors) is left as it is.

    Raises:
        DownloadError: the folder's Python doesn't run here.
    """
    found = [next(folder.glob(pattern), None) for pattern in _PARTS]
    if None in found:
        raise DownloadError("it has no Python")
    python, loader, libraries = (part for part in found if part is not None)
    # Its own loader and libraries: the folder is newer than this system, and nobody needs root for this.
    run = [str(loader), "--library-path", str(libraries), str(python), "-I", "-m", "compileall", "-q"]
    options = ["--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", "/", "-i", "-"]
    sources = sorted(path for part in ("python3", python.name) for path in (folder / "usr/lib" / part).rglob("*.py"))
    count = min(os.cpu_count() or 1, 8)
    workers = [_started([*run, *options], sources[number::count]) for number in range(count)]
    deadline = time.monotonic() + _SECONDS
    try:
        while running := [worker for worker in workers if worker.poll() is None]:
            tick(count - len(running), count)
            if time.monotonic() > deadline:
                raise DownloadError(f"its Python modules were not compiled within {_SECONDS} s")
            time.sleep(_POLL_SECONDS)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    if not any(folder.glob(f"usr/lib/{python.name}/__pycache__/*.pyc")):
        raise DownloadError(f"its {python.name} doesn't run on this machine")


def _started(command: list[str], sources: list[Path]) -> subprocess.Popen[bytes]:
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdin=reading, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(reading)
    # One that ends before it has read them all is seen by what it did not compile.
    with suppress(BrokenPipeError), os.fdopen(writing, "w") as names:
        names.writelines(f"{source}\n" for source in sources)
    return process
