"""The alerts, tried by the real promtool: each fires where it has to, and is quiet where it has to."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.observability.alerts import all_rules
from components.observability.rules import Alert, Limits, Need, wanted
from tests.unit.components.observability.cases import ALL_THERE, CASES, Case, gpus, repair
from tests.unit.components.observability.promtool import rule_file, run, try_cases
from tests.unit.components.observability.queries import faults

RULES = all_rules(Limits())
ALERTS = {each.name: each for each in RULES if isinstance(each, Alert)}


def test_each_alert_has_a_case_that_fires_and_one_that_is_quiet() -> None:
    assert [*CASES] == [name for name in CASES if name in ALERTS]
    assert set(CASES) == set(ALERTS)
    for name, cases in CASES.items():
        assert any(any(case.fires.values()) for case in cases), f"{name} never fires"
        if name != "Watchdog":
            assert any(not all(case.fires.values()) for case in cases), f"{name} is never quiet"


def test_promtool_agrees_with_every_case(tmp_path: Path) -> None:
    tried = try_cases(tmp_path, CASES)
    assert tried.returncode == 0, tried.stdout[-6000:] + tried.stderr[-6000:]


def test_a_case_can_fail(tmp_path: Path) -> None:
    wrong = Case("none is said to fire", {'gpu_health{node="n1"}': "0x30"}, {10: []})
    assert try_cases(tmp_path, {"GpuUnhealthy": [wrong]}).returncode == 1


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    checked = run("check", "rules", "--lint=all", "--lint-fatal", rule_file(tmp_path))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout


def test_only_what_does_not_heal_wakes_somebody() -> None:
    assert {name for name, alert in ALERTS.items() if alert.severity == "page"} == {
        "RepairStuck",
        "RepairFailed",
        "RepairStorm",
        "JobHeld",
        "NoSpare",
        "FloorNotMet",
        "SlurmControllerDown",
        "EverythingSilent",
    }


def test_each_rule_asks_for_what_somebody_exports() -> None:
    assert {each.name: found for each in RULES if (found := [*faults(each.expr)])} == {}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("gpuplatform_repair_sate == 1", "nobody exports gpuplatform_repair_sate"),
        ("sum by (pol) (gpuplatform_pool_info)", "the label pol"),
        ('gpu_health{nod="n1"}', "the label nod"),
        ("rate(node_infiniband_link_downed[5m])", "nobody exports node_infiniband_link_downed"),
    ],
)
def test_a_query_for_what_is_not_there_is_found(query: str, words: str) -> None:
    assert words in "; ".join(faults(query))


STACKS: dict[str, tuple[set[Need], set[str], set[str]]] = {
    "without GPUs": (
        {"exporter", "own"},
        {"NodesMissing", "SourceSilent", "Watchdog"},
        {"GpuLost", "XidHardware", "GpuMetricsSilent", "AmdGpuMetricsSilent", "GpuCountMismatch", "RepairStuck"},
    ),
    "with AMD GPUs": (
        {"exporter", "own", "gpu", "amd"},
        {"GpuLost", "GpuUnhealthy", "GpuMemoryErrors", "AmdGpuMetricsSilent", "AmdGpuMetricsSilentOnNode"},
        {"XidHardware", "GpuMetricsSilent"},
    ),
    "with NVIDIA GPUs": (
        {"exporter", "own", "gpu", "nvidia"},
        {"GpuLost", "XidHardware", "XidApplication", "GpuMetricsSilent"},
        {"GpuUnhealthy", "AmdGpuMetricsSilent", "JobHeld"},
    ),
    "without the exporter": ({"own", "gpu", "nvidia", "slurm", "slinky"}, {"SlurmControllerDown"}, {"SourceSilent"}),
}


@pytest.mark.parametrize(("has", "there", "left_out"), STACKS.values(), ids=[*STACKS])
def test_a_stack_has_the_alerts_of_what_it_has(has: set[Need], there: set[str], left_out: set[str]) -> None:
    names = {each.name for each in wanted(RULES, frozenset(has))}
    assert there <= names
    assert not left_out & names


def test_a_stack_without_gpus_is_quiet_about_them(tmp_path: Path) -> None:
    rules = [each.name for each in wanted(RULES, frozenset[Need]({"exporter", "own"})) if isinstance(each, Alert)]
    series = {
        **ALL_THERE,
        'gpuplatform_pool_nodes_wanted{pool="system"}': "2x60",
        'gpuplatform_pool_nodes_running{pool="system"}': "2x60",
        'gpuplatform_node_info{node="n1", pool="system", leaf="none", vendor="none"}': "1x60",
        **{f'gpuplatform_source_configured{{source="{each}"}}': "0x60" for each in ("slurm", "autoclusters")},
    }
    case = Case("an hour", series, {59: []})
    tried = try_cases(tmp_path, {name: [case] for name in rules if name != "Watchdog"})
    assert tried.returncode == 0, tried.stdout


def test_a_repair_that_goes_well_wakes_nobody(tmp_path: Path) -> None:
    """A GPU is lost, its node replaced within two minutes, the job requeued: what the drill does."""
    series = {
        **ALL_THERE,
        **gpus(expected="8x60", kubernetes="8x5 7x2 8x60"),
        'DCGM_FI_DEV_XID_ERRORS{node="n1", gpu="0", UUID="GPU-a"}': "0x5 79x60",
        **repair("done", start="360x60", end="_x9 480x60"),
        'gpuplatform_pool_spare_hosts{pool="train"}': "1x6 0x2 1x60",
        'gpuplatform_job_pending_for_nodes{job_id="7", partition="all"}': "_x6 2x3 stale",
        'gpuplatform_job_requeues_total{job_id="7", reason="node_failure"}': "0x6 1x60",
        'gpuplatform_slurm_node_drained{node="n1", slurm_node="train-0", owner="operator"}': "_x6 1x3 stale",
    }
    minutes: dict[int, list[dict[str, str]]] = {minute: [] for minute in range(0, 40, 2)}
    pages = [alert.name for alert in ALERTS.values() if alert.severity == "page"]
    tried = try_cases(tmp_path, {name: [Case("a drill", series, minutes)] for name in pages})
    assert tried.returncode == 0, tried.stdout
