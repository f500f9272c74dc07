"""AutoClusters: repairs that can work, find a host, and give jobs back."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import autoclusters, slurm_safety, slurm_timing
from crusoe.rules.finding import Finding
from crusoe.rules.values import table
from policies import examples, kinds, workloads
from policies.examples import Declared, controller
from policies.policy import Parameters, Resource, ResourcePolicy, Stack, StackPolicy, example

CONFIG = kinds.one_of(kinds.AUTO_CLUSTERS)
CLUSTERS = kinds.one_of(kinds.CLUSTER)
NODE_POOLS = kinds.one_of(kinds.NODE_POOL)
ACTIONS = "remediationActions"

Found = Iterator[tuple[Resource, Finding]]


def _actions(resource: Resource, _: Parameters) -> Iterator[Finding]:
    given = resource.read(ACTIONS)
    drains = {each.path for each in autoclusters.way_back(ACTIONS, given)}
    yield from (each for each in autoclusters.actions(ACTIONS, given) if each.path not in drains)


def _way_back(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from autoclusters.way_back(ACTIONS, resource.read(ACTIONS))


def _unwise(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from autoclusters.unwise(ACTIONS, resource.read(ACTIONS))


def _consent(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from autoclusters.consent("type", resource.read("type"), resource.read("consentMode"))


def _repairing(stack: Stack) -> list[Resource]:
    """Return what asks for repairs: configurations with an action, pools with a consent."""
    configs = [each for each in stack.of(CONFIG) if autoclusters.repairs_wanted(each.known(ACTIONS))]
    pools = [each for each in stack.of(NODE_POOLS) if each.known("consentMode") in ("auto", "propose")]
    return [*configs, *pools]


def _version(stack: Stack, _: Parameters) -> Found:
    for config in stack.of(CONFIG):
        if not autoclusters.repairs_wanted(config.known(ACTIONS)):
            continue
        cluster = stack.source(config, "clusterId", CLUSTERS)
        if cluster is not None:
            yield from ((config, each) for each in autoclusters.version("clusterId", cluster.known("version")))


def _pool_types(stack: Stack, _: Parameters) -> Found:
    for config in stack.of(CONFIG):
        cluster = stack.source(config, "clusterId", CLUSTERS)
        pools = {
            pool.name: {"type": pool.known("type")}
            for pool in stack.of(NODE_POOLS)
            if cluster is None or stack.source(pool, "clusterId", CLUSTERS) in (None, cluster)
        }
        found = autoclusters.repairable(ACTIONS, config.known(ACTIONS), "the cluster", pools)
        yield from ((config, each) for each in found)


def _spare(stack: Stack, _: Parameters) -> Found:
    for each in _repairing(stack):
        fallback = each.known("fallbackToProjectReservations")
        path = "fallbackToProjectReservations" if CONFIG(each.type) else "count"
        if fallback is True:
            continue
        hosts = workloads.repairable_hosts(stack)
        # Where the program plans no work, somebody else does, for all of them.
        used = workloads.planned_hosts(stack, hosts.gpus) or hosts.count
        wanted = hosts.count > 0
        for finding in autoclusters.spare(path, wanted=wanted, fallback=fallback, hosts=hosts.count, used=used):
            yield each, finding


def _requeue(stack: Stack, _: Parameters) -> Found:
    if _repairing(stack):
        for controller, conf in workloads.slurm_conf(stack):
            yield from ((controller, each) for each in slurm_safety.requeue("spec.extraConf", conf))


def _window(stack: Stack, parameters: Parameters) -> Found:
    if not _repairing(stack):
        return
    kill_wait = workloads.kill_wait(stack)
    for node_set in stack.of(workloads.NODE_SETS):
        spec = table(table(node_set.known("spec", "template")).get("spec"))
        path = "spec.template.spec.terminationGracePeriodSeconds"
        # Kubernetes' own when left out.
        grace = spec.get("terminationGracePeriodSeconds", 30)
        for finding in slurm_timing.pod_grace(path, grace, parameters["drainSeconds"], kill_wait):
            yield node_set, finding


_CLUSTER = examples.cluster()
_POOL = examples.pool()


def _config(**actions: str) -> Declared:
    return examples.repairs(actions)


def _workers(replicas: int, grace: int = 150) -> Declared:
    return examples.workers(replicas=replicas, template={"spec": {"terminationGracePeriodSeconds": grace}})


_LOST = {"GPU_FELL_OFF_THE_BUS": autoclusters.REPLACE_NODE}
_WITHOUT_RESERVATIONS = examples.repairs(_LOST, fallback=False)
_IN_PREVIEW = (
    "After a preview nothing. With --skip-preview, or where a value was unknown, all that the program declares."
)

POLICIES = [
    ResourcePolicy(
        name="autoclusters-actions",
        refuses="Each AutoClusters action is REPLACE_NODE or OFF, for an issue by its exact name.",
        why="The API refuses another action, and an issue by another name is never answered.",
        fix='Write GPU_FELL_OFF_THE_BUS: "REPLACE_NODE".',
        applies=CONFIG,
        check=_actions,
        good=example("A fault of the hardware is answered with a new node.", _config(**_LOST)),
        bad=example("A misspelt action.", _config(GPU_FELL_OFF_THE_BUS="REPLACE")),
    ),
    ResourcePolicy(
        name="autoclusters-way-back",
        refuses="No AutoClusters action takes a node away without bringing one back.",
        why="Each fault would leave the cluster smaller, until nothing is left to run on.",
        fix='Write "REPLACE_NODE", or "OFF" and look at the node yourself.',
        applies=CONFIG,
        check=_way_back,
        good=example("A new node takes the place.", _config(XID_79="REPLACE_NODE")),
        bad=example("The node is drained, and that is all.", _config(XID_79="DRAIN_NODE")),
    ),
    ResourcePolicy(
        name="autoclusters-application-error",
        level="advisory",
        refuses="AutoClusters leaves alone what is an error of the application.",
        why="The error comes back on every node that the job is given, and one broken job uses up all spares.",
        fix="Leave XID_13, XID_31, XID_43, XID_45 and XID_94 OFF, and look at the job first.",
        applies=CONFIG,
        check=_unwise,
        good=example("A GPU that is gone.", _config(XID_79="REPLACE_NODE", XID_31="OFF")),
        bad=example("A page fault of a kernel.", _config(XID_31="REPLACE_NODE")),
    ),
    ResourcePolicy(
        name="autoclusters-consent-type",
        refuses="A pool that consents to repairs has a VM type that AutoClusters repairs.",
        why="The consent promises repairs that never come.",
        fix='Use the whole host, such as l40s-48gb.10x, or write consentMode: "off".',
        applies=NODE_POOLS,
        check=_consent,
        good=example(
            "A whole host of a supported type.",
            examples.pool(consentMode="auto"),
            _workers(1),
        ),
        bad=example(
            "A type that is not supported.",
            examples.pool(type="a40.8x", consentMode="auto"),
        ),
    ),
    StackPolicy(
        name="autoclusters-version",
        refuses="A cluster whose nodes are to be repaired has a version with AutoClusters.",
        why="On an older version the configuration is refused, or nothing ever answers a fault.",
        fix="Use version 1.33.4-cmk.20 or newer; on CMK v2 set consentMode: auto on the pools.",
        check=_version,
        already=_IN_PREVIEW,
        good=example("A version that has it.", _CLUSTER, _POOL, _config(**_LOST)),
        bad=example(
            "A version from before.",
            examples.cluster(version="1.33.4-cmk.5"),
            _POOL,
            _config(**_LOST),
        ),
    ),
    StackPolicy(
        name="autoclusters-pool-types",
        refuses="A cluster whose nodes are to be repaired has a pool that can be.",
        why="No node of the cluster would ever be replaced.",
        fix="Add a pool of whole hosts such as h100-80gb-sxm-ib.8x, or leave the actions OFF.",
        check=_pool_types,
        already=_IN_PREVIEW,
        good=example("Whole hosts.", _CLUSTER, _POOL, _config(**_LOST)),
        bad=example(
            "CPU nodes only.",
            _CLUSTER,
            examples.pool("system", type="c1a.8x"),
            _config(**_LOST),
        ),
    ),
    StackPolicy(
        name="autoclusters-spare",
        refuses="A repair finds a host: a reserve, or the project's reservations.",
        why="Without one the job that lost its node waits until somebody frees another.",
        fix="Plan work for one host less than there are, or set fallbackToProjectReservations: true.",
        check=_spare,
        already=_IN_PREVIEW,
        good=example(
            "Two hosts and work for one.", _CLUSTER, _POOL, _workers(1), examples.repairs(_LOST, fallback=False)
        ),
        bad=example(
            "Two hosts and work for two.", _CLUSTER, _POOL, _workers(2), examples.repairs(_LOST, fallback=False)
        ),
    ),
    StackPolicy(
        name="autoclusters-requeue",
        refuses="Where nodes are replaced, Slurm puts their jobs back into the queue.",
        why="The repair gives the node back but not the work.",
        fix="Write JobRequeue=1 in the Controller's extraConf.",
        check=_requeue,
        already=_IN_PREVIEW,
        good=example("Jobs come back.", _CLUSTER, _POOL, _config(**_LOST), controller("JobRequeue=1\nKillWait=90")),
        bad=example("Jobs are lost.", _CLUSTER, _POOL, _config(**_LOST), controller("JobRequeue=0\nKillWait=90")),
    ),
    StackPolicy(
        name="autoclusters-checkpoint-window",
        refuses="Where nodes are replaced, a worker's pod lives until its jobs have saved.",
        why="The pod would be killed in the middle of the last checkpoint.",
        fix="Set terminationGracePeriodSeconds to drain budget + KillWait + 30, such as 240.",
        parameters={
            "drainSeconds": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "How long the worker's preStop waits for its jobs before Slurm ends them.",
            }
        },
        check=_window,
        already=_IN_PREVIEW,
        good=example(
            "Time for KillWait and the daemon's end.",
            _CLUSTER,
            _POOL,
            _config(**_LOST),
            controller("KillWait=90"),
            _workers(1, 150),
        ),
        bad=example(
            "Killed after a minute.",
            _CLUSTER,
            _POOL,
            _config(**_LOST),
            controller("KillWait=90"),
            _workers(1, 60),
        ),
    ),
]
