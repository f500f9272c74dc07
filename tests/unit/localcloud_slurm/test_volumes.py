"""Volumes as folders."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from localcloud.slurm.volumes import MissingError, Sources, materialise
from tests.unit.localcloud_slurm.support import SOURCES, Json, pod


def made(tmp_path: Path, volume: Json, sources: Sources = SOURCES) -> Path:
    wanted = pod(volumes=[{"name": "v", **volume}])
    return materialise(wanted, tmp_path / "volumes", sources, single_user=True)["v"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def projected(*sources: Json, **fields: object) -> Json:
    return {"projected": {"sources": list(sources), **fields}}


def test_projected_files_with_their_mode(tmp_path: Path) -> None:
    secret = {"secret": {"name": "key", "items": [{"key": "slurm.key", "path": "deep/slurm.key"}]}}
    place = made(tmp_path, projected(secret, defaultMode=0o600))
    assert (place / "deep/slurm.key").read_bytes() == b"secret"
    assert mode(place / "deep/slurm.key") == 0o600


def test_a_token_lies_beside_what_comes_with_it(tmp_path: Path) -> None:
    source = {"serviceAccountToken": {"path": "token", "audience": "a"}}
    sources = Sources(token=lambda pod, source: f"{pod['metadata']['name']}/{source['audience']}")
    place = made(tmp_path, projected(source), sources)
    assert (place / "token").read_text() == "gpu-0/a"


def test_slurm_conf_comes_with_the_local_clouds_lines(tmp_path: Path) -> None:
    place = made(tmp_path, projected({"configMap": {"name": "conf"}}))
    assert (place / "slurm.conf").read_text() == "ClusterName=x\nInclude local-cloud.conf\n"
    assert "config_overrides" in (place / "local-cloud.conf").read_text()


def test_files_follow_their_object_and_go_with_it(tmp_path: Path) -> None:
    volume = {"configMap": {"name": "conf"}}
    place = made(tmp_path, volume)
    changed = Sources(config_maps={"conf": {"data": {"a.sh": "#!/bin/bash\n", "new": "n"}}})
    made(tmp_path, volume, changed)
    assert sorted(path.name for path in place.iterdir()) == ["a.sh", "new"]
    assert (place / "a.sh").read_text() == "#!/bin/bash\n"


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"secret": {"secretName": "key", "items": [{"key": "k", "path": "p"}]}}, "non-existent secret key: k"),
        ({"persistentVolumeClaim": {"claimName": "data"}}, 'claim "data" has no bound volume'),
        ({"nfs": {"server": "s"}}, "doesn't play"),
    ],
)
def test_what_is_missing_is_said_in_a_kubelets_words(tmp_path: Path, volume: Json, words: str) -> None:
    with pytest.raises(MissingError, match=words):
        made(tmp_path, volume)


def test_an_optional_object_may_be_absent(tmp_path: Path) -> None:
    assert list(made(tmp_path, {"secret": {"secretName": "none", "optional": True}}).iterdir()) == []


def test_a_claim_is_the_folder_of_its_disk_and_keeps_what_lies_there(tmp_path: Path) -> None:
    disk = tmp_path / "disks" / "d1"
    disk.mkdir(parents=True)
    (disk / "data").touch()
    sources = Sources(disks={"data": disk, "gpu-0-scratch": tmp_path / "scratch"})
    assert made(tmp_path, {"persistentVolumeClaim": {"claimName": "data"}}, sources) == disk
    assert (disk / "data").exists()
    made(tmp_path, {"ephemeral": {}}, Sources(disks={"gpu-0-v": tmp_path / "scratch"}))
    assert (tmp_path / "scratch").is_dir()


def test_a_host_path_is_a_folder_of_the_pod_not_of_this_machine(tmp_path: Path) -> None:
    assert made(tmp_path, {"hostPath": {"path": "/etc"}}) == tmp_path / "volumes" / "v"
