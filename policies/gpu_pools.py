"""GPU pools on VM types that AutoClusters can repair."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import autoclusters, node_pools
from crusoe.rules.finding import Finding
from policies import examples, kinds
from policies.policy import Parameters, Resource, ResourcePolicy, example


def _slices(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from autoclusters.shared_host("type", resource.read("type"))


def _unsupported(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from autoclusters.unsupported("type", resource.read("type"))


def _unknown(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from node_pools.vm_type("type", resource.read("type"))


POLICIES = [
    ResourcePolicy(
        name="gpu-pool-whole-host",
        refuses="A GPU pool has VMs that are whole hosts.",
        why="AutoClusters never replaces a VM whose host others may share, so a broken GPU stays in the cluster.",
        fix="Use the type of the whole host, such as a100-80gb.8x instead of a100-80gb.2x.",
        applies=kinds.POOLS,
        check=_slices,
        good=example(
            "Whole hosts: all 8 GPUs, and all 4 of a GB200.",
            examples.pool("train", type="a100-80gb.8x", count=1),
            examples.pool("rack", type="gb200-186gb-nvl.4x", count=1),
        ),
        bad=example(
            "A quarter of a host, beside VMs of others.",
            examples.pool("train", type="a100-80gb.2x", count=4),
        ),
    ),
    ResourcePolicy(
        name="gpu-pool-repairable",
        level="advisory",
        refuses="A GPU pool has a VM type that AutoClusters supports.",
        why="Nodes of other types have to be replaced by hand when their hardware fails.",
        fix="Use a type such as h100-80gb-sxm-ib.8x, or plan for repairs by hand.",
        applies=kinds.POOLS,
        check=_unsupported,
        good=example(
            "A supported type.",
            examples.pool("train", type="l40s-48gb.10x", count=2),
        ),
        bad=example(
            "A whole host of a type that is not supported.",
            examples.pool("train", type="a40.8x", count=2),
        ),
    ),
    ResourcePolicy(
        name="vm-type-known",
        level="advisory",
        refuses="A pool has a VM type that the catalogue knows.",
        why="It may be misspelt, and of a type that is not known nothing else can be checked.",
        fix="Write the type as Crusoe lists it, such as h100-80gb-sxm-ib.8x.",
        applies=kinds.POOLS,
        check=_unknown,
        good=example(
            "A type by its exact name.",
            examples.pool("system", type="c1a.8x", count=2),
        ),
        bad=example(
            "A hyphen where the name has a dot.",
            examples.pool("train", type="b200-180gb-sxm-ib-8x", count=1),
        ),
    ),
]
