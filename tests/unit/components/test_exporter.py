"""The exporter's objects: what it may do, where it runs, who may scrape it, and that its files are a whole program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components import exporter
from exporter.poll import configured
from exporter.settings import load
from tests.unit.components.support import Deployment, Json, deploy_platform, faults, settings_document

CANARY = "canary-key"
KEY = {"id": "key-id", "secret": "exporterSecretKey", "expires": "2027-03-31"}
SLURM: Json = {"home": {"disk": "home"}, "login": {"cidrs": ["203.0.113.0/24"]}, "accounting": {"enabled": False}}
DISKS: Json = {"disks": {"home": {"size": "1TiB"}}}
SHARING: Json = {
    "pools": {"train": {"training": {"floor": 1}, "inference": {"chat": {"gpusPerReplica": 4, "floor": 1}}}}
}


def deployed(**changes: object) -> Deployment:
    return deploy_platform(settings_document(**changes), config={"crusoe-gpu-platform:exporterSecretKey": CANARY})


@pytest.fixture(scope="module")
def whole() -> Deployment:
    return deployed(storage=DISKS, slurm=SLURM, exporter={"apiKey": KEY})


def one(deployment: Deployment, name: str) -> Mapping[str, Any]:
    return next(each.inputs for each in deployment.resources if each.name == f"platform-exporter-{name}")


def names(deployment: Deployment) -> set[str]:
    found = {each.name for each in deployment.resources if each.name.startswith("platform-exporter-")}
    return {name.removeprefix("platform-exporter-") for name in found}


def container(deployment: Deployment) -> Mapping[str, Any]:
    return one(deployment, "deployment")["spec"]["template"]["spec"]["containers"][0]


def settings(deployment: Deployment) -> Json:
    given = {each["name"]: each["value"] for each in container(deployment)["env"]}
    return json.loads(given["EXPORTER_SETTINGS"])


def test_without_the_setting_there_is_none() -> None:
    assert names(deployed()) == set()


def test_it_may_look_and_change_nothing(whole: Deployment) -> None:
    rules = [
        rule
        for each in whole.resources
        if each.name.startswith("platform-exporter-") and "rules" in each.inputs
        for rule in each.inputs["rules"]
    ]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {resource for rule in rules for resource in rule["resources"]} == {"nodes", "pods", "nodesets"}
    assert {name for name in names(whole) if "binding" not in name and "role" in name} == {
        "clusterrole-all",
        "role-slurm",
    }


def test_its_pod_is_one_without_rights_off_gpu_nodes(whole: Deployment) -> None:
    spec = one(whole, "deployment")["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 1
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container(whole)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "crusoe.ai/accelerator" in json.dumps(pod["affinity"])
    assert all(mount["readOnly"] for mount in container(whole)["volumeMounts"])


def test_only_monitoring_may_scrape_it(whole: Deployment) -> None:
    policy = one(whole, "policy")["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "gpuplatform-exporter"}}
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert rule["ports"] == [{"port": 9108, "protocol": "TCP"}]
    # Policies add up, and that of Slurm's namespace lets all of its pods in, those with people's jobs too.
    within = next(each.inputs for each in whole.resources if each.name.endswith("policy-within"))["spec"]
    (excluded,) = within["podSelector"]["matchExpressions"]
    assert (excluded["operator"], excluded["values"]) == ("NotIn", ["gpuplatform-exporter"])
    port = one(whole, "service")["spec"]["ports"][0]
    assert (port["name"], port["port"]) == ("metrics", 9108)
    assert one(whole, "service")["metadata"]["labels"] == {"app.kubernetes.io/name": "gpuplatform-exporter"}


def test_the_key_is_a_secret_of_its_namespace_and_nowhere_else(whole: Deployment) -> None:
    secret = one(whole, "key")
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == ("gpuplatform-exporter-key", "slurm")
    holders = [each.name for each in whole.resources if CANARY in json.dumps(each.inputs, default=str)]
    assert holders == ["platform-exporter-key"]
    assert settings(whole)["key_id"] == "key-id"
    assert settings(whole)["key_expires"] == 1806451200


def test_what_it_is_told_is_what_it_understands(whole: Deployment) -> None:
    told = load(json.dumps(settings(whole)))
    assert told.pools["train"].gpus == 8
    assert told.pools["train"].resource == "nvidia.com/gpu"
    assert told.pools["system"].vendor == "none"
    assert told.pool_key("test-train") == "train"
    assert (told.endpoint, told.project, told.location) == ("http://127.0.0.1:8787/v1", "local", "us-east1-a")
    assert told.cluster_id
    assert told.slurm_url.startswith("http://slurm-restapi.slurm:")


def test_shares_are_told_with_their_floors_and_it_may_see_their_pods() -> None:
    pools = settings_document()["nodePools"]
    pools["train"]["count"] = 4
    found = deployed(nodePools=pools, storage=DISKS, slurm=SLURM, gpuSharing=SHARING, exporter={})
    shares = {each.share: each for each in load(json.dumps(settings(found))).shares}
    assert (shares["training"].floor, shares["training"].side) == (8, "training")
    assert (shares["chat"].floor, shares["chat"].namespace) == (4, "inference")
    assert "role-inference" in names(found)


def test_without_key_and_without_slurm_it_is_told_of_neither() -> None:
    found = deployed(exporter={})
    told = load(json.dumps(settings(found)))
    assert (told.key_id, told.slurm_url) == ("", "")
    assert configured(told, None, None, str, None) == ()
    assert not {"key", "token", "role-slurm"} & names(found)
    assert one(found, "namespace")["metadata"]["name"] == "gpuplatform"
    assert one(found, "deployment")["metadata"]["namespace"] == "gpuplatform"


def test_a_token_of_slurm_comes_with_slurm(whole: Deployment) -> None:
    token = one(whole, "token")
    assert token["metadata"] == {**token["metadata"], "name": "exporter", "namespace": "slurm"}
    assert token["spec"]["secretRef"]["name"] == "slurm-token-exporter"


@pytest.mark.parametrize(("hidden", "user"), [([], "metrics"), (["users"], "metrics"), (["jobs", "users"], "slurm")])
def test_its_token_is_nobody_s_unless_slurm_hides_jobs(hidden: list[str], user: str) -> None:
    found = deployed(storage=DISKS, slurm={**SLURM, "conf": {"privateData": hidden}}, exporter={})
    assert one(found, "token")["spec"]["username"] == user


@pytest.mark.parametrize("day", ["2027-02-31", "soon", "31.3.2027"])
def test_a_day_that_is_none_is_refused(day: str) -> None:
    found = faults(settings_document(exporter={"apiKey": {**KEY, "expires": day}}))
    assert "platform.exporter.apiKey.expires" in found


def test_the_files_are_a_whole_program_that_needs_nothing_else(tmp_path: Path) -> None:
    files = exporter.files()
    assert len({exporter.key_of(path) for path in files}) == len(files)
    assert sum(len(text.encode()) for text in files.values()) < 900_000, "a ConfigMap holds 1 MiB"
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import exporter.__main__; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded: set[Any] = {name.split(".")[0] for name in done.stdout.split()}
    assert {"exporter", "prometheus_client", "actor", "crusoe", "training"} <= loaded
    assert not {"httpx", "pulumi", "tenacity", "torch", "yaml"} & loaded
