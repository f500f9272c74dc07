"""Node pools: VM type and fabric, counts, labels and taints, what each CMK generation has, the system pool.

Facts: Crusoe's API description (2026-07-20): at most 50 taints, unique by key and effect, prefix `crusoe.ai/` reserved,
placement policy not used for GPU types; `consent_mode` and `update_settings` are CMK v2's, and CMK v1 keeps the VMs of
a pool whose count is lowered. Syntax of labels and taints is that of Kubernetes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crusoe import catalog
from crusoe.rules import versions
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_NODES = 10_000
"""Nodes in one pool above which a number is taken for a slip."""

MOST_TAINTS = 50
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
CONSENT_MODES = ("auto", "propose", "off")
PUBLIC_IP_TYPES = ("dynamic", "static", "none")
SELECTION_STRATEGIES = ("lowest_cost", "on_demand")
PLACEMENT_POLICIES = ("spread", "unspecified")

RESERVED_DOMAINS = ("crusoe.ai", "kubernetes.io", "k8s.io")
"""Key prefixes that belong to Crusoe and to Kubernetes, subdomains included; the platform sets those itself."""

V2_ONLY = {
    "consentMode": "leave it out; on v1 repairs are set in AutoClusters",
    "allowScaleDown": "write leaveVmsOnScaleDown",
}
V1_ONLY = {"leaveVmsOnScaleDown": "write allowScaleDown"}
"""Settings that one generation has, with what the other offers instead."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def vm_type(path: str, value: object) -> list[Finding]:
    """Check that the VM type is known, and name the one that was probably meant."""
    given = text(value)
    if given is None or catalog.vm_type(given) is not None:
        return []
    near = catalog.suggest(given)
    fix = f"Write {' or '.join(map(repr, near))}" if near else "Write one such as 'h100-80gb-sxm-ib.8x' or 'c1a.8x'"
    return [Finding(path, f"{given[:60]!r} is not a VM type", fix)]


def fabric(path: str, value: object, *, has_partition: bool, partition_path: str) -> list[Finding]:
    """Check that a type with InfiniBand or RoCE has a partition to join, and another type has none.

    `partition_path` is the setting that gives the pool its partition.
    """
    found = catalog.vm_type(value)
    if found is None or (found.fabric is not None) == has_partition:
        return []
    if found.fabric is not None:
        return [
            Finding(
                partition_path,
                f"{found.name} ({path}) needs a partition of an {_fabric(found.fabric)} network, and there is none",
                "Give the id of a network in the pool's location that has capacity for the type",
            )
        ]
    beside = f"{found.family}-ib.{found.gpus_per_host}x"
    connected = beside if catalog.vm_type(beside) else "h100-80gb-sxm-ib.8x"
    problem = f"{found.name} has no InfiniBand, so its pool can't join a partition"
    return [
        Finding(partition_path, problem, f"Leave the partition out, or use a type with a fabric such as {connected!r}")
    ]


def counts(path: str, *, count: object = None, min_count: object = None, autoscaling: object = None) -> list[Finding]:
    """Check the numbers of a pool: `minCount` at most `count`, autoscaling's bounds, and one owner of the count."""
    found: list[Finding] = []
    number, least, bounds = whole(count), whole(min_count), table(autoscaling)
    for key, given in (("count", number), ("minCount", least)):
        if given is not None and not 0 <= given <= MOST_NODES:
            found.append(
                Finding(
                    f"{path}.{key}", f"{given} is not between 0 and {MOST_NODES}", f"Write {2 if key == 'count' else 1}"
                )
            )
    if bounds:
        found += _bounds(f"{path}.autoscaling", bounds)
        low, high = whole(bounds.get("min")), whole(bounds.get("max"))
        if number is not None:
            problem = (
                "with autoscaling the autoscaler owns the number of nodes, and a count would undo its work at each run"
            )
            found.append(Finding(f"{path}.count", problem, "Leave the count out, or leave autoscaling out"))
        if least is not None and low is not None and least > low:
            problem = f"the pool may shrink to {low} nodes ({path}.autoscaling.min), but {least} are asked for at least"
            found.append(Finding(f"{path}.minCount", problem, f"Write {low}"))
        if high is not None and low is not None and 0 <= low <= high and high > MOST_NODES:
            found.append(Finding(f"{path}.autoscaling.max", f"{high} is above {MOST_NODES}", f"Write {max(low, 8)}"))
    elif number is not None and least is not None and 0 <= number < least:
        found.append(Finding(f"{path}.minCount", f"{least} is more than the count, {number}", f"Write {number}"))
    return found


