"""The folder with Slurm: what is chosen, what is trusted, and what is left behind."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.tools import debian
from tests.unit.tools.support import FileServer
from tools.errors import DownloadError, ToolMissingError
from tools.network import Network
from tools.progress import Reporter
from tools.slurm_root import pins
from tools.slurm_root.archive import Archive, listed_digest, mirrors, moment
from tools.slurm_root.packages import SLURM, TRAINING, UPGRADE, Contents, Package, closure, parse
from tools.slurm_root.pins import Pin, Pins
from tools.slurm_root.python import compile_python
from tools.slurm_root.root import MANIFEST, SlurmRoot, worker_folder
from tools.slurm_root.root import folder as slurm_root
from tools.slurm_root.unpack import build, data_member, unpack

Make = Callable[..., SlurmRoot]


@pytest.fixture
def network() -> Network:
    """One that waits longer: several connections at once wait for the test's server."""
    return Network(connect_seconds=5, stall_seconds=10, transfer_seconds=30)


@pytest.fixture
def make(
    tmp_path: Path, server: FileServer, network: Network, quiet: Reporter, monkeypatch: pytest.MonkeyPatch
) -> Make:
    """Make a folder's maker whose only mirror is the test's server, and whose gpgv trusts it."""
    debian.trusting_gpgv(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr("tools.slurm_root.archive.SNAPSHOT", server.url + "/snapshot/{moment}")

    def made(**changes: str) -> SlurmRoot:
        return SlurmRoot(
            cache=tmp_path / "cache",
            platform=changes.get("platform", "linux-amd64"),
            bases=[server.url + "/debian"],
            locks=tmp_path,
            network=network,
            reporter=quiet,
            keyrings=[keyring],
        )

    return made


def lock(folder: Path, server: FileServer) -> None:
    """Pin what the server has."""
    files = [
        Pin(hashlib.sha256(content).hexdigest(), len(content), debian.path_of(name))
        for name, content in debian.publish(server)
    ]
    (folder / "slurm-amd64.lock").write_text(pins.written(Pins("26.05.9", "20261030T080801Z", tuple(files))))


def about(folder: Path) -> dict[str, object]:
    return json.loads((folder / MANIFEST).read_text())


def test_the_pinned_packages_become_one_folder_and_the_next_run_asks_nobody(
    make: Make, tmp_path: Path, server: FileServer
) -> None:
    lock(tmp_path, server)
    folder = make().ensure()
    assert (folder / "usr/bin/slurmctld").read_text() == "slurmctld"
    assert (folder / "bin").readlink() == Path("usr/bin")
    assert (folder / "usr/sbin/slurmctld").readlink() == Path("slurmctld-wlm")
    assert not (folder / "usr/share/doc").exists()
    assert (folder / "usr/bin/bash").stat().st_mode & 0o7777 == 0o755, "no set-user-id bit"
    assert about(folder)["pinned"] is True
    asked = len(server.asked)
    assert make().ensure() == make().locate() == folder
    assert len(server.asked) == asked


def test_a_new_lock_file_has_a_place_of_its_own(make: Make, tmp_path: Path, server: FileServer) -> None:
    lock(tmp_path, server)
    before = make().ensure()
    text = (tmp_path / "slurm-amd64.lock").read_text()
    (tmp_path / "slurm-amd64.lock").write_text(text.replace("20261030", "20261031"))
    assert make().locate() is None
    assert make().ensure() != before


def test_a_file_that_the_mirror_has_dropped_comes_from_the_snapshots(
    make: Make, tmp_path: Path, server: FileServer
) -> None:
    lock(tmp_path, server)
    path = debian.path_of("slurmd")
    server.files[f"/snapshot/20261030T080801Z/{path}"] = server.files.pop(f"/debian/{path}")
    assert about(make().ensure())["pinned"] is True


def test_when_no_pinned_file_can_be_had_the_mirrors_present_ones_of_the_line_are_taken(
    make: Make, tmp_path: Path, server: FileServer
) -> None:
    lock(tmp_path, server)
    text = (tmp_path / "slurm-amd64.lock").read_text()
    (tmp_path / "slurm-amd64.lock").write_text(text.replace("pool/slurmd_", "pool/gone_"))
    told = about(make().ensure())
    assert (told["pinned"], told["slurm"]) == (False, "26.05.9")


def test_another_line_of_slurm_is_refused_and_nothing_is_left(make: Make, tmp_path: Path, server: FileServer) -> None:
    lock(tmp_path, server)
    debian.publish(server, version="26.11.1-1")
    server.files.pop(f"/debian/{debian.path_of('slurmd')}")
    with pytest.raises(ToolMissingError, match=r"Slurm 26\.11\.1.*written for 26\.05\."):
        make().ensure()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["slurm-root.lock"]


def test_a_changed_file_is_thrown_away(make: Make, tmp_path: Path, server: FileServer) -> None:
    lock(tmp_path, server)
    server.files[f"/debian/{debian.path_of('slurmd')}"] = debian.deb({"usr/bin/evil": "x"})
    with pytest.raises(ToolMissingError, match="not the pinned file"):
        make().ensure()


def test_without_network_the_error_names_what_to_do(
    tmp_path: Path, server: FileServer, network: Network, quiet: Reporter, closed_url: str
) -> None:
    lock(tmp_path, server)
    maker = SlurmRoot(
        cache=tmp_path / "cache",
        platform="linux-amd64",
        bases=[closed_url],
        locks=tmp_path,
        network=network,
        reporter=quiet,
    )
    with pytest.raises(ToolMissingError, match="CRUSOE_DEBIAN_MIRROR"):
        maker.ensure()


def test_other_systems_are_told_that_the_rest_works(make: Make) -> None:
    with pytest.raises(ToolMissingError, match=r"this is darwin-arm64; everything else .* works"):
        make(platform="darwin-arm64").ensure()
    assert make(platform="darwin-arm64").locate() is None


def test_an_unsigned_list_is_trusted_over_https_only(tmp_path: Path, server: FileServer, network: Network) -> None:
    debian.publish(server)
    archive = Archive([server.url + "/debian"], network, tmp_path, keyrings=[])
    with pytest.raises(DownloadError, match="plain http"):
        archive.package_lists(["forky"], "amd64")


def test_a_signature_that_does_not_hold_is_refused(
    tmp_path: Path, server: FileServer, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    debian.publish(server)
    (tmp_path / "gpgv").write_text("#!/bin/sh\necho 'gpgv: BAD signature' >&2\nexit 1\n")
    (tmp_path / "gpgv").chmod(0o755)
    (tmp_path / "keys").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    archive = Archive([server.url + "/debian"], network, tmp_path, keyrings=[tmp_path / "keys"])
    with pytest.raises(DownloadError, match="not signed by Debian: gpgv: BAD signature"):
        archive.package_lists(["forky"], "amd64")


def test_mirrors_of_this_machine_come_before_debians_own(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "debian.sources").write_text(
        "Types: deb\n# http://no.example/debian\nURIs: http://mirror.example/debian/\nSuites: bookworm\n"
    )
    (parts / "other.list").write_text("deb https://other.example/apt stable main\n")
    (tmp_path / "sources.list").write_text("deb [signed-by=/k] https://old.example/debian bookworm main\n")
    assert mirrors({"CRUSOE_DEBIAN_MIRROR": "https://mine.example/debian/"}, tmp_path) == [
        "https://mine.example/debian",
        "https://old.example/debian",
        "http://mirror.example/debian",
        "https://deb.debian.org/debian",
    ]


def test_what_a_release_file_says() -> None:
    digest = "a" * 64
    text = f"Date: Fri, 30 Oct 2026 08:08:01 UTC\nMD5Sum:\n {'b' * 32} 5 main/x\nSHA256:\n {digest} 5 main/x\n"
    assert listed_digest(text, "main/x") == digest
    assert listed_digest(text, "main/y") is None
    assert moment(text) == "20261030T080801Z"


def listed(**packages: str) -> dict[str, Package]:
    """Packages by name, with what each depends on."""
    text = "\n".join(debian.paragraph(name, b"", "1", Depends=depends) for name, depends in packages.items())
    return parse(text)


def names(found: list[Package]) -> list[str]:
    return [package.name for package in found]


def test_dependencies_are_followed_choices_and_what_is_left_out_understood() -> None:
    known = listed(a="b (>= 1) | c, d:any", b="e", c="", d="left", e="a")
    assert names(closure(known, ["a"], {"left"})) == ["a", "b", "d", "e"]
    assert names(closure(known, ["c", "a"], {"left"})) == ["a", "c", "d"]


def test_a_virtual_package_is_its_provider() -> None:
    text = (
        debian.paragraph("real", b"", "1", Provides="virtual (= 1)")
        + "\n"
        + debian.paragraph("a", b"", "1", Depends="virtual")
    )
    assert names(closure(parse(text), ["a"], ())) == ["a", "real"]


def test_a_missing_dependency_is_said() -> None:
    with pytest.raises(DownloadError, match="no nothing"):
        closure(listed(a="nothing"), ["a"], ())


def test_a_lock_file_is_read_as_it_was_written() -> None:
    pinned = Pins("26.05.5", "20261030T080801Z", (Pin("a" * 64, 5, "pool/x.deb"),))
    assert pins.read(pins.written(pinned)) == pinned


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_the_locks_of_this_project_hold_the_line(arch: str) -> None:
    pinned = pins.read((pins.FOLDER / pins.lock_name(SLURM, arch)).read_text())
    assert pinned.version.startswith("26.05.")
    paths = [pin.path for pin in pinned.files]
    for name in (
        "slurmctld_26.05.",
        "slurmd_26.05.",
        "slurmdbd_26.05.",
        "slurmrestd_26.05.",
        "mariadb-server-core_10.11.",
    ):
        assert any(f"/{name}" in path for path in paths), name


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_the_folder_with_pytorch_is_the_plain_one_and_more(arch: str) -> None:
    def files(contents: Contents) -> Pins:
        return pins.read((pins.FOLDER / pins.lock_name(contents, arch)).read_text())

    plain, training = files(SLURM), files(TRAINING)
    assert (plain.version, plain.snapshot) == (training.version, training.snapshot)
    assert set(plain.files) < set(training.files)
    names = {pin.path.rsplit("/", 1)[-1].split("_")[0] for pin in training.files}
    assert {"python3-torch", "python3-numpy", "libgloo0"} <= names
    assert not names & TRAINING.left_out


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_the_older_slurm_is_three_releases_back_and_has_all_its_daemons(arch: str) -> None:
    pinned = pins.read((pins.FOLDER / pins.lock_name(UPGRADE, arch)).read_text())
    assert pinned.version.startswith("24.11.")
    versions = dict(pin.path.rsplit("/", 1)[-1].split("_")[:2] for pin in pinned.files)
    daemons = {"slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-mysql-plugin"}
    assert {versions[name].partition("-")[0] for name in daemons} == {pinned.version}
    assert not versions.keys() & UPGRADE.left_out


def test_workers_run_the_folder_with_pytorch_once_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tools.places.this_platform", lambda: "linux-amd64")
    with pytest.raises(ToolMissingError, match=r"python -m tools ensure$"):
        worker_folder()
    with pytest.raises(ToolMissingError, match="ensure --for training"):
        slurm_root(TRAINING)
    for contents in (SLURM, TRAINING):
        # What a made folder has last is its list of packages.
        made = SlurmRoot(contents, platform="linux-amd64")._folder()  # pyright: ignore[reportPrivateUsage]
        made.mkdir(parents=True)
        (made / MANIFEST).write_text("{}")
        assert worker_folder() == made
    assert slurm_root().name.startswith("slurm-26.05.")
    assert slurm_root(TRAINING).name.startswith("training-26.05.")


def test_a_folder_without_python_is_no_folder_for_training(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="it has no Python"):
        compile_python(tmp_path, lambda _done, _all: None)


def test_a_file_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evil.deb").write_bytes(debian.deb({"../../evil": "x"}))
    (tmp_path / "root").mkdir()
    with pytest.raises(DownloadError, match="outside the folder"):
        unpack(tmp_path / "evil.deb", tmp_path / "root")


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"no \.deb"):
        data_member(b"<html>")
    with pytest.raises(DownloadError, match=r"no data\.tar"):
        data_member(debian.deb({}, name="other"))
    (tmp_path / "cut.deb").write_bytes(debian.deb({"usr/bin/x": os.urandom(4000).hex()})[:-2000])
    with pytest.raises(DownloadError, match=r"cut\.deb can't be unpacked"):
        unpack(tmp_path / "cut.deb", tmp_path)


def test_packages_find_the_folders_that_the_first_one_lays_out(tmp_path: Path) -> None:
    for name, content in {
        "a_1_amd64.deb": debian.deb({"bin/tool": "x"}),
        "base-files_1_amd64.deb": debian.deb({"usr/bin/keep": ""}, {"bin": "usr/bin"}),
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "root").mkdir()
    ticks: list[int] = []
    build(sorted(tmp_path.glob("*.deb")), tmp_path / "root", ticks.append)
    assert (tmp_path / "root/usr/bin/tool").read_text() == "x"
    assert ticks == [1]
