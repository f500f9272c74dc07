"""What a team can say about sharing its GPUs, and the checks that need nothing but the settings.

Training is counted in nodes, inference in replicas of some GPUs. How many nodes there are, and how many of them are
spares, are settings of the node pool: nothing is written twice.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from components.settings import Form, Plain, Settings
from components.slurm import charts
from components.slurm.settings import included
from crusoe import catalog
from crusoe.rules import gpu_sharing as rules
from crusoe.rules import manifest, names, pods, slinky, slurm_conf, slurm_timing
from crusoe.rules.finding import Finding
from crusoe.rules.gpu_units import replicas_on_node
from crusoe.rules.values import items, table, text, whole

NAMESPACE = "gpu-sharing"
"""Where the homes of inference are kept, out of everybody's way."""

BORROW_SUFFIX = "-borrow"
"""What a pool's key has after it, for the NodeSet on borrowed nodes."""

TAKEN: Mapping[str, str] = {
    NAMESPACE: "the homes of inference",
    "slurm": "Slurm",
    "slinky": "Slurm's operator",
    "cert-manager": "cert-manager",
    "mariadb-operator": "the database's operator",
    "keda": "KEDA",
    "kueue-system": "Kueue",
    "kube-system": "Kubernetes",
    "kube-public": "Kubernetes",
    "kube-node-lease": "Kubernetes",
}
"""Namespaces that can't hold a share, with their owner."""

Label = Annotated[
    str, Form(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "not lower-case letters, digits and hyphens, 63 at most")
]
Cron = Annotated[str, Form(r"\S+( \S+){4}", "not the five fields of a cron line")]
Memory = Annotated[str, Form(r"[1-9]\d*[MG]i", "not an amount of memory in Mi or Gi")]
Url = Annotated[str, Form(r"https?://[^\s/?#@]+(/[^\s?#]*)?", "not an http or https address")]


class WindowSettings(Settings):
    """A time of day with a minimum of its own. A window can raise a number, never hold it down."""

    timezone: str = Field(description="Time zone of both times.", examples=["Europe/Berlin"], min_length=1)
    start: Cron = Field(description="When it begins, as a cron line.", examples=["0 20 * * *"])
    end: Cron = Field(description="When it ends, as a cron line.", examples=["0 7 * * *"])
    count: int = Field(description="Nodes or replicas within it, at least.", examples=[8], ge=0)


class DemandSettings(Settings):
    """Lends training's floor out while no job wants it. Needs KEDA, and Slurm's metrics in a Prometheus."""

    prometheus: Url = Field(
        description="Address of the Prometheus that has slurmctld's metrics.",
        examples=["http://prometheus.monitoring:9090"],
    )
    warm_nodes: int = Field(
        default=1,
        description="Nodes that training keeps when idle. Without any, Slurm refuses jobs for GPUs that it can't see.",
        examples=[2],
        ge=1,
    )
    stabilization_seconds: int = Field(
        default=600, description="How long less has to be wanted before nodes are lent.", examples=[1800], ge=0
    )
    windows: tuple[WindowSettings, ...] = Field(
        default=(),
        description="Times at which training keeps more nodes, wanted or not.",
        examples=[[{"timezone": "Europe/Berlin", "start": "0 20 * * *", "end": "0 7 * * *", "count": 8}]],
    )


class TrainingSettings(Settings):
    """What training has of a pool, in nodes."""

    floor: int = Field(description="Nodes that training gets back whenever it wants them.", examples=[8], ge=0)
    ceiling: int | None = Field(
        default=None,
        description="Nodes that training may have, by default all but the pool's `reserve`; with engine `static` the "
        "floor.",
        examples=[14],
        ge=0,
    )
    drain_budget: int | None = Field(
        default=None,
        description="Seconds that a worker of this pool may take to drain and have its jobs requeued when its node is "
        "taken back, by default `slurm.timing.drainBudget`.",
        examples=[60],
        ge=1,
    )
    lent_max_time: str = Field(
        default="1-0",
        description="Longest job in the partition of borrowed nodes, as Slurm writes it; never UNLIMITED.",
        examples=["12:00:00"],
    )
    demand: DemandSettings | None = Field(
        default=None,
        description="Lends the floor out while it is idle; refused as yet, since the platform does not install KEDA. "
        "Left out, training holds its floor, idle or not.",
        examples=[{"prometheus": "http://prometheus.monitoring:9090"}],
    )


