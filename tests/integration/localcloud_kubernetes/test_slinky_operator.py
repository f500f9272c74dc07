"""What the stand-in operator makes of custom resources on a real control plane, with a Slurm that is made up."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator

import pytest

from localcloud.slinky.tokens import claims_of, jwt
from tests.integration.localcloud_kubernetes.slinky import (
    Slinky,
    accounting,
    controller,
    login_set,
    node_set,
    resource,
    rest_api,
    token,
)
from tests.integration.localcloud_kubernetes.support import Json, until

pytestmark = pytest.mark.integration

BOUND = 60.0
"""Seconds that anything here may take on a busy machine."""


@pytest.fixture(autouse=True)
def fresh(slinky: Slinky) -> Iterator[None]:
    """Each test begins without Slurm and leaves none."""
    slinky.slurm.clear()
    yield
    slinky.slurm.clear()
    for kind in ("nodeset", "loginset", "restapi", "token", "controller", "accounting"):
        slinky.live.kubectl("delete", kind, "--all", "-n", "slurm")
    until(lambda: slinky.live.get("pods,statefulsets,deployments", "-n", "slurm")["items"] == [], BOUND)


def wait(condition: Callable[[], object]) -> None:
    until(condition, BOUND)


def conf(slinky: Slinky) -> str:
    found = slinky.find("configmap", "slurm-config")
    return found["data"]["slurm.conf"] if found else ""


def owner(item: Json | None) -> str | None:
    owners = item["metadata"].get("ownerReferences") if item else None
    return f"{owners[0]['kind']}/{owners[0]['name']}" if owners else None


def annotation(item: Json, name: str) -> str | None:
    return item["metadata"].get("annotations", {}).get(f"nodeset.slinky.slurm.net/{name}")


def workers_up(slinky: Slinky, *names: str, node_set_name: str = "train") -> None:
    """Until exactly these workers are there, registered in Slurm and counted as idle."""
    wait(lambda: slinky.workers(node_set_name) == sorted(names))
    for name in names:
        slinky.slurm.set(name, "IDLE")
    wait(lambda: slinky.get("nodeset", node_set_name).get("status", {}).get("slurmIdle") == len(names))


def test_children_of_each_kind(slinky: Slinky) -> None:
    slinky.apply(accounting())
    slinky.apply(controller(accountingRef={"name": "slurm"}, extraConf="ReturnToService=1"))
    slinky.apply(rest_api())
    slinky.apply(login_set(rootSshAuthorizedKeys="ssh-ed25519 AAAA"))
    children = {
        ("statefulset", "slurm-controller"): "Controller/slurm",
        ("service", "slurm-controller"): "Controller/slurm",
        ("service", "slurm-workers-slurm"): "Controller/slurm",
        ("pdb", "slurm-workers-pdb-slurm"): "Controller/slurm",
        ("configmap", "slurm-config"): "Controller/slurm",
        ("statefulset", "slurm-accounting"): "Accounting/slurm",
        ("service", "slurm-accounting"): "Accounting/slurm",
        ("secret", "slurm-accounting"): "Accounting/slurm",
        ("deployment", "slurm-restapi"): "RestApi/slurm",
        ("service", "slurm-restapi"): "RestApi/slurm",
        ("deployment", "login"): "LoginSet/login",
        ("service", "login"): "LoginSet/login",
        ("secret", "login-ssh-host-keys"): "LoginSet/login",
        ("configmap", "login-ssh-config"): "LoginSet/login",
    }
    for (kind, name), wanted in children.items():
        wait(lambda kind=kind, name=name, wanted=wanted: owner(slinky.find(kind, name)) == wanted)
    wait(lambda: "AccountingStorageHost=slurm-accounting" in conf(slinky))
    assert "ReturnToService=1" in conf(slinky)
    stateful = slinky.get("statefulset", "slurm-controller")
    claim = stateful["spec"]["volumeClaimTemplates"][0]
    assert (claim["metadata"]["name"], claim["spec"]["resources"]["requests"]["storage"]) == ("statesave", "4Gi")
    text = base64.b64decode(slinky.get("secret", "slurm-accounting")["data"]["slurmdbd.conf"]).decode()
    assert "StoragePass=database-password" in text
    for kind in ("controller", "accounting", "restapi"):
        assert "status" not in slinky.get(kind, "slurm")
    wait(lambda: slinky.get("loginset", "login").get("status", {}).get("replicas") == 1)
    keys = slinky.get("secret", "login-ssh-host-keys")["data"]
    slinky.apply(login_set(rootSshAuthorizedKeys="ssh-ed25519 BBBB"))
    wait(lambda: "BBBB" in slinky.get("configmap", "login-ssh-config")["data"]["authorized_keys"])
    assert slinky.get("secret", "login-ssh-host-keys")["data"] == keys


def test_a_changed_slurm_conf_restarts_slurmctld_and_a_child_by_hand_is_put_right(slinky: Slinky) -> None:
    slinky.apply(controller())
    wait(lambda: slinky.find("statefulset", "slurm-controller"))

    def annotations() -> Json:
        return slinky.get("statefulset", "slurm-controller")["spec"]["template"]["metadata"]["annotations"]

    before = annotations()
    slinky.apply(controller(extraConf="KillWait=90"))
    wait(lambda: annotations() != before)
    slinky.live.kubectl("patch", "cm", "slurm-config", "-n", "slurm", "-p", '{"data": {"slurm.conf": "gone"}}')
    wait(lambda: "KillWait=90" in conf(slinky))
    slinky.delete("service", "slurm-controller")
    wait(lambda: slinky.find("service", "slurm-controller"))


def test_workers_come_with_slurm_and_their_state_is_shown(slinky: Slinky) -> None:
    slinky.slurm.answers = False
    slinky.apply(controller())
    slinky.apply(rest_api())
    slinky.apply(
        node_set(
            replicas=2,
            slurmd={"image": "registry.example/slurmd:1", "resources": {"limits": {"nvidia.com/gpu": 8}}},
            partition={"enabled": True, "config": "Default=YES"},
            extraConf="Gres=gpu:h100:8",
        )
    )
    wait(lambda: any("SyncFinalizerFailed" in text for text in slinky.events("train")))
    assert slinky.workers("train") == []
    wait(lambda: "PartitionName=train Nodes=train Default=YES" in conf(slinky))
    slinky.slurm.answers = True
    workers_up(slinky, "train-0", "train-1")
    slinky.slurm.set("train-1", "ALLOCATED", "DYNAMIC_NORM")
    wait(lambda: slinky.get("nodeset", "train")["status"].get("slurmAllocated") == 1)
    status = slinky.get("nodeset", "train")["status"]
    assert {"desired", "replicas", "readyReplicas", "slurmIdle", "nodeSetHash", "selector"} <= set(status)
    assert not {"slurmDown", "slurmDrain", "conditions", "unavailableReplicas"} & set(status)

    def states() -> set[str]:
        conditions = slinky.get("pod", "train-1")["status"]["conditions"]
        return {each["type"] for each in conditions if each["type"].startswith("SlurmNodeState")}

    wait(lambda: states() == {"SlurmNodeStateAllocated"})
    pods = [slinky.get("pod", name) for name in ("train-0", "train-1")]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    labels = "nodeset.slinky.slurm.net/pod-protect"
    wait(lambda: slinky.get("pod", "train-1")["metadata"]["labels"].get(labels) == "true")
    assert labels not in slinky.get("pod", "train-0")["metadata"]["labels"]
    budget = "slurm-workers-pdb-slurm"
    wait(lambda: slinky.get("pdb", budget)["status"].get("currentHealthy") == 1)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "train-1", "namespace": "slurm"}}
    said = slinky.live.kubectl(
        "create",
        "--raw",
        "/api/v1/namespaces/slurm/pods/train-1/eviction",
        "-f",
        "-",
        stdin=json.dumps(eviction),
        ok=False,
    )
    assert "disruption budget" in said


def test_scale_in_waits_for_the_job_and_a_worker_made_again_is_released(slinky: Slinky) -> None:
    slinky.apply(controller())
    slinky.apply(rest_api())
    slinky.apply(node_set(replicas=2))
    workers_up(slinky, "train-0", "train-1")
    slinky.slurm.set("train-1", "ALLOCATED")
    slinky.live.kubectl("scale", "nodeset/train", "--replicas=1", "-n", "slurm")
    wait(lambda: slinky.slurm.node("train-1").draining)
    assert slinky.slurm.node("train-1").reason.startswith("slurm-operator: ")
    assert annotation(slinky.get("pod", "train-1"), "pod-cordon") == "true"
    assert slinky.workers("train") == ["train-0", "train-1"]
    slinky.slurm.set("train-1", "IDLE", "DRAIN", reason=slinky.slurm.node("train-1").reason)
    wait(lambda: slinky.workers("train") == ["train-0"])
    slinky.live.kubectl("scale", "nodeset/train", "--replicas=2", "-n", "slurm")
    wait(lambda: slinky.workers("train") == ["train-0", "train-1"])
    wait(lambda: not slinky.slurm.node("train-1").draining)
    slinky.live.kubectl("delete", "pod", "train-0", "-n", "slurm", "--now")
    wait(lambda: slinky.workers("train") == ["train-0", "train-1"])


def test_cordoning_a_node_drains_with_its_reason_and_uncordoning_takes_only_that_back(slinky: Slinky) -> None:
    slinky.apply(controller())
    slinky.apply(rest_api())
    slinky.apply(node_set(replicas=2))
    workers_up(slinky, "train-0", "train-1")
    mine, other = (slinky.get("pod", name)["spec"]["nodeName"] for name in ("train-0", "train-1"))
    slinky.slurm.set("train-1", "IDLE", "DRAIN", reason="bad disk")
    reason = "nodeset.slinky.slurm.net/node-cordon-reason"
    try:
        slinky.live.kubectl("annotate", "node", mine, other, f"{reason}=xid 79")
        slinky.live.kubectl("cordon", mine, other)
        wait(lambda: slinky.slurm.node("train-0").reason == "slurm-operator: xid 79")
        wait(lambda: annotation(slinky.get("pod", "train-1"), "pod-cordon") == "true")
        assert slinky.slurm.node("train-1").reason == "bad disk"
    finally:
        slinky.live.kubectl("uncordon", mine, other)
        slinky.live.kubectl("annotate", "node", mine, other, f"{reason}-")
    wait(lambda: not slinky.slurm.node("train-0").draining)
    wait(lambda: annotation(slinky.get("pod", "train-1"), "pod-cordon") is None)
    assert slinky.slurm.node("train-1").draining
    assert slinky.workers("train") == ["train-0", "train-1"]


def test_a_rolling_update_drains_one_after_the_other(slinky: Slinky) -> None:
    slinky.apply(controller())
    slinky.apply(rest_api())
    slinky.apply(node_set(replicas=2))
    workers_up(slinky, "train-0", "train-1")
    before = {name: slinky.get("pod", name)["metadata"]["uid"] for name in ("train-0", "train-1")}
    slinky.slurm.set("train-0", "ALLOCATED")
    slinky.apply(node_set(replicas=2, extraConf="Weight=5"))

    def replaced(name: str) -> bool:
        found = slinky.find("pod", name)
        return found is not None and found["metadata"]["uid"] != before[name]

    wait(lambda: replaced("train-1"))
    wait(lambda: slinky.slurm.node("train-0").draining)
    assert not replaced("train-0")
    slinky.slurm.set("train-0", "IDLE", "DRAIN", reason=slinky.slurm.node("train-0").reason)
    wait(lambda: replaced("train-0"))
    wait(lambda: slinky.get("nodeset", "train")["status"].get("updatedReplicas") == 2)
    assert "Weight=5" in slinky.get("pod", "train-0")["spec"]["containers"][0]["args"][-1]


def test_daemon_mode_follows_the_nodes_labels(slinky: Slinky) -> None:
    slinky.apply(controller())
    slinky.apply(rest_api())
    nodes = sorted(item["metadata"]["name"] for item in slinky.live.get("nodes")["items"])[:2]
    slinky.live.kubectl("label", "node", *nodes, "owner=slurm")
    try:
        template = {"spec": {"nodeSelector": {"owner": "slurm"}}}
        slinky.apply(node_set(scalingMode="DaemonSet", template=template))
        wait(lambda: len(slinky.workers("train")) == 2)

        def hosts() -> list[str]:
            return sorted(pod["spec"]["hostname"] for pod in slinky.pods("train"))

        assert hosts() == nodes
        for name in nodes:
            slinky.slurm.set(name, "ALLOCATED")
        wait(lambda: slinky.get("nodeset", "train").get("status", {}).get("slurmAllocated") == 2)
        slinky.live.kubectl("label", "node", nodes[0], "owner=inference", "--overwrite")
        wait(lambda: slinky.slurm.node(nodes[0]).draining)
        assert len(slinky.workers("train")) == 2
        slinky.slurm.set(nodes[0], "IDLE", "DRAIN", reason=slinky.slurm.node(nodes[0]).reason)
        wait(lambda: hosts() == nodes[1:])
    finally:
        slinky.live.kubectl("label", "node", *nodes, "owner-")


def test_without_a_rest_api_object_busy_workers_go_at_once(slinky: Slinky) -> None:
    slinky.slurm.answers = False
    slinky.apply(controller())
    slinky.apply(node_set(replicas=1))
    wait(lambda: slinky.workers("train") == ["train-0"])
    slinky.slurm.set("train-0", "ALLOCATED")
    slinky.live.kubectl("scale", "nodeset/train", "--replicas=0", "-n", "slurm")
    wait(lambda: slinky.workers("train") == [])


def test_deleting_a_node_set_takes_busy_workers_along(slinky: Slinky) -> None:
    slinky.apply(controller())
    slinky.apply(rest_api())
    slinky.apply(node_set(replicas=1))
    workers_up(slinky, "train-0")
    slinky.slurm.set("train-0", "ALLOCATED")
    slinky.delete("nodeset", "train")
    wait(lambda: slinky.workers("train") == [])
    assert slinky.slurm.updates == []
    wait(lambda: "NodeSet=train" not in conf(slinky))


def test_a_token_is_a_secret_of_the_key(slinky: Slinky) -> None:
    slinky.apply(token(lifetime="1h"))
    wait(lambda: slinky.find("secret", "metrics-jwt-scraper"))
    secret = slinky.get("secret", "metrics-jwt-scraper")
    assert owner(secret) == "Secret/slurm-auth-jwt"
    text = base64.b64decode(secret["data"]["SLURM_JWT"]).decode()
    claims = claims_of(text)
    assert (claims["sun"], claims["exp"] - claims["iat"]) == ("scraper", 3600)
    assert text == jwt(b"jwt-key-of-the-test", "scraper", claims["iat"], 3600)
    wait(lambda: slinky.get("token", "metrics").get("status", {}).get("issuedAt"))
    slinky.delete("token", "metrics")
    assert slinky.find("secret", "metrics-jwt-scraper"), "the credential outlives its Token"
    slinky.delete("secret", "metrics-jwt-scraper")


def test_failures_are_events_and_nothing_else(slinky: Slinky) -> None:
    slinky.apply(node_set("lost", controllerRef={"name": "absent"}))
    slinky.apply(controller(persistence={}))
    bare = {key: value for key, value in accounting()["spec"].items() if key != "storageConfig"}
    slinky.apply(resource("Accounting", "bare", bare))
    slinky.apply(node_set("plain", logfile={}))
    slinky.apply(node_set("ghost", template={"spec": {"priorityClassName": "ghost"}}))
    wanted = {
        "lost": "ControllerRefFailed",
        "slurm": "volumeClaimTemplates",
        "bare": 'Secret "" not found',
        "plain": "image: Required value",
        "ghost": "no PriorityClass with name ghost was found",
    }
    for name, text in wanted.items():
        wait(lambda name=name, text=text: any(text in event for event in slinky.events(name)))
    assert slinky.workers("lost") == slinky.workers("ghost") == []


def test_an_item_without_a_value_stops_only_its_own_node_set(slinky: Slinky) -> None:
    slinky.apply(controller())
    slinky.apply(node_set("broken", extraConf="Gres"))
    slinky.apply(node_set("sound", replicas=1))
    wait(lambda: slinky.workers("sound") == ["sound-0"])
    assert slinky.workers("broken") == []
    assert slinky.events("broken") == []


def test_a_mariadb_becomes_a_database(slinky: Slinky) -> None:
    password = {"name": "slurm-database", "key": "password"}
    spec: Json = {
        "database": "slurm_acct_db",
        "username": "slurm",
        "passwordSecretKeyRef": password,
        "rootPasswordSecretKeyRef": {"name": "made", "key": "root", "generate": True},
        "storage": {"size": "10Gi"},
        "myCnf": "[mariadb]\nbinlog_format=row\n",
    }
    slinky.apply(resource("MariaDB", "mariadb", spec, "k8s.mariadb.com/v1alpha1"))
    try:
        wait(lambda: slinky.find("statefulset", "mariadb"))
        assert owner(slinky.get("service", "mariadb")) == "MariaDB/mariadb"
        environment = slinky.get("statefulset", "mariadb")["spec"]["template"]["spec"]["containers"][0]["env"]
        references = {each["name"]: each.get("valueFrom", {}).get("secretKeyRef") for each in environment}
        assert references["MARIADB_PASSWORD"] == password
        assert slinky.get("secret", "made")["data"]["root"]
        wait(lambda: slinky.get("mariadb", "mariadb").get("status", {}).get("conditions"))
    finally:
        slinky.delete("mariadb", "mariadb")
        slinky.delete("pvc", "--all")


def test_the_webhook_passes_a_nodes_topology_on_to_a_worker(slinky: Slinky) -> None:
    slinky.apply(controller())
    nodes = [item["metadata"]["name"] for item in slinky.live.get("nodes")["items"]]
    key = "topology.slinky.slurm.net/spec"
    slinky.live.kubectl("annotate", "node", *nodes, f"{key}=topo-block:b1")
    try:
        slinky.apply(node_set(replicas=1))
        wait(lambda: slinky.workers("train") == ["train-0"])
        wait(lambda: slinky.get("pod", "train-0")["metadata"]["annotations"].get(key) == "topo-block:b1")
    finally:
        slinky.live.kubectl("annotate", "node", *nodes, f"{key}-")


def test_a_webhook_that_is_down_blocks_every_write_and_an_operator_that_is_down_does_nothing(slinky: Slinky) -> None:
    slinky.live.kubectl("scale", "deployment/slurm-operator-webhook", "--replicas=0", "-n", "slinky")
    try:
        wait(lambda: "failed calling webhook" in slinky.apply(node_set(), ok=False))
    finally:
        slinky.live.kubectl("scale", "deployment/slurm-operator-webhook", "--replicas=1", "-n", "slinky")
    wait(lambda: "serverside-applied" in slinky.apply(node_set(replicas=0), ok=False))
    slinky.live.kubectl("scale", "deployment/slurm-operator", "--replicas=0", "-n", "slinky")
    try:
        wait(lambda: not slinky.live.get("deployment", "slurm-operator", "-n", "slinky")["status"].get("replicas"))
        slinky.apply(controller("later"))
        with pytest.raises(AssertionError, match="did not come true"):
            until(lambda: slinky.find("statefulset", "later-controller"), 4)
    finally:
        slinky.live.kubectl("scale", "deployment/slurm-operator", "--replicas=1", "-n", "slinky")
    wait(lambda: slinky.find("statefulset", "later-controller"))
