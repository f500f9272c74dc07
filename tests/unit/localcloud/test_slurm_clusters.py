"""Managed Slurm's clusters: what is answered, what stands behind them, what is refused, what a failure leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from localcloud.control_plane import ClusterSpec, ControlPlaneError, NoControlPlane
from tests.unit.localcloud.conftest import OTHER, Api, failed, running, succeeded

CLUSTERS = "{p}/slurm/clusters"
KUBERNETES = "{p}/kubernetes/clusters"
POOLS = "{p}/kubernetes/nodepools"
DISKS = "{p}/storage/disks"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA someone@example"


def body(**more: Any) -> dict[str, Any]:
    return {"name": "hpc", "location": "us-east1-a", "root_ssh_pub_keys": [KEY], **more}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in body().items() if key != name}


async def slurm(api: Api, **more: Any) -> dict[str, Any]:
    return succeeded(await api.post(CLUSTERS, body(**more)))


async def items(api: Api, path: str) -> list[dict[str, Any]]:
    return (await api.get(path))["items"]


async def test_answers_with_every_default_filled_in(api: Api) -> None:
    made = await slurm(api)
    assert (made["login_node_type"], made["login_replicas"], made["home_volume_size"]) == ("c1a.8x", 1, "10Ti")
    assert (made["state"], made["issues"], made["nodesets"]) == ("RUNNING", [], [])
    assert made["version"] == "25.11.2-cmk.19"
    assert made["root_ssh_pub_keys"] == [KEY]
    default = next(s for s in await items(api, "{p}/networking/vpc-subnets") if s["name"] == "default-us-east1-a")
    assert made["subnet_id"] == default["id"]
    assert made["login_node_endpoint"].count(".") == 3
    assert "internal_config" not in made
    assert await api.get(f"{CLUSTERS}/{made['id']}") == made
    assert await items(api, CLUSTERS) == [made]


async def test_what_stands_behind_it(api: Api) -> None:
    await slurm(api, login_replicas=2, login_node_type="c1a.4x", home_volume_size="2Ti")
    [cluster] = await items(api, KUBERNETES)
    assert (cluster["name"], cluster["state"]) == ("hpc", "STATE_RUNNING")
    assert set(cluster["add_ons"]) == {"crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"}
    [pool] = await items(api, POOLS)
    assert (pool["cluster_id"], pool["type"], pool["count"]) == (cluster["id"], "c1a.4x", 3)
    assert len(api.plane.node_specs[cluster["id"]]) == 3
    [disk] = await items(api, DISKS)
    assert (disk["type"], disk["size"]) == ("shared-volume", "2048GiB")
    config = await api.get(f"{KUBERNETES}/{cluster['id']}/autoclusters/config")
    assert {row["effective_action"] for row in config["remediation_configs"]} == {"OFF", "REPLACE_NODE"}
    assert (await api.post(f"{KUBERNETES}/{cluster['id']}/get-credentials"))["cluster_name"] == "hpc"
    wanted = api.plane.slurm_specs[cluster["id"]]
    assert (wanted.name, wanted.login_replicas, wanted.login_pool) == ("hpc", 2, pool["id"])
    assert (wanted.home_size, wanted.home_disk, wanted.root_ssh_keys) == ("2Ti", disk["id"], (KEY,))


async def test_a_cluster_without_a_home_has_no_disk(api: Api) -> None:
    made = await slurm(api, home_volume_size="")
    assert made["home_volume_size"] == ""
    assert await items(api, DISKS) == []


async def test_the_cluster_behind_it_does_not_depend_on_what_is_offered(api: Api) -> None:
    await api.admin("PATCH", "settings", {"generation": "v2"})
    await slurm(api)


REFUSED: list[tuple[dict[str, Any], str]] = [
    (without("name"), "name: required"),
    (without("location"), "location: required"),
    (without("root_ssh_pub_keys"), "root_ssh_pub_keys: required"),
    (body(root_ssh_pub_keys=[]), "root_ssh_pub_keys: "),
    (body(root_ssh_pub_keys=["-----BEGIN OPENSSH PRIVATE KEY-----"]), "root_ssh_pub_keys.0: this is not an SSH"),
    (body(name="Upper"), "name: "),
    (body(name="1st"), "name: "),
    (body(name="end-"), "name: "),
    (body(name="a" * 36), "name: "),
    (body(location="mars"), "location: 'mars' is unknown"),
    (body(login_replicas=0), "login_replicas: "),
    (body(login_replicas="1"), "login_replicas: "),
    (body(login_node_type="c9z.1x"), "login_node_type: there is no VM type"),
    (body(login_node_type="c2a.8x", location="eu-iceland1-a"), "login_node_type: c2a.8x is not offered"),
    (body(login_node_type="a100-80gb.1x"), "login_node_type: a100-80gb.1x shares its host"),
    (body(home_volume_size="10TB"), "home_volume_size: '10TB' is not a size"),
    (body(home_volume_size="1500Gi"), "home_volume_size: 1500GiB does not fit"),
    (body(home_volume_size="1001Ti"), "home_volume_size: 1025024GiB does not fit"),
    (body(subnet_id="nowhere"), "subnet_id: "),
    (body(version="25.11"), "version: unknown field"),
    (body(nodesets=[]), "nodesets: unknown field"),
    (body(internal_config={"a": 1}), "internal_config.a: "),
]


async def test_refused(api: Api) -> None:
    for wrong, words in REFUSED:
        message = await api.refused(400, "POST", CLUSTERS, wrong)
        assert message.startswith(words)
        assert "PRIVATE" not in message
    for path in (CLUSTERS, KUBERNETES, POOLS, DISKS):
        assert await items(api, path) == []


async def test_quotas(api: Api) -> None:
    for name, most in (("c1a", 15), ("shared-volume", 10239)):
        await api.admin("PUT", "quotas", {"name": name, "max": most})
        assert f"quota {name} " in await api.refused(400, "POST", CLUSTERS, body())
        await api.admin("PUT", "quotas", {"name": name, "max": 100_000})
    await slurm(api)


@pytest.mark.parametrize("kind", ["Slurm cluster", "Kubernetes cluster", "node pool", "disk"])
async def test_every_name_must_be_free(api: Api, kind: str) -> None:
    if kind == "Slurm cluster":
        await slurm(api)
    elif kind == "Kubernetes cluster":
        await api.cluster("hpc")
    elif kind == "node pool":
        await api.pool(await api.cluster("other"), "hpc-login")
    else:
        disk = {"name": "hpc-home", "location": "us-east1-a", "size": "1GiB"}
        succeeded(await api.post(DISKS, disk))
    before = [len(await items(api, path)) for path in (CLUSTERS, KUBERNETES, POOLS, DISKS)]
    assert f"{kind} named 'hpc" in await api.refused(409, "POST", CLUSTERS, body())
    assert [len(await items(api, path)) for path in (CLUSTERS, KUBERNETES, POOLS, DISKS)] == before


async def test_there_is_no_update(api: Api) -> None:
    made = await slurm(api)
    for method in ("PATCH", "PUT"):
        await api.refused(405, method, f"{CLUSTERS}/{made['id']}", {"login_replicas": 2})


async def test_unknown_and_foreign(api: Api) -> None:
    made = await slurm(api)
    for method in ("GET", "DELETE"):
        await api.refused(404, method, f"{CLUSTERS}/nothing")
    await api.refused(403, "GET", f"/projects/{OTHER}/slurm/clusters")
    stranger = api.cloud.keys.of_project("other")
    answer = await api.call_as(stranger, "GET", f"/projects/{OTHER}/slurm/clusters/{made['id']}")
    assert answer.status_code == 404


async def test_filters(api: Api) -> None:
    one = await slurm(api, name="one")
    two = await slurm(api, name="two", location="eu-iceland1-a")

    async def names(**query: str) -> list[str]:
        return [row["name"] for row in (await api.get(CLUSTERS, **query))["items"]]

    assert await names() == ["one", "two"]
    assert await names(names="two") == ["two"]
    assert await names(location="us-east1-a") == ["one"]
    assert await names(slurm_cluster_ids=two["id"]) == ["two"]
    assert await names(state="RUNNING") == ["one", "two"]
    assert await names(state="FAILED") == []
    await api.refused(400, "GET", CLUSTERS, name=one["name"])


async def test_operations(api: Api) -> None:
    operation = (await api.post(CLUSTERS, body()))["operation"]
    path = "{p}/slurm/clusters/operations"
    assert await api.get(f"{path}/{operation['operation_id']}") == operation
    assert await items(api, path) == [operation]
    assert (await api.get(path, resource_id=operation["result"]["id"]))["items"] == [operation]
    await api.refused(403, "GET", f"{path}/unknown")
    await api.refused(403, "GET", f"{{p}}/kubernetes/clusters/operations/{operation['operation_id']}")


async def test_delete_takes_everything_with_it(api: Api) -> None:
    made = await slurm(api)
    deleted = await api.delete(f"{CLUSTERS}/{made['id']}")
    assert (deleted["operation"]["state"], deleted["operation"]["result"]) == ("SUCCEEDED", None)
    for path in (CLUSTERS, KUBERNETES, POOLS, DISKS, "{p}/compute/vms/instances"):
        assert await items(api, path) == []
    assert api.plane.clusters == {}
    await api.refused(404, "DELETE", f"{CLUSTERS}/{made['id']}")
    await slurm(api)


async def test_what_belongs_to_it_is_not_changed_elsewhere(api: Api) -> None:
    await slurm(api)
    paths = {path: (await items(api, path))[0]["id"] for path in (KUBERNETES, POOLS, DISKS)}
    changes: dict[str, Any] = {
        KUBERNETES: {"apiserver_extra_args": {"v": "2"}},
        POOLS: {"count": 5},
        DISKS: {"size": "20TiB"},
    }
    for path, identifier in paths.items():
        assert "belongs to Slurm cluster hpc" in await api.refused(400, "DELETE", f"{path}/{identifier}")
        assert "belongs to Slurm cluster hpc" in await api.refused(400, "PATCH", f"{path}/{identifier}", changes[path])


async def test_delete_is_refused_while_others_have_pools_in_its_cluster(api: Api) -> None:
    made = await slurm(api)
    [cluster] = await items(api, KUBERNETES)
    pool = await api.pool(cluster["id"], "mine")
    assert "node pools of others (mine)" in await api.refused(400, "DELETE", f"{CLUSTERS}/{made['id']}")
    await api.delete(f"{POOLS}/{pool['id']}")
    assert (await api.delete(f"{CLUSTERS}/{made['id']}"))["operation"]["state"] == "SUCCEEDED"


async def created_and_failed(api: Api) -> dict[str, Any]:
    """The one Slurm cluster, whose creation failed."""
    [left] = await items(api, CLUSTERS)
    assert left["state"] == "CREATE_FAILED"
    for path in (KUBERNETES, POOLS, DISKS, "{p}/compute/vms/instances"):
        assert await items(api, path) == []
    assert api.plane.clusters == {}
    return left


async def test_a_failed_create_stays_until_it_is_deleted(api: Api) -> None:
    await api.fault("POST .../slurm/clusters", "fail-operation", times=1, message="the moon was full")
    assert failed(await api.post(CLUSTERS, body())) == "the moon was full"
    left = await created_and_failed(api)
    assert left["issues"] == [{"code": "INTERNAL_ERROR", "message": "the moon was full"}]
    await api.refused(409, "POST", CLUSTERS, body())
    assert (await api.delete(f"{CLUSTERS}/{left['id']}"))["operation"]["state"] == "SUCCEEDED"
    await slurm(api)


async def test_without_capacity_for_login_nodes_it_fails(api: Api) -> None:
    await api.fault("POST .../slurm/clusters", "partial-capacity", times=1, vms=1)
    assert "1 of 2 VMs could be started" in failed(await api.post(CLUSTERS, body()))
    [issue] = (await created_and_failed(api))["issues"]
    assert issue["code"] == "INSUFFICIENT_CAPACITY"


async def test_without_egress_it_fails_as_any_cluster_does(api: Api) -> None:
    subnet = await api.subnet(await api.network())
    assert "the control plane of cluster hpc did not come up" in failed(
        await api.post(CLUSTERS, body(subnet_id=subnet))
    )
    await created_and_failed(api)


async def test_a_control_plane_that_does_not_start_fails_it(tmp_path: Path) -> None:
    class Broken(NoControlPlane):
        def create(self, cluster: ClusterSpec) -> None:
            raise ControlPlaneError(f"{cluster.name}: no")

    async with running(tmp_path, plane=Broken()) as api:
        assert failed(await api.post(CLUSTERS, body())) == "hpc: no"
        await created_and_failed(api)


async def test_a_failed_delete_says_so_and_can_be_tried_again(api: Api) -> None:
    made = await slurm(api)
    await api.fault("DELETE .../slurm/clusters/*", "fail-operation", times=1, message="stuck")
    assert failed(await api.delete(f"{CLUSTERS}/{made['id']}")) == "stuck"
    read = await api.get(f"{CLUSTERS}/{made['id']}")
    assert (read["state"], read["issues"]) == ("DELETE_FAILED", [{"code": "INTERNAL_ERROR", "message": "stuck"}])
    assert (await api.delete(f"{CLUSTERS}/{made['id']}"))["operation"]["state"] == "SUCCEEDED"
    assert await items(api, CLUSTERS) == []


async def test_success_of_the_call_is_not_yet_a_running_cluster(api: Api) -> None:
    api.plane.slurm_pods = 0
    made = await slurm(api)
    assert (made["state"], made["login_node_endpoint"], made["issues"]) == ("PROVISIONING", "", [])
    api.plane.slurm_pods = None
    await settle(api, f"{CLUSTERS}/{made['id']}", "RUNNING")


async def test_login_nodes_that_are_lost_show_as_issues(api: Api) -> None:
    made = await slurm(api)
    api.plane.slurm_pods = 0
    [first, *_] = await items(api, "{p}/compute/vms/instances")
    await api.delete(f"{{p}}/compute/vms/instances/{first['id']}")
    read = await settle(api, f"{CLUSTERS}/{made['id']}", "UNHEALTHY")
    assert [issue["code"] for issue in read["issues"]] == ["NODE_NOT_READY"]
    api.plane.slurm_pods = None
    api.cloud.journal.record("vm.running", "any")
    await settle(api, f"{CLUSTERS}/{made['id']}", "RUNNING")


async def settle(api: Api, path: str, state: str) -> dict[str, Any]:
    """The object once it is in a state."""
    async with asyncio.timeout(5):
        while (read := await api.get(path))["state"] != state:
            await asyncio.sleep(0.01)
    return read


async def test_a_create_goes_on_after_a_kill(tmp_path: Path) -> None:
    plane = NoControlPlane()
    async with running(tmp_path, 60, plane) as api:
        assert (await api.post(CLUSTERS, body()))["operation"]["state"] == "IN_PROGRESS"
        [read] = await items(api, CLUSTERS)
        assert (read["state"], read["login_node_endpoint"]) == ("PROVISIONING", "")
        assert "operation" in await api.refused(409, "DELETE", f"{CLUSTERS}/{read['id']}")
        api.cloud.store.connection.execute("UPDATE operations SET due_at = 0")
    async with running(tmp_path, 0, plane) as api:
        await settle(api, f"{CLUSTERS}/{read['id']}", "RUNNING")
        assert len(api.plane.node_specs) == 1
