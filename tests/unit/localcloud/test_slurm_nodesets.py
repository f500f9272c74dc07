"""Managed Slurm's node sets: ready counts, growing and shrinking, shortages, lost nodes, failures."""

from __future__ import annotations

from typing import Any

from tests.unit.localcloud.conftest import H100, Api, failed, succeeded
from tests.unit.localcloud.test_slurm_clusters import CLUSTERS, KUBERNETES, POOLS, items, settle, slurm

VMS = "{p}/compute/vms/instances"
L40S = "l40s-48gb.10x"


def body(**more: Any) -> dict[str, Any]:
    return {"name": "gpu", "type": L40S, "count": 2, **more}


async def nodesets(api: Api, **more: Any) -> str:
    """The path of the node sets of a new Slurm cluster."""
    return f"{{p}}/slurm/{(await slurm(api, **more))['id']}/nodesets"


async def nodeset(api: Api, path: str, **more: Any) -> dict[str, Any]:
    return succeeded(await api.post(path, body(**more)))


async def pool_of(api: Api) -> dict[str, Any]:
    return next(pool for pool in await items(api, POOLS) if not pool["name"].endswith("-login"))


async def test_answers(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path, vm_ssh_public_key="ssh-ed25519 AAAA")
    assert (made["name"], made["type"], made["count"]) == ("gpu", L40S, 2)
    assert (made["state"], made["issues"]) == ("RUNNING", [])
    assert made["vm_ssh_public_key"] == "ssh-ed25519 AAAA"
    assert "transport_partition_id" not in made
    assert await api.get(f"{path}/{made['id']}") == made
    assert await items(api, path) == [made]
    [cluster] = await items(api, CLUSTERS)
    assert cluster["nodesets"] == [made["id"]]
    assert cluster["subnet_id"] == made["subnet_id"]


async def test_what_stands_behind_it(api: Api) -> None:
    partition = await api.partition()
    path = await nodesets(api)
    made = await nodeset(api, path, type=H100, transport_partition_id=partition)
    assert made["transport_partition_id"] == partition
    pool = await pool_of(api)
    assert (pool["name"], pool["type"], pool["count"]) == ("hpc-gpu", H100, 2)
    assert pool["node_labels"]["slurm.crusoe.ai/compute-node-type"] == "true"
    assert pool["node_labels"]["crusoe.ai/ib.partition.id"] == partition
    [cluster] = await items(api, KUBERNETES)
    nodes = [node for node in api.plane.node_specs[cluster["id"]].values() if node.node_pool_id == pool["id"]]
    assert [node.extended_resources["nvidia.com/gpu"] for node in nodes] == [8, 8]
    [wanted] = api.plane.slurm_specs[cluster["id"]].node_sets
    assert (wanted.name, wanted.pool_id, wanted.replicas) == ("gpu", pool["id"], 2)
    assert (wanted.gpus, wanted.gpu_resource) == (8, "nvidia.com/gpu")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "login"}, "name: 'login' is the name of pods"),
    ({"name": "GPU"}, "name: "),
    ({"name": "n" * 60}, "name: a node would be called hpc-nnn"),
    ({"count": -1}, "count: "),
    ({"count": 2.0}, "count: "),
    ({"type": "x"}, "type: there is no VM type"),
    ({"type": "b300-288gb-sxm-ib.8x"}, "type: b300-288gb-sxm-ib.8x is not offered in us-east1-a"),
    ({"type": H100}, "transport_partition_id: h100-80gb-sxm-ib.8x has InfiniBand adapters and needs a partition"),
    ({"type": "mi300x-192gb-ib.8x"}, "type: mi300x-192gb-ib.8x has AMD GPUs"),
    ({"type": "a100-80gb.1x"}, "type: a100-80gb.1x shares its host, and can't mount the shared /home"),
    ({"subnet_id": "nowhere"}, "subnet_id: "),
    ({"node_labels": {"a": "b"}}, "node_labels: unknown field"),
    ({"reservation_id": "r"}, "reservation_id: unknown field"),
]


