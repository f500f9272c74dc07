"""Disks: protected, named by stack, and refused when the service could not make them."""

from __future__ import annotations

import pytest

from tests.unit.components.support import deploy_platform, faults, settings_document


def test_disks() -> None:
    disks = {"home": {"size": "10TiB"}, "scratch": {"type": "persistent-ssd", "size": "100GiB", "name": "mine"}}
    deployment = deploy_platform(settings_document(storage={"disks": disks}))
    home, scratch = deployment.one("platform-storage-home"), deployment.one("platform-storage-scratch")
    assert home.inputs == {
        "name": "test-home",
        "location": "us-east1-a",
        "type": "shared-volume",
        "size": "10TiB",
        "adoptExisting": True,
    }
    assert scratch.inputs == {
        "name": "mine",
        "location": "us-east1-a",
        "type": "persistent-ssd",
        "size": "100GiB",
        "adoptExisting": False,
    }
    assert home.protect
    assert scratch.protect
    assert deployment.exports["diskIds"] == {
        "home": "platform-storage-home-id",
        "scratch": "platform-storage-scratch-id",
    }


@pytest.mark.parametrize(
    ("disk", "path", "problem"),
    [
        ({"size": "10TB"}, "home.size", "not a size"),
        ({"size": "1500GiB"}, "home.size", "not a whole number of TiB"),
        ({"type": "persistent-ssd", "size": "11TiB"}, "home.size", "more than a persistent disk"),
        ({"type": "nvme", "size": "1TiB"}, "home.type", "not one of the known values"),
        ({"size": "1TiB", "name": "A"}, "home", "other characters"),
    ],
)
def test_refused(disk: dict[str, object], path: str, problem: str) -> None:
    found = faults(settings_document(storage={"disks": {"home": disk}}))
    assert problem in found[f"platform.storage.disks.{path}"], found


def test_no_two_disks_have_one_name() -> None:
    disks = {"a": {"size": "1TiB"}, "b": {"size": "1TiB", "name": "test-a"}}
    assert "already that of" in faults(settings_document(storage={"disks": disks}))["platform.storage.disks.b.name"]
