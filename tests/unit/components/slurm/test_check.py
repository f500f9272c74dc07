"""`make check`: what it compares, what is red and what is not, what it reads, and what it prints."""

from __future__ import annotations

import io
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.slurm import check_command
from components.slurm.check import Host, Seen, SlurmNode, Worker, compare
from components.slurm.check_report import Report
from components.slurm.check_sources import Kubectl, SourceError, controller, gpus, host, read, slurm_nodes, workers

H100, L40S = "h100-80gb-sxm-ib.8x", "l40s-48gb.10x"
Json = dict[str, Any]


def expected(**changes: object) -> Json:
    train = {"type": H100, "nodePool": "dev-train", "nodes": 2, "gpusPerNode": 8, "gres": "gpu:h100:8", **changes}
    node_set = {key: value for key, value in train.items() if value is not None}
    return {"mode": "slinky", "clusterName": "dev", "nodeSets": {"train": node_set}, "partitions": ["train", "all"]}


HOSTS = [Host(f"np-{number}", H100, "dev-train", 8) for number in range(2)]
WORKERS = [Worker("train", f"train-{number}", f"np-{number}") for number in range(2)]
NODES = [SlurmNode(f"train-{number}", 8, ("IDLE", "DYNAMIC_NORM")) for number in range(2)]
GOOD = Seen(HOSTS, WORKERS, NODES)


def seen(host: Host | None = None, worker: Worker | None = None, node: SlurmNode | None = None) -> Seen:
    """All well, but for the second node."""
    return Seen([HOSTS[0], host or HOSTS[1]], [WORKERS[0], worker or WORKERS[1]], [NODES[0], node or NODES[1]])


def only(report: Report) -> str:
    (finding,) = report.findings
    return finding


def test_all_agree() -> None:
    report = compare(expected(), GOOD)
    assert report.findings == ()
    assert report.verdict == "Slurm, Kubernetes and the catalogue agree: 16 GPUs on 2 nodes, all in service."
    assert [(row.name, row.host, row.slurm, row.kubernetes, row.catalog, row.state) for row in report.rows] == [
        ("train-0", "np-0", 8, 8, 8, "in service"),
        ("train-1", "np-1", 8, 8, 8, "in service"),
    ]


def test_a_replacement_with_seven_of_eight_gpus_is_red_with_both_counts() -> None:
    # What a real slurmctld 26.05.5 says of it; Kubernetes has not noticed.
    reason = "gres/gpu count reported lower than configured (7 < 8)"
    node = SlurmNode("train-1", 7, ("IDLE", "DRAIN", "INVALID_REG", "DYNAMIC_NORM"), reason)
    report = compare(expected(), seen(node=node))
    assert only(report).startswith(
        f"train-1 has 7 of 8 GPUs in Slurm (refused when it registered: {reason}), 8 in Kubernetes, "
        f"8 in the catalogue ({H100} np-1). "
    )
    assert "have it replaced" in only(report)
    assert "state=resume" not in only(report)
    assert report.verdict == "Not as it should be: 15 GPUs in Slurm, 16 in Kubernetes, 16 by settings and catalogue."


def test_a_host_that_offers_fewer_gpus_is_red_though_slurm_still_counts_all() -> None:
    report = compare(expected(), seen(host=replace(HOSTS[1], gpus=7)))
    assert "8 of 8 GPUs in Slurm, 7 in Kubernetes, 8 in the catalogue" in only(report)
    assert "have np-1 replaced" in only(report)
    assert report.gpus == {"slurm": 16, "kubernetes": 15, "catalog": 16}


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (("IDLE", "DRAIN"), "drained: fan"),
        (("ALLOCATED", "DRAIN"), "draining: fan"),
        (("DOWN", "NOT_RESPONDING"), "down: fan"),
        (("IDLE", "NOT_RESPONDING"), "not responding: fan"),
        (("IDLE", "FAIL"), "failing: fan"),
        (("UNKNOWN",), "not seen yet: fan"),
    ],
)
def test_a_node_that_takes_no_jobs_is_red_with_slurms_reason(states: tuple[str, ...], word: str) -> None:
    report = compare(expected(), seen(node=SlurmNode("train-1", 8, states, "fan")))
    assert f"8 of 8 GPUs in Slurm ({word})" in only(report)
    assert ("scontrol update nodename=train-1 state=resume" in only(report)) == ("DRAIN" in states)


