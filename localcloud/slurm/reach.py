"""From this machine into Slurm's pods: slurmrestd's socket, and connections to pods."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from localcloud.kubernetes.home import Home
from localcloud.slurm.images import REST_SOCKET
from localcloud.slurm.inside import kernel

REST_NAME = REST_SOCKET.rpartition("/")[2]
START_SECONDS = 10.0
"""How long a pod's first process may take to appear."""

_SOCKET_PATH_LENGTH = 100


def lab_folder(home: Home) -> Path:
    """The folder of a cluster's pods and namespaces."""
    return home.folder / "slurm"


def rest_socket(home: Home) -> Path:
    """The unix socket of a cluster's slurmrestd, of a ready one where there are several; it may not be there yet.

    HTTP as slurmrestd speaks it on its port; a user's token goes into the headers X-SLURM-USER-NAME and
    X-SLURM-USER-TOKEN. A socket's path may have 107 characters only, so a deep folder has it below the folder of
    temporary files.
    """
    path = lab_folder(home) / "rest.sock"
    if len(str(path)) <= _SOCKET_PATH_LENGTH:
        return path
    name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"crusoe-local-{name}" / "rest.sock"


def link_rest(home: Home, sockets: Sequence[Path]) -> None:
    """Have `rest_socket` lead to the first of these sockets that is there."""
    path = rest_socket(home)
    target = next((each for each in sockets if each.is_socket()), None)
    if target is None:
        path.unlink(missing_ok=True)
        return
    if path.is_symlink() and path.readlink() == target:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(".rest.sock")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(path)


def handed(enter: Sequence[str], python: Sequence[str], address: str, port: int, seconds: float) -> socket.socket:
    """A TCP socket made inside of a network namespace, for use outside of it.

    `enter` is what brings a command in there (`Lab.inside`), `python` starts `inside/dial.py` or `inside/listen.py`.

    Raises:
        OSError: nothing answers there, or the namespace is gone.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [*enter, *python, address, str(port), str(theirs.fileno()), str(seconds)]
        try:
            done = subprocess.run(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds + START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{address}:{port} did not answer in time") from None
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise ConnectionRefusedError(said[-1] if said else f"{address}:{port} can't be reached")
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    found = socket.socket(fileno=descriptors[0])
    with suppress(OSError):
        found.settimeout(None)
    return found


def entered(pid: int, address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection made in the network namespace of a process, by a thread that goes there; only root may.

    A webhook has seconds to answer and is asked by many at once: a program started for each, as in `handed`, is too
    slow where the cores are busy.

    Raises:
        OSError: nothing answers there, or the process is gone.
    """
    found: list[socket.socket | OSError] = []

    def work() -> None:
        # A thread has a network namespace of its own, and this one ends with what it did.
        try:
            kernel.join(pid, "net")
            found.append(socket.create_connection((address, port), timeout=seconds))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=work, name="into-a-pod", daemon=True)
    thread.start()
    thread.join()
    (result,) = found
    if isinstance(result, OSError):
        raise result
    result.settimeout(None)
    return result