class ScalingSettings(Settings):
    """How many burst replicas there are. With `prometheus` KEDA scales, down to none; else an HPA, down to one."""

    metric: str = Field(
        description="What the load is read from: a Prometheus query with `prometheus`, else the name of an external "
        "metric. It counts the load of all replicas together.",
        examples=['sum(vllm:num_requests_running{namespace="inference"})'],
        min_length=1,
    )
    per_replica: int = Field(description="Load that one replica carries.", examples=[32], ge=1)
    prometheus: Url | None = Field(
        default=None,
        description="Address of the Prometheus; refused as yet, since the platform does not install KEDA.",
        examples=["http://prometheus.monitoring:9090"],
    )
    stabilization_seconds: int = Field(
        default=1800,
        description="How long less load has to last before replicas go.",
        examples=[3600],
        ge=0,
        le=3600,
    )
    windows: tuple[WindowSettings, ...] = Field(
        default=(),
        description="Times with more burst replicas, whatever the load; with `prometheus` only.",
        examples=[[{"timezone": "Europe/Berlin", "start": "0 8 * * *", "end": "0 18 * * *", "count": 2}]],
    )


class ModelSettings(Settings):
    """A served model: the Deployments, Service, budgets and autoscaler of a share, ready to use."""

    image: str = Field(
        description="Image of the server.", examples=["docker.io/vllm/vllm-openai:v0.11.0"], min_length=1
    )
    args: tuple[str, ...] = Field(
        default=(), description="Arguments of the server.", examples=[["--model", "/models/chat"]]
    )
    port: int = Field(default=8000, description="Port that it listens on.", examples=[8000], ge=1, le=65535)
    ready_path: str = Field(
        default="/health",
        description="Path that answers 200 once the model is loaded.",
        examples=["/v1/models"],
        pattern="^/",
    )
    start_seconds: int = Field(
        default=1800, description="How long a replica may take to load the model.", examples=[3600], ge=10
    )
    grace_seconds: int = Field(
        default=60,
        description="How long a replica may take to finish its requests when it goes; a training floor that comes back "
        "waits that long.",
        examples=[30],
        ge=1,
        le=3600,
    )
    cpus: int | None = Field(default=None, description="Cores of a replica.", examples=[16], ge=1)
    memory: Memory | None = Field(default=None, description="Memory of a replica.", examples=["128Gi"])
    scaling: ScalingSettings | None = Field(
        default=None,
        description="Makes burst replicas come and go; needed where the ceiling is above the floor.",
        examples=[{"metric": "requests_running", "perReplica": 32}],
    )
    template: Mapping[str, object] = Field(
        default={},
        description="Fields to add to the replicas' pod spec. Every name in it is checked.",
        examples=[{"serviceAccountName": "chat"}],
    )


class ShareSettings(Settings):
    """What one inference workload has of a pool, in replicas."""

    namespace: Label = Field(default="inference", description="Namespace of its pods.", examples=["inference"])
    gpus_per_replica: int = Field(
        description="GPUs of a replica; replicas have to fill a node without a rest.", examples=[4], ge=1
    )
    floor: int = Field(description="Replicas that are always there.", examples=[5], ge=0)
    ceiling: int | None = Field(
        default=None, description="Replicas that there may be, by default the floor.", examples=[12], ge=0
    )
    surge: int = Field(
        default=0,
        description="Replicas above the floor while an update rolls out; they need homes too. With none, an update "
        "takes one replica away at a time.",
        examples=[1],
        ge=0,
    )
    model: ModelSettings | None = Field(
        default=None,
        description="The served model. Left out, the share's room is kept for Deployments of your own.",
        examples=[{"image": "docker.io/vllm/vllm-openai:v0.11.0"}],
    )


class SharedPoolSettings(Settings):
    """How one node pool is shared."""

    engine: Literal["priority", "kueue", "static"] = Field(
        default="priority",
        description="`priority` lends by pod priorities, `static` lends nothing, `kueue` installs Kueue and lends "
        "whole nodes by quotas.",
        examples=["priority"],
    )
    surplus: Literal["inference-first", "training-first"] = Field(
        default="inference-first",
        description="Who gets what nobody is guaranteed, when both want it.",
        examples=["training-first"],
    )
    training: TrainingSettings = Field(description="Training's part.", examples=[{"floor": 8}])
    inference: Mapping[str, ShareSettings] = Field(
        default={},
        description="Inference's parts, by a name of your own.",
        examples=[{"chat": {"gpusPerReplica": 4, "floor": 5, "ceiling": 12}}],
    )
    nvlink_domain_nodes: int | None = Field(
        default=None,
        description="Nodes that are promised together because jobs use NVLink between them; by default 18 on GB200 "
        "and 1 elsewhere.",
        examples=[18],
        ge=1,
    )


