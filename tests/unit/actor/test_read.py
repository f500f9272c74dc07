"""What the APIs answer, read: shapes as kube-apiserver 1.36 and slurmrestd 26.05.5 give them."""

from __future__ import annotations

from typing import Any

import pytest

from actor import read
from actor.state import Mark

UNSET = {"set": False, "infinite": False, "number": 0}


def at(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


def slurm_job(**changes: Any) -> dict[str, Any]:
    return {
        **{"job_id": 19, "array_job_id": at(0), "array_task_id": UNSET, "het_job_id": at(0), "job_state": ["RUNNING"]},
        **{"nodes": "train-[0-1]", "node_count": at(2), "requeue": True, "batch_flag": True, "restart_cnt": 1},
        **{"hold": False, "state_description": "", "resv_name": "", "user_name": "ada", "account": "vision"},
        **{"partition": "all", "admin_comment": "", "eligible_time": at(5), "exit_code": {"status": ["SUCCESS"]}},
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, "19"),
        ({"array_job_id": at(17), "array_task_id": at(0)}, "17_0"),
        # The last member of an array has the array's own number: bare, it would mean all of them.
        ({"array_job_id": at(19), "array_task_id": at(2)}, "19_2"),
        ({"het_job_id": at(18)}, "18"),
    ],
)
def test_a_job_is_requeued_by_the_name_that_means_it_alone(changes: dict[str, Any], step: str) -> None:
    assert read.job(slurm_job(**changes)).step_id == step


@pytest.mark.parametrize(("changes", "can"), [({}, True), ({"requeue": False}, False), ({"batch_flag": False}, False)])
def test_batch_jobs_that_allow_it_can_be_requeued(changes: dict[str, Any], can: bool) -> None:
    assert read.job(slurm_job(**changes)).requeueable is can


def test_a_job_that_ended_with_an_exit_code() -> None:
    assert read.job(slurm_job(exit_code={"status": ["ERROR"], "return_code": at(75)})).failed
    assert not read.job(slurm_job()).failed


def test_what_a_notice_tells_of_a_job() -> None:
    one = read.job(
        slurm_job(
            **{"name": "bert", "mail_type": ["END", "ARRAY_TASKS"], "state_reason": "NonZeroExitCode"},
            **{"submit_time": at(1), "start_time": at(2), "end_time": at(3)},
            exit_code={"status": ["ERROR"], "return_code": at(75), "signal": {"id": UNSET, "name": ""}},
        )
    )
    assert (one.name, one.mail, one.reason) == ("bert", {"END", "ARRAY_TASKS"}, "NonZeroExitCode")
    assert (one.submitted, one.started, one.ended, one.exit, one.node_list) == (1, 2, 3, 75, "train-[0-1]")


def test_a_signal_is_an_exit_code_as_in_a_shell() -> None:
    code = {"status": ["SIGNALED"], "return_code": UNSET, "signal": {"id": at(9), "name": "KILL"}}
    assert read.job(slurm_job(exit_code=code)).exit == 137


def test_the_first_part_of_a_heterogeneous_job_speaks_for_all() -> None:
    asked = {"mail_type": ["END"], "het_job_id": at(18)}
    assert read.job(slurm_job(**asked, het_job_offset=at(0))).mail == {"END"}
    assert read.job(slurm_job(**asked, het_job_offset=at(1))).mail == frozenset()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("train-1", ["train-1"]),
        ("train-[0-2,7],login-1", ["train-0", "train-1", "train-2", "train-7", "login-1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]-x,a-[3]", ["r1-x", "r2-x", "a-3"]),
    ],
)
def test_hostlist(text: str, names: list[str]) -> None:
    assert list(read.hostlist(text)) == names


def node(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "host-1", **parts.pop("metadata", {})}, **parts}


@pytest.mark.parametrize(
    ("parts", "mark"),
    [
        ({}, None),
        ({"spec": {"unschedulable": True}}, None),
        ({"metadata": {"annotations": None, "labels": {"crusoe.ai/instance.state": "RUNNING"}}}, None),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}, None),
        (
            {"spec": {"taints": [{"key": "crusoe.ai/remediation.state", "value": "x", "timeAdded": "t"}]}},
            Mark("crusoe.ai/remediation.state=x@t", "crusoe.ai/remediation.state=x"),
        ),
        (
            {"metadata": {"labels": {"crusoe.ai/remediation": "XID_79"}}},
            Mark("crusoe.ai/remediation=XID_79", "crusoe.ai/remediation=XID_79"),
        ),
        (
            {"metadata": {"annotations": {"crusoe.ai/remediation": "op-1"}}},
            Mark("crusoe.ai/remediation=op-1", "crusoe.ai/remediation=op-1"),
        ),
    ],
)
def test_what_says_that_a_node_is_being_repaired(parts: dict[str, Any], mark: Mark | None) -> None:
    assert read.kube_node(node(**parts)).remediation == mark


def test_a_condition_counts_while_it_is_true_and_again_after_it_was_not() -> None:
    def conditions(status: str, since: str) -> dict[str, Mark]:
        one = {"type": "ReadonlyFilesystem", "status": status, "lastTransitionTime": since, "message": "m"}
        return dict(read.kube_node(node(status={"conditions": [one]})).conditions)

    assert conditions("False", "a") == {}
    assert conditions("Unknown", "a") == {}
    first, second = conditions("True", "a"), conditions("True", "b")
    assert first["ReadonlyFilesystem"].since == 0
    assert conditions("True", "2026-11-30T10:00:00Z")["ReadonlyFilesystem"].since == 1796032800
    assert first["ReadonlyFilesystem"].text == "ReadonlyFilesystem: m"
    assert first["ReadonlyFilesystem"].id != second["ReadonlyFilesystem"].id


def test_a_worker_that_ends_or_waits_is_none() -> None:
    pod = {"metadata": {"name": "train-0"}, "spec": {"nodeName": "host-1", "hostname": "train-0"}}
    assert read.worker(pod) is not None
    assert read.worker({**pod, "spec": {}}) is None
    assert read.worker({**pod, "metadata": {"name": "train-0", "deletionTimestamp": "t"}}) is None


def test_a_worker_has_its_slurm_name_from_the_operators_label() -> None:
    labels = {"nodeset.slinky.slurm.net/pod-hostname": "gpu-3"}
    pod = {"metadata": {"name": "train-abc", "labels": labels}, "spec": {"nodeName": "host-1", "hostname": "x"}}
    found = read.worker(pod)
    assert found is not None
    assert found.slurm_name == "gpu-3"


def test_extra() -> None:
    assert read.remembered("") == {}
    assert read.remembered('{"instance": "a"}') == {"instance": "a"}
    assert read.remembered("rack=1") is None
    assert read.remembered("[1]") is None
