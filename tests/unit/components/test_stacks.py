"""The shipped stack files: no misspelt key, and each through the real entry file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.unit.components.entry import ENTRY, run_entry
from tests.unit.components.support import PROJECT, Deployment, Json, deploy

ROOT = Path(__file__).parents[3]
FILES = sorted(ROOT.glob("Pulumi.*.yaml"))
APPLICATION_ERRORS = {f"XID_{code}" for code in (13, 31, 43, 45, 94)}


def document(path: Path) -> Json:
    return cast("Json", yaml.safe_load(path.read_text(encoding="utf-8")))


def stack_of(path: Path) -> str:
    return path.name.split(".")[1]


def settings(stack: str) -> Json:
    return document(ROOT / f"Pulumi.{stack}.yaml")["config"]["platform"]


def run(path: Path) -> Deployment:
    """The entry file as the engine runs it, on the configuration of this stack file."""
    config = {
        key if ":" in key else f"{PROJECT}:{key}": json.dumps(value) if isinstance(value, (dict, list)) else str(value)
        for key, value in cast("Mapping[str, object]", document(path)["config"]).items()
    }

    return deploy(run_entry, stack=stack_of(path), config=config)


def test_the_reference_environments_are_there() -> None:
    assert {stack_of(path) for path in FILES} == {"dev", "staging", "prod"}


@pytest.mark.parametrize("path", FILES, ids=stack_of)
def test_every_key_of_a_stack_file_is_declared(path: Path) -> None:
    declared = set(document(ROOT / "Pulumi.yaml")["config"])
    given = document(path)
    assert set(given) <= {"config", "encryptionsalt", "secretsprovider"}
    assert {key for key in given["config"] if not key.startswith(("pulumi:", "state:"))} == declared


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_a_real_environment_names_its_backend_and_what_guards_its_secrets(stack: str) -> None:
    given = document(ROOT / f"Pulumi.{stack}.yaml")
    assert given["config"]["state:backend"].startswith("s3://")
    assert given["secretsprovider"]


@pytest.mark.parametrize("path", FILES, ids=stack_of)
def test_no_resource_can_use_a_default_provider(path: Path) -> None:
    assert set(document(path)["config"]["pulumi:disable-default-providers"]) == {"crusoe", "kubernetes"}


@pytest.mark.parametrize("path", FILES, ids=stack_of)
def test_the_entry_file_declares_the_stack(path: Path) -> None:
    deployment = run(path)
    pools = {each.name.removeprefix("platform-pools-") for each in deployment.of("KubernetesNodePool")}
    assert pools == set(settings(stack_of(path))["nodePools"])
    assert set(deployment.exports) >= {"clusterId", "kubeconfig", "poolIds", "gpuTotals", "autoClusters"}
    assert deployment.secret_exports == {"kubeconfig"}
    assert deployment.log == []


def test_the_entry_file_is_short() -> None:
    assert len(ENTRY.read_text(encoding="utf-8").splitlines()) <= 40


def test_dev_is_on_this_machine_and_unprotected() -> None:
    dev = settings("dev")
    assert dev["cloud"]["endpoint"] == "http://127.0.0.1:8787/v1"
    assert dev["protect"] is False
    assert document(ROOT / "Pulumi.dev.yaml")["encryptionsalt"].startswith("v1:")


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_real_environments_are_protected_and_closed(stack: str) -> None:
    deployment = run(ROOT / f"Pulumi.{stack}.yaml")
    assert settings(stack)["cloud"]["endpoint"] == "https://api.cloud.crusoe.ai/v1"
    protected = {each.type.rpartition(":")[2] for each in deployment.resources if each.protect}
    guarded = {"VpcNetwork", "VpcSubnet", "KubernetesCluster", "KubernetesNodePool", "StorageDisk"}
    guarded |= {"NodeSet", "GeneratedSecret"}
    # With the namespace of a share go all pods in it.
    assert protected == guarded | ({"Namespace"} if "gpuSharing" in settings(stack) else set())
    sources = {
        source
        for each in deployment.of("VpcFirewallRule")
        if each.inputs["direction"] == "ingress"
        for source in each.inputs["sources"]
    }
    assert "0.0.0.0/0" not in sources
    assert {each.inputs["publicIpType"] for each in deployment.of("KubernetesNodePool")} == {"none"}


def test_prod_repairs_hardware_faults_and_has_spares() -> None:
    actions = settings("prod")["autoClusters"]["actions"]
    assert actions
    assert not APPLICATION_ERRORS & set(actions)
    assert settings("prod")["nodePools"]["train"]["reserve"] > 0


def test_staging_is_v2_and_repairs_nothing() -> None:
    deployment = run(ROOT / "Pulumi.staging.yaml")
    assert {each.inputs["consentMode"] for each in deployment.of("KubernetesNodePool")} == {"off"}
