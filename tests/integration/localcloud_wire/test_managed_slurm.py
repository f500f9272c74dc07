"""Managed Slurm over the wire, as a client that knows nothing of the local cloud uses it, on a real control plane."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.localcloud_wire.server import Server
from tests.integration.localcloud_wire.terraform import Json, ProviderError, Terraform
from tools.toolchain import binary

pytestmark = pytest.mark.integration

CLUSTERS = "{p}/slurm/clusters"
KUBERNETES = "{p}/kubernetes/clusters"
RULES = "{p}/networking/vpc-firewall-rules"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA someone@example"
SECONDS = 60


def until(read: Callable[[], Json], state: str) -> Json:
    """The object once it is in a state."""
    deadline = time.monotonic() + SECONDS
    while (found := read())["state"] != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


class Kubectl:
    """kubectl with the credentials that the API hands out for the cluster of a name."""

    def __init__(self, terraform: Terraform, name: str, folder: Path) -> None:
        [cluster] = [item for item in terraform.call("GET", KUBERNETES)["items"] if item["name"] == name]
        self.cluster = cluster
        given = terraform.call("POST", f"{KUBERNETES}/{cluster['id']}/get-credentials")
        self._config = folder / "kubeconfig"
        self._config.write_text(given["kube_config"])

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        command = [str(binary("kubectl")), f"--kubeconfig={self._config}", "--request-timeout=20s", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *arguments: str) -> Json:
        return json.loads(self("get", "-n", "slurm", *arguments, "-o", "json"))


def test_life(server: Server, terraform: Terraform, tmp_path: Path) -> None:
    send, wait = terraform.call, terraform.wait
    asked: Json = {"name": "hpc", "location": "us-east1-a", "root_ssh_pub_keys": [KEY]}
    made = wait("slurm/clusters", send("POST", CLUSTERS, asked))
    path = f"{CLUSTERS}/{made['id']}"
    ready = until(lambda: send("GET", path), "RUNNING")
    assert ready["login_node_endpoint"].count(".") == 3
    with pytest.raises(ProviderError, match="405"):
        send("PATCH", path, {"login_replicas": 2})

    nodesets = f"{{p}}/slurm/{made['id']}/nodesets"
    operations = f"slurm/{made['id']}/nodesets"
    asked = {"name": "gpu", "type": "l40s-48gb.10x", "count": 2}
    gpu = wait(operations, send("POST", nodesets, asked))
    assert until(lambda: send("GET", f"{nodesets}/{gpu['id']}"), "RUNNING")["count"] == 2

    kubectl = Kubectl(terraform, "hpc", tmp_path)
    config = send("GET", f"{KUBERNETES}/{kubectl.cluster['id']}/autoclusters/config")
    assert config["remediation_configs"]
    labelled = kubectl.get("nodes", "-l", "slurm.crusoe.ai/compute-node-type=true")["items"]
    assert [node["status"]["capacity"]["nvidia.com/gpu"] for node in labelled] == ["10", "10"]
    assert kubectl.get("slurmcluster", "hpc")["spec"]["loginSet"]["firewallRuleSourceRanges"] == ["0.0.0.0/0"]
    narrowed = {"spec": {"loginSet": {"firewallRuleSourceRanges": ["192.0.2.0/24"]}}}
    kubectl("patch", "slurmcluster", "hpc", "-n", "slurm", "--type=merge", "-p", json.dumps(narrowed))
    metadata = {"name": "alice", "namespace": "slurm"}
    user = {"clusterReference": "hpc", "fullName": "Alice", "sshPublicKeys": [KEY], "disableSudo": True}
    kind = {"apiVersion": "slurm.crusoe.ai/v1alpha1", "kind": "SlurmUser", "metadata": metadata, "spec": user}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(kind))

    def followed() -> bool:
        [rule] = [item for item in send("GET", RULES)["items"] if item["name"].startswith("hpc-login-")]
        if rule["sources"] != [{"cidr": "192.0.2.0/24"}]:
            return False
        ranges = kubectl.get("service", "hpc-login")["spec"]["loadBalancerSourceRanges"]
        return ranges == ["192.0.2.0/24"] and "uid" in kubectl.get("slurmuser", "alice").get("status", {})

    deadline = time.monotonic() + SECONDS
    while not followed():
        assert time.monotonic() < deadline
        time.sleep(0.2)

    # Killed in the middle of a change, the local cloud goes on with it.
    answer = send("PATCH", f"{nodesets}/{gpu['id']}", {"count": 3})
    server.kill()
    server.up()
    wait(operations, answer)
    assert until(lambda: send("GET", f"{nodesets}/{gpu['id']}"), "RUNNING")["count"] == 3
    wait(operations, send("PATCH", f"{nodesets}/{gpu['id']}", {"count": 1}))
    assert until(lambda: send("GET", f"{nodesets}/{gpu['id']}"), "RUNNING")["count"] == 1

    with pytest.raises(ProviderError, match=r"400 Slurm cluster hpc still has node sets \(gpu\)"):
        send("DELETE", path)
    wait(operations, send("DELETE", f"{nodesets}/{gpu['id']}"))
    wait("slurm/clusters", send("DELETE", path))
    for left in (CLUSTERS, KUBERNETES, "{p}/kubernetes/nodepools", "{p}/compute/vms/instances", "{p}/storage/disks"):
        assert send("GET", left)["items"] == []
    assert send("GET", "{p}/networking/load-balancers")["items"] == []
    assert send("GET", RULES)["items"] == []
    assert server.status()["clusters"] == []
