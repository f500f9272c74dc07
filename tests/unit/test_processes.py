"""The tests' own look at the process table puts up with processes that end meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from tests import processes

LISTENER = """
import socket, subprocess, sys, time
server = socket.create_server(("127.0.0.1", 0))
child = subprocess.Popen(["sleep", "60"])
print(server.getsockname()[1], child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def parent(tmp_path: Path) -> Generator[subprocess.Popen[str]]:
    """A process that mentions a folder in its command line, listens, and has a child that does neither."""
    command = [sys.executable, "-S", "-c", LISTENER, f"--state={tmp_path}/state"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        processes.kill(*processes.family(process.pid))


@pytest.fixture
def ended() -> psutil.Process:
    """A process that was seen and is gone."""
    with subprocess.Popen(["sleep", "60"]) as process:
        seen = psutil.Process(process.pid)
        process.kill()
    return seen


def said(parent: subprocess.Popen[str]) -> tuple[int, int]:
    """Its port and its child's id."""
    assert parent.stdout
    port, child = parent.stdout.readline().split()
    return int(port), int(child)


def test_a_process_is_found_by_a_folder_in_its_command_line(parent: subprocess.Popen[str], tmp_path: Path) -> None:
    said(parent)
    assert [one.pid for one in processes.mentioning(tmp_path)] == [parent.pid]
    assert processes.mentioning(tmp_path / "other") == []


def test_what_it_listens_on(parent: subprocess.Popen[str], ended: psutil.Process) -> None:
    port, child = said(parent)
    [(_, address, found)] = processes.listening([ended, psutil.Process(child), psutil.Process(parent.pid)])
    assert (address, found) == ("127.0.0.1", port)


def test_a_family_is_killed_whole_whoever_has_ended_before(
    parent: subprocess.Popen[str], ended: psutil.Process
) -> None:
    _, child = said(parent)
    family = processes.family(parent.pid)
    assert [one.pid for one in family] == [parent.pid, child]
    assert all(processes.alive(one) for one in family)
    processes.kill(ended, *family)
    # The parent waits for this test to notice its end, as a zombie.
    assert not any(processes.alive(one) for one in family)


def test_one_that_is_gone_has_nothing(ended: psutil.Process) -> None:
    assert not processes.alive(ended)
    assert processes.command_line(ended) == []
    assert processes.listening([ended]) == []
    assert processes.resident([ended]) == 0
    assert processes.family(ended.pid) == []


def test_memory_is_that_of_all_together(parent: subprocess.Popen[str], ended: psutil.Process) -> None:
    family = [psutil.Process(pid) for pid in (parent.pid, said(parent)[1])]
    together = processes.resident([*family, ended])
    assert together >= max(processes.resident([one]) for one in family) > 0
    assert together == pytest.approx(sum(processes.resident([one]) for one in family), rel=0.2)
