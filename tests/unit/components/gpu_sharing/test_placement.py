"""Any settings: what is accepted can be placed, what is refused for its sum can't. Checked by two other ways to place.

One tries every owner for every node, and fills nodes replica by replica. The other is a scheduler that may choose any
node it likes, with every other node already full of lower classes: floors must find their place whatever it chooses.

`SHARING_CASES=10000` runs as many cases (under 60 s); the unit tier runs a few.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from components.gpu_sharing import kueue, objects, table
from components.gpu_sharing.plan import SharedPool, SharingPlan
from components.settings import SettingsError
from crusoe import catalog
from tests.unit.components.gpu_sharing.support import (
    GB200,
    H100,
    L40S,
    MI300X,
    Json,
    check,
    document,
    plan_beside,
    plan_of,
)

CASES = int(os.environ.get("SHARING_CASES", "60"))

Parts = tuple[tuple[int, int], ...]
"""GPUs of a replica, and replicas, of each share."""


@cache
def placeable(nodes: int, gpus: int, training: int, shares: Parts) -> bool:
    """Whether someone finds a place for all: tries each owner for the next node."""
    if not training and not any(replicas for _, replicas in shares):
        return True
    if not nodes:
        return False
    if training and placeable(nodes - 1, gpus, training - 1, shares):
        return True
    for index, (size, replicas) in enumerate(shares):
        free, left = gpus, replicas
        while left and free >= size:
            free, left = free - size, left - 1
        if left < replicas:
            rest = (*shares[:index], (size, left), *shares[index + 1 :])
            if placeable(nodes - 1, gpus, training, tuple(sorted(rest))):
                return True
    return False


def floors_stand(pool: SharedPool, chooser: random.Random) -> bool:
    """Whether all floors find a place on nodes full of borrowers, in whatever order and wherever they are put."""
    count = pool.least - pool.reserve
    home: dict[int, str] = {}
    workers: set[int] = set()
    free = dict.fromkeys(range(count), pool.gpus)
    pods = [("worker", "", 0)] * pool.floor
    pods += [("home", share.name, 0) for share in pool.shares for _ in range(share.homes)]
    chooser.shuffle(pods)
    # A share's replicas wait for a marker, so they come after it in any order of arrival.
    replicas = [("replica", s.name, s.gpus_per_replica) for s in pool.shares for _ in range(s.floor + s.surge)]
    chooser.shuffle(replicas)
    for kind, share, gpus in [*pods, *replicas]:
        match kind:
            case "worker":
                fitting = [n for n in free if n not in home and n not in workers]
            case "home":
                fitting = [n for n in free if n not in home and n not in workers]
            case _:
                fitting = [n for n, owner in home.items() if owner == share and free[n] >= gpus]
        if not fitting:
            return False
        node = chooser.choice(fitting)
        if kind == "worker":
            workers.add(node)
        elif kind == "home":
            home[node] = share
        else:
            free[node] -= gpus
    return True


SHARE = st.tuples(st.sampled_from([1, 2, 4, 4, 8, 8, 8, 5]), st.integers(0, 9), st.integers(-1, 6), st.integers(-4, 2))
CASE = st.tuples(
    st.sampled_from([H100, H100, H100, MI300X, L40S, GB200]),
    st.tuples(st.integers(0, 30), st.integers(-12, 4), st.integers(0, 2)),
    st.tuples(st.integers(0, 10), st.integers(-1, 6)),
    st.sampled_from(["priority", "priority", "priority", "static", "kueue"]),
    st.integers(0, 3),
    st.sampled_from([None, 1, 1, 1, 1, 1, 2]),
    st.lists(SHARE, max_size=3),
)
"""Numbers that may be wrong, but mostly are not: a ceiling is told by how far it is above its floor, 6 for none."""


def document_of(case: tuple[Any, ...]) -> Json:
    """Settings of one shared pool, right or wrong."""
    kind, (nodes, more, reserve), (floor, above), engine, surplus, domain, shares = case
    pool: Json = {"type": kind, "reserve": reserve}
    if more < 0:
        pool["count"] = nodes
    else:
        pool["autoscaling"] = {"min": nodes, "max": nodes + more}
    shared: Json = {
        "training": {"floor": floor, "ceiling": _ceiling(floor, above)},
        "engine": engine,
        "surplus": "inference-first" if surplus else "training-first",
        "nvlinkDomainNodes": domain,
        "inference": {
            f"share-{index}": {
                "gpusPerReplica": gpus,
                "floor": least,
                "ceiling": _ceiling(least, more),
                "surge": max(0, surge),
            }
            for index, (gpus, least, more, surge) in enumerate(shares)
        },
    }
    return {"nodePools": {"train": pool}, "gpuSharing": {"pools": {"train": shared}}}


def _ceiling(floor: int, above: int) -> int | None:
    return None if above == 6 else max(0, floor + above)


@settings(max_examples=CASES, suppress_health_check=[HealthCheck.too_slow])
@given(CASE, st.integers(0, 2**32))
def test_accepted_settings_have_a_place_and_a_refused_sum_has_none(case: tuple[Any, ...], seed: int) -> None:
    given_document = document_of(case)
    try:
        plan = plan_beside(given_document)
    except SettingsError as error:
        event("refused")
        refused(given_document, {finding.path: str(finding) for finding in error.findings})
    else:
        event("accepted")
        accepted(given_document, plan, random.Random(seed))


def refused(given_document: Json, told: Mapping[str, str]) -> None:
    """The sum is refused exactly where there is no place; what else is refused has a setting of its own that says why.

    There is no sum where the reserve is larger than the pool, or a replica larger than a node.
    """
    nodes, gpus, training, shares = asked(given_document)
    if nodes >= 0 and all(size <= gpus for size, _ in shares):
        sum_told = "floor node" in told.get("platform.gpuSharing.pools.train", "")
        assert sum_told is not placeable(nodes, gpus, training, shares)
    assert all(path.startswith(("platform.gpuSharing", "platform.nodePools")) for path in told)


def accepted(given_document: Json, plan: SharingPlan, chooser: random.Random) -> None:
    assert placeable(*asked(given_document))
    (pool,) = plan.pools
    assert floors_stand(pool, chooser)
    whole = pool.gpus * (pool.least - pool.reserve)
    if pool.engine == "kueue":
        parts = kueue.nominal(pool)
        assert sum(parts.values()) == whole
        assert min(parts.values()) >= 0
    assert pool.floor_gpus + sum(share.floor_gpus + share.surge_gpus for share in pool.shares) <= whole
    assert pool.lent >= 0
    quotas_hold_the_ceilings(plan, pool)
    assert f"= {pool.least} nodes" in "\n".join(table.lines(plan))


def quotas_hold_the_ceilings(plan: SharingPlan, pool: SharedPool) -> None:
    """Every replica up to the ceiling, and those that surge beside it, are within the quotas."""
    room = {"slurm": 0, "inference": 0}
    for quota in objects.quotas(plan):
        room[quota["metadata"]["namespace"]] += int(quota["spec"]["hard"][f"requests.{pool.resource}"])
    assert room["slurm"] == pool.ceiling * pool.gpus
    assert room["inference"] >= sum(share.ceiling * share.gpus_per_replica + share.surge_gpus for share in pool.shares)


def asked(given_document: Json) -> tuple[int, int, int, Parts]:
    """Nodes to be had, GPUs of one, and both sides' floors, straight from the settings."""
    pool, shared = given_document["nodePools"]["train"], given_document["gpuSharing"]["pools"]["train"]
    kind = catalog.vm_type(pool["type"])
    assert kind is not None
    nodes = pool["autoscaling"]["min"] if pool.get("autoscaling") else pool["count"]
    shares = [
        (each["gpusPerReplica"], each["floor"] + (each["surge"] if each["floor"] else 0))
        for each in shared["inference"].values()
    ]
    return nodes - pool["reserve"], kind.gpus, shared["training"]["floor"], tuple(sorted(shares))


