"""Node pools of CMK v1: answers, updates, VMs and their nodes, what runs out, rotation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from localcloud.control_plane import ControlPlaneError
from tests.unit.localcloud.conftest import H100, IB_EAST, IB_ICELAND, NVL, V1, Api, failed, succeeded

POOLS = "{p}/kubernetes/nodepools"
VMS = "{p}/compute/vms/instances"
RESERVATION = "00000000-0000-4000-8000-000000000301"


def body(cluster: str, **more: Any) -> dict[str, Any]:
    return {"name": "pool", "cluster_id": cluster, "count": 2, "product_name": "c1a.8x", **more}


def terraform_update(pool: dict[str, Any], **more: Any) -> dict[str, Any]:
    """All eight keys, as Crusoe's Terraform provider sends them."""
    return {
        "action": "",
        "count": pool["count"],
        "ephemeral_storage_for_containerd": pool["ephemeral_storage_for_containerd"],
        "node_labels": None,
        "node_pool_version": pool["image_id"],
        "node_taints": None,
        "reservation_id": "",
        "ssh_public_key": "",
        **more,
    }


async def test_answers(api: Api) -> None:
    cluster = await api.cluster()
    result = succeeded(await api.post(POOLS, body(cluster, node_labels={"role": "system"})))
    pool = result["node_pool"]
    assert result["details"] == {"num_vms_created": 2}
    assert {key: pool[key] for key in ("name", "type", "count", "cluster_id", "state", "public_ip_type")} == {
        "name": "pool",
        "type": "c1a.8x",
        "count": 2,
        "cluster_id": cluster,
        "state": "STATE_RUNNING",
        "public_ip_type": "dynamic",
    }
    assert pool["image_id"] == "1.33.4-cmk.93"
    assert pool["reservation_id"] == ""
    assert pool["node_taints"] == []
    assert pool["node_labels"]["role"] == "system"
    assert pool["node_labels"]["crusoe.ai/nodepool.id"] == pool["id"]
    assert len(pool["instance_ids"]) == 2
    for absent in ("nvlink_domain_id", "consent_mode", "update_settings", "health", "current", "autoscaling_config"):
        assert absent not in pool
    for secret in ("ssh_public_key", "ib_partition_id"):
        assert secret not in pool
    assert await api.read_pool(pool["id"]) == pool
    assert (await api.get(POOLS, cluster_id=cluster))["items"] == [pool]
    assert (await api.get(POOLS, cluster_id="other"))["items"] == []


async def test_echoes_what_was_asked_for(api: Api) -> None:
    cluster = await api.cluster()
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "bare", "effect": "NoExecute"}]
    pool = await api.pool(
        cluster,
        product_name=H100,
        count=1,
        ib_partition_id=await api.partition(),
        node_taints=taints,
        node_pool_version="1.32.7-cmk.22",
        public_ip_type="none",
        ssh_public_key="ssh-ed25519 AAAA",
        placement_policy="spread",
        reservation_specification={"id": RESERVATION},
    )
    assert (pool["node_taints"], pool["image_id"], pool["public_ip_type"]) == (taints, "1.32.7-cmk.22", "none")
    assert pool["reservation_id"] == RESERVATION
    organization = "00000000-0000-4000-8000-000000000000"
    [reservation] = [
        r for r in (await api.get(f"/organizations/{organization}/reservations"))["items"] if r["id"] == RESERVATION
    ]
    assert (reservation["used_quantity"], reservation["vm_ids"]) == (1, pool["instance_ids"])


