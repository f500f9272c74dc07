"""Golden files of Slinky's objects: what is written into a cluster, whole, for a reviewer's eye.

Written anew by `python -m tests.unit.components.slurm.test_objects`; then read the difference.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.unit.components.support import Json, deploy_platform, settings_document

GOLDEN = Path(__file__).parent / "golden"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExample ada"
OBJECTS = {
    "controller": "controller",
    "accounting": "accounting",
    "restapi": "restapi",
    "login": "loginset",
    "nodeset-train": "nodeset",
    "token-metrics": "token",
    "database": "mariadb",
    "login-service": "login-service",
}
"""Logical names, below the Slurm component's, and their files."""


@cache
def written() -> dict[str, str]:
    """Each object of a platform with everything that is usual, as YAML."""
    slurm: Json = {
        "login": {"cidrs": ["203.0.113.0/24"]},
        "home": {"disk": "home", "mounts": {"data": "/data"}},
        "people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}},
    }
    disks = {"home": {"size": "2TiB"}, "data": {"size": "10TiB"}}
    deployment = deploy_platform(settings_document(storage={"disks": disks}, slurm=slurm))
    found: dict[str, str] = {}
    for name, file in OBJECTS.items():
        inputs = deployment.one(f"platform-slurm-slinky-{name}").inputs
        found[f"{file}.yaml"] = yaml.safe_dump(dict(inputs), sort_keys=True, width=110)
    return found


@pytest.mark.parametrize("file", [f"{file}.yaml" for file in OBJECTS.values()])
def test_an_object_is_as_it_was_read_last(file: str) -> None:
    assert written()[file] == (GOLDEN / file).read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, text in written().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
