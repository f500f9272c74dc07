"""`make policy-pack`: a folder that runs in an environment which holds nothing but its own requirements."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from policies import examples
from tests.policy.analyzer import running
from tests.policy.stand_alone import built
from tools.front_door import policy_pack
from tools.front_door.environment import FrontDoorError


def test_the_folder_runs_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "pack"
    python = built(folder)
    here = [python, "-I", "-c", "import components, pulumi_kubernetes"]
    assert subprocess.run(here, cwd="/", capture_output=True, check=False).returncode != 0
    with running(folder, str(python)) as pack:
        pack.configure()
        assert pack.refused_by(examples.pool(type="a100-80gb.2x"), stack="dev") == {"gpu-pool-whole-host"}
        assert pack.judge(examples.pool(), stack="dev") == []


def test_it_is_made_anew_and_keeps_its_environment(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    policy_pack.build(folder)
    (folder / "venv").mkdir()
    (folder / "policies" / "gone.py").touch()
    policy_pack.build(folder)
    assert (folder / "venv").is_dir()
    assert not (folder / "policies" / "gone.py").exists()
    assert "virtualenv: venv" in (folder / "PulumiPolicy.yaml").read_text()
    assert not any(folder.rglob("__pycache__"))


def test_it_takes_nothing_away_that_is_no_pack(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(FrontDoorError, match="is no policy pack"):
        policy_pack.build(tmp_path)
    assert (tmp_path / "mine").exists()


def test_what_it_runs_on_is_what_the_project_is_tested_with() -> None:
    names = [line.split("==")[0] for line in policy_pack.requirements().splitlines()]
    assert sorted(names) == sorted(policy_pack.PACKAGES)