def test_the_placer_finds_what_there_is() -> None:
    assert placeable(11, 8, 8, ((4, 5),))
    assert not placeable(10, 8, 8, ((4, 5),))
    # Own homes: three halves of a node are three nodes.
    assert placeable(3, 8, 0, ((4, 1), (4, 1), (4, 1)))
    assert not placeable(2, 8, 0, ((4, 1), (4, 1), (4, 1)))


def test_the_scheduler_of_this_test_sees_a_home_too_few() -> None:
    (pool,) = plan_of(document()).pools
    assert floors_stand(pool, random.Random(1))
    assert not floors_stand(replace(pool, floor=pool.least - pool.reserve), random.Random(1))


def test_a_thousand_nodes_are_planned_in_under_a_second() -> None:
    shares = {f"model-{index}": {"gpusPerReplica": 1, "floor": 40, "ceiling": 400} for index in range(50)}
    given_document = document({"floor": 600}, None, count=1000, reserve=20)
    given_document["gpuSharing"]["pools"]["train"]["inference"] = shares
    given_document["slurm"] = {"conf": {"options": {}}}
    started = time.process_time()
    assert not [*check(given_document)]
    plan = plan_of(given_document)
    made = objects.manifests(plan)
    text = "\n".join(table.lines(plan))
    assert time.process_time() - started < 1
    assert plan.pools[0].homes == 250
    assert "600 for training's floor" in text
    assert len(made) > 100
