"""What a new stack gets: a wish and an offer in, settings with their reasons out, or why it can't be.

Every fault is told at once, each with what would be right. Stock and quota are told apart, since one is waited for and
the other asked for.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from components import network
from components.cluster import ClusterSettings
from components.naming import physical_name
from crusoe import catalog
from crusoe.provider.supply import Quota, Stock, elsewhere_sentence
from crusoe.rules import autoclusters, names, versions
from crusoe.rules import network as ranges
from crusoe.rules import node_pools as pool_rules
from crusoe.rules.finding import Finding
from environments.offer import IbNetwork, Offer

SYSTEM = "system"
SYSTEM_NODES = 2
"""Nodes of the CPU pool that is added where none was asked for: one may go, and DNS still answers."""

_SYSTEM_TYPE = "c1a.8x"
_SUBNET_PREFIXES = (20, 19, 18, 17)


@dataclass(frozen=True)
class PoolWish:
    """A pool that was asked for: `count` nodes of a VM type."""

    key: str
    vm_type: str
    count: int


@dataclass(frozen=True)
class Wish:
    """What was asked for.

    Attributes:
        stack: the new stack's name.
        location: where everything is to be.
        pools: in the order of the question.
        generation: v1 or v2 of CMK; None for v1 where it is offered, since AutoClusters' actions are there.
        slices: GPU types that share their host are wanted, although nothing repairs them.
        shortage: more is wanted than is free now.
        partition: id of the partition that pools of RoCE types join; the platform makes those of InfiniBand itself.
    """

    stack: str
    location: str
    pools: tuple[PoolWish, ...]
    generation: versions.Generation | None = None
    slices: bool = False
    shortage: bool = False
    partition: str = ""


@dataclass(frozen=True)
class Choice:
    """What the stack gets: `platform` as in the stack's file, and for each choice a line that says why."""

    platform: Mapping[str, object]
    reasons: tuple[str, ...]


