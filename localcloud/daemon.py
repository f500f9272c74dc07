"""Starting, stopping and wiping the server of a state folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

from localcloud.admin_client import AdminClient
from localcloud.state import LocalCloudError, ServerProcess, StateFolder

_READY_SECONDS = 30.0
_TERM_SECONDS = 10.0
_KILL_SECONDS = 5.0
_PAUSE_SECONDS = 0.02


def start(folder: StateFolder, arguments: list[str]) -> ServerProcess:
    """Start the server in the background and return when it answers; raises LocalCloudError with what stopped it."""
    folder.make()
    with folder.crash_log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "localcloud", "up", "--foreground", "--state", str(folder.path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        process = folder.server()
        if process is not None and process.pid == child.pid and AdminClient.answers(process):
            return process
        if child.poll() is not None:
            raise LocalCloudError(_last_words(folder))
        time.sleep(_PAUSE_SECONDS)
    child.terminate()
    raise LocalCloudError(f"the local cloud did not answer within {_READY_SECONDS:.0f} s; see {folder.log}")


def stop(folder: StateFolder) -> bool:
    """End the server; answers whether there was one. Its state stays."""
    process = folder.server()
    if process is None:
        if folder.held():
            raise LocalCloudError(f"some process holds {folder.path} without saying which it is; end it by hand")
        return False
    for wanted, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        # Checked each time: the id may belong to another process by now.
        if process.alive():
            os.kill(process.pid, wanted)
        if _ended(folder, seconds):
            return True
    raise LocalCloudError(f"process {process.pid} did not end; see {folder.log}")


def wipe(folder: StateFolder) -> None:
    """Remove everything in the folder; raises LocalCloudError for a folder that is none of ours."""
    if folder.path.exists() and not folder.exists():
        raise LocalCloudError(f"{folder.path} is no state folder of a local cloud; nothing was removed")
    shutil.rmtree(folder.path, ignore_errors=True)
    if folder.path.exists():
        raise LocalCloudError(f"{folder.path} could not be removed whole; look at what is left in it")


def _ended(folder: StateFolder, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not folder.held():
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _last_words(folder: StateFolder) -> str:
    lines = folder.crash_log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"the local cloud ended at once; see {folder.log}"