@pytest.mark.parametrize("states", [("ALLOCATED",), ("MIXED", "PLANNED"), ("IDLE", "COMPLETING"), ("IDLE", "RESERVED")])
def test_a_node_at_work_is_in_service(states: tuple[str, ...]) -> None:
    assert compare(expected(), seen(node=SlurmNode("train-1", 8, states))).findings == ()


def test_a_cordoned_host_is_red() -> None:
    finding = only(compare(expected(), seen(host=replace(HOSTS[1], cordoned=True))))
    assert "8 in Kubernetes (cordoned)" in finding
    assert "kubectl uncordon np-1" in finding


def test_a_worker_that_slurm_does_not_know_is_red() -> None:
    report = compare(expected(), replace(GOOD, slurm=NODES[:1]))
    assert only(report).startswith("train-1 has none of 8 GPUs in Slurm (not registered), 8 in Kubernetes")
    assert report.rows[1].slurm is None


def test_a_worker_without_a_node_is_red() -> None:
    report = compare(expected(), seen(worker=replace(WORKERS[1], host=None)))
    assert "train-1 has found no node" in only(report)
    assert (report.rows[1].state, report.gpus["kubernetes"]) == ("waits for a node", 8)


def lent() -> Json:
    """A pool whose second node is lent: what runs there is no promise."""
    told = expected(nodes=1)
    told["nodeSets"]["train-borrow"] = {**told["nodeSets"]["train"], "nodes": 2, "lent": True}
    return told


def test_a_worker_that_waits_for_a_borrowed_node_is_no_fault() -> None:
    waiting = [Worker("train-borrow", f"train-borrow-{number}", None) for number in range(2)]
    report = compare(lent(), Seen(HOSTS, [WORKERS[0], *waiting], NODES[:1]))
    assert report.findings == ()
    assert [(row.node_set, row.state) for row in report.rows if not row.host] == [
        ("train-borrow", "waits for a node"),
        ("train-borrow", "waits for a node"),
    ]
    # What others have of the pool is a spare to Slurm.
    assert [(row.node_set, row.host, row.state) for row in report.rows if not row.name] == [("train", "np-1", "spare")]
    assert report.gpus == {"slurm": 8, "kubernetes": 8, "catalog": 8}


def test_a_worker_on_a_borrowed_node_counts_like_any_other() -> None:
    there = [Worker("train-borrow", "train-borrow-0", "np-1"), Worker("train-borrow", "train-borrow-1", None)]
    good = SlurmNode("train-borrow-0", 8, ("IDLE",))
    report = compare(lent(), Seen(HOSTS, [WORKERS[0], *there], [NODES[0], good]))
    assert report.findings == ()
    assert report.gpus == {"slurm": 16, "kubernetes": 16, "catalog": 16}
    short = compare(lent(), Seen(HOSTS, [WORKERS[0], *there], [NODES[0], replace(good, gpus=7)]))
    assert "train-borrow-0 has 7 of 8 GPUs in Slurm" in only(short)


def test_workers_beyond_what_is_promised_may_wait() -> None:
    told = expected(nodes=1)
    told["nodeSets"]["train"]["atMost"] = 3
    waiting = [Worker("train", f"train-{number}", None) for number in (1, 2)]
    report = compare(told, Seen(HOSTS, [WORKERS[0], *waiting], NODES[:1]))
    assert report.findings == ()
    assert report.gpus == {"slurm": 8, "kubernetes": 8, "catalog": 8}
    # What they have beyond it counts like any other.
    assert compare(told, Seen(HOSTS, [*WORKERS[:2], waiting[1]], NODES[:2])).gpus["catalog"] == 16
    missing = compare(told, Seen(HOSTS, [Worker("train", "train-0", None), *waiting], []))
    assert "train has 0 of 1 workers" in only(missing)


def test_workers_that_are_not_even_made_are_red_on_borrowed_nodes_too() -> None:
    report = compare(lent(), Seen(HOSTS, [WORKERS[0]], NODES[:1]))
    assert "train-borrow has 0 of 2 workers" in only(report)


def test_a_worker_whose_node_is_gone_is_red() -> None:
    assert "np-1, which Kubernetes does not have" in only(compare(expected(), replace(GOOD, hosts=HOSTS[:1])))


def test_missing_workers_are_red_where_a_number_is_asked_for() -> None:
    few = Seen(HOSTS, WORKERS[:1], NODES[:1])
    assert "train has 1 of 2 workers" in only(compare(expected(), few))
    assert compare(expected(), few).gpus["catalog"] == 16
    # Autoscaling owns the number: each host that is there has one.
    scaled = compare(expected(nodes=None), few)
    assert only(scaled).startswith("np-1 in train has no worker")
    assert scaled.gpus["catalog"] == 8
    assert compare(expected(nodes=None), replace(few, hosts=HOSTS[:1])).findings == ()