class GpuSharingSettings(Settings):
    """GPU sharing between training in Slurm and inference on Kubernetes, pool by pool."""

    pools: Mapping[str, SharedPoolSettings] = Field(
        description="Shared pools, by their key in `nodePools`.",
        examples=[{"train": {"training": {"floor": 8}, "inference": {"chat": {"gpusPerReplica": 4, "floor": 5}}}}],
        min_length=1,
    )
    namespaces: tuple[Label, ...] = Field(
        default=("inference",), description="Namespaces to make for shares.", examples=[["inference"]]
    )
    existing_namespaces: tuple[Label, ...] = Field(
        default=(),
        description="Namespaces with shares that somebody else makes, before this `up`.",
        examples=[["team-vision"]],
    )
    exempt_namespaces: tuple[Label, ...] = Field(
        default=("nvidia-gpu-operator", "gpu-operator", "kube-amd-gpu"),
        description="Namespaces without a share whose pods may have GPUs all the same: those of the GPU operators, "
        "which test each new node.",
        examples=[["nvidia-gpu-operator"]],
    )
    home_image: str = Field(
        default="registry.k8s.io/pause:3.10.1",
        description="Image of the pods that mark the homes of inference: it only sleeps.",
        examples=["registry.example.com/pause:3.10.1"],
        min_length=1,
    )
    kueue_ready_minutes: int = Field(
        default=60,
        description="Minutes until Kueue takes a pod for failed that does not become ready, engine `kueue` only: "
        "longer than image pull and model load.",
        examples=[90],
        ge=1,
    )


def findings(
    sharing: Plain, path: str, *, pools: Plain, pools_path: str, slurm: object, slurm_path: str
) -> Iterator[Finding]:
    """Check the sharing against itself, and against the pools and Slurm of the platform; `slurm` None is no Slurm."""
    shared, with_slurm = table(sharing.get("pools")), table(slurm)
    if slurm is None or with_slurm.get("mode") == "managed":
        there = "there is none" if slurm is None else "Crusoe Managed Slurm has nodes of its own"
        problem = f"training is Slurm in the platform's cluster, and {there}"
        yield Finding(path, problem, f"Add {slurm_path} with mode: slinky, or take the sharing out")
    yield from rules.namespaces(path, sharing, TAKEN)
    yield from rules.share_names(f"{path}.pools", shared)
    for key, each in shared.items():
        place, pool_path = f"{path}.pools.{key}", f"{pools_path}.{key}"
        if key not in pools:
            known = ", ".join(pools) or "none"
            yield Finding(place, f"there is no node pool {key!r}", f"Write one of {pools_path}: {known}")
            continue
        value, pool = table(each), table(pools[key])
        yield from rules.pool(place, value, pool, pool_path)
        yield from _models(place, value, pool)
        yield from _names(place, key, pools)
        if slurm is not None:
            yield from _workers(place, key, value, pool, with_slurm, slurm_path)
    engines = {table(each).get("engine") for each in shared.values()}
    if slurm is not None and engines - {"static"}:
        yield from _lent(with_slurm, slurm_path)
    source = text(table(with_slurm.get("charts")).get("source"))
    if "kueue" in engines and source and "://" not in source and not charts.holds(source, "kueue"):
        fix = "Put it there; into that of the local cloud it comes by `python -m tools ensure --for kueue`"
        yield Finding(f"{slurm_path}.charts.source", f"{source!r} lacks kueue, which engine kueue needs", fix)


def not_yet(sharing: Plain, path: str) -> Iterator[Finding]:
    """Refuse what is planned and written, but needs a release in the cluster that the platform does not bring yet."""
    for key, each in table(sharing.get("pools")).items():
        value, place = table(each), f"{path}.pools.{key}"
        if table(value.get("training")).get("demand") is not None:
            problem = "the platform does not install KEDA yet, which lends an idle floor"
            yield Finding(f"{place}.training.demand", problem, "Leave it out: training holds its floor")
        for name, share in table(value.get("inference")).items():
            scaling = table(table(table(share).get("model")).get("scaling"))
            if scaling.get("prometheus") is not None:
                where = f"{place}.inference.{name}.model.scaling.prometheus"
                problem = "the platform does not install KEDA yet, which reads Prometheus"
                yield Finding(where, problem, "Leave it out, and name an external metric")


def _names(path: str, key: str, pools: Plain) -> Iterator[Finding]:
    borrow = f"{key}{BORROW_SUFFIX}"
    yield from slinky.name("NodeSet", path, borrow)
    if borrow in pools:
        problem = f"workers on borrowed nodes are called {borrow}, and so is a pool"
        yield Finding(path, problem, f"Call that pool {f'{borrow}-2'!r}")


