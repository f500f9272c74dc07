"""The one folder to put on PATH."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import links


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    for name in ("pulumi", "kubectl"):
        (folder / name).write_text(f"#!/bin/sh\necho {name}\n")
        (folder / name).chmod(0o755)
    return folder


def put(cache: Path, folder: Path, *names: str) -> Path:
    return links.refresh({name: cache / name for name in names}, folder)


def test_tools_are_links_into_the_cache(cache: Path, tmp_path: Path):
    folder = put(cache, tmp_path / "bin", "kubectl")
    assert (folder / "kubectl").readlink() == cache / "kubectl"


def test_a_link_follows_a_new_version(cache: Path, tmp_path: Path):
    folder = put(cache, tmp_path / "bin", "kubectl")
    (newer := tmp_path / "newer").mkdir()
    (newer / "kubectl").write_text("#!/bin/sh\n")
    put(newer, folder, "kubectl")
    assert (folder / "kubectl").readlink() == newer / "kubectl"
    assert [path.name for path in folder.iterdir()] == ["kubectl"]


def test_the_official_language_host_is_linked_where_it_is_there(cache: Path, tmp_path: Path):
    for name in ("pulumi-language-python", "pulumi-language-python-exec"):
        (cache / name).write_text("#!/bin/sh\n")
        (cache / name).chmod(0o755)
    folder = put(cache, tmp_path / "bin", "pulumi")
    assert (folder / "pulumi-language-python").readlink() == cache / "pulumi-language-python"
    assert (folder / "pulumi").readlink() == cache / "pulumi"


def test_the_stand_in_takes_its_place_where_it_is_not(cache: Path, tmp_path: Path):
    folder = put(cache, tmp_path / "bin", "pulumi")
    script = (folder / "pulumi-language-python").read_text()
    assert f"exec '{sys.prefix}/bin/python' -I" in script
    assert "/tools/language_host'" in script
    # A file, not a link: the CLI looks for its hosts where its executable really lies.
    assert not (folder / "pulumi").is_symlink()
    assert subprocess.run([folder / "pulumi"], capture_output=True, text=True, check=True).stdout == "pulumi\n"


def test_the_stand_in_gives_way_when_the_official_host_appears(cache: Path, tmp_path: Path):
    folder = put(cache, tmp_path / "bin", "pulumi")
    for name in ("pulumi-language-python", "pulumi-language-python-exec"):
        (cache / name).write_text("#!/bin/sh\n")
        (cache / name).chmod(0o755)
    put(cache, folder, "pulumi")
    assert (folder / "pulumi-language-python").is_symlink()
    assert (folder / "pulumi").is_symlink()


def test_nothing_is_written_twice(cache: Path, tmp_path: Path):
    folder = put(cache, tmp_path / "bin", "pulumi", "kubectl")
    before = {path: path.lstat().st_ctime_ns for path in folder.iterdir()}
    put(cache, folder, "pulumi", "kubectl")
    assert {path: path.lstat().st_ctime_ns for path in folder.iterdir()} == before
