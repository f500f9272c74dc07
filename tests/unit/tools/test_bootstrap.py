"""When the environment is set up again, and with what."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import bootstrap
from tools.places import ROOT


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose installation is only written down."""
    (tmp_path / "requirements").mkdir()
    for name in ("dev", "runtime", "bootstrap"):
        (tmp_path / "requirements" / f"{name}.lock").write_text(name)
    (tmp_path / "pyproject.toml").write_text("project")
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / ".venv" / "stamp.json")
    monkeypatch.setattr(bootstrap, "BOOTSTRAP_LOCK", tmp_path / "requirements" / "bootstrap.lock")
    locks = {"dev": tmp_path / "requirements" / "dev.lock", "cloud": tmp_path / "requirements" / "runtime.lock"}
    monkeypatch.setattr(bootstrap, "LOCKS", locks)
    return tmp_path


@pytest.fixture
def installed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    assert clone == bootstrap.ROOT
    kinds: list[str] = []

    def install(kind: str) -> None:
        kinds.append(kind)
        bootstrap.STAMP.write_text(json.dumps({"kind": kind, "digest": bootstrap.digest(kind)}))

    monkeypatch.setattr(bootstrap, "install", install)
    return kinds


def test_what_is_current_is_left_alone(installed: list[str]):
    bootstrap.prepare("dev")
    bootstrap.prepare("dev")
    assert installed == ["dev"]


@pytest.mark.parametrize("name", ["requirements/dev.lock", "requirements/bootstrap.lock", "pyproject.toml"])
def test_a_change_of_what_it_depends_on_sets_it_up_again(installed: list[str], clone: Path, name: str):
    bootstrap.prepare("dev")
    (clone / name).write_text("changed")
    bootstrap.prepare("dev")
    assert installed == ["dev", "dev"]


def test_a_file_in_place_of_the_folder_is_said(installed: list[str], clone: Path):
    (clone / ".local").touch()
    with pytest.raises(SystemExit, match=r"\.local can't be made \(File exists\); move what is there away"):
        bootstrap.prepare("dev")
    assert installed == []


def test_a_moved_clone_is_set_up_again(installed: list[str], clone: Path, monkeypatch: pytest.MonkeyPatch):
    bootstrap.prepare("dev")
    (elsewhere := clone / "elsewhere").mkdir()
    for name in ("requirements", "pyproject.toml"):
        (elsewhere / name).symlink_to(clone / name)
    monkeypatch.setattr(bootstrap, "ROOT", elsewhere)
    bootstrap.prepare("dev")
    assert installed == ["dev", "dev"]


def test_an_interrupted_installation_is_finished(installed: list[str]):
    bootstrap.prepare("dev")
    bootstrap.STAMP.write_text('{"kind": "dev", "dig')
    bootstrap.prepare("dev")
    assert installed == ["dev", "dev"]


def test_a_real_environment_gets_the_runtime_set_only(installed: list[str]):
    bootstrap.prepare("cloud")
    bootstrap.prepare("cloud")
    assert installed == ["cloud"]
    bootstrap.prepare("dev")
    assert installed == ["cloud", "dev"]


def test_the_whole_set_serves_a_real_environment_too(installed: list[str], clone: Path):
    bootstrap.prepare("dev")
    bootstrap.prepare("cloud")
    assert installed == ["dev"]
    (clone / "requirements" / "dev.lock").write_text("changed")
    bootstrap.prepare("cloud")
    assert installed == ["dev", "dev"]


def test_a_failed_installation_leaves_no_stamp_and_says_what_to_do(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    assert clone == bootstrap.ROOT
    bootstrap.STAMP.write_text("{}")
    monkeypatch.setattr(bootstrap, "usable", lambda: True)
    monkeypatch.setattr(bootstrap, "PYTHON", Path("/bin/false"))
    with pytest.raises(SystemExit, match=r"HTTPS_PROXY, PIP_INDEX_URL"):
        bootstrap.install("dev")
    assert not bootstrap.STAMP.exists()
    assert "requirements/dev.lock" in capfd.readouterr().err


def test_an_old_python_looks_for_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "python3.12").write_text("#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    (tmp_path / "python3.11").symlink_to(sys.executable)
    (tmp_path / "python3.12").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap.newer_python() == str(tmp_path / "python3.11")


def test_with_no_newer_python_it_says_which_one_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bootstrap, "OLDEST", (9, 0))
    assert bootstrap.main(["--for", "dev"]) == 1
    assert "Python 3.11 or newer is needed, and python3 is 3." in capsys.readouterr().err


def test_an_index_of_pips_serves_uv_and_the_users_own_settings_win():
    got = bootstrap.environment({"PIP_INDEX_URL": "https://mirror.example/simple", "UV_HTTP_TIMEOUT": "5"})
    assert got["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert got["UV_HTTP_TIMEOUT"] == "5"
    assert "UV_DEFAULT_INDEX" not in bootstrap.environment({})


def test_an_older_python_can_read_it():
    # Only what every Python 3.8 can parse: it must get as far as saying what is missing.
    code = f"import ast; ast.parse(open({str(ROOT / 'tools' / 'bootstrap.py')!r}).read(), feature_version=(3, 8))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_lock_names_an_index():
    for path in (ROOT / "requirements").glob("*.lock"):
        assert "://" not in path.read_text()
