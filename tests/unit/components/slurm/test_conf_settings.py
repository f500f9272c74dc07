"""Settings of slurm.conf: all faults at once, each with the path that the user wrote."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import Field

from components.settings import Plain, Settings, SettingsError, parse
from components.slurm.conf_settings import (
    ConfSettings,
    PartitionSettings,
    TimingSettings,
    TopologySettings,
    findings,
)

POOLS: Plain = {"train": {"type": "h100-80gb-sxm-ib.8x"}, "burst": {"type": "l40s-48gb.10x"}}


class Slurm(Settings):
    """The part of Slurm's settings that slurm.conf is made from."""

    timing: TimingSettings = TimingSettings()
    topology: TopologySettings = TopologySettings()
    conf: ConfSettings = ConfSettings()
    partitions: Mapping[str, PartitionSettings] = Field(default={})
    pools: Mapping[str, dict[str, object]] = Field(default={})


def faults(document: dict[str, object], *, accounting: bool = True, pools: Plain = POOLS) -> dict[str, str]:
    def check(slurm: Plain) -> list[object]:
        return list(findings(slurm, "s", pools, accounting=accounting, pools_path="platform.nodePools"))

    try:
        parse(Slurm, document, "s", [check])  # pyright: ignore[reportArgumentType] - a list of findings
    except SettingsError as error:
        return {finding.path: f"{finding.problem}. {finding.fix}" for finding in error.findings}
    return {}


def test_defaults_are_right_with_and_without_accounting() -> None:
    assert faults({}) == {}
    assert faults({}, accounting=False) == {}


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        ({"timing": {"killWait": 60}}, "s.timing.torchrunShutdown", "80 >= killWait 60"),
        ({"timing": {"podGrace": 100}}, "s.timing.podGrace", "30 + killWait 90 + 30 = 150 s"),
        ({"timing": {"credExpire": 5}}, "s.timing.credExpire", "allowShortCredExpire"),
        ({"timing": {"killwait": 60}}, "s.timing.killwait", "Write killWait"),
        ({"conf": {"options": {"KilWait": 5}}}, "s.conf.options.KilWait", "Write KillWait"),
        ({"conf": {"options": {"KillWait": 5}}}, "s.conf.options.KillWait", "Set s.timing.killWait"),
        ({"conf": {"options": {"MetricsType": "x"}}}, "s.conf.options.MetricsType", "operator writes it"),
        ({"conf": {"options": {"BatchStartTimeout": 60}}}, "s.timing.credExpire", "BatchStartTimeout 60 = 70 s"),
        ({"conf": {"privateData": ["jobs", "usrs"]}}, "s.conf.privateData", "Write users"),
        ({"partitions": {"x": {"pools": ["trian"]}}}, "s.partitions.x.pools[0]", "Write train"),
        ({"partitions": {"train": {"pools": ["burst"]}}}, "s.partitions.train", "Set s.pools.train.partition"),
        ({"partitions": {"x": {"pools": ["train"], "graceTime": 9}}}, "s.partitions.x.graceTime", "on the QOS"),
        ({"pools": {"train": {"partition": {"maxTime": "7d"}}}}, "s.pools.train.partition.maxTime", "Write '7-0'"),
        ({"topology": {"kind": "block"}}, "s.topology.kind", "Write tree"),
        ({"topology": {"kind": "ring"}}, "s.topology.kind", "not one of the known values"),
    ],
)
def test_refused(document: dict[str, object], path: str, words: str) -> None:
    found = faults(document)
    assert list(found) == [path]
    assert words in found[path]


def test_all_faults_are_told_at_once() -> None:
    found = faults({"timing": {"killWait": 60, "credExpire": 1}, "topology": {"kind": "block", "leaves": ["a", "a"]}})
    assert {"s.timing.torchrunShutdown", "s.timing.credExpire", "s.topology.kind", "s.topology.leaves[1]"} <= set(found)


def test_two_vendors_need_names_that_are_known() -> None:
    pools: Plain = {**POOLS, "amd": {"type": "mi300x-192gb-ib.8x"}}
    assert faults({}, pools=pools) == {}
    found = faults({"pools": {"train": {"scalingMode": "DaemonSet"}}}, pools=pools)
    assert list(found) == ["s.pools.train.scalingMode"]
