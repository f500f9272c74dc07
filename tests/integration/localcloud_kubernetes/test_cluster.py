"""A running control plane: who gets in, what is there, what runs on its nodes."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

from localcloud.control_plane import ControlPlaneError, Taint
from localcloud.kubernetes import KwokControlPlane
from tests.integration.localcloud_kubernetes.conftest import ACCESS
from tests.integration.localcloud_kubernetes.support import ALL, Live, pod, until
from tests.processes import listening
from tests.unit.localcloud_kubernetes.support import CLUSTER, cluster, h100
from tools.toolchain import binary

pytestmark = pytest.mark.integration


@pytest.fixture
def two_gpu_nodes(shared: Live) -> Iterator[list[str]]:
    nodes = [h100(1), h100(2)]
    names = [node.name for node in nodes]
    shared.plane.apply_nodes(CLUSTER.id, nodes)
    yield names
    shared.kubectl("delete", "pods", "--all", "--wait=false")
    shared.plane.remove_nodes(CLUSTER.id, names, drain=False)


def phase(shared: Live, name: str) -> str:
    return shared.get("pod", name)["status"]["phase"]


def test_every_process_listens_on_the_loopback_address_only(shared: Live) -> None:
    components = shared.processes()
    assert set(components) == ALL
    sockets = {name: listening([process]) for name, process in components.items()}
    assert all(sockets.values())
    assert {address for found in sockets.values() for _, address, _ in found} == {"127.0.0.1"}


def test_credentials_open_the_api_as_administrator_and_are_new_every_time(shared: Live) -> None:
    first, second = (shared.plane.credentials(CLUSTER, "admin_cert") for _ in range(2))
    assert first.user_client_certificate != second.user_client_certificate
    who = json.loads(shared.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert who["username"] == "train-admin"
    assert "system:masters" in who["groups"]


def test_an_expired_certificate_is_refused(shared: Live) -> None:
    expired = KwokControlPlane(
        shared.root, binary=binary, access=ACCESS, certificate_lifetime=timedelta(seconds=-1)
    ).credentials(CLUSTER, "admin_cert")
    config = shared.root / "expired"
    config.write_text(expired.kube_config)
    assert "must be logged in" in shared.kubectl(f"--kubeconfig={config}", "get", "nodes", ok=False)


def test_a_caller_without_credentials_sees_nothing(shared: Live) -> None:
    given = shared.plane.credentials(CLUSTER, "admin_cert")
    authority = ssl.create_default_context(cadata=given.cluster_ca_certificate)
    answer = httpx.get(f"{given.cluster_address}/api/v1/nodes", verify=authority, trust_env=False)
    assert answer.status_code == httpx.codes.FORBIDDEN


def test_add_ons_and_keys_are_there(shared: Live) -> None:
    assert {item["metadata"]["name"] for item in shared.get("csidrivers")["items"]} == {
        "fs.csi.crusoe.ai",
        "ssd.csi.crusoe.ai",
    }
    assert shared.get("storageclasses")["items"] == []
    secret = shared.get("secret", "crusoe-secrets", "-n", "crusoe-system")["data"]
    assert base64.b64decode(secret["CRUSOE_SECRET_KEY"]).decode() == "SECRET"
    shared.kubectl("get", "deployment", "coredns", "-n", "kube-system")
    shared.kubectl("get", "clusterpolicy.nvidia.com", "cluster-policy")
    shared.kubectl("get", "nicclusterpolicy.mellanox.com", "nic-cluster-policy")


def test_an_operators_policy_takes_settings(shared: Live) -> None:
    setting = {"spec": {"ofedDriver": {"env": [{"name": "UNLOAD_STORAGE_MODULES", "value": "true"}]}}}
    shared.kubectl("patch", "nicclusterpolicy", "nic-cluster-policy", "--type=merge", "-p", json.dumps(setting))
    assert shared.get("nicclusterpolicy", "nic-cluster-policy")["spec"] == setting["spec"]


def test_nodes_are_ready_in_their_ranges_and_run_the_system_pods(shared: Live, two_gpu_nodes: list[str]) -> None:
    assert {(node.name, node.ready, node.schedulable) for node in shared.plane.nodes(CLUSTER.id)} == {
        (name, True, True) for name in two_gpu_nodes
    }
    assert len(shared.get("nodes", "-l", "fs.csi.crusoe.ai/supports-shared-disks=true")["items"]) == 2
    ranges = {node["spec"]["podCIDR"] for node in shared.get("nodes")["items"]}
    assert len(ranges) == 2
    assert all(text.startswith("10.234.") and text.endswith("/24") for text in ranges)

    def running() -> bool:
        pods = shared.get("pods", "-A", "-l", "app=nvidia-device-plugin-daemonset")["items"]
        return sorted(item["spec"]["nodeName"] for item in pods if item["status"]["phase"] == "Running") == sorted(
            two_gpu_nodes
        )

    until(running)


def test_a_pod_that_asks_for_a_whole_nodes_gpus_runs_and_one_too_many_waits(
    shared: Live, two_gpu_nodes: list[str]
) -> None:
    for name in ("one", "two", "three"):
        shared.create(pod(name, gpus=8))
    until(lambda: sorted(phase(shared, name) for name in ("one", "two", "three")) == ["Pending", "Running", "Running"])
    placed = {shared.get("pod", name)["spec"].get("nodeName") for name in ("one", "two", "three")}
    assert placed == {*two_gpu_nodes, None}


@pytest.mark.usefixtures("two_gpu_nodes")
def test_without_gpu_operator_a_node_has_no_gpus_to_give(shared: Live) -> None:
    shared.plane.apply_nodes(CLUSTER.id, [h100(1, extended_resources={}), h100(2, extended_resources={})])
    shared.create(pod("waits", gpus=1))
    until(lambda: shared.get("pod", "waits")["status"].get("conditions"))
    condition = shared.get("pod", "waits")["status"]["conditions"][0]
    assert condition["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in condition["message"]
    # The operator is installed: the same nodes show their GPUs.
    shared.plane.apply_nodes(CLUSTER.id, [h100(1), h100(2)])
    until(lambda: phase(shared, "waits") == "Running")


def test_a_pools_taint_keeps_pods_off(shared: Live) -> None:
    node = h100(3, taints=(Taint("team", "NoSchedule", "research"),))
    shared.plane.apply_nodes(CLUSTER.id, [node])
    try:
        shared.create(pod("intolerant"))
        until(lambda: shared.get("pod", "intolerant")["status"].get("conditions"))
        assert "untolerated taint" in shared.get("pod", "intolerant")["status"]["conditions"][0]["message"]
    finally:
        shared.kubectl("delete", "pod", "intolerant")
        shared.plane.remove_nodes(CLUSTER.id, [node.name], drain=False)


def test_correcting_a_node_keeps_a_cordon_and_labels_by_hand(shared: Live, two_gpu_nodes: list[str]) -> None:
    name = two_gpu_nodes[0]
    shared.kubectl("cordon", name)
    shared.kubectl("label", "node", name, "by-hand=yes")
    shared.plane.apply_nodes(CLUSTER.id, [h100(1, labels={**h100().labels, "crusoe.ai/instance.state": "x"}), h100(2)])
    node = shared.get("node", name)
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["labels"]["by-hand"] == "yes"
    assert node["metadata"]["labels"]["crusoe.ai/instance.state"] == "x"
    assert [item.schedulable for item in shared.plane.nodes(CLUSTER.id) if item.name == name] == [False]


def test_a_removed_vm_takes_its_node_and_pods_with_it_at_once(shared: Live, two_gpu_nodes: list[str]) -> None:
    shared.create(pod("stays", node=two_gpu_nodes[0]))
    shared.create(pod("goes", node=two_gpu_nodes[1]))
    until(lambda: phase(shared, "goes") == phase(shared, "stays") == "Running")
    shared.plane.remove_nodes(CLUSTER.id, [two_gpu_nodes[1]], drain=False)
    assert [node.name for node in shared.plane.nodes(CLUSTER.id)] == [two_gpu_nodes[0]]
    left = [item["spec"].get("nodeName") for item in shared.get("pods", "-A")["items"]]
    assert two_gpu_nodes[1] not in left
    assert phase(shared, "stays") == "Running"
    # Repeating it, as after a kill, is fine.
    shared.plane.remove_nodes(CLUSTER.id, [two_gpu_nodes[1]], drain=True)


def test_a_drain_evicts_and_waits_for_pods_to_stop(shared: Live, two_gpu_nodes: list[str]) -> None:
    slow = pod("slow", node=two_gpu_nodes[0])
    slow["metadata"]["annotations"] = {"pod-delete.stage.kwok.x-k8s.io/delay": "2s"}
    shared.create(slow)
    until(lambda: phase(shared, "slow") == "Running")
    started = time.monotonic()
    shared.plane.remove_nodes(CLUSTER.id, [two_gpu_nodes[0]], drain=True)
    assert 2 <= time.monotonic() - started < 5
    assert "NotFound" in shared.kubectl("get", "pod", "slow", ok=False)


def test_a_disruption_budget_holds_a_drain_up_only_for_so_long(shared: Live, two_gpu_nodes: list[str]) -> None:
    guarded = pod("guarded", node=two_gpu_nodes[0])
    guarded["metadata"]["labels"] = {"app": "guarded"}
    shared.create(guarded)
    shared.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}},
        }
    )
    try:
        until(lambda: shared.get("pdb", "guarded").get("status", {}).get("observedGeneration"))
        shared.plane.remove_nodes(CLUSTER.id, [two_gpu_nodes[0]], drain=True)
        assert "NotFound" in shared.kubectl("get", "pod", "guarded", ok=False)
    finally:
        shared.kubectl("delete", "pdb", "guarded")


def test_pods_keep_the_finalizers_that_others_set(shared: Live, two_gpu_nodes: list[str]) -> None:
    held = pod("held", node=two_gpu_nodes[0])
    held["metadata"]["finalizers"] = ["example.com/hold"]
    shared.create(held)
    until(lambda: phase(shared, "held") == "Running")
    shared.kubectl("delete", "pod", "held", "--wait=false")
    until(lambda: shared.get("pod", "held")["metadata"].get("deletionTimestamp"))
    assert shared.get("pod", "held")["metadata"]["finalizers"] == ["example.com/hold"]
    shared.kubectl("patch", "pod", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until(lambda: "NotFound" in shared.kubectl("get", "pod", "held", ok=False))


@pytest.mark.usefixtures("two_gpu_nodes")
def test_a_job_finishes(shared: Live) -> None:
    shared.kubectl("create", "job", "done", "--image=registry.example/main:1")
    until(lambda: shared.get("job", "done")["status"].get("succeeded") == 1)
    shared.kubectl("delete", "job", "done")


def test_add_ons_come_and_go_and_what_a_user_changed_in_one_stays(shared: Live) -> None:
    more = cluster(add_ons=(*CLUSTER.add_ons, "cluster_autoscaler", "amd_gpu_operator"))
    shared.plane.update(more)
    command = ["./cluster-autoscaler", "--nodes=2:8:train"]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "cluster-autoscaler", "command": command}]}}}}
    shared.kubectl("patch", "deployment", "cluster-autoscaler", "-n", "crusoe-system", "-p", json.dumps(patch))
    shared.plane.update(more)
    deployment = shared.get("deployment", "cluster-autoscaler", "-n", "crusoe-system")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["command"] == command
    shared.plane.update(CLUSTER)
    until(lambda: "NotFound" in shared.kubectl("get", "namespace", "kube-amd-gpu", ok=False))
    assert "NotFound" in shared.kubectl("get", "deployment", "cluster-autoscaler", "-n", "crusoe-system", ok=False)
    shared.kubectl("get", "secret", "crusoe-secrets", "-n", "crusoe-system")


def test_a_cluster_without_control_plane_is_named(shared: Live) -> None:
    with pytest.raises(ControlPlaneError, match="has no control plane in"):
        shared.plane.nodes("3b1f0000-0000-4000-8000-00000000dead")
