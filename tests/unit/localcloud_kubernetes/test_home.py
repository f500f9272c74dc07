"""The files and the record of a cluster."""

from __future__ import annotations

from pathlib import Path

from localcloud.kubernetes.home import COMPONENTS, Home, Ports, Record, homes, write_private

PORTS = Ports(21001, 21002, 21003, 21004, 21005, 21006)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record(PORTS, created=True, add_ons=("core", "crusoe_csi"))
    Home(tmp_path, "a").write(record)
    assert Home(tmp_path, "a").read() == record


def test_a_cluster_that_was_never_begun_has_no_record(tmp_path: Path) -> None:
    assert Home(tmp_path, "a").read() is None


def test_discarding_the_data_keeps_the_ports(tmp_path: Path) -> None:
    home = Home(tmp_path, "a")
    home.write(Record(PORTS))
    home.folder.mkdir(parents=True)
    home.discard_data()
    assert not home.folder.exists()
    assert home.read() == Record(PORTS)


def test_discarding_leaves_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path, "a")
    home.write(Record(PORTS))
    for path in (home.configuration, home.kwokctl_log, home.oidc_ca, home.kwok_yaml):
        write_private(path, "")
    home.discard()
    assert homes(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_cluster_is_known_by_its_record_or_by_its_folder_alone(tmp_path: Path) -> None:
    Home(tmp_path, "a").write(Record(PORTS))
    Home(tmp_path, "b").folder.mkdir(parents=True)
    assert [home.cluster_id for home in homes(tmp_path)] == ["a", "b"]


def test_every_component_has_its_ports_and_etcd_two() -> None:
    assert {name: PORTS.of(name) for name in COMPONENTS} == {
        "etcd": (21001, 21002),
        "kube-apiserver": (21003,),
        "kube-controller-manager": (21004,),
        "kube-scheduler": (21005,),
        "kwok-controller": (21006,),
    }


def test_private_files_are_for_this_user_only_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    write_private(path, "first")
    write_private(path, "second")
    assert path.read_text() == "second"
    assert path.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]
