"""From settings to what each shared pool is: who is promised how many nodes and GPUs, and who may have the rest.

Pure functions, no resources. Whatever is derived is derived here, once: nodes come from the node pools, GPUs of a node
from the catalogue, homes from `crusoe.rules.gpu_units`. Everything else in this room only reads a `SharingPlan`.

What breaks if violated: floors and homes of a pool never exceed its nodes less the reserve (`crusoe.rules.gpu_sharing`
refuses such settings), and each share has homes of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.gpu_sharing.settings import (
    DemandSettings,
    GpuSharingSettings,
    ModelSettings,
    SharedPoolSettings,
    ShareSettings,
    mebibytes,
    node_room,
)
from components.node_pools import Pool
from components.slurm import plan as slurm_plan
from components.slurm.charts import ChartSettings
from components.slurm.conf_plan import ALL
from components.slurm.conf_settings import PartitionSettings
from components.slurm.plan import Sizes
from components.slurm.settings import SlurmSettings
from crusoe import catalog
from crusoe.rules import gpu_sharing as rules
from crusoe.rules.finding import Finding
from crusoe.rules.gpu_units import gpus_of, nodes_of, replicas_on_node


@dataclass(frozen=True)
class Share:
    """One inference workload's part of a pool, in replicas.

    Attributes:
        per_node: replicas that one node holds.
        homes: nodes that its floor has to itself, with room for the replicas that surge in a rollout.
    """

    name: str
    namespace: str
    gpus_per_replica: int
    per_node: int
    floor: int
    ceiling: int
    surge: int
    homes: int
    model: ModelSettings | None = None

    @property
    def burst(self) -> int:
        """Replicas between floor and ceiling: on borrowed GPUs."""
        return self.ceiling - self.floor

    @property
    def floor_gpus(self) -> int:
        """GPUs of the floor."""
        return self.floor * self.gpus_per_replica

    @property
    def burst_gpus(self) -> int:
        """GPUs between floor and ceiling."""
        return self.burst * self.gpus_per_replica

    @property
    def surge_gpus(self) -> int:
        """GPUs of the replicas that surge in a rollout."""
        return self.surge * self.gpus_per_replica


@dataclass(frozen=True)
class SharedPool:
    """A shared pool: nodes, GPUs, and both sides' parts.

    Attributes:
        key: of the pool in the settings.
        node_pool: its physical name, by which its nodes are found.
        resource: name under which Kubernetes counts its GPUs, `nvidia.com/gpu` or `amd.com/gpu`.
        gpus: of one node.
        least, most: nodes that are always there, and that there may be, the reserve among them.
        floor, ceiling: of training, in nodes.
        tolerations: of the pool's taints.
        drain_budget: seconds that a worker has to drain when its node is taken back.
        domain: nodes that are promised together.
        partitions: of Slurm, over several pools, that this one is in.
    """

    key: str
    node_pool: str
    resource: str
    gpus: int
    least: int
    most: int
    reserve: int
    engine: str
    surplus: str
    floor: int
    ceiling: int
    shares: tuple[Share, ...]
    tolerations: tuple[Mapping[str, str], ...]
    drain_budget: int
    lent_max_time: str
    demand: DemandSettings | None = None
    domain: int = 1
    partitions: tuple[str, ...] = ()

    @property
    def homes(self) -> int:
        """Home nodes of all shares."""
        return sum(share.homes for share in self.shares)

    @property
    def lent(self) -> int:
        """Nodes that nobody is guaranteed, of those that are always there."""
        return self.least - self.reserve - self.floor - self.homes

    @property
    def borrowed(self) -> int:
        """Nodes that training may have beyond its floor."""
        return self.ceiling - self.floor

    @property
    def floor_gpus(self) -> int:
        """GPUs of training's floor."""
        return gpus_of(self.floor, self.gpus)

    @property
    def borrowed_gpus(self) -> int:
        """GPUs that training may have beyond its floor."""
        return gpus_of(self.borrowed, self.gpus)


@dataclass(frozen=True)
class SharingPlan:
    """All shared pools of a cluster.

    Attributes:
        namespaces: that are made here for shares.
        existing: with shares that somebody else makes.
        exempt: without a share whose pods may have GPUs all the same.
        slurm_gpus: GPUs of the pools that Slurm has to itself, by resource name.
        ready_minutes: until Kueue takes a pod for failed.
        system_pool: physical name of a pool of CPU nodes that anything may run on; None where there is none.
        charts: where charts come from.
    """

    pools: tuple[SharedPool, ...]
    namespaces: tuple[str, ...]
    existing: tuple[str, ...]
    exempt: tuple[str, ...]
    home_image: str
    slurm_gpus: Mapping[str, int]
    ready_minutes: int
    system_pool: str | None = None
    charts: ChartSettings = field(default_factory=ChartSettings)

    def of(self, *engines: str) -> tuple[SharedPool, ...]:
        """The pools of some engines."""
        return tuple(pool for pool in self.pools if pool.engine in engines)

    @property
    def share_namespaces(self) -> tuple[str, ...]:
        """All namespaces of inference, those without a share yet included."""
        return (*self.namespaces, *self.existing)

    def shares_in(self, namespace: str, *engines: str) -> tuple[tuple[SharedPool, Share], ...]:
        """The shares of a namespace in pools of some engines, each with its pool."""
        return tuple((pool, each) for pool in self.of(*engines) for each in pool.shares if each.namespace == namespace)


