"""`kill -9` of the CLI, the plugin and the cloud at random moments: the bounded form of `make soak`."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.harness import ended, until
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


def test_seeds_kill_everything_in_every_command() -> None:
    drawn = {(one.command, one.victim) for seed in range(1, 201) for one in [planned(seed, exists=seed % 2 == 0)]}
    assert drawn == {(command, victim) for command in ("up", "change", "destroy") for victim in VICTIMS}
    assert planned(7, exists=True) == planned(7, exists=True)
