"""What of the actor and the health checks reaches the cluster."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actor import settings as told
from actor.__main__ import TOKEN
from components.slurm import actor, health
from tests.unit.components.slurm.test_slinky import PREFIX, document, inside, slurm, whole
from tests.unit.components.support import Deployment, Json, deploy_platform, faults

ACTOR = "actor-deployment"


@cache
def without() -> Deployment:
    return deploy_platform(document(failure={"actor": False, "healthChecks": False}))


def pod() -> Json:
    return slurm(ACTOR).inputs["spec"]["template"]["spec"]


def test_two_actors_run_apart_from_gpus_and_have_a_budget() -> None:
    spec = slurm(ACTOR).inputs["spec"]
    assert spec["replicas"] == 2
    assert slurm("actor-budget").inputs["spec"]["minAvailable"] == 1
    terms = pod()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"} in terms[0]["matchExpressions"]


def test_the_actor_is_nobody_and_can_write_nothing() -> None:
    (container,) = pod()["containers"]
    assert pod()["securityContext"] == {
        **{"runAsNonRoot": True, "runAsUser": 65534, "runAsGroup": 65534},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_actor_has_the_least_rights() -> None:
    rights = {
        (each.type.rpartition(":")[2], each.inputs["metadata"].get("namespace"), group, resource, verb)
        for each in inside()
        if each.name.startswith(f"{PREFIX}-actor") and "rules" in each.inputs
        for rule in each.inputs["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert rights == {
        *(("ClusterRole", None, "", "nodes", verb) for verb in ("get", "list", "watch", "patch")),
        *(("Role", "slurm", "", "pods", verb) for verb in ("get", "list", "watch")),
        *(("Role", "slurm", "coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")),
        ("Role", "default", "", "events", "create"),
    }
    for each in inside():
        for subject in each.inputs.get("subjects", ()):
            assert subject == {"kind": "ServiceAccount", "name": "slurm-actor", "namespace": "slurm"}


def test_the_actor_has_a_token_of_slurms_own_user_before_it_starts() -> None:
    spec = slurm("token-actor").inputs["spec"]
    assert (spec["username"], spec["refresh"]) == ("slurm", True)
    secrets = [each["secret"]["secretName"] for each in pod()["volumes"] if "secret" in each]
    assert secrets == [spec["secretRef"]["name"]]
    (place,) = [each["mountPath"] for each in pod()["containers"][0]["volumeMounts"] if each["name"] == "token"]
    assert Path(place) / spec["secretRef"]["key"] == TOKEN
    assert f"{PREFIX}-token-actor" in whole().depends_on(slurm(ACTOR))


def test_what_is_shipped_runs_by_itself(tmp_path: Path) -> None:
    data = slurm("actor-program").inputs["data"]
    (tmp_path / "actor").mkdir()
    for name, text in data.items():
        (tmp_path / "actor" / name).write_text(text)
    program = "import actor, actor.__main__, sys; print(actor.__file__); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    where, loaded = done.stdout.splitlines()
    assert Path(where).parent == tmp_path / "actor"
    assert {each.split(".")[0] for each in loaded.split()} - sys.stdlib_module_names == {"actor", "__main__"}
    # The image is newer than this Python, and must read it too.
    for text in data.values():
        ast.parse(text)


def test_the_actor_understands_what_it_is_told() -> None:
    (container,) = pod()["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    found = told.load(env["ACTOR_SETTINGS"])
    assert found.conditions == ("KernelDeadlock", "ReadonlyFilesystem")
    assert (found.cred_expire, found.repair_budget, found.topology_kind) == (30, 3, "none")
    assert (found.topology_name, found.namespace) == ("fabric", "slurm")


def test_with_a_topology_the_actor_knows_pools_and_leaves() -> None:
    changed = document(topology={"kind": "tree", "leaves": ["leaf-1"]})
    (container,) = slurm(ACTOR, deploy_platform(changed)).inputs["spec"]["template"]["spec"]["containers"]
    found = told.load({each["name"]: each["value"] for each in container["env"]}["ACTOR_SETTINGS"])
    assert (found.pools, found.topology_kind, found.leaves) == (("test-train",), "tree", ("leaf-1",))


def changes(settings: Mapping[str, Any]) -> set[str]:
    before = {each.name: each.inputs for each in whole().resources}
    after = {each.name: each.inputs for each in deploy_platform(document(**settings)).resources}
    return {name.removeprefix(f"{PREFIX}-") for name in before | after if before.get(name) != after.get(name)}


def test_another_budget_changes_the_actor_alone() -> None:
    assert changes({"failure": {"repairBudget": 5}}) == {ACTOR}


def test_other_code_is_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest() -> str:
        return actor.deployment(pods, {})["template"]["metadata"]["annotations"]["gpuplatform/digest"]

    from components.slurm.objects import Pods

    pods = Pods({"python": "python"})
    before = digest()
    assert digest() == before
    monkeypatch.setattr(actor, "files", lambda: {"look.py": "changed"})
    assert digest() != before


def test_other_checks_reach_running_workers_and_drain_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {each.name: each.inputs for each in whole().resources}
    monkeypatch.setattr(health, "files", lambda: {"health-check.sh": "changed"})
    after = {each.name: each.inputs for each in deploy_platform(document()).resources}
    assert {name for name in before if before[name] != after[name]} == {f"{PREFIX}-health"}


def test_workers_have_the_checks_where_slurm_runs_them() -> None:
    spec = slurm("nodeset-train").inputs["spec"]
    (volume,) = [each for each in spec["template"]["spec"]["volumes"] if each["name"] == "health"]
    (mount,) = [each for each in spec["slurmd"]["volumeMounts"] if each["name"] == "health"]
    config = slurm("health").inputs
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert volume["configMap"]["defaultMode"] & 0o111
    conf = slurm("controller").inputs["spec"]["extraConf"]
    assert f"HealthCheckProgram={mount['mountPath']}/health-check.sh\n" in conf
    assert {"health-check.sh", "lib.sh", "check-gpu-count.sh"} <= config["data"].keys()
    assert f"{PREFIX}-health" in whole().depends_on(slurm("nodeset-train"))


@pytest.mark.parametrize("kind", ["prolog", "epilog"])
def test_prolog_and_epilog_are_files_of_slurmctld(kind: str) -> None:
    config = slurm(f"config-{kind}").inputs
    assert slurm("controller").inputs["spec"][f"{kind}ScriptRefs"] == [{"name": config["metadata"]["name"]}]
    ((name, text),) = config["data"].items()
    assert (name, text.startswith("#!/bin/bash\n")) == (f"{kind}-health.sh", True)
    assert f"{PREFIX}-config-{kind}" in whole().depends_on(slurm("controller"))


def test_both_can_be_left_out() -> None:
    names = {each.name.removeprefix(f"{PREFIX}-") for each in without().resources}
    assert not {name for name in names if name.startswith(("actor", "health", "token-actor", "config-prolog"))}
    spec = slurm("nodeset-train", without()).inputs["spec"]
    assert "health" not in json.dumps(spec)
    assert "HealthCheckProgram" not in slurm("controller", without()).inputs["spec"]["extraConf"]


def test_a_pool_that_keeps_its_failed_nodes_says_so_by_the_label_that_crusoe_names() -> None:
    pools = {"train": {"keepFailedNodes": True}}
    changed = document(pools=pools, failure={"optOutLabel": "example.com/keep"})
    spec = slurm("nodeset-train", deploy_platform(changed)).inputs["spec"]
    assert spec["template"]["metadata"]["labels"] == {"example.com/keep": "true"}
    assert "metadata" not in slurm("nodeset-train").inputs["spec"]["template"]
    assert "optOutLabel" in faults(document(pools=pools))["platform.slurm.pools.train.keepFailedNodes"]
