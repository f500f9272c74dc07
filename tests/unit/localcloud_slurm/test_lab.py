"""Which process is a pod's first: the others of it may have the same command line for a moment."""

from __future__ import annotations

import ipaddress
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from localcloud.slurm import lab as module
from localcloud.slurm.lab import Lab


@dataclass(frozen=True)
class Process:
    """What is looked at: a pid in each namespace, from this machine's inwards."""

    pids: tuple[int, ...]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, lambda: tmp_path, ipaddress.IPv4Network("10.99.0.0/24"))


@pytest.mark.parametrize("outside", [(), (7,)], ids=["on the machine", "in a container"])
def test_only_the_first_of_the_pods_own_namespace_is_the_pod(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, outside: tuple[int, ...]
) -> None:
    keeper, wrapper = [sys.executable, "network.py", f"--cluster={lab.folder}"], ["nsenter", "--target=9"]
    pod = [sys.executable, "pod.py", f"--pod={lab.folder}/pods/a"]
    other = [sys.executable, "pod.py", "--pod=/elsewhere/pods/a"]
    lines = [
        (Process((*outside, 10, 1)), keeper),
        (Process((*outside, 20, 4)), wrapper + pod),
        (Process((*outside, 21, 5)), pod),
        (Process((*outside, 22, 6, 1)), pod),
        # A container before it executes its program, and what waits for it.
        (Process((*outside, 23, 7, 2)), pod),
        (Process((*outside, 24, 8, 3, 1)), pod),
        (Process((*outside, 30, 9, 1)), other),
    ]

    def pids(process: Process) -> list[int]:
        return list(process.pids)

    monkeypatch.setattr(module, "_own_pids", pids)
    for shown in (lines, lines[::-1], lines[1:]):
        monkeypatch.setattr(module, "command_lines", partial(iter, shown))
        # Without what keeps the namespaces there is no pod.
        expected = {} if shown == lines[1:] else {lab.folder / "pods/a": Process((*outside, 22, 6, 1))}
        assert lab.running() == expected


def test_workers_and_login_pods_run_a_folder_of_their_own_where_there_is_one(tmp_path: Path, lab: Lab) -> None:
    more = tmp_path / "more"
    with_more = replace(lab, find_worker_image=lambda: more)
    assert [with_more.image_of(kind) == more for kind in ("slurmd", "login", "slurmctld", "mariadb", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert lab.image_of("slurmd") == lab.image