async def test_nodes_carry_what_the_catalogue_says(api: Api) -> None:
    cluster = await api.cluster(add_ons=["nvidia_gpu_operator", "nvidia_network_operator"])
    partition = await api.partition(name="fabric")
    pool = await api.pool(
        cluster,
        product_name=H100,
        count=1,
        ib_partition_id=partition,
        node_labels={"role": "train"},
        node_taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        public_ip_type="none",
    )
    [node] = api.plane.node_specs[cluster].values()
    [vm] = (await api.get(f"{POOLS}/{pool['id']}/vms"))["items"]
    assert (node.name, node.instance_id) == (vm["name"], vm["id"])
    assert (node.cpu, node.memory_gb, node.gpus) == (176, 960, 8)
    assert node.extended_resources == {"nvidia.com/gpu": 8, "nvidia.com/hostdev": 8}
    assert [(t.key, t.value, t.effect) for t in node.taints] == [("gpu", "yes", "NoSchedule")]
    assert node.external_ip is None
    assert dict(node.labels) | {
        "role": "train",
        "node.kubernetes.io/instance-type": H100,
        "crusoe.ai/accelerator": "nvidia-h100-80gb-sxm-ib",
        "crusoe.ai/instance.id": vm["id"],
        "crusoe.ai/instance.class": "h100-80gb-sxm-ib",
        "crusoe.ai/ib.partition.id": partition,
        "crusoe.ai/ib.partition.name": "fabric",
        "crusoe.ai/ib.partition.networkId": IB_EAST,
        "nvidia.com/gpu.present": "true",
        "topology.kubernetes.io/zone": "us-east1-a",
    } == dict(node.labels)
    assert len(vm["host_channel_adapters"]) == 8
    assert vm["host_channel_adapters"][0]["ib_partition_id"] == partition


async def test_no_gpu_resource_without_the_operator(api: Api) -> None:
    cluster = await api.cluster()
    await api.pool(cluster, product_name=H100, count=1, ib_partition_id=await api.partition())
    [node] = api.plane.node_specs[cluster].values()
    assert (dict(node.extended_resources), node.gpus, node.gpu_resource) == ({}, 8, "nvidia.com/gpu")


async def test_no_host_devices_without_infiniband(api: Api) -> None:
    cluster = await api.cluster(add_ons=["nvidia_gpu_operator", "nvidia_network_operator"])
    await api.pool(cluster, product_name="l40s-48gb.10x", count=1)
    [node] = api.plane.node_specs[cluster].values()
    assert dict(node.extended_resources) == {"nvidia.com/gpu": 10}


async def test_amd_nodes_have_amd_resources(api: Api) -> None:
    cluster = await api.cluster(version="1.33.4-cmk.93", add_ons=["amd_gpu_operator", "nvidia_gpu_operator"])
    partition = await api.partition(network="00000000-0000-4000-8000-000000000102")
    await api.pool(cluster, product_name="mi300x-192gb-ib.8x", count=1, ib_partition_id=partition)
    [node] = api.plane.node_specs[cluster].values()
    assert dict(node.extended_resources) == {"amd.com/gpu": 8}
    assert node.labels["crusoe.ai/accelerator"] == "amd-mi300x-192gb-ib"


async def test_addresses_come_from_the_subnet_and_are_given_once(api: Api) -> None:
    cluster = await api.cluster()
    first = await api.pool(cluster, name="a", count=3)
    await api.pool(cluster, name="b", count=2)
    found = [node.internal_ip for node in api.plane.node_specs[cluster].values()]
    assert found == [f"172.27.16.{n}" for n in range(5, 10)]
    succeeded(await api.delete(f"{POOLS}/{first['id']}"))
    await api.pool(cluster, name="c", count=1)
    assert "172.27.16.5" in [node.internal_ip for node in api.plane.node_specs[cluster].values()]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": None}, "count"),
        ({"count": "2"}, "count"),
        ({"count": 2.0}, "count"),
        ({"count": True}, "count"),
        ({"count": -1}, "count"),
        ({"product_name": "abacus.1x"}, "product_name: there is no VM type"),
        ({"product_name": "b300-288gb-sxm-ib.8x"}, "not offered in us-east1-a"),
        ({"product_name": H100}, "needs a partition"),
        ({"cluster_id": "nope"}, "no Kubernetes cluster nope"),
        ({"node_pool_version": "1.33.4"}, "not offered"),
        ({"node_pool_version": "1.35.5-cmk.13"}, "it is newer"),
        ({"node_pool_version": "1.35.5"}, "CMK v2"),
        ({"public_ip_type": "maybe"}, "public_ip_type"),
        ({"node_labels": {"crusoe.ai/x": "y"}}, "reserved"),
        ({"node_labels": {"a b": "y"}}, "label key"),
        ({"node_labels": {"a": "y!"}}, "label value"),
        ({"node_taints": [{"key": "crusoe.ai/x", "effect": "NoSchedule"}]}, "reserved"),
        ({"node_taints": [{"key": "a", "effect": "Never"}]}, "node_taints.0.effect"),
        ({"node_taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "given twice"),
        ({"node_taints": [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(51)]}, "node_taints"),
        ({"node_taints": [{"key": "a", "value": "v" * 64, "effect": "NoSchedule"}]}, "label value"),
        ({"ib_partition_id": "nope"}, "no InfiniBand adapters"),
        ({"nvlink_domain_id": NVL}, "no NVLink domain"),
        ({"subnet_id": "nope"}, "no VPC subnet nope"),
        ({"ephemeral_storage_for_containerd": True}, "no local disk"),
        ({"reservation_specification": {}}, "exactly one of id"),
        ({"reservation_specification": {"id": RESERVATION}}, "is for h100-80gb-sxm-ib.8x"),
        ({"reservation_specification": {"id": "nope"}}, "no reservation nope"),
        ({"consent_mode": "off"}, "consent_mode is only available on CMK v2"),
        ({"update_settings": {"allow_scale_down": True}}, "update_settings is only available on CMK v2"),
        ({"autoscaling_config": {"enabled": False}}, "autoscaling_config is only available on CMK v2"),
        ({"min_count": 2}, "min_count: unknown field"),
    ],
)
async def test_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    cluster = await api.cluster()
    assert words in await api.refused(400, "POST", POOLS, {**body(cluster), **change})
    assert (await api.get(POOLS))["items"] == []
    assert (await api.get(VMS))["items"] == []


