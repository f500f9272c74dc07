"""From settings to everything that Slurm in the platform's cluster is: pure functions, no resources.

Read top to bottom, it says what each pool's workers are, how long they have when they go, which files slurmctld gets,
and which objects there will be. What only the cloud knows is asked before: cores and memory of the VM types.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from components.node_pools import Pool
from components.slurm import (
    accounting,
    accounts,
    actor,
    charts,
    conf,
    conf_files,
    directory,
    health,
    images,
    objects,
    scripts,
)
from components.slurm.charts import Chart
from components.slurm.conf_plan import ConfPlan, SlurmPool, pod_grace
from components.slurm.objects import Mount, Pods, Spec, Worker
from components.slurm.settings import HomeSettings, SlurmSettings, WorkerSettings
from components.storage import DiskSettings
from crusoe import catalog
from crusoe.rules import slinky as rules
from crusoe.rules.finding import Finding

HOME = "/home"
METRICS_USER = "metrics"
TOKEN_LIFETIME = "1h"  # noqa: S105 (how long, not which)
BRIDGE_TOKEN, BRIDGE_TOKEN_LIFETIME = "slurm-bridge-token", "8760h"
DIGEST_CHARACTERS = 10

CORES_KEPT = 4
"""Cores of a node that are left to Kubernetes and its daemons, on hosts with more than 16."""
MEMORY_KEPT_PERCENT = 6
MEMORY_KEPT_GIB = 4
"""Memory of a node that is left to them: the larger of the two."""


class VmSize(Protocol):
    """What the cloud says of a VM type."""

    name: str
    cpu_cores: int
    memory_gb: int


@dataclass(frozen=True)
class ConfigMap:
    """Files of slurmctld. The name holds a digest of them, so that other files are another ConfigMap."""

    name: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class SharedDisk:
    """A shared disk in all pods of people: the claim, where it is mounted, and the disk's key and size."""

    claim: str
    path: str
    disk: str
    size: str


@dataclass(frozen=True)
class WorkerPlan:
    """A pool's workers.

    Attributes:
        min_ready: workers without which `up` fails.
        drain_seconds: how long jobs may take to end before the NodeSet can go.
        lent: whether they run on borrowed nodes only, where nobody waits for them.
        floor: how many of them are promised, where the others may wait for nodes; None where all are.
    """

    worker: Worker
    min_ready: int
    drain_seconds: int
    lent: bool = False
    floor: int | None = None

    @property
    def replicas(self) -> int | None:
        """Workers that are asked for; None where the nodes decide."""
        return self.worker.replicas if self.worker.scaling_mode == "StatefulSet" else None

    def spec(self, pods: Pods) -> Spec:
        """The NodeSet's spec."""
        return objects.node_set(pods, self.worker)


Split = Callable[[WorkerPlan, SlurmPool, ConfPlan], Sequence[WorkerPlan]]
"""Makes the NodeSets of a pool from the one that it would have for itself; the first keeps the pool's key."""


def undivided(worker: WorkerPlan, _pool: SlurmPool, _plan: ConfPlan) -> Sequence[WorkerPlan]:
    """The `Split` of pools that Slurm has to itself."""
    return (worker,)


Sizes = Mapping[str, VmSize]
"""VM types by name. One that is not in there leaves cores and memory to the node."""


def cores_of(cores: int) -> int:
    """Cores of a node that its jobs get."""
    return cores - CORES_KEPT if cores > 4 * CORES_KEPT else max(1, cores - 1)


