"""What a newcomer does: clone, `make up`, a typed `pulumi up` in a prepared shell, `make down`; with an empty home."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import yaml

from tests.harness import ROOT, Json, Result, execute, free_port

pytestmark = pytest.mark.integration


class Clone:
    """A clone of what is committed, whose dev stack uses a free port, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "CRUSOE_"))}
        # Tools and packages stay where they are cached: the home is empty, nothing is built.
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.environment = {**kept, "HOME": str(folder / "home"), "XDG_CACHE_HOME": cache}
        (folder / "home").mkdir()
        execute(["git", "clone", "--quiet", "--local", str(ROOT), str(self.folder)], folder, self.environment)
        file = self.folder / "Pulumi.dev.yaml"
        content: Json = yaml.safe_load(file.read_text())
        content["config"]["platform"]["cloud"]["endpoint"] = f"http://127.0.0.1:{free_port()}/v1"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        assert self.shell(f"git {' '.join(identity)} commit --quiet --all --message port").code == 0

    def shell(self, line: str, seconds: float = 240) -> Result:
        """Runs a line as a person types it."""
        return execute(["bash", "-c", line], self.folder, self.environment, seconds)


@pytest.fixture
def clone(tmp_path: Path) -> Generator[Clone]:
    made = Clone(tmp_path)
    yield made
    made.shell("make clean")


def test_clone_up_look_change_down(clone: Clone) -> None:
    up = clone.shell("make up")
    assert up.code == 0, up.text
    assert "clusterId" in up.text
    assert up.text.count("make ") >= 2
    prepared = 'eval "$(make -s env)" && '
    typed = clone.shell(prepared + "pulumi up -s dev --yes --skip-preview --expect-no-changes")
    assert typed.code == 0, typed.text
    looked = clone.shell(
        prepared + "pulumi stack output kubeconfig --show-secrets -s dev > .local/kubeconfig"
        " && kubectl --kubeconfig .local/kubeconfig get nodes --no-headers"
    )
    assert looked.out.count(" Ready ") == 4, looked.text
    preview = clone.shell("make preview ARGS=--expect-no-changes")
    assert preview.code == 0, preview.text
    assert clone.shell("git status --porcelain").out == ""
    down = clone.shell("make down")
    assert down.code == 0, down.text
    assert clone.shell("git status --porcelain").out == ""
    assert clone.shell("make clean").code == 0
    assert not (clone.folder / ".local").exists()
    assert not (clone.folder / ".venv").exists()