async def test_partition_must_fit(api: Api) -> None:
    cluster = await api.cluster()
    far = await api.partition(name="far", network=IB_ICELAND)
    wrong = await api.partition(name="wrong", network="00000000-0000-4000-8000-000000000102")
    near = await api.partition(name="near")
    asked = body(cluster, product_name=H100)
    assert "lies in eu-iceland1-a" in await api.refused(400, "POST", POOLS, {**asked, "ib_partition_id": far})
    two = {**asked, "ib_partition_id": near, "transport_partition_id": far}
    assert "different partitions" in await api.refused(400, "POST", POOLS, two)
    h200 = {**asked, "product_name": "h200-141gb-sxm-ib.8x", "ib_partition_id": wrong}
    assert "has no h200" in await api.refused(400, "POST", POOLS, h200)
    await api.pool(cluster, product_name=H100, transport_partition_id=near)


async def test_subnet_must_lie_in_the_cluster_s_network(api: Api) -> None:
    cluster = await api.cluster()
    other = await api.subnet(await api.network())
    assert "not in the VPC network" in await api.refused(400, "POST", POOLS, body(cluster, subnet_id=other))
    far = await api.subnet(await api.network(name="far"), name="far", location="eu-iceland1-a")
    assert "not in us-east1-a" in await api.refused(400, "POST", POOLS, body(cluster, subnet_id=far))


async def test_nvlink_domain(api: Api) -> None:
    cluster = await api.cluster(location="eu-iceland1-a")
    pool = await api.pool(cluster, count=20, product_name="gb200-186gb-nvl.4x", nvlink_domain_id=NVL)
    assert pool["nvlink_domain_id"] == NVL
    assert len(pool["instance_ids"]) == 18
    domains = (await api.get("{p}/networking/nvlink-domains"))["nvlink_domains"]
    assert [d["available_nodes"] for d in domains] == [0, 18]


async def test_terraform_s_update_keeps_what_it_does_not_name(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(
        cluster,
        node_labels={"role": "a"},
        node_taints=[{"key": "k", "effect": "NoSchedule"}],
        ssh_public_key="ssh-ed25519 AAAA",
    )
    result = succeeded(await api.patch(f"{POOLS}/{pool['id']}", terraform_update(pool, count=3)))
    # The result shows the pool as it was; what a client reads afterwards shows the change.
    assert (result["node_pool"]["id"], result["node_pool"]["count"]) == (pool["id"], 2)
    read = await api.read_pool(pool["id"])
    assert (read["count"], len(read["instance_ids"])) == (3, 3)
    for kept in ("node_taints", "node_labels", "image_id", "name", "reservation_id"):
        if kept != "node_labels":
            assert read[kept] == pool[kept]
    assert read["node_labels"]["role"] == "a"


@pytest.mark.parametrize(
    ("change", "labels", "taints"),
    [
        ({"node_labels": {}}, {}, 1),
        ({"node_labels": {"b": "2"}}, {"b": "2"}, 1),
        ({"node_labels": None}, {"a": "1"}, 1),
        ({"node_taints": []}, {"a": "1"}, 0),
        ({"node_taints": None}, {"a": "1"}, 1),
    ],
)
async def test_null_keeps_and_empty_clears(
    api: Api, change: dict[str, Any], labels: dict[str, str], taints: int
) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, node_labels={"a": "1"}, node_taints=[{"key": "k", "effect": "NoSchedule"}])
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", change))
    read = await api.read_pool(pool["id"])
    own = {key: value for key, value in read["node_labels"].items() if key in ("a", "b")}
    assert (own, len(read["node_taints"])) == (labels, taints)