def test_a_spare_host_is_no_fault_unless_it_lacks_gpus() -> None:
    spare = Host("np-2", H100, "dev-train", 8)
    report = compare(expected(), replace(GOOD, hosts=[*HOSTS, spare]))
    assert (report.findings, report.rows[2].state, report.gpus["kubernetes"]) == ((), "spare", 16)
    lacking = compare(expected(), replace(GOOD, hosts=[*HOSTS, replace(spare, gpus=7)]))
    assert only(lacking).startswith("np-2 (spare) has 7 of 8 GPUs in Kubernetes, 8 in the catalogue")


def test_hosts_of_other_pools_and_nodes_that_slurm_remembers_are_no_fault() -> None:
    others = [*HOSTS, Host("np-9", "c1a.8x", "dev-system", 0)]
    remembered = [*NODES, SlurmNode("train-7", 8, ("DOWN", "DRAIN"))]
    report = compare(expected(), Seen(others, WORKERS, remembered))
    assert report.findings == ()
    assert len(report.rows) == 2


def test_a_silent_controller_is_red_and_kubernetes_is_still_compared() -> None:
    silent = Seen([HOSTS[0], replace(HOSTS[1], gpus=6)], WORKERS, None, "the pod slurm-controller-0 is not ready")
    first, second = compare(expected(), silent).findings
    assert first.startswith("Slurm's controller does not answer: the pod slurm-controller-0 is not ready.")
    assert "none of 8 GPUs in Slurm (no answer), 6 in Kubernetes" in second


def test_a_node_of_another_type_is_measured_by_its_own_and_red() -> None:
    other = seen(host=Host("np-1", L40S, "dev-train", 10), node=replace(NODES[1], gpus=10))
    assert f"settings say {H100}" in only(compare(expected(), other))


def test_objects_of_managed_slurm_have_the_clusters_name_first() -> None:
    wanted = {**expected(nodePool=None), "mode": "managed", "clusterName": "prod-slurm"}
    found = [replace(each, node_set="prod-slurm-train") for each in WORKERS]
    assert compare(wanted, replace(GOOD, workers=found)).findings == ()
    foreign = [replace(each, node_set="other-train") for each in WORKERS]
    assert "0 of 2 workers" in only(compare(wanted, replace(GOOD, workers=foreign)))


def test_workers_are_in_the_order_of_their_numbers() -> None:
    found = [Worker("train", f"train-{number}", None) for number in (10, 9, 2)]
    rows = compare(expected(nodes=3), Seen([], found, [])).rows
    assert [row.name for row in rows] == ["train-2", "train-9", "train-10"]


def test_the_shape_for_machines() -> None:
    report = compare(expected(), seen(node=replace(NODES[1], gpus=7)))
    told = json.loads(json.dumps(report.as_json()))
    assert list(told) == ["agrees", "mode", "clusterName", "gpus", "nodes", "findings"]
    assert (told["agrees"], told["mode"], told["clusterName"]) == (False, "slinky", "dev")
    assert told["gpus"] == {"slurm": 15, "kubernetes": 16, "catalog": 16}
    assert told["nodes"][1] == {
        "nodeSet": "train",
        "slurmNode": "train-1",
        "node": "np-1",
        "type": H100,
        "gpus": {"slurm": 7, "kubernetes": 8, "catalog": 8},
        "state": "in service",
        "finding": told["findings"][0],
    }
    assert compare(expected(), GOOD).as_json()["agrees"] is True


# Sources


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:h100:8(S:0,2)", 8),
        ("gpu:8", 8),
        ("gpu", 1),
        ("gpu:h100", 1),
        ("gpu:h100:4,gpu:a100:2(S:1),nic:4", 6),
        ("(null)", 0),
        ("", 0),
        ("gpumem:80", 0),
    ],
)
def test_gpus_in_a_nodes_gres(gres: str, count: int) -> None:
    assert gpus(gres) == count


