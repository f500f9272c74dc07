"""What a new stack gets, and what is refused in which words, from offers made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from components.configuration import read
from crusoe.provider.supply import Quota, Stock
from environments.choice import PoolWish, RefusedError, Wish, choose, pools_of
from environments.offer import IbNetwork, Offer

EAST, ICELAND = "us-east1-a", "eu-iceland1-a"
H100, CPU, SLICE, MI355 = "h100-80gb-sxm-ib.8x", "c1a.8x", "a100-80gb.1x", "mi355x-288gb-roce.8x"
PARTITION = "00000000-0000-4000-8000-00000000aaaa"

OFFER = Offer(
    endpoint="https://api.cloud.crusoe.ai/v1",
    project="research",
    locations=(EAST, ICELAND),
    versions=("1.32.7-cmk.3", "1.33.4-cmk.43", "1.33.4-cmk.100", "1.35.5"),
    autoclusters=frozenset({"1.33.4-cmk.43", "1.33.4-cmk.100"}),
    vm_types=(H100, CPU, SLICE, MI355, "c1a.16x", "gb200-186gb-nvl-ib.4x"),
    stock=(
        Stock(EAST, H100, 12, 8, "h100-80gb-sxm-ib"),
        Stock(ICELAND, H100, 40, 8, "h100-80gb-sxm-ib"),
        Stock(EAST, CPU, 100, 8, "c1a"),
        Stock(ICELAND, CPU, 100, 8, "c1a"),
        Stock(EAST, SLICE, 10, 1, "a100-80gb"),
        Stock(EAST, MI355, 4, 8, "mi355x-288gb-roce"),
    ),
    quotas={"h100-80gb-sxm-ib": Quota("h100-80gb-sxm-ib", 16, 240), "c1a": Quota("c1a", 0, 1000)},
    ib_networks=(
        IbNetwork("00000000-0000-4000-8000-000000000001", "full", EAST, {H100: 8}),
        IbNetwork("00000000-0000-4000-8000-000000000002", "roomy", EAST, {H100: 800}),
        IbNetwork("00000000-0000-4000-8000-000000000003", "far", ICELAND, {H100: 80}),
    ),
    taken={"network": frozenset({"used-network"}), "node pool": frozenset({"half-train"})},
)


def wish(pools: str = f"train={H100}:2", *, stack: str = "research", location: str = EAST, **more: Any) -> Wish:
    return Wish(stack, location, pools_of(pools), **more)


def chosen(asked: Wish, offer: Offer = OFFER, **others: str) -> dict[str, Any]:
    platform = cast("dict[str, Any]", choose(asked, offer, others).platform)
    # What is chosen is what `up` takes.
    read(platform, asked.stack)
    return platform


def refusals(asked: Wish, offer: Offer = OFFER) -> str:
    with pytest.raises(RefusedError) as refused:
        choose(asked, offer, {})
    assert len(refused.value.findings) == len(str(refused.value).splitlines())
    return str(refused.value)


def test_a_pool_is_read_with_and_without_a_key() -> None:
    assert pools_of(f"train={H100}:2, {CPU}:3,{H100}:1") == (
        PoolWish("train", H100, 2),
        PoolWish("system", CPU, 3),
        PoolWish("h100", H100, 1),
    )


@pytest.mark.parametrize(
    "asked", ["", ",", H100, f"{H100}:0", f"{H100}:-1", f"{H100}:two", ":2", f"a={H100}:1,a={CPU}:1"]
)
def test_what_is_no_pool_is_refused_with_an_example(asked: str) -> None:
    with pytest.raises(RefusedError, match=r"^POOLS: .*(Write|Give)"):
        pools_of(asked)


def test_a_stack_gets_what_is_newest_free_and_needed() -> None:
    platform = chosen(wish(), dev="10.0.0.0/16", prod="10.1.0.0/17")
    assert platform["cluster"] == {"version": "1.33.4-cmk.100"}
    assert platform["network"] == {
        "cidr": "10.2.0.0/16",
        "subnetCidr": "10.2.0.0/20",
        "infiniband": {"networkId": "00000000-0000-4000-8000-000000000002"},
    }
    assert platform["nodePools"] == {"train": {"type": H100, "count": 2}, "system": {"type": CPU, "count": 2}}
    assert platform["cloud"] == {"endpoint": OFFER.endpoint, "project": "research"}


def test_each_choice_says_why() -> None:
    reasons = "\n".join(choose(wish(), OFFER, {}).reasons)
    for said in (
        "newest of CMK v1",
        "capacity: 12 free",
        "16 of 240 used",
        "roomy",
        "added, since",
        "repairs: all off",
    ):
        assert said in reasons


def test_a_cpu_pool_that_was_asked_for_is_the_systems() -> None:
    assert chosen(
        wish(f"train={H100}:1,base=c1a.16x:1"),
        replace(OFFER, stock=(*OFFER.stock, Stock(EAST, "c1a.16x", 9, 16, "c1a"))),
    )["nodePools"].keys() == {"train", "base"}


def test_the_generation_is_the_one_that_was_asked_for_or_on_offer() -> None:
    assert chosen(wish(generation="v2"))["cluster"]["version"] == "1.35.5"
    only_v2 = replace(OFFER, versions=("1.34.8", "1.35.5"), autoclusters=frozenset())
    assert chosen(wish(), only_v2)["cluster"]["version"] == "1.35.5"
    assert "no version of CMK v1. It has: v2" in refusals(wish(generation="v1"), only_v2)


def test_gpus_bring_their_operators_and_roce_its_partition() -> None:
    platform = chosen(wish(f"train={MI355}:1", partition=PARTITION))
    assert platform["cluster"]["addOns"] == ["amd_gpu_operator", "amd_network_operator", "crusoe_csi"]
    assert platform["nodePools"]["train"]["transportPartitionId"] == PARTITION
    assert "infiniband" not in platform["network"]


def test_a_quota_is_named_with_used_and_limit_and_not_called_capacity() -> None:
    short = replace(OFFER, quotas={**OFFER.quotas, "h100-80gb-sxm-ib": Quota("h100-80gb-sxm-ib", 56, 64)})
    [said] = refusals(wish(), short).splitlines()
    assert "quota h100-80gb-sxm-ib" in said
    assert "56 of its limit of 64 are used, 8 are left, and 16 more" in said
    assert f"train={H100}:1" in said
    assert "capacity" not in said


def test_a_quota_counts_all_pools_together() -> None:
    short = replace(OFFER, quotas={"h100-80gb-sxm-ib": Quota("h100-80gb-sxm-ib", 0, 24)})
    assert chosen(wish(f"a={H100}:1,b={H100}:2"), short)
    assert "32 more are asked for" in refusals(wish(f"a={H100}:2,b={H100}:2"), short)


def test_capacity_is_named_with_where_there_is_some_and_not_called_quota() -> None:
    [said] = refusals(wish(f"train={H100}:13")).splitlines()
    assert "capacity for 12 more" in said
    assert f"LOCATION={ICELAND} (40 free)" in said
    assert "quota" not in said
    assert chosen(wish(f"train={H100}:13", shortage=True))


@pytest.mark.parametrize(
    ("asked", "problem", "right"),
    [
        (wish(location="us-east1"), "'us-east1' is no location", f"Write '{EAST}'"),
        (wish(location="mars"), "'mars' is no location", f"{EAST}, {ICELAND}"),
        (wish("train=h100:2"), "'h100' is not a VM type", f"Write '{H100}'"),
        (wish("train=b200-180gb-sxm-ib.8x:2"), "is not offered", H100),
        (wish(f"train={MI355}:1", location=ICELAND), f"{ICELAND} does not have", f"{EAST} (4)"),
        (wish(f"train={SLICE}:2"), "is a slice of a host that others may share", "'a100-80gb.8x'"),
        (wish(stack="used"), "has network used-network already", "'used-2'"),
        (wish(stack="half"), "has node pool half-train already", "'half-2'"),
        (wish(stack="My_Stack"), "other characters", "'my-stack'"),
        (wish(f"train={H100}:11", location=ICELAND), "no InfiniBand network", "far: h100-80gb-sxm-ib.8x 80"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_can_not_work_is_one_sentence_with_what_would_be_right(asked: Wish, problem: str, right: str) -> None:
    [said] = refusals(asked).splitlines()
    assert problem in said
    assert right in said


def test_a_slice_is_taken_where_that_is_meant() -> None:
    assert chosen(wish(f"train={SLICE}:2", slices=True))["nodePools"]["train"]["type"] == SLICE


def test_every_fault_is_told_at_once() -> None:
    assert len(refusals(wish(f"a=h100:1,b={SLICE}:1", stack="used", location="mars")).splitlines()) == 4


def test_many_nodes_get_a_larger_subnet() -> None:
    large = replace(
        OFFER,
        stock=tuple(replace(one, free=9000) for one in OFFER.stock),
        quotas={},
        ib_networks=(replace(OFFER.ib_networks[1], free={H100: 10**6}),),
    )
    assert chosen(wish(f"train={H100}:500,base={CPU}:490"), large)["network"]["subnetCidr"].endswith("/20")


def test_a_range_is_free_of_all_networks_and_of_pods_and_services() -> None:
    taken = tuple(f"10.{second}.0.0/16" for second in range(256) if second not in (233, 236, 250))
    assert chosen(wish(), replace(OFFER, cidrs=taken))["network"]["cidr"] == "10.250.0.0/16"
    assert "every range" in refusals(wish(), replace(OFFER, cidrs=("10.0.0.0/8",)))
