"""Holds a process so that neither SIGTERM nor SIGCONT reaches it, as a call into a broken driver would; SIGKILL does.

It runs on the worker as root, from its standard input, with the process's id as argument: every thread of the process
is stopped with ptrace(2). It prints `held`, and ends when the process does, or after ten minutes.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

_SEIZE, _INTERRUPT = 0x4206, 0x4207
_LONGEST_SECONDS = 600

libc = ctypes.CDLL(None, use_errno=True)


def trace(request: int, thread: int) -> None:
    """ptrace(2) without address and data. Raises OSError."""
    if libc.ptrace(request, thread, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def threads(pid: int) -> list[int]:
    """The ids of a process's threads."""
    return [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]


def main(pid: int) -> None:
    """Hold a process until it has ended."""
    for thread in threads(pid):
        trace(_SEIZE, thread)
        trace(_INTERRUPT, thread)
    print("held", flush=True)
    until = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < until:
        try:
            # Whatever a thread reports, it is not let go on; once the process is killed, none is left to report.
            os.waitpid(-1, 0x40000000)
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
