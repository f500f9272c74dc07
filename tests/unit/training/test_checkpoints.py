"""The files of checkpoints: whole or not, published, pruned; and what a power loss at any moment leaves."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from training import checkpoints
from training.checkpoints import MANIFEST, Manifest, TornError

DATA = {"seed": 1}


def draft(folder: Path, step: int, attempt: int = 0) -> tuple[Path, Manifest]:
    """A finished save that nobody has published yet."""
    made = checkpoints.draft_of(folder, step, attempt, 0)
    made.mkdir(parents=True)
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
        (made / name).write_text(f"{name} of {step}")
    files = {path.name: checkpoints.digest(path) for path in made.iterdir()}
    return made, Manifest(step, 2, "ddp", DATA, "0x1p+0", files)


def save(folder: Path, step: int) -> Path:
    return checkpoints.publish(*draft(folder, step))


def steps(folder: Path) -> list[int]:
    return [checkpoints.manifest_of(path).step for path in checkpoints.whole(folder)]


def test_what_was_published_is_whole_and_says_what_it_is_of(tmp_path: Path) -> None:
    saved = save(tmp_path, 20)
    assert saved == tmp_path / "step-00000020"
    manifest = checkpoints.manifest_of(saved)
    assert (manifest.step, manifest.ranks, manifest.data) == (20, 2, DATA)
    checkpoints.check(saved, manifest.files)
    assert checkpoints.newest_step(tmp_path) == 20


def test_without_checkpoints_there_is_no_step(tmp_path: Path) -> None:
    assert checkpoints.newest_step(tmp_path / "missing") == -1
    draft(tmp_path, 20)
    assert checkpoints.published(tmp_path) == []


@pytest.mark.parametrize("damage", ["short", "missing", "no manifest", "half a manifest", "other manifest", "list"])
def test_a_torn_one_is_skipped(tmp_path: Path, damage: str) -> None:
    save(tmp_path, 20)
    newest = save(tmp_path, 40)
    manifest = newest / MANIFEST
    match damage:
        case "short":
            (newest / "__1_0.distcp").write_text("x")
        case "missing":
            (newest / ".metadata").unlink()
        case "no manifest":
            manifest.unlink()
        case "half a manifest":
            manifest.write_text(manifest.read_text()[:40])
        case "other manifest":
            manifest.write_text(json.dumps({"step": 40}))
        case _:
            manifest.write_text("[]")
    with pytest.raises(TornError):
        checkpoints.manifest_of(newest)
    assert steps(tmp_path) == [20]


def test_content_of_the_right_size_is_compared_too(tmp_path: Path) -> None:
    saved = save(tmp_path, 20)
    file = saved / "__0_0.distcp"
    file.write_bytes(b"x" * file.stat().st_size)
    manifest = checkpoints.manifest_of(saved)
    with pytest.raises(TornError, match=r"__0_0\.distcp is not what was saved"):
        checkpoints.check(saved, manifest.files)
    file.unlink()
    with pytest.raises(TornError, match="can't be read"):
        checkpoints.check(saved, manifest.files)


def test_a_draft_with_other_files_than_were_saved_is_not_published(tmp_path: Path) -> None:
    made, manifest = draft(tmp_path, 20)
    (made / "__2_0.distcp").touch()
    with pytest.raises(TornError, match=r"__2_0\.distcp"):
        checkpoints.publish(made, manifest)
    assert checkpoints.published(tmp_path) == []


def test_a_torn_one_gives_way_to_the_same_step_saved_again(tmp_path: Path) -> None:
    (save(tmp_path, 20) / ".metadata").unlink()
    assert steps(tmp_path) == []
    save(tmp_path, 20)
    assert steps(tmp_path) == [20]


def test_pruning_keeps_the_newest_whole_ones(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        save(tmp_path, step)
    checkpoints.prune(tmp_path, 2)
    assert steps(tmp_path) == [40, 30]


def test_torn_ones_never_cost_the_last_whole_one(tmp_path: Path) -> None:
    save(tmp_path, 10)
    for step in (20, 30, 40):
        (save(tmp_path, step) / ".metadata").unlink()
    checkpoints.prune(tmp_path, 1)
    assert steps(tmp_path) == [10]
    save(tmp_path, 50)
    checkpoints.prune(tmp_path, 1)
    assert [path.name for path in checkpoints.published(tmp_path)] == ["step-00000050"]


def test_leftovers_of_other_attempts_are_cleared(tmp_path: Path) -> None:
    save(tmp_path, 10)
    draft(tmp_path, 20, attempt=3)
    (tmp_path / ".trash-step-00000005").mkdir()
    checkpoints.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]


class PowerLossError(BaseException):
    """Nothing after this moment happens, not even `except` and `finally` that touch the disk."""


CALLS = ((os, "fsync"), (Path, "rename"), (Path, "open"), (shutil, "rmtree"))


def interrupted(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """Count the calls that change the disk, and lose power before the one of this number."""
    count = iter(range(moment))

    def guarded(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(count, None) is None:
                raise PowerLossError
            return real(*arguments, **options)

        return call

    for owner, name in CALLS:
        monkeypatch.setattr(owner, name, guarded(getattr(owner, name)))


def test_power_loss_at_any_moment_of_a_save_leaves_a_whole_one(tmp_path: Path) -> None:
    moments = 0
    while True:
        folder = tmp_path / str(moments)
        save(folder, 10)
        # A torn one of the same step has to give way as well.
        (save(folder, 20) / ".metadata").unlink()
        made, manifest = draft(folder, 20)
        with pytest.MonkeyPatch.context() as monkeypatch:
            interrupted(monkeypatch, moments)
            try:
                checkpoints.publish(made, manifest)
                checkpoints.prune(folder, 1)
                break
            except PowerLossError:
                pass
        assert steps(folder)[:1] in ([10], [20])
        checkpoints.clear(folder)
        assert steps(folder)[:1] in ([10], [20])
        moments += 1
    assert steps(folder) == [20]
    assert moments > 8
