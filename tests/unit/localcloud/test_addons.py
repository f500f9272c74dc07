"""Add-ons of CMK v2, installed after creation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.localcloud.conftest import H100, V2, Api


async def addons_path(api: Api) -> tuple[str, str]:
    cluster = await api.cluster(version=V2)
    return cluster, f"{{p}}/kubernetes/clusters/{cluster}/addons"


def by_type(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["addon_type"]: row for row in answer["addons"]}


async def test_install_and_remove(api: Api) -> None:
    cluster, path = await addons_path(api)
    assert set(by_type(await api.get(path))) == {"crusoe_csi"}
    await api.pool(cluster, product_name=H100, count=1, ib_partition_id=await api.partition())

    def resources() -> dict[str, int]:
        [node] = api.plane.node_specs[cluster].values()
        return dict(node.extended_resources)

    assert resources() == {}
    await api.post(path, {"addons": [{"addon_type": "nvidia_gpu_operator"}]})
    assert by_type(await api.get(path))["nvidia_gpu_operator"] == {
        "addon_type": "nvidia_gpu_operator",
        "category": "optional",
        "version": "25.10.1",
        "installed_version": "25.10.1",
        "status": "installed",
        "ready": True,
    }
    assert resources() == {"nvidia.com/gpu": 8}
    assert api.plane.clusters[cluster].add_ons == ("crusoe_csi", "nvidia_gpu_operator")
    await api.post(path, {"addons": [{"addon_type": "nvidia_gpu_operator", "version": "25.3.4"}]})
    assert by_type(await api.get(path))["nvidia_gpu_operator"]["installed_version"] == "25.3.4"
    await api.delete(f"{path}/nvidia_gpu_operator")
    assert set(by_type(await api.get(path))) == {"crusoe_csi"}
    assert resources() == {}
    await api.refused(404, "DELETE", f"{path}/nvidia_gpu_operator")


async def test_ready_some_time_after_the_answer(api: Api) -> None:
    _, path = await addons_path(api)
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    answer = await api.post(path, {"addons": [{"addon_type": "cluster_autoscaler"}]})
    row = by_type(answer)["cluster_autoscaler"]
    assert (row["version"], row["installed_version"], row["status"], row["ready"]) == (
        "1.35.0",
        "",
        "installing",
        False,
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"addons": []}, "addons"),
        ({"addons": [{"addon_type": "slurm"}]}, "known are crusoe_csi"),
        ({"addons": [{"addon_type": "crusoe_csi", "version": "9"}]}, "has no version 9"),
        ({"add_ons": ["crusoe_csi"]}, "add_ons: unknown field"),
    ],
)
async def test_refusals(api: Api, body: dict[str, Any], words: str) -> None:
    _, path = await addons_path(api)
    assert words in await api.refused(400, "POST", path, body)


async def test_preinstalled_ones_stay(api: Api) -> None:
    _, path = await addons_path(api)
    assert "can't be removed" in await api.refused(400, "DELETE", f"{path}/crusoe_csi")


async def test_not_on_v1(api: Api) -> None:
    path = f"{{p}}/kubernetes/clusters/{await api.cluster()}/addons"
    for method, sent in (("GET", None), ("POST", {"addons": [{"addon_type": "crusoe_csi"}]})):
        assert "only available on CMK v2" in await api.refused(400, method, path, sent)


async def test_catalogue_comes_in_pages(api: Api) -> None:
    _, path = await addons_path(api)
    whole = await api.get("{p}/kubernetes/addons/available", kubernetes_version="1.35")
    assert whole["next_page_token"] == ""
    assert await api.get(f"{path}/available") == whole
    names: list[str] = []
    token = ""
    while True:
        page = await api.get(f"{path}/available", page_size="3", page_token=token)
        names += [row["addon_type"] for row in page["addons"]]
        token = page["next_page_token"]
        if not token:
            break
    assert names == [row["addon_type"] for row in whole["addons"]]
    assert {row["removable"] for row in whole["addons"] if row["category"] == "preinstalled"} == {False}
    await api.refused(400, "GET", f"{path}/available", page_size="501")
