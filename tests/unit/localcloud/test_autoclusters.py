"""AutoClusters of CMK v1: the configuration merges, defaults may change, repairs leave a history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.localcloud.conftest import H100, V2, Api, succeeded


async def config_path(api: Api, **more: Any) -> str:
    return f"{{p}}/kubernetes/clusters/{await api.cluster(**more)}/autoclusters/config"


def rows(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["issue_name"]: row for row in config["remediation_configs"]}


async def test_defaults(api: Api) -> None:
    config = await api.get(await config_path(api))
    found = rows(config)
    assert found["XID_74"] == {"issue_name": "XID_74", "default_action": "OFF", "effective_action": "OFF"}
    # Some defaults act, so that a client that says nothing is caught.
    assert found["GPU_FELL_OFF_THE_BUS"]["effective_action"] == "REPLACE_NODE"
    actions = [row["default_action"] for row in found.values()]
    assert actions.count("OFF") > actions.count("REPLACE_NODE") > 0
    assert config["fallback_to_project_reservations"] is False


async def test_overrides_merge(api: Api) -> None:
    path = await config_path(api)
    set_two = [{"issue_name": "XID_74", "action": "REPLACE_NODE"}, {"issue_name": "XID_79", "action": "OFF"}]
    config = await api.patch(path, {"set_remediation_overrides": set_two})
    assert rows(config)["XID_74"] == {
        "issue_name": "XID_74",
        "default_action": "OFF",
        "user_override": "REPLACE_NODE",
        "effective_action": "REPLACE_NODE",
    }
    config = await api.patch(path, {"remove_remediation_overrides": ["XID_74"]})
    assert "user_override" not in rows(config)["XID_74"]
    assert rows(config)["XID_79"]["user_override"] == "OFF"
    assert await api.get(path) == config


async def test_fallback_stays_when_absent(api: Api) -> None:
    path = await config_path(api)
    assert (await api.patch(path, {"fallback_to_project_reservations": True}))["fallback_to_project_reservations"]
    assert (await api.patch(path, {"set_remediation_overrides": []}))["fallback_to_project_reservations"] is True
    config = await api.patch(path, {"fallback_to_project_reservations": False})
    assert config["fallback_to_project_reservations"] is False


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"set_remediation_overrides": [{"issue_name": "XID_7", "action": "OFF"}]}, "known are GPU_FELL_OFF_THE_BUS"),
        ({"remove_remediation_overrides": ["XID_7"]}, "'XID_7' is unknown"),
        ({"set_remediation_overrides": [{"issue_name": "XID_74", "action": "RESTART"}]}, "action"),
        (
            {
                "set_remediation_overrides": [{"issue_name": "XID_74", "action": "OFF"}],
                "remove_remediation_overrides": ["XID_74"],
            },
            "both set and removed",
        ),
        ({"overrides": {}}, "overrides: unknown field"),
        ({"fallback_to_project_reservations": "no"}, "fallback_to_project_reservations"),
    ],
)
async def test_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    path = await config_path(api)
    before = await api.get(path)
    assert words in await api.refused(400, "PATCH", path, change)
    assert await api.get(path) == before


async def test_an_issue_can_appear_later(api: Api) -> None:
    path = await config_path(api)
    await api.admin("PUT", "autoclusters/issues", {"issue_name": "XID_200", "default_action": "REPLACE_NODE"})
    assert rows(await api.get(path))["XID_200"]["effective_action"] == "REPLACE_NODE"
    await api.patch(path, {"set_remediation_overrides": [{"issue_name": "XID_200", "action": "OFF"}]})
    await api.admin("PUT", "autoclusters/issues", {"issue_name": "XID_74", "default_action": "REPLACE_NODE"})
    found = rows(await api.get(path))
    assert (found["XID_200"]["effective_action"], found["XID_74"]["effective_action"]) == ("OFF", "REPLACE_NODE")


@pytest.mark.parametrize(
    ("version", "words"),
    [(V2, "only available on CMK v1"), ("1.33.4-cmk.13", "does not support AutoClusters")],
)
async def test_clusters_without_it(api: Api, version: str, words: str) -> None:
    path = await config_path(api, version=version)
    assert words in await api.refused(400, "GET", path)
    assert words in await api.refused(400, "PATCH", path, {})


async def test_configuration_is_per_cluster(api: Api) -> None:
    one, two = await config_path(api, name="one"), await config_path(api, name="two")
    await api.patch(one, {"set_remediation_overrides": [{"issue_name": "XID_74", "action": "REPLACE_NODE"}]})
    assert rows(await api.get(two))["XID_74"]["effective_action"] == "OFF"


async def test_remediation_by_hand_replaces_the_vm(api: Api) -> None:
    cluster = await api.cluster()
    pool = await api.pool(cluster, product_name=H100, ib_partition_id=await api.partition())
    sick = pool["instance_ids"][0]
    started = await api.post(f"{{p}}/kubernetes/clusters/{cluster}/autoclusters/vms/{sick}/remediate")
    succeeded(started)
    read = await api.read_pool(pool["id"])
    assert sick not in read["instance_ids"]
    assert len(read["instance_ids"]) == 2
    assert len(api.plane.drained) == 1
    history = "{p}/kubernetes/autocluster-operations"
    [item] = (await api.get(history))["items"]
    assert item["metadata"] == {
        "cluster_id": cluster,
        "vm_id": sick,
        "operation_type": "replace_node",
        "remediation_state": "succeeded",
    }
    assert await api.get(f"{history}/{item['operation_id']}") == item
    assert (await api.get(history, cluster_id="other"))["items"] == []
    assert (await api.get(history, operation_type="replace_node", state="SUCCEEDED"))["items"] == [item]
    assert (await api.get(history, lower_bound="2999-01-01T00:00:00Z"))["items"] == []
    await api.refused(403, "GET", f"{history}/nope")


async def test_remediation_refusals(api: Api) -> None:
    cluster, other = await api.cluster(), await api.cluster(name="other")
    pool = await api.pool(cluster)
    vm = pool["instance_ids"][0]

    def path(owner: str, vm_id: str) -> str:
        return f"{{p}}/kubernetes/clusters/{owner}/autoclusters/vms/{vm_id}/remediate"

    assert "shares its host" in await api.refused(400, "POST", path(cluster, vm))
    assert "does not belong" in await api.refused(400, "POST", path(other, vm))
    await api.refused(404, "POST", path(cluster, "nope"))
