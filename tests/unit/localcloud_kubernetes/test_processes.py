"""Which processes are a cluster's, and ending exactly those."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from localcloud.kubernetes import processes
from localcloud.kubernetes.home import COMPONENTS, Home

Start = Callable[..., psutil.Process]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, "cluster-a")
    for folder in ("bin", "pids"):
        (home.folder / folder).mkdir(parents=True)
    return home


@pytest.fixture
def start() -> Generator[Start]:
    """Start `sleep` through a link, as components are started."""
    started: list[subprocess.Popen[bytes]] = []

    def run(link: Path, *arguments: str) -> psutil.Process:
        if not link.exists():
            link.symlink_to(str(shutil.which("sleep")))
        process = subprocess.Popen([str(link), "60", *arguments])
        started.append(process)
        made = psutil.Process(process.pid)
        # For a moment after it was started a program has no command line yet.
        deadline = time.monotonic() + 10
        while made.cmdline()[:1] != [str(link)] and time.monotonic() < deadline:
            time.sleep(0.001)
        return made

    yield run
    for process in started:
        process.kill()
        process.wait()


def gone(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_ZOMBIE


def test_a_component_is_known_by_its_path_and_comes_with_its_arguments(home: Home, start: Start) -> None:
    start(home.binary("etcd"), "0")
    start(Home(home.root, "cluster-b").folder.parent / "etcd")
    assert processes.components(home) == {"etcd": ["60", "0"]}


def test_whoever_has_the_pid_of_a_component_now_is_not_it(
    home: Home, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = {name: start(home.binary(name), "0") for name in COMPONENTS}
    for name, process in started.items():
        home.pid_file(name).write_text(str(process.pid))
    with monkeypatch.context() as patched:
        # Where all are noted nobody looks through the processes of the machine.
        patched.setattr(processes, "command_lines", lambda: pytest.fail("looked through all"))
        assert processes.components(home) == {name: ["60", "0"] for name in COMPONENTS}
    home.pid_file("etcd").write_text(str(os.getpid()))
    assert processes.components(home) == {name: ["60", "0"] for name in COMPONENTS}
    started["etcd"].kill()
    started["etcd"].wait()
    assert set(processes.components(home)) == set(COMPONENTS) - {"etcd"}


def test_ending_a_cluster_spares_every_other_process(home: Home, start: Start) -> None:
    other = Home(home.root, "cluster-b")
    (other.folder / "bin").mkdir(parents=True)
    mine = [start(home.binary(name)) for name in ("etcd", "kube-apiserver", "kwok-controller")]
    spared = start(other.binary("etcd"))
    processes.end(home)
    assert all(gone(process) for process in mine)
    assert not gone(spared)


def test_a_kwokctl_on_a_cluster_of_the_same_id_elsewhere_is_not_this_ones(home: Home) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)", "create", "cluster", f"--name={home.cluster_id}"]
    with ExitStack() as stack:
        mine, other = (
            stack.enter_context(subprocess.Popen(command, env={processes.WORKDIR: str(root)}))
            for root in (home.root, home.root / "other")
        )
        stack.callback(other.kill)
        processes.end(home)
        assert mine.wait(10) == -signal.SIGKILL
        assert other.poll() is None


def test_ending_one_component_spares_its_siblings(home: Home, start: Start) -> None:
    scheduler, etcd = start(home.binary("kube-scheduler")), start(home.binary("etcd"))
    processes.end_components(home, ["kube-scheduler"])
    assert gone(scheduler)
    assert not gone(etcd)


def test_pids_that_belong_to_somebody_else_now_are_forgotten(home: Home, start: Start) -> None:
    etcd = start(home.binary("etcd"))
    stranger = start(home.root / "stranger")
    home.pid_file("etcd").write_text(str(etcd.pid))
    home.pid_file("kube-apiserver").write_text(str(stranger.pid))
    processes.forget_dead_pids(home)
    assert home.pid_file("etcd").exists()
    assert not home.pid_file("kube-apiserver").exists()


def test_all_started_needs_a_whole_pid_of_every_component(home: Home) -> None:
    assert not processes.all_started(home)
    for name in processes.COMPONENTS:
        home.pid_file(name).write_text("123")
    assert processes.all_started(home)
    home.pid_file("etcd").write_text("")
    assert not processes.all_started(home)


def test_the_last_lines_of_a_log_are_few_and_short(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n\n" + "\n".join(f"line {number} {'x' * 1000}" for number in range(9)) + "\n")
    lines = processes.last_lines(log).splitlines()
    assert [line[:6] for line in lines] == [f"line {number}" for number in range(4, 9)]
    assert all(len(line) <= 300 for line in lines)
    assert processes.last_lines(tmp_path / "absent") == ""
