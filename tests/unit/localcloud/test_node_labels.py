"""What topology-aware schedulers read from nodes."""

from __future__ import annotations

from collections import Counter

from tests.unit.localcloud.conftest import Api

H100 = "h100-80gb-sxm-ib.8x"
DOMAIN = "00000000-0000-4000-8000-000000000201"
POOLS = "{p}/kubernetes/nodepools"


async def test_an_infiniband_pod_holds_at_most_32_vms_and_is_filled_before_the_next(api: Api) -> None:
    cluster = await api.cluster()
    partition = await api.partition()
    await api.pool(cluster, name="a", product_name=H100, count=40, ib_partition_id=partition)
    await api.pool(cluster, name="b", product_name=H100, count=30, ib_partition_id=partition)
    pods = Counter(node.labels["crusoe.ai/pod.id"] for node in api.plane.node_specs[cluster].values())
    assert sorted(pods.values()) == [6, 32, 32]


async def test_room_in_an_infiniband_pod_is_used_again(api: Api) -> None:
    cluster = await api.cluster()
    partition = await api.partition()
    first = await api.pool(cluster, name="a", product_name=H100, count=32, ib_partition_id=partition)
    before = {node.labels["crusoe.ai/pod.id"] for node in api.plane.node_specs[cluster].values()}
    await api.delete(f"{POOLS}/{first['id']}")
    await api.pool(cluster, name="b", product_name=H100, count=2, ib_partition_id=partition)
    assert {node.labels["crusoe.ai/pod.id"] for node in api.plane.node_specs[cluster].values()} == before


async def test_nodes_of_an_nvlink_domain_share_its_clique(api: Api) -> None:
    cluster = await api.cluster(location="eu-iceland1-a", add_ons=["nvidia_gpu_operator"])
    pool = {"product_name": "gb200-186gb-nvl.4x", "nvlink_domain_id": DOMAIN}
    await api.pool(cluster, **pool, count=2)
    cliques = [node.labels["nvidia.com/gpu.clique"] for node in api.plane.node_specs[cluster].values()]
    assert cliques == [f"{DOMAIN}.0"] * 2


async def test_there_is_no_clique_without_the_operator_that_finds_it(api: Api) -> None:
    cluster = await api.cluster(location="eu-iceland1-a")
    await api.pool(cluster, product_name="gb200-186gb-nvl.4x", nvlink_domain_id=DOMAIN, count=1)
    [node] = api.plane.node_specs[cluster].values()
    assert "nvidia.com/gpu.clique" not in node.labels


async def test_region_and_zone_are_the_location(api: Api) -> None:
    cluster = await api.cluster()
    await api.pool(cluster, count=1)
    [node] = api.plane.node_specs[cluster].values()
    assert node.labels["topology.kubernetes.io/region"] == "us-east1-a"
    assert node.labels["topology.kubernetes.io/zone"] == "us-east1-a"


async def test_the_amd_network_operator_announces_network_interfaces(api: Api) -> None:
    cluster = await api.cluster(version="1.33.4-cmk.93", add_ons=["amd_gpu_operator", "amd_network_operator"])
    partition = await api.partition(network="00000000-0000-4000-8000-000000000102")
    await api.pool(cluster, product_name="mi300x-192gb-ib.8x", count=1, ib_partition_id=partition)
    [node] = api.plane.node_specs[cluster].values()
    assert dict(node.extended_resources) == {"amd.com/gpu": 8, "amd.com/vnics": 8}