def test_nodes_as_scontrol_prints_them() -> None:
    # From scontrol 26.05.5 (data_parser v0.0.45), all other fields left out.
    answer = {
        "nodes": [
            {
                "name": "gpu-1",
                "state": ["IDLE", "DRAIN", "INVALID_REG", "DYNAMIC_NORM"],
                "reason": "gres/gpu count reported lower than configured (7 < 8)",
                "gres": "gpu:h100:7(S:0-1)",
                "tres": "cpu=176,mem=960G,billing=176",
            }
        ],
        "errors": [],
    }
    (node,) = slurm_nodes(json.dumps(answer))
    assert (node.name, node.gpus, node.states[2]) == ("gpu-1", 7, "INVALID_REG")
    assert node.reason.endswith("(7 < 8)")


@pytest.mark.parametrize(
    ("answer", "why"), [("slurm_load_node: failed", "not JSON"), ('{"errors": [{"error": "no way"}]}', "no way")]
)
def test_an_answer_that_is_none_is_said(answer: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        slurm_nodes(answer)


def test_a_host_is_read_by_what_it_offers() -> None:
    node = {
        "metadata": {
            "name": "np-1",
            "labels": {"node.kubernetes.io/instance-type": H100, "crusoe.ai/nodepool.name": "dev-train"},
        },
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"nvidia.com/gpu": "7"}, "capacity": {"nvidia.com/gpu": "8"}},
    }
    assert host(node) == Host("np-1", H100, "dev-train", 7, cordoned=True)
    assert host({"metadata": {"name": "a"}, "status": {"allocatable": {"amd.com/gpu": "8"}}}).gpus == 8


def pod(name: str, kind: str, ready: str = "True", **labels: str) -> Json:
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": kind, **labels}},
        "spec": {"nodeName": "np-1", "hostname": "train-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }


def test_workers_are_read_with_their_names_in_slurm() -> None:
    label = {"app.kubernetes.io/instance": "train", "nodeset.slinky.slurm.net/pod-hostname": "train-x"}
    going = pod("c", "slurmd")
    going["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    found = list(workers([pod("a", "slurmd", **label), pod("b", "slurmd"), going, pod("d", "slurmctld")]))
    assert found == [Worker("train", "train-x", "np-1"), Worker("", "train-1", "np-1")]


def test_the_controllers_pod_is_found_or_said_to_be_missing() -> None:
    assert controller([pod("w", "slurmd"), pod("slurm-controller-0", "slurmctld")]) == "slurm-controller-0"
    with pytest.raises(SourceError, match=r"slurm-controller-0 is not ready \(Running\)"):
        controller([pod("slurm-controller-0", "slurmctld", ready="False")])
    with pytest.raises(SourceError, match="no pod of slurmctld"):
        controller([pod("w", "slurmd")])


# The whole command, with a kubectl that only reads files


def answering(folder: Path, *, nodes: Json | str, slurm: Json | str = "", quotas: Json | None = None) -> Path:
    """A kubectl that gives these answers, keeps a note of its kubeconfig, and fails where an answer is a text."""
    kubectl = folder / "kubectl"
    pods = {
        "items": [pod("slurm-controller-0", "slurmctld"), pod("p", "slurmd", **{"app.kubernetes.io/instance": "train"})]
    }
    answers = {"nodes": nodes, "pods": pods, "slurm": slurm, "resourcequotas": quotas or {"items": []}}
    for name, answer in answers.items():
        (folder / name).write_text(answer if isinstance(answer, str) else json.dumps(answer))
    failing = {name for name, answer in {"nodes": nodes, "slurm": slurm}.items() if isinstance(answer, str)}
    kubectl.write_text(
        "#!/bin/sh\n"
        f'cd {folder}; config="${{1#--kubeconfig=}}"; ls -l "$config" > mode; cp "$config" config; shift\n'
        'case "$1" in get) answer=$2 ;; exec) answer=slurm; echo "$@" > asked ;; esac\n'
        f'case " {" ".join(sorted(failing))} " in *" $answer "*) cat $answer >&2; exit 1 ;; esac\n'
        "cat $answer\n"
    )
    kubectl.chmod(0o755)
    return kubectl


NODE_LIST: Json = {
    "items": [
        {
            "metadata": {
                "name": "np-1",
                "labels": {"node.kubernetes.io/instance-type": H100, "crusoe.ai/nodepool.name": "dev-train"},
            },
            "status": {"allocatable": {"nvidia.com/gpu": "8"}},
        }
    ]
}


def slurm_answer(count: int) -> Json:
    return {"nodes": [{"name": "train-1", "state": ["IDLE"], "gres": f"gpu:h100:{count}"}], "errors": []}


def run_check(monkeypatch: pytest.MonkeyPatch, kubectl: Path, outputs: Json | None = None, *arguments: str) -> int:
    given = outputs or {"slurm": expected(nodes=1), "kubeconfig": "own", "slurmKubeconfig": "behind"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(given)))
    return check_command.main([f"--kubectl={kubectl}", *arguments])


def test_the_command_is_green_and_asks_slurm_in_its_pod(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_check(monkeypatch, answering(tmp_path, nodes=NODE_LIST, slurm=slurm_answer(8))) == 0
    shown = capsys.readouterr().out
    assert "train-1" in shown
    assert "agree: 8 GPUs on 1 node, all in service." in shown
    asked = "exec -n slurm slurm-controller-0 -c slurmctld -- scontrol show nodes --json"
    assert (tmp_path / "asked").read_text().strip() == asked
    mode, *_, path = (tmp_path / "mode").read_text().split()
    assert mode.startswith(stat.filemode(0o100600))
    assert not Path(path).exists()
    assert (tmp_path / "config").read_text() == "own"


def test_the_command_is_red_for_a_lost_gpu_and_says_it_to_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = answering(tmp_path, nodes=NODE_LIST, slurm=slurm_answer(7))
    assert run_check(monkeypatch, kubectl, None, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["agrees"], told["nodes"][0]["gpus"]) == (False, {"slurm": 7, "kubernetes": 8, "catalog": 8})
    assert run_check(monkeypatch, kubectl) == 1
    assert "* train-1 has 7 of 8 GPUs in Slurm" in capsys.readouterr().out


def test_in_managed_mode_the_cluster_behind_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kubectl = answering(tmp_path, nodes=NODE_LIST, slurm=slurm_answer(8))
    wanted = {**expected(nodes=1, nodePool=None), "mode": "managed"}
    outputs = {"slurm": wanted, "kubeconfig": "own", "slurmKubeconfig": "behind"}
    assert run_check(monkeypatch, kubectl, outputs) == 0
    assert (tmp_path / "config").read_text() == "behind"


def test_a_slurm_that_does_not_answer_is_red_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = answering(tmp_path, nodes=NODE_LIST, slurm="slurm_load_node error: Unable to contact slurm controller\n")
    assert run_check(monkeypatch, kubectl) == 1
    assert "controller does not answer: slurm_load_node error: Unable to contact" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"slurm": None}, "run `make up`"),
        ({"slurm": {"mode": "none"}}, "This stack has no Slurm"),
        ({"slurm": expected(), "kubeconfig": "k"}, "Kubernetes did not answer, so nothing was compared: refused"),
    ],
)
def test_what_can_not_be_compared_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], outputs: Json, said: str
) -> None:
    assert run_check(monkeypatch, answering(tmp_path, nodes="refused\n"), outputs) == 1
    assert said in capsys.readouterr().err


