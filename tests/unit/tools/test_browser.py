"""The browser of the tests: what fits of what is there, and what the pinned folder holds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools import browser
from tools.errors import ToolMissingError
from tools.slurm_root import pins
from tools.slurm_root.launcher import LAUNCHER, write_launcher
from tools.slurm_root.packages import BROWSER


def program(folder: Path, name: str, says: str, status: int = 0) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_a_browser_that_is_there_comes_first(tmp_path: Path) -> None:
    found = program(tmp_path, "google-chrome", "Google Chrome 150.0.7871.100")
    assert browser.on_path({"PATH": f"{tmp_path}:/bin"}) == found


@pytest.mark.parametrize(
    ("says", "status"),
    [("Chromium 99.0.4844.84", 0), ("Chromium 150.0.7871.100", 1), ("install it with snap", 0), ("", 0)],
)
def test_one_that_is_too_old_or_does_not_run_is_passed_over(tmp_path: Path, says: str, status: int) -> None:
    program(tmp_path, "chromium", says, status)
    assert browser.on_path({"PATH": f"{tmp_path}:/bin"}) is None
    better = program(tmp_path, "google-chrome-stable", f"Google Chrome {browser.OLDEST}.0.1.2")
    assert browser.on_path({"PATH": f"{tmp_path}:/bin"}) == better


def test_without_any_the_command_that_gets_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/bin")
    with pytest.raises(ToolMissingError, match=r"python -m tools ensure --for browser$"):
        browser.browser()


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_the_lock_has_what_a_page_needs_and_no_desktop(arch: str) -> None:
    pinned = pins.read((pins.FOLDER / pins.lock_name(BROWSER, arch)).read_text())
    assert pinned.product == "chromium"
    assert int(pinned.version.split(".")[0]) >= browser.OLDEST
    names = {pin.path.rsplit("/", 1)[-1].split("_")[0] for pin in pinned.files}
    assert {"chromium-headless-shell", "chromium-common", "fonts-dejavu-core", "libc6", "libnss3"} <= names
    assert not names & BROWSER.left_out
    assert pins.read(pins.written(pinned)) == pinned


def test_the_launcher_is_a_script_that_finds_its_own_folder(tmp_path: Path) -> None:
    write_launcher(tmp_path)
    script = tmp_path / LAUNCHER
    assert os.access(script, os.X_OK)
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {LAUNCHER, "dev", "proc", "sys", "tmp"}
    # `unshare` is asked for the folder that the script is in, wherever it is called from.
    asked = tmp_path / "asked"
    program(tmp_path, "unshare", "").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\n')
    linked = tmp_path / "folder with blanks"
    linked.symlink_to(tmp_path)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([str(linked / LAUNCHER), "--headless", "a b"], cwd="/", env=environ, check=True)
    assert asked.read_text().splitlines()[-3:] == [str(tmp_path), "--headless", "a b"]
