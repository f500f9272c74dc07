"""Slurm clusters and node sets in the state file: what is wanted of the cluster behind them, and what became of it.

`body["state"]` says what an operation made of an object. Whether it is whole is said by what the operator saw last,
kept in `hidden`: a cluster's `seen` (login address, ready pods) and a node set's `ready` (nodes whose Slurm pods all
run). The state that the API answers is made of both.
"""

from __future__ import annotations

from localcloud import pools
from localcloud.cloud import Cloud
from localcloud.managed_slurm.records import NAMESPACE, NodeSetSpec, SlurmSpec, SlurmStatus, login_name
from localcloud.operations import OperationFailedError
from localcloud.store import Json, Object

CLUSTER, NODE_SET = "slurm-cluster", "slurm-nodeset"
BALANCER, RULE = "load-balancer", "firewall-rule"
PROVISIONING, RUNNING, UPDATING, UNHEALTHY = "PROVISIONING", "RUNNING", "UPDATING", "UNHEALTHY"
DELETING, CREATE_FAILED, DELETE_FAILED = "DELETING", "CREATE_FAILED", "DELETE_FAILED"
SHORT, NOT_READY, INTERNAL = "INSUFFICIENT_CAPACITY", "NODE_NOT_READY", "INTERNAL_ERROR"

NOTHING_SEEN: Json = {"login_endpoint": "", "login_ready": 0, "controller_ready": False}
"""What is known of a cluster that the operator hasn't looked at."""


def node_sets(cloud: Cloud, slurm: Object) -> list[Object]:
    """A Slurm cluster's node sets in order of creation."""
    return cloud.store.all(NODE_SET, parent_id=slurm.id)


def kubernetes_cluster(cloud: Cloud, slurm: Object) -> Object | None:
    """The CMK cluster behind a Slurm cluster, None when there is none (any more)."""
    return cloud.store.get(pools.CLUSTER, slurm.hidden["cluster_id"])


def pool_of(cloud: Cloud, item: Object) -> Object | None:
    """The node pool of a node set, or of a Slurm cluster's controller and login nodes."""
    return cloud.store.get(pools.POOL, item.hidden["pool_id"])


def login_parts(cloud: Cloud, slurm: Object) -> list[Object]:
    """The load balancer of the login Service and its firewall rule, as far as the cluster's controller made them."""
    own = (slurm.hidden["cluster_id"], f"{NAMESPACE}/{login_name(slurm.name)}")
    found: list[Object] = []
    for balancer in cloud.store.all(BALANCER, slurm.project_id):
        if (balancer.hidden["cluster_id"], balancer.hidden["service"]) == own:
            rule = cloud.store.named(RULE, slurm.project_id, balancer.name)
            found += [balancer, rule] if rule else [balancer]
    return found


def spec_of(cloud: Cloud, slurm: Object) -> SlurmSpec:
    """What the cluster behind a Slurm cluster should show; node sets that are being deleted are left out."""
    body = slurm.body
    return SlurmSpec(
        id=slurm.id,
        name=slurm.name,
        version=body["version"],
        login_type=body["login_node_type"],
        login_replicas=body["login_replicas"],
        login_pool=slurm.hidden["pool_id"],
        root_ssh_keys=tuple(body["root_ssh_pub_keys"]),
        home_size=body["home_volume_size"],
        home_disk=slurm.hidden["disk_id"],
        node_sets=tuple(
            _node_set_spec(cloud, item)
            for item in node_sets(cloud, slurm)
            if item.body["state"] not in (DELETING, CREATE_FAILED)
        ),
    )


def note(cloud: Cloud, slurm_id: str, seen: SlurmStatus) -> None:
    """Keep what the operator saw, inside a transaction."""
    slurm = cloud.store.get(CLUSTER, slurm_id)
    if slurm is None:
        return
    was_up = slurm.hidden["was_up"]
    slurm.hidden["seen"] = {
        "login_endpoint": seen.login_endpoint,
        "login_ready": seen.login_ready,
        "controller_ready": seen.controller_ready,
    }
    slurm.hidden["was_up"] = was_up or not _cluster_lacks(slurm)
    cloud.store.save(slurm)
    if slurm.hidden["was_up"] and not was_up:
        cloud.journal.record("slurm.ready", slurm.id, name=slurm.name, endpoint=seen.login_endpoint)
    _let_in(cloud, slurm, [{"cidr": cidr} for cidr in seen.login_ranges])
    for item in node_sets(cloud, slurm):
        ready = seen.ready.get(item.body["name"], 0)
        pool = pool_of(cloud, item)
        whole = pool is not None and ready == pool.body["count"]
        if ready != item.hidden["ready"] or (whole and item.hidden["settling"]):
            item.hidden["ready"] = ready
            item.hidden["settling"] = "" if whole else item.hidden["settling"]
            cloud.store.save(item)
            cloud.journal.record("slurm.nodes", item.id, name=item.name, ready=ready)


