"""Every metric: its value in a world where it has one, and that it is not there where nobody says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actor import notes
from actor.notes import Notes
from actor.state import Job, Mark, SlurmNode
from exporter import metrics
from exporter.repairs import State
from exporter.series import Memory, distributions, remember, samples
from exporter.settings import Settings
from exporter.sources import AutoClusters, Kubernetes, Machine, Operation, Slurm, View
from tests.unit.exporter.world import BROKEN, NOW, RECOVERED, REPLACED, SETTINGS, TOLD, WHOLE, job, machine, slurm_node
from training import progress

Values = dict[tuple[str, ...], float]


def values(name: str, seen: View = WHOLE, settings: Settings = SETTINGS, memory: Memory | None = None) -> Values:
    """The series of a metric by their labels."""
    memory = remember(memory or Memory(), seen, settings)
    found = [each for each in samples(seen, memory, settings, NOW) if each.name == name]
    assert len({each.labels for each in found}) == len(found), "no series is there twice"
    return {each.labels: each.value for each in found}


def slurm(*jobs: Job, nodes: tuple[SlurmNode, ...] = ()) -> View:
    return replace(WHOLE, slurm=Slurm(nodes, jobs))


REPAIR = ("op-1", "none", "train", "none", "XID_79", "REPLACE_NODE")
CASES: list[tuple[str, View, Values]] = [
    ("source_configured", WHOLE, dict.fromkeys([("autoclusters",), ("crusoe",), ("slurm",), ("kubernetes",)], 1)),
    ("source_configured", View(), dict.fromkeys([("autoclusters",), ("crusoe",), ("slurm",), ("kubernetes",)], 0)),
    (
        "source_last_success_timestamp_seconds",
        WHOLE,
        {("slurm",): NOW - 1, ("kubernetes",): NOW - 2, ("autoclusters",): NOW - 3, ("crusoe",): NOW - 4},
    ),
    (
        "credential_expiry_timestamp_seconds",
        WHOLE,
        {("crusoe-api-key",): NOW + 86_400, ("slurm-token",): NOW + 3600},
    ),
    ("credential_accepted", WHOLE, {("crusoe-api-key",): 1, ("slurm-token",): 1}),
    (
        "credential_accepted",
        replace(WHOLE, refused=frozenset({"crusoe-api-key"})),
        {("crusoe-api-key",): 0, ("slurm-token",): 1},
    ),
    ("exporter_info", View(), {("1.2.3",): 1}),
    ("repair_state", WHOLE, {(*REPAIR, "done"): 1}),
    ("repair_start_timestamp_seconds", WHOLE, {REPAIR: NOW - 90}),
    ("repair_end_timestamp_seconds", WHOLE, {REPAIR: NOW - 40}),
    ("repairs_total", WHOLE, {("train", "XID_79", "done"): 1, ("system", "none", "done"): 0}),
    ("pool_nodes_wanted", WHOLE, {("train",): 2}),
    ("pool_nodes_running", WHOLE, {("train",): 1}),
    ("pool_nodes_ready", WHOLE, {("train",): 2, ("system",): 0}),
    ("pool_spare_hosts", WHOLE, {("train",): 3}),
    (
        "pool_info",
        View(),
        {("train", "h100-80gb-sxm-ib.8x", "nvidia"): 1, ("system", "c1a.8x", "none"): 1},
    ),
    (
        "node_info",
        WHOLE,
        {("host-0", "train", "leaf-a", "nvidia"): 1, ("host-2", "train", "leaf-a", "nvidia"): 1},
    ),
    (
        "node_gpus",
        replace(WHOLE, kubernetes=Kubernetes([machine(0, gpus=7)])),
        {
            ("host-0", "train", "expected"): 8,
            ("host-0", "train", "kubernetes"): 7,
            ("host-0", "train", "slurm"): 8,
        },
    ),
    ("node_cordoned", replace(WHOLE, kubernetes=Kubernetes([BROKEN])), {("host-1", "train"): 1}),
    (
        "slurm_node_drained",
        slurm(nodes=(slurm_node(0, "IDLE", "DRAIN", reason="bad fan, ada"), slurm_node(1))),
        {("host-0", "train-0", "human"): 1},
    ),
    (
        "job_requeues_total",
        slurm(replace(RECOVERED, restarts=4, said=progress.write("", replace(TOLD, own=2)))),
        {("7", "node_failure"): 1, ("7", "own_failure"): 2, ("7", "other"): 1},
    ),
    ("job_held", slurm(job(8, "PENDING", held=True, reason="JobHeldUser")), {("8", "user"): 1}),
    (
        "job_pending_for_nodes",
        slurm(job(8, "PENDING", nodes=(), reason="Resources"), job(9, "PENDING", nodes=(), reason="Priority")),
        {("8", "all"): 2},
    ),
    ("job_running_nodes", WHOLE, {("7", "all"): 2}),
    ("job_checkpoint_timestamp_seconds", WHOLE, {("7",): NOW - 5}),
    ("job_checkpoint_interval_seconds", WHOLE, {("7",): 20}),
    ("job_step", WHOLE, {("7",): 380}),
    (
        "job_gave_up_timestamp_seconds",
        slurm(
            job(8, "FAILED", exit=67, ended=int(NOW) - 9),
            job(9, "FAILED", exit=1, ended=int(NOW) - 9),
            job(10, "FAILED", exit=67, ended=int(NOW) - 90_000),
        ),
        {("8",): NOW - 9},
    ),
    (
        "slurm_jobs",
        slurm(job(7), job(8, "PENDING"), job(9, "PENDING", held=True), job(10, "RUNNING", "COMPLETING")),
        {("pending",): 1, ("running",): 1, ("held",): 1, ("completing",): 1},
    ),
    ("share_floor_gpus", View(), {("training", "train", "training"): 8, ("chat", "train", "inference"): 4}),
    ("share_used_gpus", WHOLE, {("training", "train", "training"): 16, ("chat", "train", "inference"): 4}),
    ("share_wanted_gpus", WHOLE, {("training", "train", "training"): 16, ("chat", "train", "inference"): 8}),
    ("share_borrowed_gpus", WHOLE, {("training", "train", "training"): 8, ("chat", "train", "inference"): 0}),
    ("borrowed_nodes", WHOLE, {("train",): 1}),
    ("quota_used", WHOLE, {("H100",): 16}),
    ("quota_limit", WHOLE, {("H100",): 24}),
    (
        "recovery_last_seconds",
        WHOLE,
        {
            ("train", stage): seconds
            for stage, seconds in {
                **{"detect": 2.5, "notify": 1, "drain": 2, "requeue": 1, "replace": 59, "resume": 26.5, "total": 33}
            }.items()
        },
    ),
    ("effective_training_time_ratio", WHOLE, {("7",): 0.75}),
    ("job_useful_node_seconds", WHOLE, {("7",): 600}),
    ("job_allocated_node_seconds", WHOLE, {("7",): 800}),
]


@pytest.mark.parametrize(("name", "seen", "found"), CASES, ids=[name for name, _, _ in CASES])
def test_a_metric(name: str, seen: View, found: Values) -> None:
    assert values(name, seen) == found


def test_every_metric_has_its_case_and_its_labels_and_none_is_made_up() -> None:
    gauges = {each.name for each in metrics.METRICS if each.kind != "histogram"}
    assert {f"{metrics.PREFIX}{name}" for name, _, _ in CASES} == gauges
    for name, seen, _ in CASES:
        for labels in values(name, seen):
            assert len(labels) == len(metrics.BY_NAME[f"{metrics.PREFIX}{name}"].labels)
            assert all(labels), "no label is empty"


SOURCES: dict[str, set[str]] = {
    "autoclusters": {"repairs_total", "repair_end_timestamp_seconds"},
    "crusoe": {"pool_nodes_wanted", "pool_nodes_running", "pool_spare_hosts", "quota_used", "quota_limit"},
    "slurm": {"slurm_jobs", "job_running_nodes", "job_step", "job_checkpoint_timestamp_seconds", "job_requeues_total"},
    "kubernetes": {"node_info", "node_gpus", "node_cordoned", "pool_nodes_ready"},
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_silent_source_said_is_gone_and_the_others_go_on(source: str) -> None:
    silent: dict[str, Any] = {source: None}
    seen = replace(WHOLE, **silent)
    for other, names in SOURCES.items():
        for name in names:
            assert bool(values(name, seen)) is (other != source), name


def test_a_node_that_vanished_is_not_healthy_and_has_no_series() -> None:
    gone = replace(WHOLE, kubernetes=Kubernetes([machine(0)]))
    assert values("pool_nodes_ready", gone)[("train",)] == 1
    assert values("pool_nodes_wanted", gone)[("train",)] == 2
    assert {labels[0] for labels in values("node_info", gone)} == {"host-0"}


@pytest.mark.parametrize("unfit", [machine(1, ready=False), machine(1, cordoned=True)])
def test_a_node_that_is_not_ready_or_cordoned_does_not_count(unfit: Machine) -> None:
    assert values("pool_nodes_ready", replace(WHOLE, kubernetes=Kubernetes([machine(0), unfit])))[("train",)] == 1


MARKED = Mark("m", "crusoe.ai/remediation=XID_79-1")
CONDITION = {"GPUXIDUnhealthy": Mark("c", "c", int(NOW) - 20)}


@pytest.mark.parametrize(
    ("node", "state"),
    [
        (machine(1), None),
        (machine(1, conditions={"MemoryPressure": Mark("p", "p")}), None),
        # Somebody's maintenance.
        (machine(1, cordoned=True), None),
        (machine(1, conditions=CONDITION), "detected"),
        (machine(1, conditions=CONDITION, remediation=MARKED), "notified"),
        (machine(1, conditions=CONDITION, remediation=MARKED, cordoned=True), "draining"),
    ],
)
def test_before_the_history_has_it_the_node_shows_the_repair(node: Machine, state: State | None) -> None:
    seen = View(AutoClusters((), {"XID_79": "REPLACE_NODE"}), kubernetes=Kubernetes([replace(node, issue="XID_79")]))
    found = {labels[-1]: labels for labels in values("repair_state", seen)}
    assert set(found) == ({state} if state else set())
    if state:
        assert found[state][:-1] == ("none", "host-1", "train", "leaf-a", "XID_79", "REPLACE_NODE")
        assert values("repair_start_timestamp_seconds", seen)[found[state][:-1]] == NOW - 20


@pytest.mark.parametrize(
    ("history", "state"),
    [
        ([replace(REPLACED, state="IN_PROGRESS", completed=0)], "replacing"),
        ([REPLACED], "done"),
        ([replace(REPLACED, state="FAILED")], "failed"),
        ([replace(REPLACED, state="FAILED"), replace(REPLACED, id="op-2", state="FAILED", started=NOW - 30)], "stuck"),
        ([replace(REPLACED, state="FAILED"), replace(REPLACED, id="op-2", started=NOW - 30)], "done"),
    ],
)
def test_what_the_history_has_is_one_repair_and_not_two(history: list[Operation], state: State) -> None:
    seen = View(AutoClusters(history, {"XID_79": "REPLACE_NODE"}), kubernetes=Kubernetes([BROKEN]))
    found = values("repair_state", seen)
    last = max(history, key=lambda each: each.started)
    assert [labels[-1] for labels in found if labels[0] == last.id] == [state]
    # The node still carries its marks: while the operation runs or has failed they say nothing more.
    assert any(labels[0] == "none" for labels in found) is (state == "done")


def test_a_repair_is_told_for_a_day_after_its_end() -> None:
    old = replace(REPLACED, started=NOW - 100_000, completed=NOW - 90_000)
    seen = replace(WHOLE, autoclusters=AutoClusters((old,)))
    assert values("repair_state", seen) == {}
    assert values("repairs_total", seen)[("train", "XID_79", "done")] == 1


@pytest.mark.parametrize(
    ("node", "owner"),
    [
        (slurm_node(0), None),
        (slurm_node(0, "ALLOCATED", "DRAIN", reason="slurm-operator: XID 79"), "operator"),
        (slurm_node(0, "IDLE", "DRAIN", reason="health: gpu-count 7 of 8"), "health"),
        (slurm_node(0, "IDLE", "DRAIN", reason="actor: 2 launch failures"), "actor"),
        (slurm_node(0, "IDLE", "DRAIN", reason="gres/gpu count reported lower than configured (7 < 8)"), "slurmd"),
        (slurm_node(0, "DOWN", "NOT_RESPONDING"), "slurmd"),
        (slurm_node(0, "IDLE", "INVALID_REG", reason="gres/gpu count"), "slurmd"),
        (slurm_node(0, "IDLE", "DRAIN", reason="bad fan"), "human"),
    ],
)
def test_whose_drain_it_is(node: SlurmNode, owner: str | None) -> None:
    found = values("slurm_node_drained", slurm(nodes=(node,)))
    assert [labels[2] for labels in found] == ([owner] if owner else [])


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (job(8, "PENDING"), None),
        (job(8, "PENDING", held=True, reason="JobHeldUser"), "user"),
        (job(8, "PENDING", held=True, reason="JobHeldAdmin"), "admin"),
        (job(8, "PENDING", held=True, description="launch failed requeued held"), "launch_failed"),
        (job(8, "PENDING", "REQUEUE_HOLD"), "requeue_hold"),
        (job(8, "COMPLETED", held=True), None),
    ],
)
def test_why_a_job_is_held(held: Job, reason: str | None) -> None:
    assert [labels[1] for labels in values("job_held", slurm(held))] == ([reason] if reason else [])


def test_restarts_are_never_more_than_slurm_counts() -> None:
    noted = notes.write("", Notes(faults=9))
    found = values("job_requeues_total", slurm(job(restarts=2, comment=noted)))
    assert sum(found.values()) == 2
    assert values("job_requeues_total", slurm(job())) == {}


def test_what_an_earlier_attempt_told_is_not_the_running_one_s() -> None:
    again = replace(RECOVERED, restarts=2)
    for name in ("job_step", "job_checkpoint_timestamp_seconds", "job_checkpoint_interval_seconds"):
        assert values(name, slurm(again)) == {}


def test_a_histogram_counts_each_recovery_once_however_often_it_is_looked_at() -> None:
    memory = Memory()
    for _ in range(3):
        memory = remember(memory, WHOLE, SETTINGS)
    found = {(each.name, each.labels): each.values for each in distributions(memory)}
    assert found["recovery_seconds", ("train", "total")] == (33,)
    assert found["recovery_steps_lost", ("train",)] == (14,)
    # The next failure of the same job is another one, and the job that Slurm forgets stays counted.
    again = replace(
        RECOVERED,
        restarts=2,
        comment=RECOVERED.comment.replace("fault=1/", "fault=2/"),
        said=progress.write("", replace(TOLD, attempt=2)),
    )
    memory = remember(remember(memory, slurm(again), SETTINGS), slurm(), SETTINGS)
    found = {(each.name, each.labels): each.values for each in distributions(memory)}
    assert len(found["recovery_seconds", ("train", "total")]) == 2


def test_an_exporter_that_starts_in_the_middle_finds_the_same() -> None:
    middle = replace(RECOVERED, said="")
    first = remember(Memory(), slurm(middle), SETTINGS)
    assert values("recovery_last_seconds", WHOLE, memory=first) == values("recovery_last_seconds", WHOLE)


def test_the_pool_of_a_machine_that_is_gone_is_known_from_what_was_noted_of_it() -> None:
    seen = replace(WHOLE, kubernetes=Kubernetes([machine(0)]))
    assert ("train", "XID_79", "done") in values("repairs_total", seen)
    nobody = replace(seen, slurm=Slurm())
    assert ("none", "XID_79", "done") in values("repairs_total", nobody)
    # ... or from when it was there.
    before = remember(Memory(), replace(nobody, kubernetes=Kubernetes([machine(1)])), SETTINGS)
    assert ("train", "XID_79", "done") in values("repairs_total", nobody, memory=before)
