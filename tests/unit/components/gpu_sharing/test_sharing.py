"""The sharing as it is declared: what stands before what, who waits for whom, and what other stacks notice of it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from components import node_pools
from components.gpu_sharing import kueue, plan, plan_command, table
from components.slurm import charts
from crusoe.rules import slinky
from policies import state
from tests.harness import ROOT, merge
from tests.unit.components.gpu_sharing.support import H100
from tests.unit.components.support import Deployment, Recorded, deploy_platform, faults, settings_document, settings_of

Json = dict[str, Any]
PREFIX, SLURM = "platform-sharing", "platform-slurm-slinky"
MODEL: Json = {
    "image": "registry.example.com/server:1",
    "scaling": {"metric": "requests_running", "perReplica": 32},
}


def document(changes: Mapping[str, Any] | None = None, *, shared: bool = True) -> Json:
    """A pool of 12 nodes, 2 in reserve, 6 for training, 3 for a model; and a pool that Slurm has to itself."""
    pools = {
        "system": {"type": "c1a.8x", "count": 2},
        "train": {"type": H100, "count": 12, "reserve": 2},
        "own": {"type": H100, "count": 3},
    }
    chat = {"gpusPerReplica": 4, "floor": 5, "ceiling": 8, "model": MODEL}
    sharing: Json = {"pools": {"train": {"training": {"floor": 6}, "inference": {"chat": chat}}}}
    slurm: Json = {"accounting": {"enabled": False}, "timing": {"drainBudget": 40}}
    given = settings_document(nodePools=pools, slurm=slurm, **({"gpuSharing": sharing} if shared else {}))
    return merge(given, changes or {})


@cache
def whole() -> Deployment:
    return deploy_platform(document())


@cache
def queued() -> Deployment:
    """The same with engine `kueue`, which shares whole nodes only."""
    chat = {"gpusPerReplica": 8, "floor": 3, "ceiling": 4}
    return deploy_platform(
        document({"gpuSharing": {"pools": {"train": {"engine": "kueue", "inference": {"chat": chat}}}}})
    )


@cache
def without() -> Deployment:
    return deploy_platform(document(shared=False))


def one(name: str, deployment: Deployment | None = None) -> Recorded:
    return (deployment or whole()).one(name)


def own(deployment: Deployment) -> list[Recorded]:
    return [each for each in deployment.resources if each.name.startswith(f"{PREFIX}-")]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        # The namespace of Slurm's quotas.
        (f"{SLURM}-releases-namespace-slurm", f"{PREFIX}-resourcequota-slurm-gpu-train-floor"),
        # A quota doesn't count back, so everything that refuses stands before anybody who asks for a GPU.
        (f"{PREFIX}-namespace-inference", f"{PREFIX}-priorityclass-gpu-train-floor"),
        (f"{PREFIX}-priorityclass-gpu-infer-floor", f"{PREFIX}-validatingadmissionpolicy-gpu-sharing"),
        (
            f"{PREFIX}-validatingadmissionpolicy-gpu-sharing",
            f"{PREFIX}-validatingadmissionpolicybinding-gpu-sharing",
        ),
        (
            f"{PREFIX}-validatingadmissionpolicybinding-gpu-sharing",
            f"{PREFIX}-resourcequota-inference-gpu-infer-floor",
        ),
        (f"{PREFIX}-resourcequota-inference-gpu-infer-floor", f"{PREFIX}-limitrange-inference-gpu-sharing"),
        (f"{PREFIX}-limitrange-inference-gpu-sharing", f"{PREFIX}-deployment-gpu-sharing-train-chat"),
        (f"{PREFIX}-deployment-gpu-sharing-train-chat", f"{PREFIX}-deployment-inference-chat"),
        (f"{PREFIX}-resourcequota-inference-gpu-infer-burst", f"{PREFIX}-deployment-inference-chat-burst"),
        *(
            (f"{PREFIX}-{guard}", f"{SLURM}-nodeset-{node_set}")
            for guard in (
                "resourcequota-slurm-gpu-train-floor",
                "resourcequota-slurm-gpu-train-borrow",
                "resourcequota-slurm-gpu-sharing",
                "validatingadmissionpolicybinding-gpu-sharing",
                "deployment-gpu-sharing-train-chat",
            )
            for node_set in ("train", "train-borrow", "own")
        ),
        (f"{SLURM}-nodeset-train-borrow", f"{SLURM}-workers-train-borrow"),
    ],
)
def test_order(first: str, then: str) -> None:
    assert first in whole().depends_on(one(then))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (f"{PREFIX}-kueue-namespace", f"{PREFIX}-kueue-release"),
        # Its pods run on nodes.
        ("platform-pools-system", f"{PREFIX}-kueue-release"),
        # Its webhooks refuse or lose what is written before they answer.
        (f"{PREFIX}-kueue-release-ready", f"{PREFIX}-resourceflavor-train"),
        # Quotas and the class stand before a queue lets anything in.
        (f"{PREFIX}-resourcequota-slurm-gpu-shared", f"{PREFIX}-resourceflavor-train"),
        (f"{PREFIX}-resourceflavor-train", f"{PREFIX}-cohort-gpu-train"),
        (f"{PREFIX}-cohort-gpu-train", f"{PREFIX}-clusterqueue-training-train"),
        (f"{PREFIX}-clusterqueue-training-train", f"{PREFIX}-localqueue-slurm-training-train"),
        (f"{PREFIX}-localqueue-slurm-training-train", f"{SLURM}-nodeset-train"),
        (f"{PREFIX}-localqueue-inference-inference-train-chat", f"{PREFIX}-deployment-inference-chat"),
        (f"{PREFIX}-workloadpriorityclass-gpu-burst", f"{PREFIX}-deployment-inference-chat-burst"),
    ],
)
def test_order_with_kueue(first: str, then: str) -> None:
    assert first in queued().depends_on(one(then, queued()))


def test_everything_with_pods_where_kueue_decides_comes_once_it_answers() -> None:
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "CronJob", "MariaDB", "Accounting")
    slinkys = ("Controller", "RestApi", "LoginSet", "NodeSet")
    found = [
        each
        for each in queued().resources
        if each.type.rpartition(":")[2] in (*kinds, *slinkys)
        and each.inputs["metadata"].get("namespace") in ("slurm", "inference")
    ]
    assert {each.type.rpartition(":")[2] for each in found} >= {"Deployment", *slinkys}
    for each in found:
        assert f"{PREFIX}-kueue-release-ready" in queued().depends_on(each), each.name


def test_up_waits_for_the_floor_and_not_for_workers_that_kueue_holds_back() -> None:
    waits = one(f"{SLURM}-workers-train", queued()).inputs
    assert (waits["replicas"], waits["minReady"], waits["enough"]) == (10, 6, 6)
    told = queued().exports["slurm"]["nodeSets"]["train"]
    assert (told["nodes"], told["atMost"]) == (6, 10)
    assert "enough" not in one(f"{SLURM}-workers-train").inputs


def test_kueue_is_installed_only_where_it_shares() -> None:
    assert not [each.name for each in whole().resources if "kueue" in each.name]
    made = one(f"{PREFIX}-kueue-release", queued()).inputs
    assert (made["chart"], made["version"]) == ("oci://registry.k8s.io/kueue/charts/kueue", kueue.VERSION)
    assert made["values"]["controllerManager"]["nodeSelector"] == {"crusoe.ai/nodepool.name": "test-system"}


def test_a_folder_of_charts_has_to_hold_that_of_kueue(tmp_path: Path) -> None:
    for name in charts.PUBLIC:
        (tmp_path / name).mkdir()
        (tmp_path / name / "Chart.yaml").touch()
    changes: Json = {
        "slurm": {"charts": {"source": str(tmp_path)}},
        "gpuSharing": {
            "pools": {"train": {"engine": "kueue", "inference": {"chat": {"gpusPerReplica": 8, "floor": 3}}}}
        },
    }
    told = faults(document(changes))
    assert "lacks kueue, which engine kueue needs" in told["platform.slurm.charts.source"]
    (tmp_path / "kueue").mkdir()
    (tmp_path / "kueue" / "Chart.yaml").touch()
    assert faults(document(changes)) == {}


def test_training_waits_for_no_model_and_no_model_for_training() -> None:
    for node_set in ("train", "train-borrow"):
        assert f"{PREFIX}-deployment-inference-chat" not in whole().depends_on(one(f"{SLURM}-nodeset-{node_set}"))
    assert f"{SLURM}-nodeset-train" not in whole().depends_on(one(f"{PREFIX}-deployment-inference-chat"))


def test_up_waits_for_the_quotas_and_for_no_pod() -> None:
    def waits(kind: str) -> dict[str, bool]:
        found = [each for each in own(whole()) if each.type.endswith(f":{kind}")]
        return {
            each.name.removeprefix(f"{PREFIX}-"): "pulumi.com/skipAwait"
            not in each.inputs["metadata"].get("annotations", {})
            for each in found
        }

    assert set(waits("ResourceQuota").values()) == {True}
    assert waits("Deployment") == {
        "deployment-gpu-sharing-train-chat": False,
        "deployment-inference-chat": False,
        "deployment-inference-chat-burst": False,
    }


def test_everything_goes_with_the_cluster_and_is_made_anew_in_another() -> None:
    cluster = one("platform-cluster-cmk").urn
    assert {each.deleted_with for each in own(whole())} == {cluster}
    assert {each.replacement_trigger for each in own(whole())} == {"platform-cluster-cmk-id"}
    assert all(each.parent == one(PREFIX).urn for each in own(whole()))


def test_namespaces_with_somebodys_pods_are_protected_and_nothing_else_is() -> None:
    assert {each.name for each in own(whole()) if each.protect} == {f"{PREFIX}-namespace-inference"}
    assert not any(each.protect for each in own(deploy_platform(document({"protect": False}))))


def test_workers_on_borrowed_nodes_are_not_protected_and_policies_can_see_why() -> None:
    floor, lent = (one(f"{SLURM}-nodeset-{key}") for key in ("train", "train-borrow"))
    assert floor.protect
    assert "labels" not in floor.inputs["metadata"]
    assert not lent.protect
    assert lent.inputs["metadata"]["labels"] == {state.LENT: "true"}


def test_a_shared_pool_has_a_floor_that_is_waited_for_and_borrowers_that_are_not() -> None:
    floor, lent = one(f"{SLURM}-workers-train").inputs, one(f"{SLURM}-workers-train-borrow").inputs
    assert (floor["replicas"], floor["minReady"], floor["drainSeconds"]) == (6, 6, 130)
    assert "waitSeconds" not in floor
    assert (lent["replicas"], lent["minReady"], lent["drainSeconds"], lent["waitSeconds"]) == (4, 0, 130, 0)
    specs = {key: one(f"{SLURM}-nodeset-{key}").inputs["spec"] for key in ("train", "train-borrow")}
    assert [finding for spec in specs.values() for finding in slinky.spec("NodeSet", "NodeSet", spec)] == []
    classes = {key: spec["template"]["spec"]["priorityClassName"] for key, spec in specs.items()}
    assert classes == {"train": "gpu-train-floor", "train-borrow": "gpu-train-borrow"}


def test_a_floor_above_the_pools_min_count_may_be_short_by_as_much() -> None:
    changed = document({"nodePools": {"train": {"minCount": 4}}})
    assert one(f"{SLURM}-workers-train", deploy_platform(changed)).inputs["minReady"] == 4


def test_a_drain_budget_of_the_pool_is_that_of_its_workers_alone() -> None:
    changed = document({"gpuSharing": {"pools": {"train": {"training": {"drainBudget": 75}}}}})
    deployment = deploy_platform(changed)
    drains = {key: one(f"{SLURM}-workers-{key}", deployment).inputs["drainSeconds"] for key in ("train", "own")}
    assert drains == {"train": 165, "own": 130}


def test_static_lends_nothing() -> None:
    pool = {"engine": "static", "inference": {"chat": {"ceiling": None, "model": {"scaling": None}}}}
    deployment = deploy_platform(document({"gpuSharing": {"pools": {"train": pool}}}))
    names = {each.name for each in deployment.resources}
    assert f"{SLURM}-nodeset-train" in names
    assert not {name for name in names if "borrow" in name or "burst" in name}


def test_pools_that_are_not_shared_notice_nothing() -> None:
    before, after = without(), whole()
    for name in (f"{SLURM}-nodeset-own", f"{SLURM}-workers-own", "platform-pools-own", "platform-pools-train"):
        assert one(name, before).inputs == one(name, after).inputs


def test_a_stack_without_sharing_has_nothing_of_it() -> None:
    assert not [each.name for each in without().resources if "sharing" in each.name or "borrow" in each.name]
    assert without().exports["gpuSharing"] == {}
    changed = {each.name for each in without().resources if each.inputs != one(each.name).inputs}
    # Slurm's view of the shared pool, and nothing of anybody else.
    assert changed == {f"{SLURM}-nodeset-train", f"{SLURM}-workers-train"}


def test_the_stack_tells_what_is_promised() -> None:
    promise = {
        "nodePool": "test-train",
        "resource": "nvidia.com/gpu",
        "gpusPerNode": 8,
        "floorNodes": 6,
        "homeNodes": 3,
    }
    assert whole().exports["gpuSharing"] == {"train": promise}
    slurm = whole().exports["slurm"]
    assert {key: (each["nodes"], each.get("lent")) for key, each in slurm["nodeSets"].items()} == {
        "train": (6, None),
        "train-borrow": (4, True),
        "own": (3, None),
    }
    assert slurm["partitions"] == ["train", "train-borrow", "own", "all"]


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"training": {"demand": {"prometheus": "http://p:9090"}}}, "training.demand", "does not install KEDA yet"),
        (
            {"inference": {"chat": {"model": {"scaling": {"prometheus": "http://p:9090"}}}}},
            "inference.chat.model.scaling.prometheus",
            "does not install KEDA yet",
        ),
    ],
)
def test_what_needs_a_release_that_is_not_there_is_refused(change: Json, path: str, said: str) -> None:
    told = faults(document({"gpuSharing": {"pools": {"train": change}}}))
    assert said in told[f"platform.gpuSharing.pools.train.{path}"]


def test_floors_that_do_not_fit_are_refused_before_anything_is_made() -> None:
    told = faults(document({"gpuSharing": {"pools": {"train": {"training": {"floor": 8}}}}}))
    assert "8 floor nodes + 3 home nodes for chat = 11, but 10 of 12 nodes are left" in " ".join(told.values())


def test_the_documented_example_prints_the_documented_plan() -> None:
    page = (ROOT / "docs/gpu-sharing.md").read_text(encoding="utf-8")
    example = cast("Json", yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0]))["platform"]
    system = {"nodePools": {"system": {"type": "c1a.8x", "count": 2}, **example.pop("nodePools")}}
    given = settings_document(**system, **example)
    assert f"```\n{printed(given)}```\n" in page
    given["gpuSharing"]["pools"]["train"]["training"]["floor"] = 8
    (path, said), *_ = faults(given).items()
    assert f"{path}: {said.strip()}" in page


def printed(given: Json) -> str:
    settings = settings_of(given)
    assert settings.gpu_sharing is not None
    assert settings.slurm is not None
    pools = node_pools.plan(settings.node_pools, stack="test", cluster_version="1.33.4-cmk.43", protect=True)
    return "".join(f"{line}\n" for line in table.lines(plan.plan(settings.gpu_sharing, pools, settings.slurm)))


class TestPlanCommand:
    def run(self, given: object, monkeypatch: pytest.MonkeyPatch) -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(given)))
        return plan_command.main(["--stack=test"])

    def test_prints_who_has_what(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(document(), monkeypatch) == 0
        out = capsys.readouterr().out
        assert "6 for training's floor + 3 for chat + 2 in reserve + 1 to lend = 12 nodes" in out

    def test_says_where_nothing_is_shared(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(document(shared=False), monkeypatch) == 0
        assert "shares no GPUs" in capsys.readouterr().out

    def test_refuses_with_every_fault(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = document({"gpuSharing": {"pools": {"train": {"training": {"floor": 8}, "engine": "other"}}}})
        assert self.run(given, monkeypatch) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert "platform.gpuSharing.pools.train.engine" in told.err
