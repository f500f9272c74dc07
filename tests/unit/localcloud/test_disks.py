"""Disks: sizes, growth, quota."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.localcloud.conftest import Api, succeeded

DISKS = "{p}/storage/disks"


def disk(**more: Any) -> dict[str, Any]:
    return {"name": "d", "location": "us-east1-a", "type": "persistent-ssd", "size": "100GiB", **more}


async def test_persistent_disk(api: Api) -> None:
    made = succeeded(await api.post(DISKS, disk()))
    assert {key: made[key] for key in disk()} == disk()
    assert made["block_size"] == 4096
    assert made["attached_to"] == []
    assert "dns_name" not in made
    assert await api.get(f"{DISKS}/{made['id']}") == made
    grown = succeeded(await api.patch(f"{DISKS}/{made['id']}", {"size": "1TiB"}))
    assert grown["size"] == "1TiB"
    assert (await api.get(DISKS))["items"] == [grown]
    assert succeeded(await api.delete(f"{DISKS}/{made['id']}")) is None
    await api.refused(404, "GET", f"{DISKS}/{made['id']}")


async def test_shared_disk_can_be_mounted(api: Api) -> None:
    made = succeeded(await api.post(DISKS, disk(type="shared-volume", size="10TiB")))
    assert made["dns_name"]
    assert made["vips"] == ["172.27.255.2", "172.27.255.17"]


async def test_type_has_a_default(api: Api) -> None:
    body = {key: value for key, value in disk().items() if key != "type"}
    assert succeeded(await api.post(DISKS, body))["type"] == "persistent-ssd"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": "100"}, "GiB or TiB"),
        ({"size": "0GiB"}, "GiB or TiB"),
        ({"size": "1.5TiB"}, "GiB or TiB"),
        ({"size": "11TiB"}, "size: 11TiB does not fit persistent-ssd"),
        ({"type": "shared-volume", "size": "1500GiB"}, "steps of 1024 GiB"),
        ({"type": "shared-volume", "size": "1001TiB"}, "does not fit shared-volume"),
        ({"type": "floppy"}, "type"),
        ({"location": "mars"}, "location"),
        ({"block_size": 1024}, "block_size"),
        ({"snapshot_id": "s"}, "no snapshot"),
    ],
)
async def test_refusals(api: Api, change: dict[str, Any], words: str) -> None:
    assert words in await api.refused(400, "POST", DISKS, disk(**change))


async def test_a_disk_never_shrinks(api: Api) -> None:
    made = succeeded(await api.post(DISKS, disk(size="1TiB")))
    assert "can only grow" in await api.refused(400, "PATCH", f"{DISKS}/{made['id']}", {"size": "1023GiB"})
    assert succeeded(await api.patch(f"{DISKS}/{made['id']}", {"size": "1024GiB"}))["size"] == "1024GiB"


async def test_quota_counts_gib_of_what_exists(api: Api) -> None:
    await api.admin("PUT", "quotas", {"name": "persistent-ssd", "max": 150})
    made = succeeded(await api.post(DISKS, disk()))
    words = await api.refused(400, "POST", DISKS, disk(name="e"))
    assert "quota persistent-ssd" in words
    assert "100 of 150 used, 100 more needed" in words
    await api.refused(400, "PATCH", f"{DISKS}/{made['id']}", {"size": "151GiB"})
    succeeded(await api.patch(f"{DISKS}/{made['id']}", {"size": "150GiB"}))
    succeeded(await api.delete(f"{DISKS}/{made['id']}"))
    succeeded(await api.post(DISKS, disk(name="e")))