async def test_changes_reach_new_vms_only(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, node_labels={"a": "1"})
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"node_labels": {"a": "2"}, "count": 3}))
    read = await api.read_pool(pool["id"])
    assert [row["using_latest_config"] for row in read["instance_details"]] == [False, False, True]
    assert [node.labels["a"] for node in api.plane.node_specs[cluster].values()] == ["1", "1", "2"]


async def test_empty_ssh_key_in_an_update_marks_every_node_out_of_date(api: Api) -> None:
    pool = await api.pool(await api.cluster(), ssh_public_key="ssh-ed25519 AAAA")
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", terraform_update(pool)))
    read = await api.read_pool(pool["id"])
    assert [row["using_latest_config"] for row in read["instance_details"]] == [False, False]
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 3}))
    newest = (await api.read_pool(pool["id"]))["instance_ids"][-1]
    assert (await api.admin("GET", f"vms/{newest}"))["configuration"]["ssh_public_key"] == "ssh-ed25519 AAAA"


async def test_version_that_was_read_means_keep(api: Api) -> None:
    pool = await api.pool(await api.cluster())
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"node_pool_version": pool["image_id"]}))
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"node_pool_version": V1}))
    assert (await api.read_pool(pool["id"]))["image_id"] == V1
    # Also one that is no longer on offer, or no version at all.
    kept = api.cloud.store.get("nodepool", pool["id"])
    assert kept is not None
    kept.body["image_id"] = "6f1c0a2e-0000-4000-8000-000000000000"
    api.cloud.store.save(kept)
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"node_pool_version": kept.body["image_id"]}))
    await api.refused(400, "PATCH", f"{POOLS}/{pool['id']}", {"node_pool_version": "1.35.5"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": "3"}, "count"),
        ({"name": "x"}, "name: unknown field"),
        ({"product_name": "c1a.4x"}, "product_name: unknown field"),
        ({"consent_mode": "off"}, "only available on CMK v2"),
        ({"action": "DANCE"}, "action"),
        ({"action": "RESERVE"}, "needs one"),
    ],
)
async def test_update_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    pool = await api.pool(await api.cluster())
    assert words in await api.refused(400, "PATCH", f"{POOLS}/{pool['id']}", change)
    assert await api.read_pool(pool["id"]) == pool


async def test_lowered_count_deletes_nothing(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, count=3)
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 1}))
    read = await api.read_pool(pool["id"])
    assert (read["count"], read["instance_ids"]) == (1, pool["instance_ids"])
    assert len(api.plane.node_specs[cluster]) == 3


async def test_shrinking_by_hand(api: Api) -> None:
    """Lower the count, then delete the VMs: none comes back."""
    cluster = await api.cluster()
    pool = await api.pool(cluster, count=3)
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 1}))
    for vm in pool["instance_ids"][1:]:
        succeeded(await api.delete(f"{VMS}/{vm}"))
    read = await api.read_pool(pool["id"])
    assert read["instance_ids"] == pool["instance_ids"][:1]
    assert len(api.plane.node_specs[cluster]) == 1
    await api.refused(404, "GET", f"{VMS}/{pool['instance_ids'][1]}")


async def test_a_vm_that_is_still_counted_is_replaced(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, count=2)
    succeeded(await api.delete(f"{VMS}/{pool['instance_ids'][0]}"))
    await settle(api)
    read = await api.read_pool(pool["id"])
    assert len(read["instance_ids"]) == 2
    assert pool["instance_ids"][0] not in read["instance_ids"]
    assert len(api.plane.node_specs[cluster]) == 2


