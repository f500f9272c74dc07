"""A container as processes: started in namespaces of its own, entered for a hook or a probe, and told to end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from localcloud.slurm.inside import kernel

Container = Mapping[str, Any]
"""One container of a pod's specification; see `localcloud.slurm.plan`."""

COULD_NOT_START = 128
"""The exit status of a container whose program could not even be started, as container runtimes have it."""


class StartError(Exception):
    """The container could not be started; `str()` says why."""


def forked(work: Callable[[], int]) -> int:
    """Do work in a child that dies with its parent; returns the child's pid. What it raises ends it with 255."""
    child = os.fork()
    if child:
        return child
    status = 255
    try:
        kernel.die_with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        status = work()
    except BaseException as error:  # noqa: BLE001  nothing may run on in the child as if it were the parent
        with contextlib.suppress(OSError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def start(container: Container, image: Path, folder: Path) -> tuple[int, int]:
    """Start a container; returns the pid of the process that waits for it and that of its first process.

    Its root is made anew in `folder`, so what it wrote outside of volumes is gone, as with any container. Its output
    goes to `log` there.

    Raises:
        StartError: a mount, its user or its program isn't there.
    """
    reading, writing = os.pipe()
    root = folder / "root"
    kernel.clear(root)
    kernel.lay_out(root, image, Path(container["etc"]))
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def first() -> None:
        """The container's process 1."""
        try:
            kernel.make_private()
            kernel.furnish(root, image, container["devices"])
            if container["gpus"]:
                kernel.show_gpus(root, container["gpus"], container["cpus"])
            for mounted in container["mounts"]:
                kernel.bind(mounted["source"], root / mounted["target"].lstrip("/"), read_only=mounted["read_only"])
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chroot(root)
            _become(container, container["argv"])
        except OSError as error:
            os.write(writing, f"!{error}".encode())

    def waiter() -> int:
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)

        def run() -> int:
            first()
            return COULD_NOT_START

        child = forked(run)
        os.write(writing, f"{child}\n".encode())
        os.close(writing)
        return _status(os.waitpid(child, 0)[1])

    pid = forked(waiter)
    os.close(writing)
    os.close(log)
    with os.fdopen(reading, "rb") as answers:
        said = answers.read().decode(errors="replace")
    trouble = said.partition("!")[2].partition("\n")[0]
    if trouble or not said:
        os.waitpid(pid, 0)
        raise StartError(trouble or "its namespaces could not be made")
    return pid, int(said.partition("\n")[0])


def run_inside(container: Container, first: int, argv: Sequence[str], folder: Path) -> int:
    """Run a program in a container whose first process is `first`; returns the pid whose exit status is its own."""

    def work() -> int:
        root = os.open(f"/proc/{first}/root", os.O_RDONLY)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        kernel.join(first, "pid", "mnt")
        os.fchdir(root)
        os.chroot(".")

        def run() -> int:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            _become(container, argv)
            return COULD_NOT_START

        return _status(os.waitpid(forked(run), 0)[1])

    return forked(work)


def _become(container: Container, argv: Sequence[str]) -> None:
    """Turn this process into a program of the container, as its user."""
    os.setsid()
    os.umask(0o022)
    os.chdir(container["cwd"])
    if container["gid"] or container["uid"]:
        os.setgroups(container["groups"])
        os.setgid(container["gid"])
        os.setuid(container["uid"])
    environ = dict(container["env"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them, and a program would inherit that.
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(argv[0], list(argv), environ)


def _status(raw: int) -> int:
    """The exit status as container runtimes count it: 128 and the signal's number for one that was killed."""
    code = os.waitstatus_to_exitcode(raw)
    return code if code >= 0 else 128 - code


def ended(raw: int) -> int:
    """The exit status of a child that was waited for."""
    return _status(raw)