def plan(sharing: GpuSharingSettings, pools: Mapping[str, Pool], slurm: SlurmSettings) -> SharingPlan:
    """What the shared pools are, of settings that the rules accept."""
    own: dict[str, int] = {}
    for key, pool in pools.items():
        kind = catalog.vm_type(pool.settings.type)
        if key not in sharing.pools and kind and kind.resource_name and slurm_plan.uses(slurm, key, pool):
            own[kind.resource_name] = own.get(kind.resource_name, 0) + gpus_of(pool.most, pool.gpus)
    return SharingPlan(
        pools=tuple(shared_pool(key, each, pools[key], slurm) for key, each in sharing.pools.items()),
        namespaces=sharing.namespaces,
        existing=sharing.existing_namespaces,
        exempt=sharing.exempt_namespaces,
        home_image=sharing.home_image,
        slurm_gpus=own,
        ready_minutes=sharing.kueue_ready_minutes,
        system_pool=next((pool.name.value for pool in pools.values() if _for_all(pool)), None),
        charts=slurm.charts,
    )


def _for_all(pool: Pool) -> bool:
    """Whether a pool of CPU nodes stays and always has some, without a taint that keeps pods off."""
    return (
        not pool.gpus
        and pool.fewest > 0
        and not pool.settings.retire
        and all(each.effect == "PreferNoSchedule" for each in pool.settings.node_taints)
    )


def shared_pool(key: str, settings: SharedPoolSettings, pool: Pool, slurm: SlurmSettings) -> SharedPool:
    """One pool, with everything that its settings leave open."""
    training, kind = settings.training, catalog.vm_type(pool.settings.type)
    if kind is None or kind.resource_name is None:
        raise ValueError(f"{pool.settings.type} has no GPUs to share")
    plain = pool.settings.model_dump(by_alias=True)
    domain = rules.domain_nodes({"nvlinkDomainNodes": settings.nvlink_domain_nodes}, plain)
    most = training.floor if settings.engine == "static" else (pool.most - pool.settings.reserve) // domain * domain
    taints = [each.model_dump(exclude_none=True) for each in pool.settings.node_taints]
    return SharedPool(
        key=key,
        node_pool=pool.name.value,
        resource=kind.resource_name,
        gpus=pool.gpus,
        least=pool.fewest,
        most=pool.most,
        reserve=pool.settings.reserve,
        engine=settings.engine,
        surplus=settings.surplus,
        floor=training.floor,
        ceiling=most if training.ceiling is None else training.ceiling,
        shares=tuple(share(name, each, pool.gpus) for name, each in settings.inference.items()),
        tolerations=tuple(slurm_plan.tolerations(taints, kind.resource_name)),
        drain_budget=training.drain_budget or slurm.timing.drain_budget,
        lent_max_time=training.lent_max_time,
        demand=training.demand,
        domain=domain,
        partitions=tuple(name for name, each in wide_partitions(slurm).items() if not each.pools or key in each.pools),
    )


def wide_partitions(slurm: SlurmSettings) -> Mapping[str, PartitionSettings]:
    """Slurm's partitions over several pools, by name."""
    return slurm.partitions or {ALL: PartitionSettings()}


def share(name: str, settings: ShareSettings, gpus: int) -> Share:
    """One share of a pool whose nodes have `gpus` GPUs."""
    # Only the floor surges: a burst takes what is free.
    surge = settings.surge if settings.floor else 0
    return Share(
        name=name,
        namespace=settings.namespace,
        gpus_per_replica=settings.gpus_per_replica,
        per_node=replicas_on_node(settings.gpus_per_replica, gpus),
        floor=settings.floor,
        ceiling=settings.floor if settings.ceiling is None else settings.ceiling,
        surge=surge,
        homes=nodes_of(settings.floor + surge, settings.gpus_per_replica, gpus),
        model=settings.model,
    )


def findings(plan: SharingPlan, pools: Mapping[str, Pool], sizes: Sizes, path: str) -> Iterator[Finding]:
    """Check what only the cloud knows: whether cores and memory of a node are enough for the models on it."""
    for pool in plan.pools:
        size = sizes.get(pools[pool.key].settings.type)
        room = node_room(size.cpu_cores, size.memory_gb) if size else (None, None)
        for each in pool.shares:
            if each.model is not None:
                place, memory = f"{path}.pools.{pool.key}.inference.{each.name}.model", mebibytes(each.model.memory)
                yield from rules.host_needs(place, each.model.cpus, memory, each.per_node, *room)


def notes(pool: SharedPool) -> list[str]:
    """What is allowed, and worth knowing before it surprises: one sentence each."""
    found: list[str] = []
    if pool.floor == 0:
        found.append(
            "Training is guaranteed nothing: while no borrowed worker runs, Slurm refuses jobs for these GPUs."
        )
    if pool.domain > 1 and pool.borrowed:
        found.append(
            f"Workers borrow single nodes; a job over an NVLink domain of {pool.domain} needs all of them to be free."
        )
    if pool.least != pool.most:
        found.append(
            f"Only {pool.least} of {pool.most} nodes count for the floors: the autoscaler may take the others."
        )
    room = pool.most - pool.reserve - pool.floor
    for each in pool.shares:
        if each.ceiling > room * each.per_node and pool.engine == "kueue" and not pool.demand:
            found.append(
                f"{each.name} never reaches its ceiling of {each.ceiling} replicas: training's floor is not lent, and "
                f"beside it there is room for {room * each.per_node}."
            )
        elif each.ceiling > room * each.per_node:
            found.append(
                f"{each.name} reaches its ceiling of {each.ceiling} replicas only while training is below its floor; "
                f"with it standing there is room for {room * each.per_node}."
            )
        if each.burst and each.per_node > 1 and pool.engine == "priority":
            found.append(f"One burst replica of {each.name} costs training a node of {pool.gpus} GPUs.")
    return found