async def test_a_vm_that_is_going_counts_no_more(api: Api) -> None:
    pool = await api.pool(await api.cluster(), count=2)
    await api.fault("DELETE .../instances/*", "stall-operation")
    await api.delete(f"{VMS}/{pool['instance_ids'][0]}")
    result = succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 2}))
    assert result["details"] == {"num_vms_created": 1}
    await api.admin("DELETE", "faults")
    await settle(api)
    assert len((await api.read_pool(pool["id"]))["instance_ids"]) == 2


async def test_replacement_is_not_met_by_the_fault_of_the_deletion(api: Api) -> None:
    pool = await api.pool(await api.cluster(), count=2)
    await api.fault("DELETE .../instances/*", "stall-operation")
    await api.delete(f"{VMS}/{pool['instance_ids'][0]}")
    await api.admin("DELETE", "faults")
    await settle(api)
    assert len((await api.read_pool(pool["id"]))["instance_ids"]) == 2


async def test_one_update_at_a_time(api: Api) -> None:
    pool = await api.pool(await api.cluster())
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    await api.patch(f"{POOLS}/{pool['id']}", {"count": 3})
    await api.refused(409, "PATCH", f"{POOLS}/{pool['id']}", {"count": 4})
    await api.refused(409, "POST", f"{POOLS}/{pool['id']}/rotate", {"strategy": "COUNT", "count": 1})


async def settle(api: Api) -> None:
    """Until nothing is in progress any more."""
    for _ in range(200):
        rows = api.cloud.store.connection.execute("SELECT count(*) FROM operations WHERE state = 'IN_PROGRESS'")
        if rows.fetchone()[0] == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("operations did not end")


async def test_vm_list(api: Api) -> None:
    pool = await api.pool(await api.cluster())
    items = (await api.get(VMS))["items"]
    assert [vm["id"] for vm in items] == pool["instance_ids"]
    assert {vm["state"] for vm in items} == {"STATE_RUNNING"}
    assert (await api.get(VMS, ids=items[0]["id"]))["items"] == items[:1]
    assert (await api.get(VMS, types=H100))["items"] == []
    assert await api.get(f"{VMS}/{items[0]['id']}") == items[0]
    assert items[0]["network_interfaces"][0]["ips"][0]["public_ipv4"]["type"] == "dynamic"


async def test_partial_capacity(api: Api) -> None:
    await api.admin("PUT", "capacities", {"vm_type": "c1a.8x", "location": "us-east1-a", "quantity": 1})
    cluster = await api.cluster()
    result = succeeded(await api.post(POOLS, body(cluster, count=3)))
    pool = result["node_pool"]
    # The count stays the one that was asked for; a lower one would taint the pool in Terraform.
    assert (pool["count"], len(pool["instance_ids"])) == (3, 1)
    assert result["details"] == {
        "error": "1 of 3 VMs could be started: insufficient capacity for c1a.8x in us-east1-a",
        "num_vms_created": 1,
    }
    await api.admin("PUT", "capacities", {"vm_type": "c1a.8x", "location": "us-east1-a", "quantity": 5})
    result = succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 3}))
    assert result["details"] == {"num_vms_created": 2}
    assert len((await api.read_pool(pool["id"]))["instance_ids"]) == 3


async def test_partial_capacity_on_demand(api: Api) -> None:
    await api.fault("POST .../nodepools", "partial-capacity", vms=1, times=1)
    cluster = await api.cluster()
    result = succeeded(await api.post(POOLS, body(cluster, count=3)))
    assert "1 of 3 VMs" in result["details"]["error"]
    assert len(result["node_pool"]["instance_ids"]) == 1
    await api.fault("PATCH .../nodepools/*", "partial-capacity", vms=0, times=1)
    path = f"{POOLS}/{result['node_pool']['id']}"
    assert succeeded(await api.patch(path, {"count": 3}))["details"]["num_vms_created"] == 0
    assert succeeded(await api.patch(path, {"count": 3}))["details"] == {"num_vms_created": 2}


