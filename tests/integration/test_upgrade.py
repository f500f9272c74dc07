"""The state of every earlier release, previewed with this program: nothing in it is replaced or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.baseline import ENDPOINT, FOLDER, STACK
from tests.harness import Cloud, Project, changes

pytestmark = pytest.mark.integration

VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))


def test_there_is_a_recorded_release() -> None:
    assert VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_an_earlier_releases_state_is_kept(cloud: Cloud, tmp_path: Path, version: str) -> None:
    project = Project(tmp_path / STACK, cloud, STACK)
    project.init()
    salt = yaml.safe_load(project.stack_file.read_text())
    recorded = yaml.safe_load((FOLDER / f"{version}.yaml").read_text())
    project.stack_file.write_text(yaml.safe_dump({**salt, **recorded}))
    project.change_settings({"cloud": {"endpoint": cloud.endpoint}})
    state = tmp_path / "state.json"
    state.write_text((FOLDER / f"{version}.json").read_text().replace(ENDPOINT, cloud.endpoint))
    project.pulumi("stack", "import", "--file", str(state), "-s", STACK)
    resources = {one["urn"] for one in project.resources()}
    assert len(resources) > 20
    assert set(changes(project.preview())) <= {"update", "create"}
