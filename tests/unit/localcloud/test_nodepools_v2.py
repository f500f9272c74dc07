"""What node pools of CMK v2 have that those of v1 don't, and the other way round."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.localcloud.conftest import V2, Api, succeeded
from tests.unit.localcloud.test_nodepools import POOLS, body, terraform_update

pytestmark = pytest.mark.parametrize("version", [V2, "1.34.8"])


async def test_answers(api: Api, version: str) -> None:
    pool = await api.pool(await api.cluster(version=version))
    assert pool["consent_mode"] == "propose"
    assert pool["update_settings"] == {"allow_scale_down": False}
    assert pool["autoscaling_config"] == {"enabled": False, "min_node_size": 0, "max_node_size": 0}
    assert (pool["current"], pool["health"]) == (2, {"issues": []})
    assert pool["image_id"] == version


@pytest.mark.parametrize("mode", ["auto", "propose", "off"])
async def test_consent_mode(api: Api, version: str, mode: str) -> None:
    pool = await api.pool(await api.cluster(version=version), consent_mode=mode)
    assert pool["consent_mode"] == mode
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"consent_mode": "off"}))
    assert (await api.read_pool(pool["id"]))["consent_mode"] == "off"
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"consent_mode": None, "count": 2}))
    assert (await api.read_pool(pool["id"]))["consent_mode"] == "off"
    await api.refused(400, "PATCH", f"{POOLS}/{pool['id']}", {"consent_mode": "detect_only"})


@pytest.mark.parametrize("allowed", [True, False])
async def test_scale_down_only_where_it_is_allowed(api: Api, version: str, allowed: bool) -> None:
    cluster = await api.cluster(version=version)
    pool = await api.pool(cluster, count=3, update_settings={"allow_scale_down": allowed})
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 1}))
    read = await api.read_pool(pool["id"])
    left = 1 if allowed else 3
    assert (read["count"], read["instance_ids"]) == (1, pool["instance_ids"][:left])
    assert len(api.plane.node_specs[cluster]) == left
    assert len(api.plane.drained) == 3 - left
    assert len((await api.get("{p}/compute/vms/instances"))["items"]) == left


async def test_scale_down_can_be_allowed_with_the_count(api: Api, version: str) -> None:
    pool = await api.pool(await api.cluster(version=version), count=3)
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"count": 2, "update_settings": {"allow_scale_down": True}}))
    assert len((await api.read_pool(pool["id"]))["instance_ids"]) == 2


async def test_autoscaling(api: Api, version: str) -> None:
    cluster = await api.cluster(version=version)
    bounds = {"enabled": True, "min_node_size": 2, "max_node_size": 8}
    assert "outside autoscaling_config" in await api.refused(
        400, "POST", POOLS, body(cluster, count=9, autoscaling_config=bounds)
    )
    for wrong in ({**bounds, "max_node_size": 1}, {**bounds, "min_node_size": -1}, {"enabled": "yes"}):
        await api.refused(400, "POST", POOLS, body(cluster, autoscaling_config=wrong))
    pool = await api.pool(cluster, autoscaling_config=bounds)
    assert pool["autoscaling_config"] == bounds
    # The autoscaler moves the count by itself, in both directions.
    for count in (7, 3):
        await api.admin("PUT", f"nodepools/{pool['id']}/count", {"count": count})
        read = await api.read_pool(pool["id"])
        assert (read["count"], len(read["instance_ids"])) == (count, count)
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", {"node_labels": {"a": "b"}}))
    assert (await api.read_pool(pool["id"]))["count"] == 3


async def test_shortage_shows_in_health(api: Api, version: str) -> None:
    await api.admin("PUT", "capacities", {"vm_type": "c1a.8x", "location": "us-east1-a", "quantity": 1})
    pool = await api.pool(await api.cluster(version=version), count=3)
    assert (pool["count"], pool["current"], pool["state"]) == (3, 1, "STATE_DEGRADED")
    [issue] = pool["health"]["issues"]
    assert (issue["code"], issue["affected_count"]) == ("INSUFFICIENT_CAPACITY", 2)
    assert "insufficient capacity for c1a.8x" in issue["message"]


async def test_terraform_s_update_loses_the_ssh_key(api: Api, version: str) -> None:
    pool = await api.pool(await api.cluster(version=version), ssh_public_key="ssh-ed25519 AAAA", count=1)
    succeeded(await api.patch(f"{POOLS}/{pool['id']}", terraform_update(pool, count=2)))
    old, new = (await api.read_pool(pool["id"]))["instance_ids"]
    assert (await api.admin("GET", f"vms/{old}"))["configuration"]["ssh_public_key"] == "ssh-ed25519 AAAA"
    assert (await api.admin("GET", f"vms/{new}"))["configuration"]["ssh_public_key"] == ""


@pytest.mark.parametrize("call", [("POST", "rotate"), ("GET", "rotate"), ("POST", "cancel-rotate")])
async def test_no_rotation(api: Api, version: str, call: tuple[str, str]) -> None:
    pool = await api.pool(await api.cluster(version=version))
    sent: dict[str, Any] | None = {"strategy": "COUNT", "count": 1} if call == ("POST", "rotate") else None
    words = await api.refused(400, call[0], f"{POOLS}/{pool['id']}/{call[1]}", sent)
    assert "rotation is only available on CMK v1" in words


async def test_version_of_the_other_generation(api: Api, version: str) -> None:
    cluster = await api.cluster(version=version)
    words = await api.refused(400, "POST", POOLS, body(cluster, node_pool_version="1.33.4-cmk.43"))
    assert "belongs to CMK v1, the cluster to CMK v2" in words