async def test_ib_network_can_run_out(api: Api) -> None:
    await api.admin("PUT", "capacities", {"vm_type": H100, "ib_network_id": IB_EAST, "quantity": 1})
    pool = await api.pool(await api.cluster(), product_name=H100, ib_partition_id=await api.partition())
    assert len(pool["instance_ids"]) == 1
    network = await api.get(f"{{p}}/networking/ib-networks/{IB_EAST}")
    assert {"quantity": 0, "slice_type": H100} in network["capacities"]


async def test_reservation_can_run_out(api: Api) -> None:
    pool = await api.pool(
        await api.cluster(),
        product_name=H100,
        count=65,
        ib_partition_id=await api.partition(),
        reservation_specification={"id": RESERVATION},
    )
    assert len(pool["instance_ids"]) == 64


async def test_subnet_can_run_out(api: Api) -> None:
    default = next(n for n in (await api.get("{p}/networking/vpc-networks"))["items"])
    small = await api.subnet(default["id"], cidr="172.27.240.0/29")
    result = succeeded(await api.post(POOLS, body(await api.cluster(), count=4, subnet_id=small)))
    assert "no free addresses" in result["details"]["error"]
    assert len(result["node_pool"]["instance_ids"]) == 2


async def test_capacities_follow_what_runs(api: Api) -> None:
    async def free(name: str) -> tuple[int, int]:
        [row] = (await api.get("/capacities", product_name=name, location="us-east1-a"))["items"]
        return row["quantity"], row["num_slices"]

    before = await free("c1a.8x")
    pool = await api.pool(await api.cluster(), count=2)
    assert await free("c1a.8x") == (before[0] - 2, 8)
    succeeded(await api.delete(f"{POOLS}/{pool['id']}"))
    assert await free("c1a.8x") == before


async def test_quota(api: Api) -> None:
    await api.admin("PUT", "quotas", {"name": "c1a", "max": 24})
    cluster = await api.cluster()
    words = await api.refused(400, "POST", POOLS, body(cluster, count=4))
    assert "quota c1a" in words
    assert "0 of 24 used, 32 more needed" in words
    assert "capacity" not in words
    pool = await api.pool(cluster, count=2)
    [row] = [q for q in (await api.get("{p}/quotas"))["items"] if q["name"] == "c1a"]
    assert row == {"name": "c1a", "max": 24, "used": 16, "available": 8}
    assert "16 of 24 used" in await api.refused(400, "PATCH", f"{POOLS}/{pool['id']}", {"count": 4})
    assert "quota c1a" in await api.refused(
        400, "POST", POOLS, body(cluster, name="b", count=1, product_name="c1a.16x")
    )
    await api.pool(cluster, name="b", count=1)


async def test_quota_counts_what_operations_will_start(api: Api) -> None:
    await api.admin("PUT", "quotas", {"name": "c1a", "max": 24})
    cluster = await api.cluster()
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    await api.post(POOLS, body(cluster, count=2))
    await api.refused(400, "POST", POOLS, body(cluster, name="b", count=2))


async def test_failed_create_leaves_nothing(api: Api) -> None:
    cluster = await api.cluster()
    await api.fault("POST .../nodepools", "fail-operation", message="host trouble", times=1)
    assert failed(await api.post(POOLS, body(cluster))) == "host trouble"
    assert (await api.get(POOLS))["items"] == []
    assert (await api.get(VMS))["items"] == []


async def test_create_that_fails_half_way_leaves_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await api.cluster()

    def broken(_cluster: str, _nodes: object) -> None:
        raise ControlPlaneError("the API server does not answer")

    monkeypatch.setattr(api.plane, "apply_nodes", broken)
    assert failed(await api.post(POOLS, body(cluster))) == "the API server does not answer"
    assert (await api.get(POOLS))["items"] == []
    assert (await api.get(VMS))["items"] == []
    monkeypatch.undo()
    await api.pool(cluster)


async def test_update_that_fails_half_way_changes_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = await api.pool(await api.cluster(), node_labels={"a": "1"})

    def broken(_cluster: str, _nodes: object) -> None:
        raise ControlPlaneError("the API server does not answer")

    monkeypatch.setattr(api.plane, "apply_nodes", broken)
    failed(await api.patch(f"{POOLS}/{pool['id']}", {"count": 4, "node_labels": {"a": "2"}}))
    assert await api.read_pool(pool["id"]) == pool