class RefusedError(Exception):
    """It can't work; `findings` has every reason."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


def pools_of(asked: str) -> tuple[PoolWish, ...]:
    """Read `train=h100-80gb-sxm-ib.8x:2,system=c1a.8x:2`; without a key a pool is called by its GPU, or `system`.

    Raises:
        RefusedError: it is not of that form, or names a pool twice.
    """
    wishes: list[PoolWish] = []
    for one in filter(None, (part.strip() for part in asked.split(","))):
        named, equals, rest = one.rpartition("=")
        vm_type, colon, count = rest.rpartition(":")
        if not colon or not vm_type or not count.isascii() or not count.isdigit() or int(count) < 1:
            right = "Write [key=]type:count, for example train=h100-80gb-sxm-ib.8x:2, with commas between pools"
            raise RefusedError([Finding("POOLS", f"{one[:80]!r} is no pool", right)])
        key = named.strip() if equals else _key(vm_type.strip())
        if key in {wish.key for wish in wishes}:
            raise RefusedError([Finding("POOLS", f"two pools are called {key!r}", "Give each a key of its own, key=…")])
        wishes.append(PoolWish(key, vm_type.strip(), int(count)))
    if not wishes:
        raise RefusedError([Finding("POOLS", "no pool is asked for", "Write one, such as h100-80gb-sxm-ib.8x:2")])
    return tuple(wishes)


def _key(vm_type: str) -> str:
    kind = catalog.vm_type(vm_type)
    return (kind.gres or SYSTEM) if kind else "train"


def choose(wish: Wish, offer: Offer, others: Mapping[str, str]) -> Choice:
    """Return what the stack gets; `others` maps the project's other stacks to the ranges of their networks.

    Raises:
        RefusedError: it can't work.
    """
    pools = _with_system(wish, offer)
    findings = [*_name(wish, pools, offer), *_place(wish, offer)]
    for pool in pools:
        findings += _type(pool, offer) or _offered(pool, wish, offer)
    if not findings:
        findings = [*_quotas(pools, wish.location, offer)]
        if not wish.shortage:
            findings += _stock(pools, wish.location, offer)
    fabric = [] if findings else [*_ib_networks(pools, wish.location, offer)]
    if not findings and _needs_infiniband(pools) and not fabric:
        findings.append(_no_ib_network(pools, wish.location, offer))
    version = _version(wish, offer)
    cidr = _free_range([*offer.cidrs, *others.values()])
    if version is None:
        has = ", ".join(sorted({f"{versions.generation_of(each)}" for each in offer.versions})) or "none at all"
        findings.append(
            Finding("generation", f"the project is offered no version of CMK {wish.generation}", f"It has: {has}")
        )
    if cidr is None:
        findings.append(Finding("network", "every range 10.x.0.0/16 is taken", "Give up a network that nobody needs"))
    if findings or version is None or cidr is None:
        raise RefusedError(findings)
    return _choice(wish, offer, pools, version, cidr, fabric)


def _choice(
    wish: Wish, offer: Offer, pools: Sequence[PoolWish], version: str, cidr: str, fabric: Sequence[IbNetwork]
) -> Choice:
    nodes = sum(pool.count for pool in pools)
    prefix = _subnet_prefix(cidr, nodes)
    net: dict[str, object] = {"cidr": cidr, "subnetCidr": f"{cidr.partition('/')[0]}/{prefix}"}
    repaired = "it supports AutoClusters" if version in offer.autoclusters else "repairs are each pool's consentMode"
    reasons = [
        f"version {version}: the newest of CMK {versions.generation_of(version)} on offer; {repaired}",
        f"network {cidr}: meets no network of the project or of another stack; nodes in {net['subnetCidr']}",
    ]
    if fabric:
        net["infiniband"] = {"networkId": fabric[0].id}
        reasons.append(f"InfiniBand network {fabric[0].name}: in {wish.location}, with room for all pools of that kind")
    for pool in pools:
        reasons.append(_pool_reason(pool, wish, offer))
    reasons.append("repairs: all off until `autoClusters` or a pool's `consentMode` names them; protection: on")
    # Only what differs from the defaults, which docs/settings.md explains.
    platform: dict[str, object] = {
        "cloud": {"endpoint": offer.endpoint, "project": offer.project},
        "location": wish.location,
        "network": net,
        "cluster": {"version": version, **_add_ons(pools, reasons)},
        "nodePools": {pool.key: _pool(pool, wish.partition) for pool in pools},
    }
    return Choice(platform, tuple(reasons))


def _add_ons(pools: Sequence[PoolWish], reasons: list[str]) -> dict[str, object]:
    """The add-ons, where the pools' GPUs need others than a cluster has by default."""
    default: tuple[str, ...] = ClusterSettings.model_fields["add_ons"].default
    kinds = [kind for pool in pools if (kind := catalog.vm_type(pool.vm_type))]
    vendors = {kind.gpu_vendor for kind in kinds if kind.gpu_vendor}
    if vendors <= {"nvidia"}:
        return {}
    kept = [name for name in default if not name.startswith("nvidia_") or "nvidia" in vendors]
    wanted = [name for vendor in sorted(vendors - {"nvidia"}) for name in (f"{vendor}_gpu_operator",)]
    wanted += [f"{kind.gpu_vendor}_network_operator" for kind in kinds if kind.fabric and kind.gpu_vendor != "nvidia"]
    found = sorted({*kept, *wanted})
    reasons.append(f"add-ons {', '.join(found)}: the GPUs' own operators")
    return {"addOns": found}


def _pool(pool: PoolWish, partition: str) -> dict[str, object]:
    kind = catalog.vm_type(pool.vm_type)
    joins = {"transportPartitionId": partition} if partition and kind and kind.fabric == "roce" else {}
    return {"type": pool.vm_type, "count": pool.count, **joins}


def _pool_reason(pool: PoolWish, wish: Wish, offer: Offer) -> str:
    here = offer.here(pool.vm_type, wish.location)
    quota = offer.quotas.get(here.quota) if here else None
    kind = catalog.vm_type(pool.vm_type)
    gpus = f" ({pool.count * kind.gpus} GPUs)" if kind and kind.gpus else ""
    added = "" if pool in wish.pools else "; added, since the cluster's own pods need a CPU pool"
    free = f"capacity: {here.free} free in {wish.location}" if here else ""
    used = f"; quota {quota.name}: {quota.used} of {quota.limit} used" if quota else ""
    return f"pool {pool.key}, {pool.count} x {pool.vm_type}{gpus}: {free}{used}{added}"


# The single questions.