def _models(path: str, value: Plain, pool: Plain) -> Iterator[Finding]:
    """Check what is served: the pod's fields, who scales, and whether a node has cores and memory for its replicas."""
    demand = table(table(value.get("training")).get("demand"))
    most = table(value.get("training")).get("floor")
    yield from rules.windows(f"{path}.training.demand.windows", demand.get("windows"), most)
    if (warm := whole(demand.get("warmNodes"))) is not None and (floor := whole(most)) is not None and warm > floor:
        problem = f"{warm} nodes are more than the floor of {floor}"
        yield Finding(f"{path}.training.demand.warmNodes", problem, f"Write {floor}, or leave demand out")
    kind = catalog.vm_type(pool.get("type"))
    for name, each in table(value.get("inference")).items():
        share, place = table(each), f"{path}.inference.{name}"
        yield from names.name(place, name)
        if share.get("model") is None:
            continue
        model, place = table(share.get("model")), f"{place}.model"
        scaling, static = table(model.get("scaling")), value.get("engine") == "static"
        floor, ceiling = whole(share.get("floor")), whole(share.get("ceiling"))
        burst = max(0, (ceiling if ceiling is not None else floor or 0) - (floor or 0))
        yield from manifest.check(f"{place}.template", model.get("template"), pods.POD_SPEC)
        yield from rules.claims(f"{place}.template", model.get("template"))
        yield from rules.windows(f"{place}.scaling.windows", scaling.get("windows"), burst, "burst replicas")
        if burst and not scaling and not static:
            problem = f"nothing says when the {burst} replicas between floor and ceiling are there"
            yield Finding(f"{place}.scaling", problem, "Write metric and perReplica, or leave the ceiling out")
        if scaling and not burst:
            problem = "there are no replicas between floor and ceiling to scale"
            yield Finding(f"{place}.scaling", problem, "Leave it out, or raise the ceiling")
        if items(scaling.get("windows")) and scaling.get("prometheus") is None:
            yield Finding(f"{place}.scaling.windows", "only KEDA knows times", "Set prometheus, or leave it out")
        gpus = whole(share.get("gpusPerReplica"))
        if kind is not None and gpus is not None:
            held = replicas_on_node(gpus, kind.gpus)
            room = node_room(kind.cpu_cores, kind.memory_gb)
            yield from rules.host_needs(place, model.get("cpus"), mebibytes(model.get("memory")), held, *room)


def node_room(cores: int | None, memory_gb: int | None) -> tuple[int | None, int | None]:
    """Cores and MiB of a VM that pods get; None where they are not known."""
    from components.slurm.plan import cores_of, memory_of  # heavy, and of use only where models are served

    return cores_of(cores) if cores else None, memory_of(memory_gb) if memory_gb else None


def mebibytes(memory: object) -> int | None:
    """`64Gi` or `500Mi` in MiB; None for anything else."""
    given = text(memory)
    if given is None or not given[:-2].isdecimal() or given[-2:] not in ("Mi", "Gi"):
        return None
    return int(given[:-2]) * (1024 if given.endswith("Gi") else 1)


def _workers(path: str, key: str, value: Plain, pool: Plain, slurm: Plain, slurm_path: str) -> Iterator[Finding]:
    """Check what Slurm's settings say of a shared pool."""
    place, workers = f"{slurm_path}.pools.{key}", table(table(slurm.get("pools")).get(key))
    if not included(key, pool, table(slurm.get("pools"))):
        yield Finding(f"{place}.include", "the pool is shared with training", "Leave it out, or take the sharing out")
    if workers.get("scalingMode") == "DaemonSet":
        problem = "a DaemonSet runs on every node, so inference would have none"
        yield Finding(f"{place}.scalingMode", problem, "Leave it out: the sharing owns the number of workers")
    yield from rules.claims(f"{place}.template", workers.get("template"))
    timing, training = table(slurm.get("timing")), table(value.get("training"))
    if training.get("drainBudget") is not None:
        kill, budget = timing.get("killWait"), training.get("drainBudget")
        yield from slurm_timing.pod_grace(f"{slurm_path}.timing.podGrace", timing.get("podGrace"), budget, kill)
    if value.get("engine") == "priority":
        yield from rules.finite_time(f"{path}.training.lentMaxTime", training.get("lentMaxTime"))
        yield from slurm_conf.time(f"{path}.training.lentMaxTime", training.get("lentMaxTime"))
    if value.get("engine") == "kueue" or training.get("demand") is not None:
        partition = table(workers.get("partition"))
        yield from rules.finite_time(f"{place}.partition.maxTime", partition.get("maxTime"))


def _lent(slurm: Plain, path: str) -> Iterator[Finding]:
    """Check Slurm where nodes are lent: its requeue, and the partitions that have all nodes, borrowed ones too."""
    options = table(table(slurm.get("conf")).get("options"))
    yield from rules.job_requeue(f"{path}.conf.options.JobRequeue", options.get("JobRequeue"))
    for name, each in table(slurm.get("partitions")).items():
        if not items(table(each).get("pools")):
            yield from rules.finite_time(f"{path}.partitions.{name}.maxTime", table(each).get("maxTime"))