async def test_refused(api: Api) -> None:
    path = await nodesets(api)
    for wrong, words in REFUSED:
        assert (await api.refused(400, "POST", path, body(**wrong))).startswith(words)
    assert await items(api, path) == []
    assert len(await items(api, POOLS)) == 1


async def test_slices_are_fine_without_a_home(api: Api) -> None:
    await nodeset(api, await nodesets(api, home_volume_size=""), type="a100-80gb.1x")


async def test_names_are_unique_in_a_cluster_only(api: Api) -> None:
    path = await nodesets(api)
    await nodeset(api, path)
    assert "node set named 'gpu'" in await api.refused(409, "POST", path, body())
    await nodeset(api, await nodesets(api, name="other"))


async def test_quota(api: Api) -> None:
    path = await nodesets(api)
    await api.admin("PUT", "quotas", {"name": "l40s-48gb", "max": 20})
    made = await nodeset(api, path)
    assert "quota l40s-48gb" in await api.refused(400, "PATCH", f"{path}/{made['id']}", {"count": 3})
    assert "quota l40s-48gb" in await api.refused(400, "POST", path, body(name="more", count=1))


async def test_only_the_count_changes(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path)
    for wrong in ({}, {"name": "x"}, {"count": 3, "type": L40S}, {"count": None}):
        await api.refused(400, "PATCH", f"{path}/{made['id']}", wrong)
    grown = succeeded(await api.patch(f"{path}/{made['id']}", {"count": 3}))
    assert (grown["count"], grown["state"]) == (3, "RUNNING")
    assert (await pool_of(api))["count"] == 3


async def test_a_lower_count_drains_and_deletes_the_newest(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path, count=3)
    before = (await pool_of(api))["instance_ids"]
    shrunk = succeeded(await api.patch(f"{path}/{made['id']}", {"count": 1}))
    assert (shrunk["count"], shrunk["state"]) == (1, "RUNNING")
    assert (await pool_of(api))["instance_ids"] == before[:1]
    assert len(api.plane.drained) == 2


async def test_the_ready_count_is_answered_and_not_the_wanted_one(api: Api) -> None:
    path = await nodesets(api)
    api.plane.slurm_pods = 1
    made = await nodeset(api, path, count=3)
    assert (made["count"], made["state"], made["issues"]) == (1, "PROVISIONING", [])
    api.plane.slurm_pods = None
    read = await settle(api, f"{path}/{made['id']}", "RUNNING")
    assert read["count"] == 3
    api.plane.slurm_pods = 3
    grown = succeeded(await api.patch(f"{path}/{made['id']}", {"count": 4}))
    assert (grown["count"], grown["state"]) == (3, "UPDATING")


async def test_partial_capacity_shows_as_an_issue(api: Api) -> None:
    path = await nodesets(api)
    await api.fault("POST .../nodesets", "partial-capacity", times=1, vms=1)
    made = await nodeset(api, path, count=3)
    assert (made["count"], made["state"]) == (1, "UNHEALTHY")
    [issue] = made["issues"]
    assert issue["code"] == "INSUFFICIENT_CAPACITY"
    assert "1 of 3 VMs could be started" in issue["message"]
    # The same count again is a new try.
    whole = succeeded(await api.patch(f"{path}/{made['id']}", {"count": 3}))
    assert (whole["count"], whole["state"], whole["issues"]) == (3, "RUNNING", [])


async def test_a_lost_node_is_replaced_and_shows_meanwhile(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path)
    lost = (await pool_of(api))["instance_ids"][0]
    api.plane.slurm_pods = 1
    await api.delete(f"{VMS}/{lost}")
    read = await settle(api, f"{path}/{made['id']}", "UNHEALTHY")
    assert (read["count"], read["issues"][0]["code"]) == (1, "NODE_NOT_READY")
    api.plane.slurm_pods = None
    api.cloud.journal.record("vm.running", "any")
    assert (await settle(api, f"{path}/{made['id']}", "RUNNING"))["count"] == 2
    assert lost not in (await pool_of(api))["instance_ids"]


