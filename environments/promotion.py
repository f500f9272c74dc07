"""How two stacks differ, in terms of the platform: what has to differ apart from what probably should not.

Settings are compared with their defaults filled in, so that a default written down is no difference. Each difference
belongs to a part of the platform; whether it is expected is said in one table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from components import node_pools
from components.platform import PlatformSettings
from crusoe.rules.values import table, text
from environments.stack_file import StackFile

ABSENT = "not set"


class Topic(StrEnum):
    """What a difference is about, in the order in which it is told."""

    PARTS = "parts"
    POOLS = "pools and GPUs"
    VERSIONS = "versions and charts"
    REPAIRS = "AutoClusters"
    EXPOSURE = "exposure"
    PROTECTION = "protection and policies"
    PLACE = "names, places and ranges"
    OTHER = "other settings"


@dataclass(frozen=True)
class Difference:
    """One setting that differs: its path, and each side's value in words."""

    topic: Topic
    path: str
    old: str
    new: str
    expected: bool


_TOPICS: Sequence[tuple[str, Topic, bool]] = (
    # What makes an environment itself.
    (r"secretsprovider|config\.state:backend", Topic.PLACE, True),
    (r"cloud\.(endpoint|project)|location", Topic.PLACE, True),
    (r"network\.(name|subnetName|cidr|subnetCidr|infiniband.*)|(.+\.)?name", Topic.PLACE, True),
    (r"cluster\.(clusterCidr|serviceClusterIpRange)", Topic.PLACE, True),
    (r".*\.(reservation|transportPartitionId|nvlinkDomainId)(\..*)?", Topic.PLACE, True),
    (r"config\.(?!pulumi:).*", Topic.PLACE, True),
    # What the same code means for all.
    (r"(.+\.)?version|slurm\.(charts|images)(\..*)?|(.+\.)?image", Topic.VERSIONS, False),
    (r"autoClusters(\..*)?|nodePools\.[^.]+\.consentMode", Topic.REPAIRS, False),
    (r"protect|config\.pulumi:.*", Topic.PROTECTION, False),
    # Who may come in differs by office, how does not.
    (r"(.+\.)?(cidrs|issuerUrl|clientId)", Topic.EXPOSURE, True),
    (r"network\.(ingress|natGateway)(\..*)?|cluster\.(private|oidc|viewers|operators)(\..*)?", Topic.EXPOSURE, False),
    (r"nodePools\.[^.]+\.(publicIpType|sshPublicKey)|slurm\.login\.(public|ports?|cidrs)", Topic.EXPOSURE, False),
    # Sizes.
    (r"nodePools\.[^.]+(\.(type|count|minCount|reserve|autoscaling)(\..*)?)?", Topic.POOLS, True),
    (r"nodePools\..*", Topic.POOLS, False),
    (r"storage\.disks\.[^.]+", Topic.OTHER, True),
    (r"(.+\.)?(size|replicas|floor|ceiling|cpus|memory|count)", Topic.OTHER, True),
    (r"slurm\.people(\..*)?", Topic.OTHER, True),
)


def differences(old: StackFile, new: StackFile) -> list[Difference]:
    """Return what differs, by topic, then by path."""
    found = [*_parts(old.settings, new.settings)]
    before, after = _leaves(old), _leaves(new)
    whole_parts = {each.path for each in found}
    for entry in _one_sided(before, after):
        # An entry of one side is one difference, and not one for each of its defaults.
        before, after = _folded(entry, before), _folded(entry, after)
    for path in sorted(before.keys() | after.keys()):
        if path.partition(".")[0] in whole_parts or before.get(path, ABSENT) == after.get(path, ABSENT):
            continue
        topic, expected = _judged(path)
        found.append(Difference(topic, path, before.get(path, ABSENT), after.get(path, ABSENT), expected))
    order = list(Topic)
    return sorted(found, key=lambda each: (order.index(each.topic), each.path))


_ENTRY = re.compile(r"((?:nodePools|storage\.disks|network\.ingress|slurm\.people\.(?:users|groups))\.[^.]+)\..+")
_TELLING = ("count", "type", "size", "ports", "cidrs", "uid", "gid")


