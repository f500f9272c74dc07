"""Partitions and topology: what slurmctld would die on, and what it would silently drop."""

from __future__ import annotations

import pytest

from crusoe.rules import slurm_partitions as rules

H100, L40S, GB200 = "h100-80gb-sxm-ib.8x", "l40s-48gb.10x", "gb200-186gb-nvl.4x"
POOLS: dict[str, object] = {"train": {}, "burst": {}}


def check(partition: dict[str, object], name: str = "wide", **context: object) -> list[rules.Finding]:
    value = {name: {"pools": ["train"], **partition}}
    return rules.partitions(
        "p", value, POOLS, own_path="s.pools", kill_wait=90, **{"preemption": "partition", **context}
    )


@pytest.mark.parametrize(
    ("partition", "path", "words"),
    [
        ({"pools": ["trian"]}, "wide.pools[0]", "slurmctld would die on it. Write train"),
        ({"pools": ["train", "train"]}, "wide.pools[1]", "there already"),
        ({"pools": []}, "wide.pools", "has no nodes. Write one of train, burst"),
        ({"maxTime": "7d"}, "wide.maxTime", "Write '7-0'"),
        ({"maxTime": "0"}, "wide.maxTime", "no time"),
        ({"maxTime": "1:00:00", "defaultTime": "90"}, "wide.defaultTime", "silently drops it. Write '1:00:00'"),
        ({"minNodes": 5, "maxNodes": 4}, "wide.minNodes", "Write 4"),
        ({"graceTime": 120}, "wide.graceTime", "120 > killWait 90"),
        ({"allowAccounts": ["a"], "denyAccounts": ["b"]}, "wide.denyAccounts", "does not look at it"),
        ({"allowGroups": ["a b"]}, "wide.allowGroups[0]", "'a b' is no name"),
    ],
)
def test_refused(partition: dict[str, object], path: str, words: str) -> None:
    found = check(partition)
    assert [finding.path for finding in found] == [f"p.{path}"]
    assert words in str(found[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("default", "for defaults of the partitions after it"),
        ("a,b", "Call it 'a-b'"),
        ("1st", "Call it 'st'"),
        (
            "train",
            "has a partition of this name already, and slurmctld dies on a second one. Set s.pools.train.partition",
        ),
    ],
)
def test_names(name: str, words: str) -> None:
    (found,) = check({}, name)
    assert words in str(found)


def test_accepted() -> None:
    assert check({"pools": ["train", "burst"], "default": True, "maxTime": "UNLIMITED", "defaultTime": "1-0"}) == []
    assert check({"graceTime": 90, "preemptMode": "requeue"}) == []


def test_one_default_among_all_partitions() -> None:
    wide = {"a": {"pools": ["train"], "default": True}, "b": {"pools": ["train"]}}
    own = {"train": {"default": True}, "burst": None}
    (found,) = rules.partitions("p", wide, POOLS, own=own, own_path="s.pools")
    assert found.path == "p.a.default"
    assert "train is the default already" in str(found)


def test_a_pools_own_partition_is_of_that_pool() -> None:
    (found,) = rules.partitions("p", {}, POOLS, own={"train": {"pools": ["burst"]}}, own_path="s.pools")
    assert str(found).startswith("s.pools.train.partition.pools: this is the partition of train alone")


@pytest.mark.parametrize(("preemption", "fix"), [("qos", "Set it on the QOS"), ("off", "Write preemption: partition")])
def test_preemption_elsewhere(preemption: str, fix: str) -> None:
    found = check({"preemptMode": "requeue", "graceTime": 30}, preemption=preemption)
    assert [finding.path for finding in found] == ["p.wide.preemptMode", "p.wide.graceTime"]
    assert all(fix in str(finding) for finding in found)


def test_accounts_without_accounting() -> None:
    (found,) = check({"allowQos": ["normal"]}, accounting=False)
    assert "turn accounting on" in str(found)


@pytest.mark.parametrize(
    ("topology", "types", "path", "words"),
    [
        ({"kind": "tree"}, [L40S], "kind", "no switches to be near to. Write none"),
        ({"kind": "block"}, [H100], "kind", "no pool has hosts that share one. Write tree"),
        ({"kind": "tree", "leaves": ["a", "a"]}, [H100], "leaves[1]", "there already"),
        ({"kind": "tree", "leaves": ["unknown"], "defaultLeaf": "unknown"}, [H100], "leaves[0]", "there already"),
        ({"kind": "tree", "leaves": ["s[1-2]"]}, [H100], "leaves[0]", "no name of a leaf"),
        ({"kind": "tree", "leaves": ["x" * 65]}, [H100], "leaves[0]", "64 at most"),
        ({"kind": "block", "blockSize": 0}, [GB200], "blockSize", "Write 18"),
    ],
)
def test_topology(topology: dict[str, object], types: list[str], path: str, words: str) -> None:
    (found,) = rules.topology("p", topology, types)
    assert found.path == f"p.{path}"
    assert words in str(found)


def test_topologies_that_fit() -> None:
    assert rules.topology("p", {"kind": "tree", "leaves": ["leaf-1"], "defaultLeaf": "unknown"}, [H100, L40S]) == []
    assert rules.topology("p", {"kind": "block", "blockSize": 18}, [GB200]) == []
    assert rules.topology("p", {"kind": "none"}, [L40S]) == []
