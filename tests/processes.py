"""Processes of a test as the system's table has them, which may end at any moment while they are being looked at."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

from tests.harness import until

Listening = list[tuple[str, str, int]]

_SIGNAL_TO_A_THREAD = """
import runpy, signal, sys, threading, time

def later(number):
    time.sleep(2)
    signal.pthread_kill(threading.get_ident(), number)

folder, number = sys.argv[1:]
sys.argv[1:] = []
threading.Thread(target=later, args=(int(number),), daemon=True).start()
runpy.run_path(folder, run_name="__main__")
"""


def command_line(process: psutil.Process) -> list[str]:
    """What it was started with; empty once it is gone, and for one that may not be looked at."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def parents(process: psutil.Process) -> list[psutil.Process]:
    """What started it, directly or not; empty once it is gone."""
    try:
        return process.parents()
    except psutil.Error:
        return []


def mentioning(folder: Path) -> list[psutil.Process]:
    """Every other process with this folder, or something below it, in its command line."""
    # Numbers are used again, and psutil would go on giving the process that it has seen under one before.
    psutil.process_iter.cache_clear()
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and any(str(folder) in part for part in command_line(process))
    ]


def listening(processes: Iterable[psutil.Process]) -> Listening:
    """Name, address and port of every internet socket on which those listen that still run."""
    found: Listening = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            found += [
                (process.name(), socket.laddr.ip, socket.laddr.port)
                for socket in process.net_connections("inet")
                if socket.status == psutil.CONN_LISTEN
            ]
    return found


def resident(processes: Iterable[psutil.Process]) -> int:
    """Bytes of memory that those which still run hold together."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def alive(process: psutil.Process) -> bool:
    """Whether it still runs: one that has ended and waits for its parent to notice does not."""
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def family(pid: int) -> list[psutil.Process]:
    """A process with all that it started, directly or not; empty if it is gone."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(*processes: psutil.Process, seconds: float = 10.0) -> None:
    """Kill them and wait for their end; the death of one may end others before their turn."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    until(lambda: not any(alive(process) for process in processes), seconds, "the end of killed processes")


def status_after_a_thread_got(number: int, program: Path, seconds: float = 20.0) -> int:
    """The exit status of a Python program of which a thread that is not the main one got a signal.

    The system may give a process's signal to any of its threads, which does not wake the main one to run the handler.

    Raises:
        subprocess.TimeoutExpired: it did not end; it is killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _SIGNAL_TO_A_THREAD, str(program), str(int(number))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    with process:
        try:
            return process.wait(seconds)
        finally:
            process.kill()