def _one_sided(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths of pools, disks, ways in and people that one side has and the other has not."""
    entries = [{match[1] for path in side if (match := _ENTRY.fullmatch(path))} for side in (before, after)]
    return sorted(entries[0] ^ entries[1])


def _folded(entry: str, side: Mapping[str, str]) -> dict[str, str]:
    """A side with one entry's settings as one, told by those that say most."""
    inside = {path.removeprefix(f"{entry}."): value for path, value in side.items() if path.startswith(f"{entry}.")}
    rest = {path: value for path, value in side.items() if not path.startswith(f"{entry}.")}
    if not inside:
        return rest
    told = [f"{name} {inside[name]}" for name in _TELLING if name in inside]
    return {**rest, entry: ", ".join(told)}


def _judged(path: str) -> tuple[Topic, bool]:
    return next(
        ((topic, expected) for pattern, topic, expected in _TOPICS if re.fullmatch(pattern, path)), (Topic.OTHER, False)
    )


_PARTS = {"slurm": "Slurm", "gpuSharing": "GPU sharing"}


def _parts(old: PlatformSettings, new: PlatformSettings) -> Iterator[Difference]:
    """Whole parts that one side has and the other has not."""
    for name, spoken in _PARTS.items():
        sides = [table(_dumped(side)).get(name) is not None for side in (old, new)]
        if sides[0] != sides[1]:
            words = [spoken if side else f"no {spoken}" for side in sides]
            yield Difference(Topic.PARTS, name, words[0], words[1], expected=False)


def _leaves(stack: StackFile) -> dict[str, str]:
    """Every setting of a stack by its path below `platform`, as text; the stack's own name in a value is `<stack>`."""
    found = dict(_flat("", stack.settings.model_dump(mode="json", by_alias=True, exclude_none=True)))
    found |= {f"config.{key}": str(value) for key, value in stack.config.items()}
    found["secretsprovider"] = stack.secrets_provider or ABSENT
    return found


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in table(cast("object", value)).items():
            yield from _flat(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list):
        entries = cast("list[object]", value)
        named = {text(table(entry).get("name")): entry for entry in entries}
        if entries and None not in named and len(named) == len(entries):
            # An entry of another place in the list is the same one.
            for name, entry in named.items():
                rest = {key: inner for key, inner in table(entry).items() if key != "name"}
                yield from _flat(f"{path}.{name}", rest)
        else:
            yield path, ", ".join(map(str, entries)) or "none"
    else:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)


def lines(old: StackFile, new: StackFile) -> list[str]:
    """Return the whole comparison as lines of text."""
    found = differences(old, new)
    told = [f"From {old.stack} to {new.stack}:", *_summary(old, new)]
    for expected, title in (
        (False, "Probably should not differ, so that what was tried is what arrives:"),
        (True, "Has to differ, or may: names, places, ranges, sizes, people:"),
    ):
        chosen = [each for each in found if each.expected is expected]
        told += ["", title, *(_told(chosen) or ["  nothing"])]
    return told


def _told(found: Sequence[Difference]) -> list[str]:
    told: list[str] = []
    for topic in Topic:
        here = [each for each in found if each.topic is topic]
        if here:
            told.append(f"  {topic}")
            told += [f"    {each.path}: {each.old} -> {each.new}" for each in here]
    return told


def _summary(old: StackFile, new: StackFile) -> Iterator[str]:
    for side in (old, new):
        settings = side.settings
        pools = node_pools.plan(
            settings.node_pools, stack=side.stack, cluster_version=settings.cluster.version, protect=settings.protect
        )
        totals = node_pools.gpu_totals(pools)
        gpus = ", ".join(f"{_range(total)} GPUs of {kind}" for kind, total in totals.items()) or "no GPUs"
        parts = [spoken for name, spoken in _PARTS.items() if table(_dumped(settings)).get(name) is not None]
        beside = f"; {' and '.join(parts)}" if parts else ""
        yield f"  {side.stack}: CMK {settings.cluster.version}, {len(pools)} pools, {gpus}{beside}"


def _dumped(settings: PlatformSettings) -> object:
    return settings.model_dump(by_alias=True)


def _range(total: Mapping[str, int]) -> str:
    low, high = total["min"], total["max"]
    return str(low) if low == high else f"{low} to {high}"
