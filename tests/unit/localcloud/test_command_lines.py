"""Processes are found as they are now, also under a number that another one had before."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from localcloud.command_lines import command_lines


def test_who_has_the_number_of_one_that_is_gone_is_found_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()", "mine"], stdin=subprocess.PIPE) as mine:
        stale = psutil.Process(mine.pid)
        # As psutil keeps one that it has seen under this number: it began at another moment.
        monkeypatch.setattr(stale, "_ident", (mine.pid, 1.0))
        monkeypatch.setattr(stale, "_create_time", 1.0)
        monkeypatch.setattr("psutil._pmap", {mine.pid: stale})
        with pytest.raises(psutil.NoSuchProcess):
            stale.kill()
        (found,) = [process for process, line in command_lines() if line[-1] == "mine"]
        assert found.pid == mine.pid
        found.kill()
        assert mine.wait(10) != 0
