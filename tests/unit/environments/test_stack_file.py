"""A stack's file: whole or not at all, and never in another's place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from components.settings import SettingsError
from environments import stack_file
from environments.stack_file import ExistsError, UnreadableError

PLATFORM = {
    "cloud": {"project": "research"},
    "location": "us-east1-a",
    "cluster": {"version": "1.33.4-cmk.43"},
    "nodePools": {"system": {"type": "c1a.8x", "count": 2}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: crusoe-gpu-platform\n")
    return tmp_path


def test_what_is_written_is_read_again(folder: Path) -> None:
    path = stack_file.write(folder, "new", PLATFORM, backend="s3://state", secrets_provider="passphrase")
    found = stack_file.read(folder, "new")
    assert found.settings.location == "us-east1-a"
    assert found.config["state:backend"] == "s3://state"
    assert found.secrets_provider == "passphrase"
    assert path.stat().st_mode & 0o777 == 0o644
    assert {each.name for each in folder.iterdir()} == {"Pulumi.yaml", "Pulumi.new.yaml"}


def test_a_file_that_is_there_stays(folder: Path) -> None:
    path = folder / "Pulumi.new.yaml"
    path.write_text("mine")
    with pytest.raises(ExistsError):
        stack_file.write(folder, "new", PLATFORM, backend="", secrets_provider="passphrase")
    assert path.read_text() == "mine"
    assert len([*folder.iterdir()]) == 2


def test_the_projects_name_before_a_key_is_pulumis(folder: Path) -> None:
    content = {"encryptionsalt": "v1:x", "config": {"crusoe-gpu-platform:platform": PLATFORM}}
    (folder / "Pulumi.old.yaml").write_text(yaml.safe_dump(content))
    found = stack_file.read(folder, "old")
    assert (found.config, found.secrets_provider) == ({}, "passphrase")


def test_ranges_are_those_of_all_files_that_can_be_read(folder: Path) -> None:
    (folder / "Pulumi.a.yaml").write_text(
        yaml.safe_dump({"config": {"platform": {"network": {"cidr": "10.9.0.0/16"}}}})
    )
    (folder / "Pulumi.b.yaml").write_text(yaml.safe_dump({"config": {"x:platform": {}}}))
    (folder / "Pulumi.c.yaml").write_text("\tno")
    assert stack_file.ranges(folder) == {"a": "10.9.0.0/16", "b": "10.0.0.0/16"}


def test_what_can_not_be_used_is_said(folder: Path) -> None:
    with pytest.raises(UnreadableError, match=r"There is no Pulumi\.none\.yaml: `make new-stack`"):
        stack_file.read(folder, "none")
    (folder / "Pulumi.bad.yaml").write_text("\tno")
    with pytest.raises(UnreadableError, match=r"Pulumi\.bad\.yaml can't be read"):
        stack_file.read(folder, "bad")
    (folder / "Pulumi.empty.yaml").write_text("config: {}")
    with pytest.raises(SettingsError):
        stack_file.read(folder, "empty")
