"""Which claims the drivers serve, what they refuse, and the volumes they make."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.in_cluster import csi
from localcloud.in_cluster.csi import DRIVERS, CannotProvisionError
from tests.unit.localcloud_in_cluster.support import FS, SSD, Json, claim, disk, storage_class

WAITS = storage_class(volumeBindingMode="WaitForFirstConsumer")


@pytest.mark.parametrize(
    ("item", "of_class", "expected"),
    [
        (claim(), storage_class(), True),
        (claim(), WAITS, False),
        (claim(annotations={csi.SELECTED_NODE: "node"}), WAITS, True),
        (claim(driver="example.com/other"), storage_class("example.com/other"), False),
        (claim(driver=FS), storage_class(SSD), False),
        (claim(volumeName="by-hand"), storage_class(), False),
        (claim(storageClassName="unknown"), storage_class(), False),
    ],
)
def test_a_claim_is_served_when_its_time_has_come(item: Json, of_class: Json, expected: bool) -> None:
    found = csi.to_provision([item], {"fast": of_class})
    assert found == ([(item, of_class, DRIVERS[SSD])] if expected else [])


def test_a_claim_that_is_being_deleted_gets_nothing() -> None:
    item = claim()
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert csi.to_provision([item], {"fast": storage_class()}) == []


@pytest.mark.parametrize(("asked", "gib"), [("1Gi", 1), ("1.5Gi", 2), ("10G", 10), ("10Ti", 10240)])
def test_sizes_are_rounded_up_to_whole_gib(asked: str, gib: int) -> None:
    assert csi.disk_gib(claim(asked), DRIVERS[SSD]) == gib


@pytest.mark.parametrize(
    ("driver", "size", "more", "words"),
    [
        (SSD, "1Mi", {}, "too small"),
        (SSD, "10241Gi", {}, "too large"),
        (FS, "1023Gi", {}, "too small"),
        (FS, "1001Ti", {}, "too large"),
        (SSD, "1Gi", {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}, "access mode not supported: ReadOnlyMany"),
        (FS, "1Ti", {"volumeMode": "Block"}, "block"),
        (SSD, "1Gi", {"dataSource": {"kind": "VolumeSnapshot"}}, "snapshots and clones"),
        (SSD, "1Gi", {"selector": {"matchLabels": {"disk": "old"}}}, "selectors"),
    ],
)
def test_refusals(driver: str, size: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotProvisionError, match=words):
        csi.disk_gib(claim(size, driver=driver, **more), DRIVERS[driver])


def test_what_is_allowed() -> None:
    assert csi.disk_gib(claim("1Gi", volumeMode="Block"), DRIVERS[SSD]) == 1
    assert csi.disk_gib(claim("1Ti", driver=FS, accessModes=["ReadWriteMany"]), DRIVERS[FS]) == 1024


def test_the_volume_of_a_claim() -> None:
    of_class = storage_class(FS, reclaimPolicy="Retain", mountOptions=["nconnect=16"])
    item = claim("1Ti", driver=FS, accessModes=["ReadWriteMany"])
    made = csi.volume(item, of_class, DRIVERS[FS], disk("1024GiB"))
    assert made["metadata"]["name"] == f"pvc-{item['metadata']['uid']}"
    assert made["metadata"]["finalizers"] == [csi.FINALIZER]
    spec = made["spec"]
    assert spec["capacity"] == {"storage": "1024Gi"}
    assert spec["claimRef"]["uid"] == item["metadata"]["uid"]
    assert (spec["persistentVolumeReclaimPolicy"], spec["mountOptions"]) == ("Retain", ["nconnect=16"])
    assert (spec["csi"]["driver"], spec["csi"]["volumeHandle"]) == (FS, "disk-id")
    [term] = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert {(one["key"], one["values"][0]) for one in term["matchExpressions"]} == {
        ("fs.csi.crusoe.ai/location", "us-east1-a"),
        ("fs.csi.crusoe.ai/supports-shared-disks", "true"),
    }


def test_a_persistent_disk_is_bound_to_its_location_only_and_deleted_by_default() -> None:
    spec = csi.volume(claim(), storage_class(), DRIVERS[SSD], disk())["spec"]
    [term] = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [one["key"] for one in term["matchExpressions"]] == ["ssd.csi.crusoe.ai/location"]
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert "fsType" not in csi.volume(claim(volumeMode="Block"), storage_class(), DRIVERS[SSD], disk())["spec"]["csi"]


def released(policy: str = "Delete", phase: str = "Released", *, leaving: bool = False, by: str = SSD) -> Json:
    made = csi.volume(claim(), storage_class(reclaimPolicy=policy), DRIVERS[SSD], disk())
    made["metadata"]["annotations"][csi.PROVISIONED_BY] = by
    if leaving:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {**made, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (released(), True),
        (released(phase="Bound"), False),
        (released("Retain"), False),
        (released("Retain", leaving=True), True),
        (released("Retain", "Bound", leaving=True), False),
        (released(by="somebody"), False),
    ],
)
def test_which_volumes_are_released(item: Json, expected: bool) -> None:
    assert csi.to_release([item]) == ([(item, DRIVERS[SSD])] if expected else [])


@pytest.mark.parametrize(("asked", "expected"), [("10Gi", False), ("11Gi", True)])
def test_a_bound_claim_that_asks_for_more_grows(asked: str, expected: bool) -> None:
    item = claim(asked, volumeName="pv")
    item["status"] = {"phase": "Bound", "capacity": {"storage": "10Gi"}}
    bound = csi.volume(claim(), storage_class(), DRIVERS[SSD], disk())
    assert csi.to_grow([item], {"pv": bound}) == ([(item, bound, DRIVERS[SSD])] if expected else [])
    assert csi.to_grow([item], {}) == []
