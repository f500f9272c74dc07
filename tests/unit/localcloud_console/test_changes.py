"""What is told as news between two looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from localcloud.console import changes
from localcloud.console.sights import JobSight, PodSight, SlurmNodeSight
from tests.unit.localcloud_console.making import NOW, job, worker

IDLE = SlurmNodeSight("train-0", frozenset({"IDLE"}))
DRAINED = SlurmNodeSight("train-0", frozenset({"IDLE", "DRAIN"}), "actor: XID_79")
DOWN = SlurmNodeSight("train-0", frozenset({"DOWN"}))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (IDLE, IDLE, []),
        (IDLE, DRAINED, ["train-0 is drained: actor: XID_79."]),
        (DRAINED, IDLE, ["train-0 gets jobs again."]),
        (IDLE, DOWN, ["train-0 is down."]),
        (None, IDLE, ["train-0 has joined."]),
    ],
)
def test_nodes_of_slurm(before: SlurmNodeSight | None, after: SlurmNodeSight, told: list[str]) -> None:
    def named(each: SlurmNodeSight | None) -> Mapping[str, SlurmNodeSight]:
        return {each.name: each} if each else {}

    found = changes.of_slurm_nodes("c", NOW, named(before), named(after))
    assert [each.text for each in found] == told
    assert all((each.at, each.cluster_id, each.source) == (NOW, "c", "slurm") for each in found)


def running(**more: Any) -> JobSight:
    return job(1, nodes=("train-0",), **more)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (running(), running(), []),
        (None, job(1, "PENDING"), ["Job 1 (job-1) waits."]),
        (job(1, "PENDING"), running(), ["Job 1 (job-1) runs on train-0."]),
        (running(), job(1, "PENDING", restarts=1), ["Job 1 (job-1) is back in the queue, for the first time."]),
        (job(1, "PENDING", restarts=1), running(restarts=1), ["Job 1 (job-1) runs again on train-0."]),
        (running(), job(1, "COMPLETED"), ["Job 1 (job-1) has ended: completed."]),
        (job(1, "COMPLETED"), job(1, "COMPLETED"), []),
        (None, job(1, "COMPLETED"), []),
        (
            running(restarts=3),
            running(restarts=4),
            ["Job 1 (job-1) is back in the queue, for the 4th time.", "Job 1 (job-1) runs again on train-0."],
        ),
    ],
)
def test_jobs(before: JobSight | None, after: JobSight, told: list[str]) -> None:
    found = changes.of_jobs("c", NOW, [before] if before else [], [after])
    assert [each.text for each in found] == told


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (worker(), worker(), []),
        (worker(), None, ["Worker train-0 is gone from np-1-0."]),
        (None, worker(ready=False), []),
        (worker(ready=False), worker(), ["Worker train-0 is ready on np-1-0."]),
        (
            worker(),
            worker(node="np-1-9"),
            ["Worker train-0 is gone from np-1-0.", "Worker train-0 is ready on np-1-9."],
        ),
        (PodSight("n", "p", "np-1-0"), None, []),
    ],
)
def test_workers(before: PodSight | None, after: PodSight | None, told: list[str]) -> None:
    found = changes.of_pods("c", NOW, [before] if before else [], [after] if after else [])
    assert [each.text for each in found] == told