def test_a_kubectl_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="can't be run: No such file"):
        read(Kubectl(str(tmp_path / "none"), tmp_path))


def promised(floor: int) -> Json:
    """Outputs of a stack that shares its pool of one node."""
    promise = {"nodePool": "dev-train", "resource": "nvidia.com/gpu", "gpusPerNode": 8}
    return {
        "slurm": expected(nodes=1),
        "kubeconfig": "own",
        "gpuSharing": {"train": {**promise, "floorNodes": floor, "homeNodes": 0}},
    }


def test_the_command_compares_what_is_promised_with_what_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = json.loads(json.dumps(NODE_LIST))
    nodes["items"][0]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    kubectl = answering(tmp_path, nodes=nodes, slurm=slurm_answer(8))
    assert run_check(monkeypatch, kubectl, promised(1)) == 0
    capsys.readouterr()
    assert run_check(monkeypatch, kubectl, promised(2), "--json") == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding.startswith("train: 2 floor nodes + 0 home nodes = 2 are promised, 16 GPUs, but 1 ready nodes")


def test_the_command_names_a_quota_below_what_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = "requests.nvidia.com/gpu"
    quota = {
        "metadata": {"namespace": "inference", "name": "gpu-infer-burst"},
        "status": {"hard": {gpus: "8"}, "used": {gpus: "12"}},
    }
    nodes = json.loads(json.dumps(NODE_LIST))
    nodes["items"][0]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    kubectl = answering(tmp_path, nodes=nodes, slurm=slurm_answer(8), quotas={"items": [quota]})
    assert run_check(monkeypatch, kubectl, promised(1)) == 1
    assert "inference/gpu-infer-burst: 12 nvidia.com/gpu run where 8 may, over by 4." in capsys.readouterr().out