def memory_of(memory_gb: int) -> int:
    """MiB of a node's memory that its jobs get; the API's GB are taken for 10^9 bytes, the smaller reading."""
    mib = memory_gb * 10**9 // 2**20
    return mib - max(mib * MEMORY_KEPT_PERCENT // 100, MEMORY_KEPT_GIB * 1024)


@dataclass(frozen=True)
class SlinkyPlan:
    """Slurm in the platform's own cluster.

    Attributes:
        charts: releases, in order.
        controller, rest_api, accounting, login: specs of the objects; no accounting, no object.
        database: spec of the MariaDB, None where there is none in the cluster.
        database_password_secret: name of the stack's secret for a database elsewhere.
        people: files by which pods know who is who.
        sssd_conf_secret: name of the stack's secret with an sssd.conf, where a directory elsewhere has the users.
        accounts: scripts that bring accounts and limits into the database; None without accounting.
        config_maps: files of slurmctld.
        health: the health checks in the workers, by file; None without.
        actor: spec of the actor's Deployment; None without.
        webhook_secret: name of the stack's secret with the URL that jobs' ends are told to.
        workers: by NodeSet, which has the key of its pool, or begins with it where a pool has two.
        leaving: workers of pools that are being retired: none, so that Slurm drains those that are there.
        shared: shared disks.
        tokens: specs of the Tokens, by name.
        bridge: release of slurm-bridge, None unless asked for.
    """

    charts: tuple[Chart, ...]
    chart_timeout: int
    pods: Pods
    key_version: int
    controller: Spec
    rest_api: Spec
    accounting: Spec | None
    database: Spec | None
    database_size: str | None
    database_password_secret: str | None
    login: Spec
    login_cidrs: tuple[str, ...]
    people: Mapping[str, str]
    sssd_conf_secret: str | None
    accounts: Mapping[str, str] | None
    config_maps: Mapping[str, ConfigMap]
    health: Mapping[str, str] | None
    actor: Spec | None
    webhook_secret: str | None
    workers: Mapping[str, WorkerPlan]
    leaving: Mapping[str, WorkerPlan]
    shared: tuple[SharedDisk, ...]
    state_size: str
    tokens: Mapping[str, Spec]
    bridge: Chart | None


def slinky(
    slurm: SlurmSettings,
    pools: Mapping[str, Pool],
    disks: Mapping[str, DiskSettings],
    sizes: Sizes,
    *,
    stack: str,
    split: Split = undivided,
) -> SlinkyPlan:
    """Everything that Slurm in the platform's cluster is to be."""
    references = images.references(slurm.images)
    shared = shared_disks(slurm.home, disks)
    pods = Pods(
        references,
        slurm.images.pull_secret,
        tuple(Mount(each.claim, each.path) for each in shared),
        outside_directory=slurm.people.sssd_conf_secret is not None,
        health_checks=slurm.failure.health_checks,
    )
    used = {key: pool for key, pool in pools.items() if uses(slurm, key, pool)}
    configuration = conf_plan(slurm, used, sizes)
    maps = config_maps(configuration)
    name = slurm.cluster_name or stack
    actor_told = actor.settings(slurm, [pool.name.value for pool in used.values()], cluster=name)
    counted = slurm.accounting
    inside = counted.enabled and counted.database.host is None
    database = counted.database
    return SlinkyPlan(
        charts=charts.plan(
            source=slurm.charts.source,
            images=references,
            node_conditions=slurm.node_conditions,
            database=inside,
        ),
        chart_timeout=slurm.charts.timeout_seconds,
        pods=pods,
        key_version=slurm.key_version,
        controller=objects.controller(
            pods,
            cluster_name=name,
            conf=conf.slurm_conf(configuration),
            config_maps=[maps["files"].name],
            prologs=[each.name for kind, each in maps.items() if kind == "prolog"],
            epilogs=[each.name for kind, each in maps.items() if kind == "epilog"],
            accounting=counted.enabled,
            metrics=configuration.metrics_user is not None,
        ),
        rest_api=objects.rest_api(pods, replicas=2),
        accounting=objects.accounting(
            pods,
            conf=accounting.slurmdbd_conf(counted.keep_months),
            host=database.host or objects.DATABASE,
            port=database.port,
            database=database.name,
            username=database.user,
        )
        if counted.enabled
        else None,
        database=objects.database(image=None, size=database.size.removesuffix("B"), storage_class="gpuplatform-disk")
        if inside
        else None,
        accounts=account_scripts(slurm, configuration, stack=stack) if counted.enabled else None,
        database_size=database.size if inside else None,
        database_password_secret=database.password_secret,
        login=login_spec(slurm, pods),
        login_cidrs=slurm.login.cidrs,
        people=directory.files(slurm.people, most_processes=slurm.login.most_processes),
        sssd_conf_secret=slurm.people.sssd_conf_secret,
        config_maps=maps,
        health=health.files() if slurm.failure.health_checks else None,
        actor=actor.deployment(pods, actor_told) if slurm.failure.actor else None,
        webhook_secret=slurm.notify.webhook_secret if slurm.notify else None,
        workers={
            each.worker.key: each
            for key, pool in used.items()
            for each in split(
                worker(slurm, key, pool, configuration, sizes), slurm_pool(slurm, key, pool, sizes), configuration
            )
        },
        leaving={
            key: without_workers(worker(slurm, key, pool, configuration, sizes))
            for key, pool in pools.items()
            if pool.settings.retire and included(slurm, key, pool)
        },
        shared=shared,
        state_size=slurm.state.size,
        tokens=tokens(slurm),
        bridge=bridge(slurm, references),
    )


def findings(
    slurm: SlurmSettings,
    pools: Mapping[str, Pool],
    disks: Mapping[str, DiskSettings],
    path: str,
    *,
    stack: str,
    split: Split = undivided,
) -> Iterator[Finding]:
    """Check the whole: options of slurm.conf against each other, and every object as it will be written."""
    used = {key: pool for key, pool in pools.items() if uses(slurm, key, pool)}
    yield from conf.findings(conf_plan(slurm, used, {}), path)
    plan = slinky(slurm, pools, disks, {}, stack=stack, split=split)
    specs: list[tuple[str, str, Spec | None]] = [
        ("Controller", f"{path}.conf", plan.controller),
        ("RestApi", path, plan.rest_api),
        ("Accounting", f"{path}.accounting", plan.accounting),
        ("LoginSet", f"{path}.login", plan.login),
        *(("NodeSet", f"{path}.pools.{key}", each.spec(plan.pods)) for key, each in plan.workers.items()),
        *(("Token", path, spec) for spec in plan.tokens.values()),
    ]
    for kind, place, spec in specs:
        if spec is not None:
            yield from rules.spec(kind, place, spec)


def tokens(slurm: SlurmSettings) -> dict[str, Spec]:
    """What speaks to Slurm's REST API as somebody, by name."""
    found = {"metrics": objects.token(METRICS_USER, TOKEN_LIFETIME, "slurm-token-metrics")}
    if slurm.failure.actor:
        found["actor"] = objects.token(actor.SLURM_USER, TOKEN_LIFETIME, actor.TOKEN_SECRET)
    if slurm.bridge:
        # slurm-bridge reads its token once, so it has to last (Slinky 1.2).
        found["bridge"] = objects.token("slurm", BRIDGE_TOKEN_LIFETIME, BRIDGE_TOKEN, "auth-token")
    return found


def bridge(slurm: SlurmSettings, references: Mapping[str, str]) -> Chart | None:
    """The release of slurm-bridge, beside the keys that its token is made with."""
    if slurm.bridge is None:
        return None
    values = charts.bridge_values(references, BRIDGE_TOKEN, slurm.bridge.partition, slurm.bridge.namespaces)
    return charts.chart("slurm-bridge", charts.SLINKY, charts.NAMESPACE, values, slurm.charts.source)


def uses(slurm: SlurmSettings, key: str, pool: Pool) -> bool:
    """Whether Slurm has workers in a pool."""
    return included(slurm, key, pool) and not pool.settings.retire


def included(slurm: SlurmSettings, key: str, pool: Pool) -> bool:
    """Whether a pool is Slurm's by the settings, retired or not."""
    wanted = slurm.pools[key].include if key in slurm.pools else None
    return pool.gpus > 0 if wanted is None else wanted


def without_workers(plan: WorkerPlan) -> WorkerPlan:
    """The NodeSet without a worker and without a partition.

    Its operator drains the workers that are there. Replicas count in one scaling mode only, and workers of another mode
    than the NodeSet's are drained as well (Slinky 1.2).
    """
    return replace(plan, worker=replace(plan.worker, replicas=0, scaling_mode="StatefulSet", partition=None))


def shared_disks(home: HomeSettings, disks: Mapping[str, DiskSettings]) -> tuple[SharedDisk, ...]:
    """The shared disks of the settings: /home first."""
    paths = {home.disk: HOME} if home.disk else {}
    return tuple(
        SharedDisk(objects.HOME_CLAIM if path == HOME else f"slurm-{key}", path, key, disks[key].size)
        for key, path in {**paths, **home.mounts}.items()
    )


def conf_plan(slurm: SlurmSettings, pools: Mapping[str, Pool], sizes: Sizes) -> ConfPlan:
    """What slurm.conf is made from."""
    return ConfPlan(
        pools=tuple(slurm_pool(slurm, key, pool, sizes) for key, pool in pools.items()),
        partitions=slurm.partitions,
        timing=slurm.timing,
        topology=slurm.topology,
        conf=slurm.conf,
        accounting=slurm.accounting.enabled,
        metrics_user=METRICS_USER,
        health_check=health.PROGRAM if slurm.failure.health_checks else None,
    )


def slurm_pool(slurm: SlurmSettings, key: str, pool: Pool, sizes: Sizes) -> SlurmPool:
    """A pool as Slurm sees it."""
    settings = slurm.pools.get(key, WorkerSettings())
    kind, size = catalog.vm_type(pool.settings.type), sizes.get(pool.settings.type)
    return SlurmPool(
        key=key,
        gpus=pool.gpus,
        gres=kind.gres if kind else None,
        vendor=kind.gpu_vendor if kind else None,
        cpus=cores_of(size.cpu_cores) if size else None,
        memory_mib=memory_of(size.memory_gb) if size else None,
        most_nodes=pool.most,
        partition=settings.partition,
        features=settings.features,
        weight=settings.weight,
    )


def account_scripts(slurm: SlurmSettings, plan: ConfPlan, *, stack: str) -> dict[str, str]:
    """Scripts by which accounts, QOS and limits become those of the settings."""
    counted = slurm.accounting
    return accounts.files(
        cluster=slurm.cluster_name or stack,
        conf_server=objects.CONF_SERVER,
        accounts=accounts.with_default(counted.accounts, slurm.people.users),
        qos=counted.qos,
        gpu_types=[pool.gres for pool in plan.pools if pool.gres],
        delete_unlisted=counted.delete_unlisted,
    )


def config_maps(plan: ConfPlan) -> dict[str, ConfigMap]:
    """The files beside slurm.conf."""
    files = {
        "gres.conf": conf_files.gres_conf(plan.pools),
        "cgroup.conf": conf_files.cgroup_conf(),
        "job_submit.lua": conf_files.job_submit_lua(plan),
    }
    if topology := conf_files.topology_yaml(plan.topology):
        files["topology.yaml"] = topology
    scripts_of = health.scripts() if plan.health_check else dict[str, Mapping[str, str]]()
    return {kind: _config_map(kind, each) for kind, each in {"files": files, **scripts_of}.items()}


def _config_map(kind: str, files: Mapping[str, str]) -> ConfigMap:
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:DIGEST_CHARACTERS]
    return ConfigMap(f"slurm-{kind}-{digest}", files)


