"""`kill -9` of the server at any moment: nothing is lost, nothing is half made, nothing is made twice."""

from __future__ import annotations

import ssl
import tempfile
import time
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from tests import processes
from tests.harness import until
from tests.integration.localcloud_wire.conftest import client
from tests.integration.localcloud_wire.server import Server
from tests.integration.localcloud_wire.terraform import Json, Terraform

pytestmark = pytest.mark.integration

DISKS = "{p}/storage/disks"
CLUSTERS = "{p}/kubernetes/clusters"
POOLS = "{p}/kubernetes/nodepools"


def test_everything_is_still_there(fresh: Server) -> None:
    terraform = client(fresh)
    body = {"location": "us-east1-a", "name": "d", "size": "1GiB", "type": "persistent-ssd"}
    disk = terraform.wait("storage/disks", terraform.call("POST", DISKS, body))
    network = terraform.call("POST", "{p}/networking/vpc-networks", {"cidr": "10.0.0.0/16", "name": "n"})["network"]
    fresh.fault("GET .../nothing", "http-500")
    fresh.run("set", "quota", "--name", "c1a", "--max", "64")
    keys = fresh.keys()
    fresh.kill()
    assert fresh.status() == {"running": False}
    fresh.up()
    assert fresh.keys() == keys
    assert terraform.call("GET", f"{DISKS}/{disk['id']}") == disk
    assert terraform.call("GET", f"{{p}}/networking/vpc-networks/{network['id']}") == network
    assert len(fresh.admin("GET", "faults")["items"]) == 1
    assert {"name": "c1a", "max": 64, "used": 0, "available": 64} in terraform.call("GET", "{p}/quotas")["items"]
    assert fresh.requests()[0]["method"] == "POST"


def test_operation_in_progress_goes_on(fresh: Server) -> None:
    terraform = client(fresh)
    fresh.run("set", "operation-seconds", "2")
    body = {"location": "us-east1-a", "name": "d", "size": "1GiB", "type": "persistent-ssd"}
    started = terraform.call("POST", DISKS, body)
    fresh.kill()
    fresh.up()
    assert terraform.call("GET", f"{DISKS}/operations/{started['operation']['operation_id']}")
    assert terraform.wait("storage/disks", started)["name"] == "d"


def test_cluster_and_pool_killed_while_they_are_made(fresh: Server) -> None:
    terraform = client(fresh)
    asked: Json = {"location": "us-east1-a", "name": "clu", "version": "1.33.4-cmk.43"}
    started = terraform.call("POST", CLUSTERS, asked)
    for moment in (0.2, 1.0, 0.5):
        time.sleep(moment)
        fresh.kill()
        fresh.up()
    cluster = terraform.wait("kubernetes/clusters", started)
    assert cluster["state"] == "STATE_RUNNING"

    asked = {"cluster_id": cluster["id"], "count": 20, "name": "p", "product_name": "c1a.8x"}
    started = terraform.call("POST", POOLS, asked)
    for moment in (0.1, 0.4):
        time.sleep(moment)
        fresh.kill()
        fresh.up()
    terraform.wait("kubernetes/nodepools", started)
    [pool] = terraform.call("GET", POOLS)["items"]
    vms = terraform.call("GET", "{p}/compute/vms/instances")["items"]
    assert (pool["count"], len(pool["instance_ids"]), len(vms)) == (20, 20, 20)
    assert node_names(terraform, cluster["id"]) == {vm["name"] for vm in vms}


def test_clusters_come_back_after_down_and_up(fresh: Server) -> None:
    terraform = client(fresh)
    asked: Json = {"location": "us-east1-a", "name": "clu", "version": "1.33.4-cmk.43"}
    cluster = terraform.wait("kubernetes/clusters", terraform.call("POST", CLUSTERS, asked))
    asked = {"cluster_id": cluster["id"], "count": 2, "name": "p", "product_name": "c1a.8x"}
    terraform.wait("kubernetes/nodepools", terraform.call("POST", POOLS, asked))
    before = node_names(terraform, cluster["id"])
    assert started_by(fresh)
    addresses = {address for _, address, _ in processes.listening(started_by(fresh))}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1"}
    fresh.run("down")
    assert started_by(fresh) == []
    fresh.up()
    assert node_names(terraform, cluster["id"]) == before
    # A dead server's control planes are stopped all the same.
    fresh.kill()
    fresh.run("down")
    assert started_by(fresh) == []


def test_killed_control_plane_is_started_again(fresh: Server) -> None:
    terraform = client(fresh)
    asked: Json = {"location": "us-east1-a", "name": "clu", "version": "1.33.4-cmk.43"}
    cluster = terraform.wait("kubernetes/clusters", terraform.call("POST", CLUSTERS, asked))
    asked = {"cluster_id": cluster["id"], "count": 2, "name": "p", "product_name": "c1a.8x"}
    terraform.wait("kubernetes/nodepools", terraform.call("POST", POOLS, asked))
    before = node_names(terraform, cluster["id"])
    fresh.run("set", "watch-seconds", "1")
    kill_api_server(fresh)
    revived: list[Json] = []

    def came_back() -> bool:
        revived[:] = [event for event in fresh.admin("GET", "events")["items"] if event["kind"].endswith("ived")]
        return bool(revived)

    until(came_back, 60, "the control plane's return")
    assert (revived[0]["kind"], revived[0]["subject"]) == ("cluster.revived", cluster["id"])
    assert "kube-apiserver" in revived[0]["detail"]["ended"]
    assert node_names(terraform, cluster["id"]) == before

    assert fresh.run("set", "watch-seconds", "0").stdout == "Control planes are not watched.\n"
    kill_api_server(fresh)
    time.sleep(3)
    assert api_servers(fresh) == []
    assert "Cluster clu runs again (kube-apiserver" in fresh.run("up").stdout
    assert node_names(terraform, cluster["id"]) == before


def api_servers(server: Server) -> list[psutil.Process]:
    return [
        one for one in started_by(server) if Path((processes.command_line(one) or [""])[0]).name == "kube-apiserver"
    ]


def kill_api_server(server: Server) -> None:
    [process] = api_servers(server)
    processes.kill(process)


def node_names(terraform: Terraform, cluster: str) -> set[str]:
    """The nodes as the cluster's own API server has them."""
    answer = terraform.call("POST", f"{CLUSTERS}/{cluster}/get-credentials")
    assert yaml.safe_load(answer["kube_config"])
    with tempfile.TemporaryDirectory() as folder:
        names = ("cluster_ca_certificate", "user_client_certificate", "user_client_key")
        for name in names:
            (Path(folder) / name).write_text(answer[name])
        context = ssl.create_default_context(cafile=f"{folder}/cluster_ca_certificate")
        context.load_cert_chain(f"{folder}/user_client_certificate", f"{folder}/user_client_key")
        deadline = time.monotonic() + 60
        while True:
            try:
                found = httpx.get(f"{answer['cluster_address']}/api/v1/nodes", verify=context, timeout=10)
            except httpx.HTTPError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
                continue
            return {item["metadata"]["name"] for item in found.json()["items"]}


def started_by(server: Server) -> list[psutil.Process]:
    """Every process that belongs to the state folder."""
    return processes.mentioning(server.folder.path)