def _with_system(wish: Wish, offer: Offer) -> tuple[PoolWish, ...]:
    kinds = [catalog.vm_type(pool.vm_type) for pool in wish.pools]
    if any(kind is not None and not kind.gpus for kind in kinds):
        return wish.pools
    cpus = [one for one in offer.stock if one.location == wish.location and _is_cpu(one.vm_type)]
    fitting = [one.vm_type for one in cpus if one.free >= SYSTEM_NODES]
    vm_type = _SYSTEM_TYPE if _SYSTEM_TYPE in fitting or not fitting else fitting[0]
    key = SYSTEM if all(pool.key != SYSTEM for pool in wish.pools) else f"{SYSTEM}-cpu"
    return (*wish.pools, PoolWish(key, vm_type, SYSTEM_NODES))


def _is_cpu(vm_type: str) -> bool:
    kind = catalog.vm_type(vm_type)
    return kind is not None and not kind.gpus


def _name(wish: Wish, pools: Sequence[PoolWish], offer: Offer) -> Iterator[Finding]:
    if wrong := names.name("NAME", wish.stack):
        yield from wrong
        return
    wanted = {(kind, physical_name(wish.stack, kind).value) for kind in ("network", "subnet", "cluster")}
    wanted |= {("node pool", physical_name(wish.stack, pool.key).value) for pool in pools}
    taken = sorted(f"{kind} {name}" for kind, name in wanted if name in offer.taken.get(kind, frozenset()))
    if taken:
        problem = f"the project {offer.project} has {', '.join(taken)} already, so {wish.stack!r} is taken"
        fix = f"Take another name, such as {f'{wish.stack}-2'!r}, or adopt what is there (docs/runbooks/adopt.md)"
        yield Finding("NAME", problem, fix)


def _place(wish: Wish, offer: Offer) -> Iterator[Finding]:
    if wish.location in offer.locations:
        return
    near = difflib.get_close_matches(wish.location.lower(), offer.locations, n=1, cutoff=0.6)
    known = f"Write {near[0]!r}" if near else f"Write one of {', '.join(offer.locations)}"
    yield Finding("LOCATION", f"{wish.location[:40]!r} is no location of the project {offer.project}", known)


def _type(pool: PoolWish, offer: Offer) -> list[Finding]:
    if pool.vm_type in offer.vm_types and catalog.vm_type(pool.vm_type):
        return []
    if wrong := pool_rules.vm_type(f"POOLS {pool.key}", pool.vm_type):
        return wrong
    near = [each for each in catalog.suggest(pool.vm_type) if each in offer.vm_types]
    fix = f"Write {' or '.join(map(repr, near))}" if near else f"It has {', '.join(sorted(offer.vm_types))}"
    return [Finding(f"POOLS {pool.key}", f"the project {offer.project} is not offered {pool.vm_type!r}", fix)]


def _offered(pool: PoolWish, wish: Wish, offer: Offer) -> Iterator[Finding]:
    path = f"POOLS {pool.key}"
    if not wish.slices:
        for finding in autoclusters.shared_host(path, pool.vm_type):
            yield replace(finding, fix=f"{finding.fix.rstrip('.')}, or take it unrepaired with ARGS=--slices")
    if wish.location in offer.locations and offer.here(pool.vm_type, wish.location) is None:
        yield Finding(
            path, f"{wish.location} does not have {pool.vm_type}", elsewhere_sentence(offer.of_type(pool.vm_type))
        )


def _quotas(pools: Sequence[PoolWish], location: str, offer: Offer) -> Iterator[Finding]:
    """Every quota that all pools together would go beyond."""
    asked: dict[str, list[tuple[PoolWish, int]]] = {}
    for pool in pools:
        if (here := offer.here(pool.vm_type, location)) and here.quota in offer.quotas:
            asked.setdefault(here.quota, []).append((pool, here.slices))
    for name, wanted in asked.items():
        quota = offer.quotas[name]
        need = sum(pool.count * slices for pool, slices in wanted)
        if need > quota.free:
            yield _over_quota(quota, need, wanted)


def _over_quota(quota: Quota, need: int, wanted: Sequence[tuple[PoolWish, int]]) -> Finding:
    which = " and ".join(f"{pool.count} x {pool.vm_type}" for pool, _ in wanted)
    problem = (
        f"the project's quota {quota.name} does not allow {which}: {quota.used} of its limit of {quota.limit} are "
        f"used, {quota.free} are left, and {need} more are asked for"
    )
    [(pool, slices), *more] = wanted
    fits = quota.free // slices
    less = f", or ask for {pool.key}={pool.vm_type}:{fits}" if fits and not more else ", or ask for less"
    return Finding(f"POOLS {pool.key}", problem, f"Ask Crusoe's support for more{less}")


