"""Folders of the cache that appear whole or not at all, and one run at a time that makes them."""

import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tools.errors import ToolMissingError
from tools.progress import Reporter

LOCK_SECONDS = 3600.0
"""How long a run waits for another that fetches the same tool."""

_POLL_SECONDS = 0.2


@contextmanager
def one_run(lock_file: Path, title: str, reporter: Reporter, seconds: float = LOCK_SECONDS) -> Generator[None]:
    """Keep two runs apart; `title` is what the waiting one says it waits for.

    Raises:
        ToolMissingError: the other run takes longer than `seconds`.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file)
    _acquire(lock, title, reporter, seconds)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, title: str, reporter: Reporter, seconds: float) -> None:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        with reporter.step(f"{title}: another run fetches it, waiting") as step:
            deadline = time.monotonic() + seconds
            while not lock.is_locked:
                step.tick()
                try:
                    lock.acquire(timeout=_POLL_SECONDS)
                except Timeout:
                    if time.monotonic() > deadline:
                        raise ToolMissingError(
                            f"Another run has held {lock.lock_file} for {seconds:.0f} s. End it, then run this again."
                        ) from None


@contextmanager
def whole(target: Path, name: str) -> Generator[Path]:
    """Give an empty folder beside `target` that takes its place when the block ends well, and is gone when not.

    What killed runs have left of `name` is removed first, so only one run may be in here.
    """
    mark = f".{name}-partial-"
    for leftover in target.parent.glob(f"{mark}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=mark, dir=target.parent))
    try:
        yield partial
        # It is only still there when something was taken out of it by hand.
        shutil.rmtree(target, ignore_errors=True)
        partial.chmod(0o755)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
