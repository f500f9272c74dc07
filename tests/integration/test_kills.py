"""`kill -9` of the CLI, the plugin and the cloud at random moments: the bounded form of `make soak`."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.harness import ended, execute, until
from tests.rest_cloud import rest_cloud
from tests.soak.rounds import OPERATION_SECONDS, VICTIMS, Stack, planned

pytestmark = pytest.mark.integration

FIRST, ROUNDS = 1, 20


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    folder = tmp_path_factory.mktemp("kills")
    with rest_cloud(folder, OPERATION_SECONDS) as cloud:
        yield Stack(folder, cloud)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_next_run_finishes_and_nothing_is_lost(stack: Stack, number: int) -> None:
    stack.play(number, FIRST + number)


def test_a_second_up_of_one_stack_is_refused_while_the_first_goes_on(stack: Stack) -> None:
    stack.want(ROUNDS)
    stack.cloud.fault("POST .../disks", "stall-operation")
    stack.cloud.fault("PATCH .../disks/*", "stall-operation")
    stack.cloud.forget_requests()
    first = stack.project.start(*stack.small.arguments("up"))
    until(lambda: any(one["fault"] for one in stack.cloud.requests()), 60, "a disk that takes long")
    second = stack.project.pulumi(*stack.small.arguments("up"), check=False)
    assert second.code != 0
    assert "the stack is currently locked" in second.text
    stack.cloud.admin("DELETE", "/faults")
    out = ended(first, 60)
    assert first.returncode == 0, out
    stack.exists = True
    stack.compare()


def test_seeds_kill_everything_in_every_command() -> None:
    drawn = {(one.command, one.victim) for seed in range(1, 201) for one in [planned(seed, exists=seed % 2 == 0)]}
    assert drawn == {(command, victim) for command in ("up", "change", "destroy") for victim in VICTIMS}
    assert planned(7, exists=True) == planned(7, exists=True)


FULL_DISK = """
mount -t tmpfs -o size=2m none "$BACKEND" && cp -a "$SAVED/." "$BACKEND"
# Room for the lock and not for a state.
left=$(df --output=avail -k "$BACKEND" | tail -1)
dd if=/dev/zero of="$BACKEND/filler" bs=4k count=$(( left / 4 - 3 )) status=none
# It tries to write for minutes.
timeout --signal=KILL 15 pulumi $UP
rm "$BACKEND/filler" && cp -a "$BACKEND/." "$SAVED"
"""


def test_a_disk_that_fills_up_in_the_middle_loses_nothing(stack: Stack, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may mount")
    project, small = stack.project, stack.small
    stack.want(ROUNDS + 1)
    project.pulumi(*small.arguments("up"))
    stack.want(ROUNDS + 2)
    saved = tmp_path / "saved"
    shutil.copytree(small.backend, saved)
    places = {"BACKEND": str(small.backend), "SAVED": str(saved), "UP": shlex.join(small.arguments("up"))}
    failed = execute(["unshare", "--mount", "sh", "-c", FULL_DISK], project.folder, {**project.environment(), **places})
    assert "Traceback" not in failed.text
    shutil.rmtree(small.backend)
    shutil.copytree(saved, small.backend)
    with pytest.raises(ValueError, match=r"line \d+ column \d+"):
        small.recorded()
    lock, _ = small.clear()
    assert lock
    assert small.recorded()
    project.pulumi(*small.arguments("up"), "--refresh")
    stack.exists = True
    stack.compare()
    project.pulumi(*small.arguments("destroy"))