def _bounds(path: str, bounds: Mapping[str, object]) -> list[Finding]:
    low, high = whole(bounds.get("min")), whole(bounds.get("max"))
    found = [
        Finding(f"{path}.{key}", f"{given} is below zero", f"Write {least}")
        for key, given, least in (("min", low, 0), ("max", high, 1))
        if given is not None and given < 0
    ]
    if not found and high == 0:
        found.append(Finding(f"{path}.max", "0 leaves the pool without nodes for good", f"Write {max(low or 0, 1)}"))
    elif not found and low is not None and high is not None and low > high:
        found.append(Finding(f"{path}.min", f"{low} is more than the maximum, {high}", f"Write {high}"))
    return found


def labels(path: str, value: object) -> list[Finding]:
    """Check node labels: syntax, and no key of Crusoe's or Kubernetes' own."""
    found: list[Finding] = []
    for key, content in table(value).items():
        found += _key(f"{path}.{key}", key)
        if isinstance(content, str) and content and not _NAME.fullmatch(content):
            found.append(Finding(f"{path}.{key}", f"{content[:70]!r} is not a label value", _value_fix(content)))
    return found


def taints(path: str, value: object) -> list[Finding]:
    """Check node taints: syntax, effects, each key and effect once, at most 50, no reserved key."""
    given = items(value)
    found: list[Finding] = []
    if len(given) > MOST_TAINTS:
        found.append(
            Finding(path, f"{len(given)} taints, {MOST_TAINTS} are allowed", f"Leave {len(given) - MOST_TAINTS} out")
        )
    seen: dict[tuple[str, str], int] = {}
    for index, each in enumerate(given):
        taint, place = table(each), f"{path}[{index}]"
        key, effect, content = text(taint.get("key")), text(taint.get("effect")), text(taint.get("value"))
        if key is None and isinstance(each, dict) and not isinstance(taint.get("key"), (int, float, list, dict)):
            found.append(Finding(f"{place}.key", "missing", "Write one such as 'example.com/dedicated'"))
        if key is not None:
            found += _key(f"{place}.key", key)
        if effect is not None and effect not in EFFECTS:
            near = next(
                (known for known in EFFECTS if known.lower() == re.sub(r"[^a-z]", "", effect.lower())), EFFECTS[0]
            )
            found.append(
                Finding(f"{place}.effect", f"{effect[:40]!r} is not one of {', '.join(EFFECTS)}", f"Write {near!r}")
            )
        if content is not None and not _NAME.fullmatch(content):
            found.append(Finding(f"{place}.value", f"{content[:70]!r} is not a taint value", _value_fix(content)))
        if key is not None and effect is not None:
            first = seen.setdefault((key, effect), index)
            if first != index:
                problem = f"{key}:{effect} is there already, as {path}[{first}]"
                found.append(Finding(place, problem, "Leave one out, or give it another effect"))
    return found


def system_pool(path: str, pools: object) -> list[Finding]:
    """Check that the cluster's own pods have somewhere to run: one CPU pool that keeps at least one node untainted.

    `pools` maps each pool's key to `{type, count?, autoscaling?, nodeTaints?}`.
    """
    given = table(pools)
    if not isinstance(pools, dict):
        return []
    if not any(_is_system_pool(table(pool)) for pool in given.values()):
        problem = "no pool is left for cluster add-ons: DNS and GPU operators need an untainted CPU pool with a node"
        return [Finding(path, problem, "Add one: `system: {type: c1a.8x, count: 2}`")]
    return []


def _is_system_pool(pool: Mapping[str, object]) -> bool:
    kind = catalog.vm_type(pool.get("type"))
    # An unknown type and a negative count have findings of their own, and must not bring a second one that would go
    # away with it.
    if kind is not None and kind.gpus:
        return False
    hard = [taint for taint in items(pool.get("nodeTaints")) if table(taint).get("effect") != "PreferNoSchedule"]
    least = (
        whole(table(pool.get("autoscaling")).get("min")) if table(pool.get("autoscaling")) else whole(pool.get("count"))
    )
    return not hard and least != 0


def placement(path: str, vm_type_name: object, value: object) -> list[Finding]:
    """Check the placement policy, which the API ignores for GPU types."""
    given, kind = text(value), catalog.vm_type(vm_type_name)
    if given is None:
        return []
    if given not in PLACEMENT_POLICIES:
        return [
            Finding(
                path, f"{given[:40]!r} is not one of {', '.join(PLACEMENT_POLICIES)}", "Write 'spread' or leave it out"
            )
        ]
    if given == "spread" and kind is not None and kind.gpus:
        return [Finding(path, f"Crusoe ignores it for GPU types such as {kind.name}", "Leave it out")]
    return []


def choice(path: str, value: object, known: tuple[str, ...]) -> list[Finding]:
    """Check a value that is one of a few words."""
    given = text(value)
    if given is None or given in known:
        return []
    near = next((word for word in known if word == given.lower().replace("-", "_")), known[0])
    return [Finding(path, f"{given[:40]!r} is not one of {', '.join(known)}", f"Write {near!r}")]