async def test_autoclusters_replaces_its_nodes(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path)
    [cluster] = await items(api, KUBERNETES)
    broken = (await pool_of(api))["instance_ids"][0]
    await api.post(f"{KUBERNETES}/{cluster['id']}/autoclusters/vms/{broken}/remediate")
    assert broken not in (await pool_of(api))["instance_ids"]
    assert (await settle(api, f"{path}/{made['id']}", "RUNNING"))["count"] == 2


async def test_delete(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path)
    [cluster] = await items(api, CLUSTERS)
    assert "still has node sets (gpu)" in await api.refused(400, "DELETE", f"{CLUSTERS}/{cluster['id']}")
    deleted = await api.delete(f"{path}/{made['id']}")
    assert (deleted["operation"]["state"], deleted["operation"]["result"]) == ("SUCCEEDED", None)
    assert await items(api, path) == []
    assert [pool["name"] for pool in await items(api, POOLS)] == ["hpc-login"]
    [behind] = await items(api, KUBERNETES)
    assert api.plane.slurm_specs[behind["id"]].node_sets == ()
    assert (await api.delete(f"{CLUSTERS}/{cluster['id']}"))["operation"]["state"] == "SUCCEEDED"


async def test_a_failed_create_stays_until_it_is_deleted(api: Api) -> None:
    path = await nodesets(api)
    await api.fault("POST .../nodesets", "fail-operation", times=1, message="no")
    assert failed(await api.post(path, body())) == "no"
    [left] = await items(api, path)
    assert (left["state"], left["count"]) == ("CREATE_FAILED", 0)
    assert left["issues"] == [{"code": "INTERNAL_ERROR", "message": "no"}]
    assert len(await items(api, POOLS)) == 1
    assert "not running (CREATE_FAILED)" in await api.refused(400, "PATCH", f"{path}/{left['id']}", {"count": 1})
    assert (await api.delete(f"{path}/{left['id']}"))["operation"]["state"] == "SUCCEEDED"
    await nodeset(api, path)


async def test_a_failed_update_changes_nothing(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path)
    await api.fault("PATCH .../nodesets/*", "fail-operation", times=1, message="no")
    assert failed(await api.patch(f"{path}/{made['id']}", {"count": 5})) == "no"
    assert await api.get(f"{path}/{made['id']}") == made
    assert (await pool_of(api))["count"] == 2


async def test_a_failed_delete_says_so_and_can_be_tried_again(api: Api) -> None:
    path = await nodesets(api)
    made = await nodeset(api, path)
    await api.fault("DELETE .../nodesets/*", "fail-operation", times=1, message="no")
    assert failed(await api.delete(f"{path}/{made['id']}")) == "no"
    assert (await api.get(f"{path}/{made['id']}"))["state"] == "DELETE_FAILED"
    assert (await api.delete(f"{path}/{made['id']}"))["operation"]["state"] == "SUCCEEDED"


async def test_operations_belong_to_their_cluster(api: Api) -> None:
    path = await nodesets(api)
    other = await nodesets(api, name="other")
    operation = (await api.post(path, body()))["operation"]
    assert await api.get(f"{path}/operations/{operation['operation_id']}") == operation
    assert await items(api, f"{path}/operations") == [operation]
    assert await items(api, f"{other}/operations") == []
    await api.refused(403, "GET", f"{other}/operations/{operation['operation_id']}")
    await api.refused(404, "GET", f"{other}/{operation['result']['id']}")


async def test_a_cluster_that_does_not_run_takes_no_node_sets(api: Api) -> None:
    await api.refused(404, "GET", "{p}/slurm/nothing/nodesets")
    await api.refused(404, "POST", "{p}/slurm/nothing/nodesets", body())
    await api.fault("POST .../slurm/clusters", "fail-operation", times=1)
    await api.post(CLUSTERS, {"name": "hpc", "location": "us-east1-a", "root_ssh_pub_keys": ["ssh-ed25519 AAAA"]})
    [left] = await items(api, CLUSTERS)
    words = await api.refused(400, "POST", f"{{p}}/slurm/{left['id']}/nodesets", body())
    assert words == "Slurm cluster hpc is not running (CREATE_FAILED)"
