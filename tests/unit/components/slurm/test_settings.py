"""Wrong settings of Slurm: each is refused by its path, with what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import merge
from tests.unit.components.support import Json, deploy_platform, faults, settings_document

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExample ada"
DISKS: Json = {"home": {"size": "1TiB"}, "scratch": {"type": "persistent-ssd", "size": "100GiB"}}
MANAGED: Json = {
    "mode": "managed",
    "login": {"rootKeys": [KEY]},
    "managed": {"nodeSets": {"train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}},
}


def told(slurm: Json, pools: Json | None = None) -> dict[str, str]:
    document = settings_document(storage={"disks": DISKS}, slurm=slurm)
    document["nodePools"] = merge(document["nodePools"], pools or {})
    return faults(document)


@pytest.mark.parametrize("slurm", [{}, {"mode": "slinky"}, MANAGED, {"home": {"disk": "home"}}])
def test_right_settings(slurm: Json) -> None:
    assert told(slurm) == {}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("mode", "slurm", "not one of the known values"),
        ("login.cidrs", ["0.0.0.0/0"], "open to the whole world"),
        ("login.cidrs", ["::/0"], "open to the whole world"),
        ("login.cidrs", ["10.0.0.1/8"], "10.0.0.0/8"),
        ("login.replicas", 0, "greater than or equal to 1"),
        ("login.rootKeys", ["ssh-dss AAAA"], "not an SSH public key"),
        ("login.template", {"nodeSelectr": {}}, "Write nodeSelector"),
        ("pools.ghost", {}, "there is no node pool 'ghost'"),
        ("pools.train", {"template": {"tolerations": "all"}}, "not a list"),
        ("pools.train", {"maxUnavailable": "0%"}, "pattern"),
        ("pools.train", {"include": False}, "Slurm has no workers"),
        ("home.disk", "ghost", "there is no disk 'ghost'"),
        ("home.disk", "scratch", "can be mounted by one VM only"),
        ("home.mounts", {"home": "/etc"}, "no place for a disk"),
        ("home.mounts", {"home": "data"}, "no place for a disk"),
        ("charts.source", "http://charts.example.com", "neither oci:// nor https://"),
        ("charts.source", "./nowhere", "there are no charts in the folder"),
        ("images.tag", "latest", "not a tag of Slurm's images"),
        ("images.tag", "24.05.1-ubuntu24.04", "runs Slurm 25.11 and 26.05"),
        ("images.digests", {"slurmctl": "sha256:" + "a" * 64}, "there is no such image"),
        ("images.digests", {"slurmctld": "abc"}, "not a digest"),
        ("images.registry", "https://registry.example.com", "not a registry"),
        ("state.size", "16Gi", "not a size"),
        ("accounting.database", {"host": "db.example.com"}, "needs a password"),
        ("accounting.database", {"passwordSecret": "x"}, "gets a password of its own"),
        ("clusterName", "c" * 41, "40 are allowed"),
        ("managed", {"nodeSets": {}}, "only Crusoe Managed Slurm has it"),
        ("partitions", {"big": {"pools": ["ghost"]}}, "no pool of Slurm's is called 'ghost'"),
        ("conf.options", {"KillWiat": 1}, "Write KillWait"),
        ("conf.options", {"ClusterName": "x"}, "can't be set here"),
        ("timing.killWait", 30, "torchrun"),
        ("people.users", {"root": {"keys": [KEY]}}, "user of the system"),
        ("people.users", {"Ada": {"keys": [KEY]}}, "32 lower-case letters"),
        ("people.users", {"ada": {"keys": []}}, "at least 1"),
        ("people.users", {"ada": {"keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}}, "private key"),
        ("people.users", {"ada": {"keys": [KEY], "uid": 500}}, "not between 10000 and 29999"),
        ("people.users", {"ada": {"keys": [KEY], "groups": ["ghost"]}}, "there is no group 'ghost'"),
        (
            "people.users",
            {"ada": {"keys": [KEY], "uid": 10001}, "bob": {"keys": [KEY], "uid": 10001}},
            "already that of platform.slurm.people.users.ada.uid",
        ),
        ("people.groups", {"vision": {"gid": 5}}, "not between 50000 and 65533"),
        ("people.groups", {"vision": {}}, "missing; files belong to the number"),
        ("people.groups", {"video": {"gid": 50001}}, "user of the system"),
        ("people.users", {"ada": {"keys": [KEY]}}, "missing; files belong to the number"),
        ("people.users", {"ada": {"keys": [KEY], "uid": 10001, "fullName": "Ada:0"}}, "has a colon"),
        ("people", {"sssdConfSecret": "x", "users": {"ada": {"keys": [KEY], "uid": 10001}}}, "can't be here too"),
        ("notify", {}, "missing"),
        ("notify", {"webhookSecret": "x", "states": ["DONE"]}, "not one of the known values"),
        ("notify", {"webhookSecret": "x", "states": []}, "at least 1"),
        ("login.noticeMinutes", -1, "greater than or equal to 0"),
    ],
)
def test_wrong_settings_are_refused_by_path(path: str, value: Any, words: str) -> None:
    slurm: Json = {}
    place = slurm
    *parents, last = path.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    found = told(slurm)
    assert any(words in each for each in found.values()), found
    assert all(each.startswith(("platform.slurm", "platform.nodePools")) for each in found)


def test_the_world_may_come_in_for_a_reason() -> None:
    login = {"cidrs": ["0.0.0.0/0"], "openToTheWorldReason": "a conference on 2 May"}
    assert told({"login": login}) == {}


def test_a_private_key_is_never_repeated() -> None:
    secret = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXk"
    found = told({"people": {"users": {"ada": {"uid": 10001, "keys": [secret]}}}, "login": {"rootKeys": [secret]}})
    assert len(found) == 2
    assert "b3BlbnNzaC1rZXk" not in str(found)


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"train": {"type": "l40s-48gb.4x"}}, "slice of a host"),
        ({"train": {"count": None, "autoscaling": {"min": 1, "max": 2}}}, "Write scalingMode: DaemonSet"),
    ],
)
def test_pools_that_slurm_can_not_use(pool: Json, words: str) -> None:
    found = told({}, pool)
    assert any(words in each for each in found.values()), found


def test_the_reserve_would_not_stay_free_under_a_daemon_set() -> None:
    found = told({"pools": {"train": {"scalingMode": "DaemonSet"}}}, {"train": {"count": 3, "reserve": 1}})
    assert "would not stay free" in found["platform.slurm.pools.train.scalingMode"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("clusterName", "research"),
        ("pools", {"train": {"weight": 2}}),
        ("partitions", {"big": {"pools": ["train"]}}),
        ("timing", {"killWait": 120}),
        ("topology", {"kind": "tree"}),
        ("conf", {"options": {"MaxArraySize": 10}}),
        ("accounting", {"enabled": False}),
        ("state", {"size": "32GiB"}),
        ("charts", {"timeoutSeconds": 60}),
        ("images", {"containers": "pyxis"}),
        ("home", {"disk": "home"}),
        ("keyVersion", 2),
        ("nodeConditions", ["KernelDeadlock"]),
        ("login.cpus", 4),
        ("login.memory", "16Gi"),
        ("login.template", {"nodeSelector": {}, "hostUsers": True}),
    ],
)
def test_what_managed_slurm_does_not_have_is_refused_by_name(path: str, value: Any) -> None:
    change: Any = value
    for key in reversed(path.split(".")):
        change = {key: change}
    found = told(merge(MANAGED, change))
    assert "Crusoe Managed Slurm does not have it" in found[f"platform.slurm.{path}"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"login": {"rootKeys": []}}, "platform.slurm.login.rootKeys"),
        ({"managed": None}, "platform.slurm.managed"),
    ],
)
def test_what_managed_slurm_needs(change: Json, path: str) -> None:
    assert path in told(merge(MANAGED, change))


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"homeSize": "500Gi"}, "homeSize", "Ti"),
        ({"loginNodeType": "h100-80gb-sxm-ib.8x"}, "loginNodeType", "only block"),
        ({"name": "n" * 36}, "name", "35 are allowed"),
        ({"nodeSets": {"login": {"type": "h100-80gb-sxm-ib.8x", "count": 1}}}, "nodeSets.login.name", "reserved"),
        ({"nodeSets": {"b": {"type": "a100-80gb.1x", "count": 1}}}, "nodeSets.b.type", "slice"),
        ({"nodeSets": {"b": {"type": "mi355x-288gb-roce.8x", "count": 1}}}, "nodeSets.b.transportPartitionId", "RoCE"),
        ({"nodeSets": {"b": {"type": "l40s-48gb.10x", "count": 1, "name": "train"}}}, "nodeSets.b.name", "already"),
    ],
)
def test_what_managed_slurm_can_not_be(change: Json, path: str, words: str) -> None:
    found = told(merge(MANAGED, {"managed": change}))
    assert words in found[f"platform.slurm.managed.{path}"], found


def test_no_slurm_no_resources() -> None:
    assert [each for each in deploy_platform(settings_document()).resources if "slurm" in each.name] == []


def test_crusoe_numbers_the_users_of_managed_slurm_itself() -> None:
    people: Json = {"users": {"ada": {"keys": [KEY], "groups": ["vision"]}}, "groups": {"vision": {}}}
    assert told({**MANAGED, "people": people}) == {}
    assert "does not have it" in str(told({**MANAGED, "people": {"sssdConfSecret": "x"}}))