def generation(path: str, cluster_version: object, pool: object) -> list[Finding]:
    """Refuse, by name, settings of the generation that the cluster is not of."""
    kind = versions.generation_of(cluster_version)
    if kind is None:
        return []
    other, absent = ("v2", V2_ONLY) if kind == "v1" else ("v1", V1_ONLY)
    given = table(pool)
    return [
        Finding(
            f"{path}.{key}",
            f"{key} is a setting of CMK {other}, and the cluster's version {cluster_version} is {kind}",
            instead[0].upper() + instead[1:],
        )
        for key, instead in absent.items()
        if given.get(key) not in (None, False)
    ]


def reservation(path: str, value: object) -> list[Finding]:
    """Check a reservation: one id, or one strategy."""
    given = table(value)
    if text(given.get("id")) is not None and text(given.get("selectionStrategy")) is not None:
        problem = "both a reservation and a strategy to pick one"
        return [Finding(path, problem, "Leave selectionStrategy out to use this reservation, or id to let Crusoe pick")]
    return choice(f"{path}.selectionStrategy", given.get("selectionStrategy"), SELECTION_STRATEGIES)


def scale_down(
    path: str, *, cluster_version: object, running: object, wanted: object, leave_vms: object, allow: object
) -> list[Finding]:
    """Refuse a lower count unless what becomes of the VMs is declared.

    CMK v1 keeps the VMs, and they go on costing; v2 drains and deletes them, but only when allowed.
    """
    before, after = whole(running), whole(wanted)
    kind = versions.generation_of(cluster_version)
    if before is None or after is None or after >= before or kind is None:
        return []
    fewer = f"{before - after} of {before} VMs"
    if kind == "v1" and leave_vms is not True:
        problem = f"CMK v1 would leave {fewer} running and billed, no longer counted in the pool"
        fix = f"Write {before}, or set leaveVmsOnScaleDown: true and delete the VMs by hand after draining them"
        return [Finding(path, problem, fix)]
    if kind == "v2" and allow is not True:
        problem = f"CMK v2 deletes {fewer} only when the pool allows it"
        return [Finding(path, problem, f"Write {before}, or set allowScaleDown: true")]
    return []


def pool(
    path: str,
    value: object,
    *,
    cluster_version: object = None,
    has_partition: bool | None = None,
    partition_path: str = "",
) -> list[Finding]:
    """Apply every rule that needs only one pool, as its settings or inputs (`type`, `count`, `nodeTaints`, ...).

    `has_partition` None leaves the fabric alone, where it is known elsewhere.
    """
    given = table(value)
    found = vm_type(f"{path}.type", given.get("type"))
    if has_partition is not None:
        place = partition_path or f"{path}.ibPartitionId"
        found += fabric(f"{path}.type", given.get("type"), has_partition=has_partition, partition_path=place)
    found += counts(
        path, count=given.get("count"), min_count=given.get("minCount"), autoscaling=given.get("autoscaling")
    )
    found += labels(f"{path}.nodeLabels", given.get("nodeLabels"))
    found += taints(f"{path}.nodeTaints", given.get("nodeTaints"))
    found += placement(f"{path}.placementPolicy", given.get("type"), given.get("placementPolicy"))
    found += choice(f"{path}.publicIpType", given.get("publicIpType"), PUBLIC_IP_TYPES)
    found += choice(f"{path}.consentMode", given.get("consentMode"), CONSENT_MODES)
    found += reservation(f"{path}.reservation", given.get("reservation"))
    return found + generation(path, cluster_version, given)


def _key(path: str, key: str) -> list[Finding]:
    prefix, slash, name = key.rpartition("/")
    domain_ok = not slash or (len(prefix) <= 253 and _DOMAIN.fullmatch(prefix) is not None)
    if not domain_ok or not _NAME.fullmatch(name):
        right = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:63].strip("-_.") or "dedicated"
        good = prefix if slash and domain_ok else "example.com" if slash else ""
        return [
            Finding(
                path,
                f"{key[:80]!r} is not a key that Kubernetes takes",
                f"Write {f'{good}/{right}' if good else right!r}",
            )
        ]
    for domain in RESERVED_DOMAINS:
        if prefix == domain or prefix.endswith(f".{domain}"):
            problem = f"keys under {domain}/ are reserved, {key!r} is one"
            return [Finding(path, problem, f"Use a prefix of your own, such as 'example.com/{name}'")]
    return []


def _value_fix(content: str) -> str:
    right = re.sub(r"[^A-Za-z0-9_.-]+", "-", content)[:63].strip("-_.")
    return f"Write {right!r}" if right else "Leave it empty, or use letters, digits, '-', '_' and '.'"


def _fabric(name: str) -> str:
    return {"infiniband": "InfiniBand", "roce": "RoCE"}[name]