async def test_a_dead_control_plane_keeps_no_pool_from_ending(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = await api.pool(await api.cluster())

    def dead(*_: object, **__: object) -> None:
        raise ControlPlaneError("the API server does not answer")

    monkeypatch.setattr(api.plane, "remove_nodes", dead)
    succeeded(await api.delete(f"{POOLS}/{pool['id']}"))
    assert (await api.get(VMS))["items"] == []


async def test_delete(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster)
    assert succeeded(await api.delete(f"{POOLS}/{pool['id']}")) is None
    await api.refused(404, "GET", f"{POOLS}/{pool['id']}")
    await api.refused(404, "DELETE", f"{POOLS}/{pool['id']}")
    assert (await api.get(VMS))["items"] == []
    assert api.plane.node_specs[cluster] == {}


async def test_names_are_unique(api: Api) -> None:
    cluster = await api.cluster()
    await api.pool(cluster)
    await api.refused(409, "POST", POOLS, body(cluster))


@pytest.mark.parametrize(
    "asked",
    [{"count": 1, "percentage": 0, "strategy": "COUNT"}, {"count": 0, "percentage": 50, "strategy": "percentage"}],
)
async def test_rotation_replaces_what_is_behind(api: Api, asked: dict[str, Any]) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, count=3, node_labels={"a": "1"})
    path = f"{POOLS}/{pool['id']}/rotate"
    assert await api.get(path) == {"state": "IDLE", "out_of_sync_instances": []}
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"node_labels": {"a": "2"}}))
    assert (await api.get(path))["out_of_sync_instances"] == pool["instance_ids"]
    succeeded(await api.post(path, asked))
    read = await api.read_pool(pool["id"])
    assert read["state"] == "STATE_RUNNING"
    assert not set(read["instance_ids"]) & set(pool["instance_ids"])
    assert len(read["instance_ids"]) == 3
    assert {node.labels["a"] for node in api.plane.node_specs[cluster].values()} == {"2"}
    assert len(api.plane.drained) == 3


@pytest.mark.parametrize(
    "asked",
    [
        {"strategy": "COUNT", "count": 0, "percentage": 0},
        {"strategy": "COUNT", "count": 11, "percentage": 0},
        {"strategy": "PERCENTAGE", "count": 0, "percentage": 101},
        {"strategy": "sideways", "count": 1},
    ],
)
async def test_rotation_refusals(api: Api, asked: dict[str, Any]) -> None:
    pool = await api.pool(await api.cluster())
    await api.refused(400, "POST", f"{POOLS}/{pool['id']}/rotate", asked)


async def test_rotation_can_be_cancelled(api: Api) -> None:
    pool = await api.pool(await api.cluster())
    path = f"{POOLS}/{pool['id']}"
    assert await api.post(f"{path}/cancel-rotate") == {"no_rotate_in_progress": True}
    succeeded(await api.patch(path, {"node_labels": {"a": "2"}}))
    await api.admin("PATCH", "settings", {"operation_seconds": 0.05})
    await api.post(f"{path}/rotate", {"strategy": "COUNT", "count": 1})
    assert (await api.read_pool(pool["id"]))["state"] == "STATE_ROTATING"
    assert await api.post(f"{path}/cancel-rotate") == {"no_rotate_in_progress": False}
    await settle(api)
    assert (await api.read_pool(pool["id"]))["instance_ids"] == pool["instance_ids"]


async def test_reserve_and_unreserve(api: Api) -> None:
    pool = await api.pool(await api.cluster(), product_name=H100, ib_partition_id=await api.partition())
    path = f"{POOLS}/{pool['id']}"
    succeeded(await api.patch(path, {"action": "RESERVE", "reservation_id": RESERVATION}))
    assert (await api.read_pool(pool["id"]))["reservation_id"] == RESERVATION
    assert {vm["reservation_id"] for vm in (await api.get(VMS))["items"]} == {RESERVATION}
    succeeded(await api.patch(path, {"action": "UNRESERVE"}))
    assert (await api.read_pool(pool["id"]))["reservation_id"] == ""


async def test_cluster_lists_its_pools(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster)
    assert (await api.get(f"{{p}}/kubernetes/clusters/{cluster}"))["node_pools"] == [pool["id"]]
