"""A release out of Debian's packages, from an archive of the tests."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tools import debian
from tests.unit.tools.support import FileServer, release
from tools.errors import ToolMissingError
from tools.network import Network
from tools.releases import Debian, Release
from tools.slurm_root.pins import Pin
from tools.toolchain import Toolchain

PLATFORM = "linux-amd64"


def packaged(server: FileServer, files: dict[str, str]) -> Release:
    """A release whose download is not there, and whose package the server has."""
    content = debian.deb(files)
    server.files["/debian/pool/g/gadget_1.2.3_amd64.deb"] = content
    pin = Pin(hashlib.sha256(content).hexdigest(), len(content), "pool/g/gadget_1.2.3_amd64.deb")
    recipe = Debian("20261030T080801Z", {"gadget": "usr/bin/debians-gadget"}, {PLATFORM: (pin,)})
    return replace(release(f"{server.url}/nowhere"), go=None, debian=recipe)


def toolchain(server: FileServer, cache: Path, wanted: Release) -> Toolchain:
    environ = {"CRUSOE_DEBIAN_MIRROR": f"{server.url}/debian", "PATH": ""}
    return Toolchain(releases=(wanted,), cache=cache, environ=environ, platform=PLATFORM, network=Network(1, 1, 1))


def test_only_the_binaries_are_kept_and_can_be_run(server: FileServer, tmp_path: Path) -> None:
    wanted = packaged(server, {"usr/bin/debians-gadget": "#!/bin/sh", "usr/share/doc/gadget": "read me"})
    found = toolchain(server, tmp_path, wanted).ensure(wanted.needed_for)
    assert [*found] == ["gadget"]
    assert os.access(found["gadget"], os.X_OK)
    assert [path.name for path in found["gadget"].parent.iterdir()] == ["gadget"]


Spoil = Callable[[FileServer], None]
SPOILT: dict[str, tuple[dict[str, str], Spoil, str]] = {
    "another file": (
        {"usr/bin/debians-gadget": "x"},
        lambda server: server.files.update({"/debian/pool/g/gadget_1.2.3_amd64.deb": b"another"}),
        "is not the pinned file",
    ),
    "no such binary": ({"usr/bin/else": "x"}, lambda _: None, r"hold no usr/bin/debians-gadget"),
}


@pytest.mark.parametrize(("files", "spoil", "words"), SPOILT.values(), ids=[*SPOILT])
def test_what_is_not_right_is_told_and_nothing_is_left(
    server: FileServer, tmp_path: Path, files: dict[str, str], spoil: Spoil, words: str
) -> None:
    wanted = packaged(server, files)
    spoil(server)
    with pytest.raises(ToolMissingError, match=words) as error:
        toolchain(server, tmp_path, wanted).ensure(wanted.needed_for)
    assert "a Debian mirror" in str(error.value)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_platform_without_packages_is_told(server: FileServer, tmp_path: Path) -> None:
    wanted = packaged(server, {})
    other = Toolchain(
        releases=(wanted,), cache=tmp_path, environ={"PATH": ""}, platform="darwin-arm64", network=Network(1, 1, 1)
    )
    with pytest.raises(ToolMissingError, match="no Debian packages of it for darwin-arm64"):
        other.ensure(wanted.needed_for)
