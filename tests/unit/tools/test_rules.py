"""The project's own rules: each finds what it is there for, and this project breaks none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.front_door import rules
from tools.places import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What the rules read of this project, in a repository of its own."""
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    "rule", [rules.silent_targets, rules.stale_locks, rules.unequal_plugin, rules.foreign_licences]
)
def test_this_project_keeps_its_rules(rule: rules.Rule):
    assert rule(ROOT) == []


def test_a_link_that_leads_nowhere(copy: Path):
    (copy / "README.md").write_text("[a](docs/none.md#x) [b](pyproject.toml) [c](https://example.com) [d](#here)")
    assert rules.broken_links(copy) == ["README.md: the link to docs/none.md leads nowhere"]


def test_a_target_without_help(copy: Path):
    change(copy / "Makefile", "up: ## Bring", "up: # Bring")
    assert rules.silent_targets(copy) == ["Makefile: the target up has no ## help"]


def test_a_package_that_was_added_and_not_locked(copy: Path):
    change(copy / "pyproject.toml", '"httpx==', '"hypercorn==1.0", "httpx==')
    assert rules.stale_locks(copy) == [
        "requirements/dev.lock: hypercorn of pyproject.toml is missing; run `make lock`",
        "requirements/runtime.lock: hypercorn of pyproject.toml is missing; run `make lock`",
    ]


def test_a_pin_that_was_moved_and_not_locked(copy: Path):
    change(copy / "pyproject.toml", "httpx==0.28.1", "httpx==0.28.2")
    assert len(rules.stale_locks(copy)) == 2
    assert "pins httpx 0.28.1, not httpx==0.28.2" in rules.stale_locks(copy)[0]


def test_locks_that_differ(copy: Path):
    change(copy / "requirements" / "runtime.lock", "certifi==", "certifi==1")
    assert len(found := rules.stale_locks(copy)) == 1
    assert "certifi" in found[0]
    assert "differs from dev.lock" in found[0]


def test_a_plugin_apart_from_its_sdk(copy: Path):
    change(copy / "requirements" / "dev.lock", "pulumi-kubernetes==4.34.2", "pulumi-kubernetes==4.35.0")
    assert rules.unequal_plugin(copy) == ["tools/versions.toml: the Kubernetes plugin is 4.34.2, its Python SDK 4.35.0"]


def test_a_licence_that_is_not_permissive(copy: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules, "_LICENCES", rules.re.compile("apache", rules.re.I))
    assert "requirements/runtime.lock: the licence of pyyaml is not known to be permissive" in rules.foreign_licences(
        copy
    )