def worker(slurm: SlurmSettings, key: str, pool: Pool, plan: ConfPlan, sizes: Sizes) -> WorkerPlan:
    """A pool's workers: all nodes but the reserve, each with a slurmd that has the whole of it."""
    settings = slurm.pools.get(key, WorkerSettings())
    kind = catalog.vm_type(pool.settings.type)
    one = slurm_pool(slurm, key, pool, sizes)
    replicas = pool.fewest - pool.settings.reserve
    taints = [each.model_dump(exclude_none=True) for each in pool.settings.node_taints]
    resource = kind.resource_name if kind else None
    wanted = Worker(
        key=key,
        pool=pool.name.value,
        replicas=None if pool.settings.autoscaling else replicas,
        conf=conf.node_conf(one),
        grace_seconds=pod_grace(slurm.timing),
        pre_stop=scripts.pre_stop(drain_budget=slurm.timing.drain_budget, kill_wait=slurm.timing.kill_wait),
        resource=resource,
        gpus=pool.gpus,
        # Handed out by NVIDIA's network operator (Crusoe's NCCL test: all adapters of a host to one pod).
        adapters=len(kind.hcas) if kind and kind.gpu_vendor == "nvidia" and kind.fabric == "infiniband" else 0,
        cpus=one.cpus,
        memory_mib=one.memory_mib,
        partition=conf.partition_config(plan, one),
        scaling_mode=settings.scaling_mode,
        tolerations=tuple(tolerations(taints, resource)),
        update=settings.update,
        max_unavailable=settings.max_unavailable,
        shared_memory=settings.shared_memory,
        template=settings.template,
        labels={slurm.failure.opt_out_label: "true"}
        if slurm.failure.opt_out_label and settings.keep_failed_nodes
        else {},
    )
    return WorkerPlan(
        worker=wanted,
        min_ready=max(0, min(replicas, pool.min_count)),
        drain_seconds=slurm.timing.drain_budget + slurm.timing.kill_wait,
    )


def tolerations(taints: Sequence[Mapping[str, str]], resource: str | None) -> list[dict[str, str]]:
    """Tolerations of a pool's taints, and of the taint by which GPU nodes keep other pods away."""
    found = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}] if resource else []
    for taint in taints:
        found.append({"key": taint["key"], "operator": "Equal", "value": taint["value"], "effect": taint["effect"]})
    return found


def login_spec(slurm: SlurmSettings, pods: Pods) -> Spec:
    """The login nodes."""
    login = slurm.login
    limits = {"cpu": login.cpus, "memory": login.memory}
    return objects.login_set(
        pods,
        replicas=login.replicas,
        root_keys=login.root_keys,
        resources={"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": limits},
        notice_minutes=login.notice_minutes,
        template=login.template,
    )
