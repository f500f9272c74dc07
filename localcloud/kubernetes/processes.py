"""Which processes belong to a cluster's control plane, and ending them.

A process is recognised by its command line, which holds a path below the cluster's folder, never by a remembered pid
alone: after a reboot that pid belongs to somebody else.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

from localcloud.command_lines import command_lines
from localcloud.kubernetes.home import COMPONENTS, Home

WORKDIR = "KWOK_WORKDIR"
"""Environment variable that tells a kwokctl where its clusters are."""

_TERMINATE_SECONDS = 5.0
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.01
_LINE_LENGTH = 300


def components(home: Home) -> dict[str, list[str]]:
    """The running components of a control plane by name, each with its arguments.

    They are where kwokctl has noted them; only where one is not, all processes are looked through.
    """
    noted = {
        name: line[1:] for name in COMPONENTS if (line := _line(home.pid_file(name)))[:1] == [str(home.binary(name))]
    }
    return noted if len(noted) == len(COMPONENTS) else {name: arguments for name, _, arguments in _running(home)}


def end(home: Home) -> None:
    """End every process of a cluster, a `kwokctl` that still works on it included.

    The API server is killed: asked nicely it waits for its clients, and a second one on the same port would die. etcd
    comes last and is asked nicely, so that it closes its files.
    """
    kwokctl = _kwokctl(home)
    for process in kwokctl:
        end_group(process.pid)
    _kill(kwokctl)
    # What plays the cluster's pods goes as they would with their nodes.
    _kill(_of_pods(home))
    running = _running(home)
    _kill([process for name, process, _ in running if name != "etcd"])
    etcd = [process for name, process, _ in running if name == "etcd"]
    for process in etcd:
        _signal(process, signal.SIGTERM)
    _await_end(etcd, _TERMINATE_SECONDS)
    _kill(etcd)


def end_group(leader: int) -> None:
    """Kill a kwokctl and the kubectl it waits with; the components it started lead sessions of their own."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def end_components(home: Home, names: Collection[str]) -> None:
    """Kill some components."""
    _kill([process for name, process, _ in _running(home) if name in names])


def forget_dead_pids(home: Home) -> None:
    """Remove kwokctl's pid files of components that don't run.

    kwokctl takes any living process with that number for the component, so after a reboot it would start nothing.
    """
    running = components(home)
    for name in COMPONENTS:
        if name not in running:
            home.pid_file(name).unlink(missing_ok=True)


def all_started(home: Home) -> bool:
    """Whether kwokctl has written the pid of every component."""
    try:
        return all(home.pid_file(name).read_text().isdigit() for name in COMPONENTS)
    except OSError:
        return False


def last_lines(path: Path, count: int = 5) -> str:
    """The last lines of a log, each cut to a readable length; empty if there is none."""
    try:
        with path.open(errors="replace") as file:
            lines = deque((line.rstrip()[:_LINE_LENGTH] for line in file if line.strip()), maxlen=count)
    except OSError:
        return ""
    return "\n".join(lines)


def _line(pid_file: Path) -> list[str]:
    """The command line of the process that a file names; nothing of one that has ended."""
    try:
        return psutil.Process(int(pid_file.read_text())).cmdline()
    except (OSError, ValueError, psutil.Error):
        return []


def _running(home: Home) -> list[tuple[str, psutil.Process, list[str]]]:
    names = {str(home.binary(name)): name for name in COMPONENTS}
    return [(names[line[0]], process, line[1:]) for process, line in command_lines() if line[0] in names]


def _of_pods(home: Home) -> list[psutil.Process]:
    """The first process of the namespaces in which pods run as processes; all of them end with it."""
    return [
        process
        for process, line in command_lines()
        if any(word.startswith(f"--cluster={home.folder}/") for word in line)
    ]


def _kwokctl(home: Home) -> list[psutil.Process]:
    """Every kwokctl that works on this cluster; another local cloud may have one of the same id elsewhere."""
    return [
        process
        for process, line in command_lines()
        if "cluster" in line and f"--name={home.cluster_id}" in line and _works_in(process, home.root)
    ]


def _works_in(process: psutil.Process, root: Path) -> bool:
    try:
        return process.environ().get(WORKDIR) == str(root)
    except psutil.Error:
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        _signal(process, signal.SIGKILL)
    _await_end(processes, _KILL_SECONDS)


def _await_end(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Wait until the processes have ended; whoever adopted them may take its time to collect their exit status."""
    deadline = time.monotonic() + seconds
    while any(_alive(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
