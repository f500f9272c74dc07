"""How often a probe is asked, and what its answers come to."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.slurm.inside.probes import Probe

ADDRESS = "127.0.0.1"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind((ADDRESS, 0))
        made.listen()
        yield made


def probe(**wanted: Any) -> tuple[Probe, list[list[str]]]:
    """A probe that has begun at second 100, and the programs that it starts."""
    started: list[list[str]] = []

    def run(argv: list[str]) -> int:
        started.append(argv)
        return 1_000_000 + len(started)

    return Probe({"period": 1, "calm": 10, "timeout": 1, "delay": 0, "failures": 3, **wanted}, run, 100.0), started


def over(asked: Probe, first: float, last: float, status: int) -> None:
    """Ticks of a tenth of a second in which every program ends with a status at once."""
    for tick in range(round((last - first) * 10)):
        asked.tick(first + tick / 10, ADDRESS)
        if asked.pid is not None:
            asked.answered(status)


def settled(asked: Probe, now: float) -> None:
    """A moment in which a connection that is begun also ends."""
    asked.tick(now, ADDRESS)
    deadline = time.monotonic() + 10
    while asked.connecting is not None and time.monotonic() < deadline:
        time.sleep(0.001)
        asked.tick(now, ADDRESS)


def test_it_is_asked_often_until_it_passes_and_while_it_fails_and_seldom_else() -> None:
    asked, started = probe(exec=["true"])
    over(asked, 100, 105, 1)
    assert len(started) == 5
    assert not asked.passed
    over(asked, 105, 136, 0)
    assert len(started) == 5 + 4
    assert asked.passed
    over(asked, 145, 150, 1)
    assert len(started) == 9 + 5
    assert asked.failed


def test_one_good_answer_takes_all_failures_back() -> None:
    asked, _ = probe(exec=["true"])
    over(asked, 100, 102, 1)
    assert asked.failures == 2
    over(asked, 102, 103, 0)
    assert (asked.passed, asked.failures, asked.failed) == (True, 0, False)


def test_a_port_is_tried_without_a_process(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was made"))
    port = listener.getsockname()[1]
    asked, _ = probe(tcp=port)
    settled(asked, 100)
    assert asked.passed
    listener.close()
    for second in range(110, 113):
        settled(asked, second)
    assert asked.failed
    assert not asked.passed


def test_a_port_that_does_not_answer_is_a_failure_after_its_time() -> None:
    asked, _ = probe(tcp=9, timeout=2)
    asked.connecting = socket.socket()
    asked.connecting.setblocking(False)
    asked.asked_at = 100.0
    with socket.socket() as full:
        full.bind((ADDRESS, 0))
        full.listen(0)
        # Whoever comes after those that wait to be taken is not answered.
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        asked.connecting.connect_ex(full.getsockname())
        asked.tick(101, ADDRESS)
        assert (asked.connecting is not None, asked.failures) == (True, 0)
        asked.tick(102.1, ADDRESS)
        assert (asked.connecting, asked.failures) == (None, 1)
        for each in waiting:
            each.close()