def _stock(pools: Sequence[PoolWish], location: str, offer: Offer) -> Iterator[Finding]:
    for vm_type in dict.fromkeys(pool.vm_type for pool in pools):
        here = offer.here(vm_type, location)
        asked = [pool for pool in pools if pool.vm_type == vm_type]
        want = sum(pool.count for pool in asked)
        if here is not None and here.free < want:
            others = [one for one in offer.of_type(vm_type) if one.location != location and one.free >= want]
            fix = f"{_elsewhere(others)}, or write the file all the same (ARGS=--shortage): capacity comes and goes"
            problem = f"{location} has capacity for {here.free} more {vm_type} now, and {want} are asked for"
            yield Finding(f"POOLS {asked[0].key}", problem, fix)


def _elsewhere(others: Sequence[Stock]) -> str:
    if not others:
        return "No other location has that many now: ask for less"
    return f"Take {' or '.join(f'LOCATION={one.location} ({one.free} free)' for one in others)}"


def _needs_infiniband(pools: Sequence[PoolWish]) -> dict[str, int]:
    """GPUs by type of the pools that join the platform's InfiniBand partition."""
    needed: dict[str, int] = {}
    for pool in pools:
        kind = catalog.vm_type(pool.vm_type)
        if kind and kind.fabric == "infiniband":
            needed[pool.vm_type] = needed.get(pool.vm_type, 0) + pool.count * kind.gpus
    return needed


def _ib_networks(pools: Sequence[PoolWish], location: str, offer: Offer) -> Iterator[IbNetwork]:
    """The InfiniBand networks with room for all, the roomiest first."""
    needed = _needs_infiniband(pools)
    if not needed:
        return
    fitting = [
        one
        for one in offer.ib_networks
        if one.location == location and all(one.free.get(kind, 0) >= gpus for kind, gpus in needed.items())
    ]
    yield from sorted(fitting, key=lambda one: (-min(one.free[kind] for kind in needed), one.id))


def _no_ib_network(pools: Sequence[PoolWish], location: str, offer: Offer) -> Finding:
    needed = " and ".join(f"{gpus} GPUs of {kind}" for kind, gpus in _needs_infiniband(pools).items())
    here = [one for one in offer.ib_networks if one.location == location]
    has = "; ".join(f"{one.name}: {', '.join(f'{k} {n}' for k, n in one.free.items()) or 'nothing'}" for one in here)
    return Finding(
        "POOLS",
        f"no InfiniBand network of {location} has room for {needed}",
        f"Free GPUs there: {has}. Ask for less" if has else "Take another LOCATION, or types without InfiniBand",
    )


def _version(wish: Wish, offer: Offer) -> str | None:
    """The newest version: of the generation that was asked for, else one with AutoClusters, else of any."""
    parsed = [each for name in offer.versions if (each := versions.parse(name))]
    if wish.generation:
        fitting = [each for each in parsed if each.generation == wish.generation]
    else:
        fitting = [each for each in parsed if str(each) in offer.autoclusters] or parsed
    return str(max(fitting)) if fitting else None


def _free_range(taken: Sequence[str]) -> str | None:
    """The first 10.x.0.0/16 that meets no other network, nor the pods and Services of a cluster."""
    fields = ClusterSettings.model_fields
    reserved = [str(fields[name].default) for name in ("cluster_cidr", "service_cluster_ip_range")]
    used = [found for each in (*taken, *reserved) if (found := ranges.parse(each))]
    for second in range(256):
        one = ipaddress.IPv4Network(f"10.{second}.0.0/16")
        if not any(one.overlaps(each) for each in used):
            return str(one)
    return None


def _subnet_prefix(cidr: str, nodes: int) -> int:
    """The smallest subnet, /20 at least, that has room for the nodes."""
    base = cidr.partition("/")[0]
    for prefix in _SUBNET_PREFIXES:
        if not ranges.size("", f"{base}/{prefix}", longest_prefix=network.SMALLEST_NETWORK, hosts=nodes):
            return prefix
    return _SUBNET_PREFIXES[-1]
