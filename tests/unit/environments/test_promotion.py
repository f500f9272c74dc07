"""Two stacks compared: what has to differ apart from what probably should not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from environments import promotion, stack_file
from environments.promotion import Topic
from tests.harness import merge

ROOT = Path(__file__).parents[3]
PROD = yaml.safe_load((ROOT / "Pulumi.prod.yaml").read_text())


def pair(folder: Path, changes: dict[str, Any], **top: Any) -> tuple[stack_file.StackFile, stack_file.StackFile]:
    """The shipped prod, and a copy of it with changes, as stack files."""
    (folder / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    new = copy.deepcopy(PROD)
    new["config"]["platform"] = merge(new["config"]["platform"], changes)
    new = merge(new, top)
    for stack, content in (("one", PROD), ("two", new)):
        (folder / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(content))
    return stack_file.read(folder, "one"), stack_file.read(folder, "two")


def test_the_same_twice_differs_in_nothing(tmp_path: Path) -> None:
    assert promotion.differences(*pair(tmp_path, {})) == []


def test_a_default_that_is_written_down_is_no_difference(tmp_path: Path) -> None:
    changes = {
        "cluster": {"private": False},
        "network": {"natGateway": True},
        "nodePools": {"train": {"retire": False}},
    }
    assert promotion.differences(*pair(tmp_path, changes)) == []


@pytest.mark.parametrize(
    ("changes", "topic", "path", "expected"),
    [
        ({"cluster": {"version": "1.33.4-cmk.93"}}, Topic.VERSIONS, "cluster.version", False),
        ({"slurm": {"charts": {"source": "oci://x.example.com/y"}}}, Topic.VERSIONS, "slurm.charts.source", False),
        ({"autoClusters": {"actions": {"XID_79": None}}}, Topic.REPAIRS, "autoClusters.actions.XID_79", False),
        ({"protect": False}, Topic.PROTECTION, "protect", False),
        ({"cluster": {"private": True}}, Topic.EXPOSURE, "cluster.private", False),
        ({"slurm": {"login": {"cidrs": ["192.0.2.0/24"]}}}, Topic.EXPOSURE, "slurm.login.cidrs", True),
        ({"nodePools": {"train": {"count": 34}}}, Topic.POOLS, "nodePools.train.count", True),
        (
            {"nodePools": {"train": {"nodeLabels": {"example.com/a": "b"}}}},
            Topic.POOLS,
            "nodePools.train.nodeLabels.example.com/a",
            False,
        ),
        ({"cloud": {"project": "other"}}, Topic.PLACE, "cloud.project", True),
        ({"network": {"cidr": "10.30.0.0/16", "subnetCidr": "10.30.0.0/20"}}, Topic.PLACE, "network.cidr", True),
        ({"storage": {"disks": {"home": {"size": "30TiB"}}}}, Topic.OTHER, "storage.disks.home.size", True),
        ({"slurm": {"topology": {"kind": "none"}}}, Topic.OTHER, "slurm.topology.kind", False),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_difference_has_its_topic_and_is_expected_or_not(
    tmp_path: Path, changes: dict[str, Any], topic: Topic, path: str, expected: bool
) -> None:
    found = {each.path: each for each in promotion.differences(*pair(tmp_path, changes))}
    assert (found[path].topic, found[path].expected) == (topic, expected)
    assert len(found) == (2 if path == "network.cidr" else 1)


def test_an_entry_of_one_side_is_one_difference(tmp_path: Path) -> None:
    changes = {"nodePools": {"more": {"type": "l40s-48gb.10x", "count": 3}}}
    [found] = promotion.differences(*pair(tmp_path, changes))
    assert (found.path, found.old, found.new) == ("nodePools.more", "not set", "count 3, type l40s-48gb.10x")


def test_a_part_of_one_side_is_one_difference(tmp_path: Path) -> None:
    [found] = promotion.differences(*pair(tmp_path, {"gpuSharing": None}))
    assert (found.topic, found.new) == (Topic.PARTS, "no GPU sharing")


def test_the_order_of_named_entries_is_no_difference(tmp_path: Path) -> None:
    ingress = PROD["config"]["platform"]["network"]["ingress"]
    assert promotion.differences(*pair(tmp_path, {"network": {"ingress": [*reversed(ingress)]}})) == []


def test_backend_and_secrets_provider_are_expected_and_secrets_never_show(tmp_path: Path) -> None:
    secret = {"config": {"state:backend": "s3://two", "slurm-key": {"secure": "v1:abc:canary"}}}
    old, new = pair(tmp_path, {}, secretsprovider="awskms://alias/two", **secret)
    text = "\n".join(promotion.lines(old, new))
    assert "secretsprovider: passphrase -> awskms://alias/two" in text
    assert "state:backend: s3://research-prod-state?region=us-east-1 -> s3://two" in text
    assert "config.slurm-key: not set -> [secret]" in text
    assert "canary" not in text


def test_the_shipped_stacks_are_told_in_terms_of_the_platform() -> None:
    text = "\n".join(promotion.lines(stack_file.read(ROOT, "staging"), stack_file.read(ROOT, "prod")))
    assert "staging: CMK 1.35.5, 2 pools, 20 GPUs of l40s-48gb.10x; Slurm" in text
    unlike, _, alike = text.partition("Has to differ")
    assert "cluster.version: 1.35.5 -> 1.33.4-cmk.73" in unlike
    assert "cloud.project: research-staging -> research-prod" in alike