def settled(cloud: Cloud, slurm: Object) -> bool:
    """Whether there is nothing that the operator waits to see come up."""
    states = [cluster_condition(slurm)[0], *(node_set_condition(cloud, item)[0] for item in node_sets(cloud, slurm))]
    return not {PROVISIONING, UPDATING} & set(states)


def cluster_condition(slurm: Object) -> tuple[str, list[Json]]:
    """The state and the issues of a Slurm cluster as the API answers them."""
    state = slurm.body["state"]
    if state != RUNNING:
        return state, failure_issues(slurm)
    lacks = _cluster_lacks(slurm)
    if not lacks:
        return RUNNING, []
    if not slurm.hidden["was_up"]:
        return PROVISIONING, []
    return UNHEALTHY, [{"code": NOT_READY, "message": lacks}]


def node_set_condition(cloud: Cloud, item: Object) -> tuple[str, list[Json]]:
    """The state and the issues of a node set as the API answers them."""
    state = item.body["state"]
    pool = pool_of(cloud, item)
    if state != RUNNING or pool is None:
        return state, failure_issues(item)
    wanted, ready = pool.body["count"], item.hidden["ready"]
    if pool.hidden["shortfall"]:
        return UNHEALTHY, [{"code": SHORT, "message": pool.hidden["shortfall"]}]
    if ready == wanted:
        return RUNNING, []
    if item.hidden["settling"]:
        return item.hidden["settling"], []
    return UNHEALTHY, [{"code": NOT_READY, "message": f"the Slurm pods of {ready} of {wanted} nodes run"}]


def fail(cloud: Cloud, item: Object, state: str, failure: OperationFailedError) -> None:
    """Leave an object behind in a failed state that says why, inside a transaction."""
    code = SHORT if failure.code == "insufficient_capacity" else INTERNAL
    item.body["state"] = state
    item.hidden["issues"] = [{"code": code, "message": failure.message}]
    cloud.store.save(item)


def failure_issues(item: Object) -> list[Json]:
    """Why an operation failed, as long as the object is in the state that the failure left."""
    return item.hidden["issues"] if item.body["state"] in (CREATE_FAILED, DELETE_FAILED) else []


def _let_in(cloud: Cloud, slurm: Object, sources: list[Json]) -> None:
    """Have the firewall rule of the login nodes follow the SlurmCluster; the controller only makes it."""
    for rule in login_parts(cloud, slurm):
        if rule.kind == RULE and sources and rule.body["sources"] != sources:
            rule.body["sources"] = sources
            cloud.store.save(rule)
            cloud.journal.record("slurm.login_ranges", slurm.id, name=slurm.name, sources=sources)


def _cluster_lacks(slurm: Object) -> str:
    """What of controller and login doesn't run, in words; empty when all does."""
    seen = slurm.hidden["seen"]
    wanted = slurm.body["login_replicas"]
    if not seen["controller_ready"]:
        return "the Slurm controller does not run"
    if seen["login_ready"] < wanted:
        return f"{seen['login_ready']} of {wanted} login pods run"
    return "" if seen["login_endpoint"] else "the login nodes have no address"


def _node_set_spec(cloud: Cloud, item: Object) -> NodeSetSpec:
    vm_type = cloud.facts.vm_types[item.body["type"]]
    pool = pool_of(cloud, item)
    return NodeSetSpec(
        name=item.body["name"],
        pool_id=item.hidden["pool_id"],
        replicas=pool.body["count"] if pool else 0,
        gpus=vm_type.gpus,
        gpu_resource=f"{vm_type.gpu_vendor}.com/gpu" if vm_type.gpu_vendor else None,
    )
