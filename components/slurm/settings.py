"""What a team can say about its Slurm, and the checks that need nothing but the settings.

Slurm runs in one of two modes: `slinky` in the team's own cluster, `managed` as Crusoe's service in a cluster of its
own. A setting that the chosen mode does not have is refused by name.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from pydantic import Field

from components.settings import Plain, Settings
from components.slurm import (
    account_settings,
    actor_settings,
    charts,
    conf_settings,
    images,
    login_settings,
    managed_settings,
    people,
)
from components.slurm.account_settings import AccountSettings, QosSettings
from components.slurm.actor_settings import FailureSettings, NotifySettings
from components.slurm.charts import ChartSettings
from components.slurm.conf_settings import ConfSettings, PartitionSettings, TimingSettings, TopologySettings
from components.slurm.images import ImageSettings
from components.slurm.login_settings import LoginSettings
from components.slurm.managed_settings import ManagedSettings
from components.slurm.people import PeopleSettings
from crusoe import catalog
from crusoe.rules import manifest, pods, slinky, storage
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole


class BridgeSettings(Settings):
    """slurm-bridge: pods of some namespaces wait in Slurm's queue, and run where Slurm says. For batch pods only."""

    namespaces: tuple[str, ...] = Field(
        description="Namespaces whose pods Slurm places.", examples=[["batch"]], min_length=1
    )
    partition: str = Field(
        default="all", description="Partition that their pods are placed in.", examples=["batch"], min_length=1
    )


class StateSettings(Settings):
    """Where Slurm keeps what it must not lose."""

    size: str = Field(
        default="16GiB",
        description="Size of the disk with the queue, reservations and node states. It only grows.",
        examples=["16GiB"],
    )


class DatabaseSettings(Settings):
    """The MariaDB or MySQL that keeps the history of jobs."""

    host: str | None = Field(
        default=None,
        description="Address of a database of your own; left out, mariadb-operator runs one in the cluster.",
        examples=["mariadb.example.com"],
    )
    port: int = Field(default=3306, description="Its port.", examples=[3306], ge=1, le=65535)
    name: str = Field(default="slurm_acct_db", description="Name of the database.", examples=["slurm_acct_db"])
    user: str = Field(default="slurm", description="User of the database.", examples=["slurm"])
    password_secret: str | None = Field(
        default=None,
        description="Name of the stack's secret with the password of a database of your own, set by "
        "`pulumi config set --secret <name>`.",
        examples=["slurmDatabasePassword"],
    )
    size: str = Field(
        default="20GiB",
        description="Size of the disk of the database in the cluster. It only grows.",
        examples=["50GiB"],
    )


class AccountingSettings(Settings):
    """Who used what, and who may: needed for fair share, limits and QOS."""

    enabled: bool = Field(
        default=True,
        description="Off only where nothing is counted, such as a throw-away environment.",
        examples=[True],
    )
    database: DatabaseSettings = Field(
        default=DatabaseSettings(), description="Where it is kept.", examples=[{"size": "50GiB"}]
    )
    keep_months: int = Field(
        default=36, description="Months that jobs and steps are kept.", examples=[36], ge=1, le=600
    )
    accounts: Mapping[str, AccountSettings] = Field(
        default={},
        description="Accounts by name: whom jobs are counted for. Without any, `everybody` has all of `people.users`.",
        examples=[{"vision": {"grpTres": {"gres/gpu": 64}, "users": {"ada": {}}}}],
    )
    qos: Mapping[str, QosSettings] = Field(
        default={},
        description="QOS by name, beside Slurm's own `normal`.",
        examples=[{"urgent": {"priority": 100, "preempt": ["normal"], "maxTresPerUser": {"gres/gpu": 8}}}],
    )
    delete_unlisted: bool = Field(
        default=False,
        description="Deletes accounts, users and QOS that are not in the settings; otherwise they are only reported. "
        "An account that jobs still run for stays until they have ended.",
        examples=[True],
    )


class WorkerSettings(Settings):
    """How a node pool takes part in Slurm, `slinky` only. A pool with GPUs does unless told otherwise."""

    include: bool | None = Field(
        default=None,
        description="Whether Slurm uses the pool; by default pools with GPUs only.",
        examples=[False],
    )
    scaling_mode: Literal["StatefulSet", "DaemonSet"] = Field(
        default="StatefulSet",
        description="`StatefulSet` numbers the nodes (`train-0`), so that a repaired host comes back under its name "
        "and the pool's reserve stays free. `DaemonSet` calls them as Kubernetes does and takes every host.",
        examples=["StatefulSet"],
    )
    partition: PartitionSettings = Field(
        default=PartitionSettings(),
        description="The pool's own partition, which has its name.",
        examples=[{"default": True, "maxTime": "3-0"}],
    )
    features: tuple[str, ...] = Field(
        default=(), description="Features of its nodes, for `sbatch --constraint`.", examples=[["nvme"]]
    )
    weight: int = Field(
        default=1, description="Slurm takes nodes of a lower weight first.", examples=[10], ge=1, le=65533
    )
    update: Literal["RollingUpdate", "OnDelete"] = Field(
        default="RollingUpdate",
        description="How a change of the workers reaches them: `RollingUpdate` drains each and waits for its jobs, "
        "`OnDelete` leaves it to you.",
        examples=["OnDelete"],
    )
    max_unavailable: str = Field(
        default="100%",
        description="Share of the nodes that an update drains at once. All together by default: each is updated when "
        "its job ends, and no large job waits for the last quarter.",
        examples=["25%"],
        pattern=r"^([1-9]\d?|100)%$",
    )
    shared_memory: str | None = Field(
        default=None,
        description="Limit of /dev/shm; by default the pod's memory.",
        examples=["256Gi"],
        pattern=r"^\d+[MG]i$",
    )
    keep_failed_nodes: bool = Field(
        default=False,
        description="Leaves a failed node as it is for you to look at, instead of having AutoClusters replace it. Its "
        "jobs are requeued all the same, and it stays drained.",
        examples=[True],
    )
    template: Mapping[str, object] = Field(
        default={},
        description="Fields to add to the workers' pod spec. Every name in it is checked; a change drains the nodes.",
        examples=[{"nodeSelector": {"example.com/rack": "a"}}],
    )


class HomeSettings(Settings):
    """Disks that login nodes and workers share, `slinky` only."""

    disk: str | None = Field(
        default=None,
        description="Key of the shared disk in `storage.disks` that is mounted at /home.",
        examples=["home"],
    )
    mounts: Mapping[str, str] = Field(
        default={},
        description="More shared disks, by key, with the path at which each is mounted.",
        examples=[{"checkpoints": "/checkpoints"}],
    )


class SlurmSettings(Settings):
    """Slurm, which machine-learning engineers submit their jobs to."""

    mode: Literal["slinky", "managed"] = Field(
        default="slinky",
        description="`slinky` runs it in this platform's cluster; `managed` is Crusoe Managed Slurm, in a cluster of "
        "its own.",
        examples=["slinky"],
    )
    cluster_name: str | None = Field(
        default=None,
        description="Slurm's ClusterName, by default the stack's name, `slinky` only. It can't change: history and "
        "state belong to it.",
        examples=["research"],
    )
    login: LoginSettings = Field(
        default=LoginSettings(), description="The login nodes.", examples=[{"cidrs": ["203.0.113.0/24"]}]
    )
    people: PeopleSettings = Field(
        default=PeopleSettings(),
        description="Who may use it.",
        examples=[{"users": {"ada": {"keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada"]}}}],
    )
    home: HomeSettings = Field(default=HomeSettings(), description="Shared disks.", examples=[{"disk": "home"}])
    pools: Mapping[str, WorkerSettings] = Field(
        default={},
        description="How node pools take part, by their key in `nodePools`.",
        examples=[{"train": {"weight": 10}}],
    )
    partitions: Mapping[str, PartitionSettings] = Field(
        default={},
        description="Partitions over several pools, by name; left out, `all` over all of them.",
        examples=[{"large": {"pools": ["train", "burst"], "maxTime": "1-0"}}],
    )
    timing: TimingSettings = Field(
        default=TimingSettings(), description="How long a job has when its node goes.", examples=[{"killWait": 90}]
    )
    topology: TopologySettings = Field(
        default=TopologySettings(), description="What Slurm knows of the network.", examples=[{"kind": "tree"}]
    )
    conf: ConfSettings = Field(
        default=ConfSettings(), description="More of slurm.conf.", examples=[{"options": {"MaxArraySize": "10001"}}]
    )
    accounting: AccountingSettings = Field(
        default=AccountingSettings(), description="Accounting, `slinky` only.", examples=[{"enabled": True}]
    )
    key_version: int = Field(
        default=1,
        description="Draws Slurm's keys anew when it changes, `slinky` only. All nodes have to be drained for it: "
        "docs/runbooks/rotate-slurm-keys.md.",
        examples=[2],
        ge=1,
    )
    bridge: BridgeSettings | None = Field(
        default=None,
        description="Lets Slurm place pods of Kubernetes too, `slinky` only. Off unless it is here: it is young.",
        examples=[{"namespaces": ["batch"]}],
    )
    state: StateSettings = Field(
        default=StateSettings(), description="Slurm's state, `slinky` only.", examples=[{"size": "16GiB"}]
    )
    charts: ChartSettings = Field(
        default=ChartSettings(),
        description="Where Helm charts come from, `slinky` only.",
        examples=[{"source": "oci://registry.example.com/charts"}],
    )
    images: ImageSettings = Field(
        default=ImageSettings(),
        description="Container images, `slinky` only.",
        examples=[{"registry": "registry.example.com/slinky"}],
    )
    node_conditions: tuple[str, ...] = Field(
        default=("KernelDeadlock", "ReadonlyFilesystem"),
        description="Conditions of a Kubernetes node that drain it in Slurm, with the condition as the reason, "
        "`slinky` only.",
        examples=[["KernelDeadlock", "GpuUnhealthy"]],
    )
    failure: FailureSettings = Field(
        default=FailureSettings(),
        description="What happens when a node fails, `slinky` only.",
        examples=[{"repairBudget": 3}],
    )
    notify: NotifySettings | None = Field(
        default=None,
        description="Tells a webhook about jobs that ask for it, `slinky` only. Off unless it is here.",
        examples=[{"webhookSecret": "slurmWebhook"}],
    )
    managed: ManagedSettings | None = Field(
        default=None,
        description="Crusoe Managed Slurm, `managed` only.",
        examples=[{"nodeSets": {"train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}}],
    )


ONLY_SLINKY = (
    "accounting",
    "bridge",
    "charts",
    "clusterName",
    "conf",
    "failure",
    "home",
    "images",
    "keyVersion",
    "nodeConditions",
    "notify",
    "partitions",
    "pools",
    "state",
    "timing",
    "topology",
)
"""Settings that Crusoe Managed Slurm has no counterpart for: Crusoe decides them."""


def findings(
    slurm: Plain,
    path: str,
    *,
    pools: Plain,
    pools_path: str,
    disks: Plain,
    disks_path: str,
    stack: str,
    infiniband: bool,
    shared: Collection[str] = (),
) -> Iterator[Finding]:
    """Check Slurm against itself, and against pools, disks and InfiniBand of the platform.

    `shared` are the keys of pools whose number of workers is the GPU sharing's.
    """
    login = table(slurm.get("login"))
    yield from login_settings.findings(f"{path}.login", login)
    managed = slurm.get("mode") == "managed"
    yield from people.findings(table(slurm.get("people")), f"{path}.people", numbered=not managed)
    if managed:
        yield from _managed(slurm, path, stack, infiniband=infiniband)
        return
    if slurm.get("managed") is not None:
        yield Finding(f"{path}.managed", "only Crusoe Managed Slurm has it", "Write mode: managed, or take it out")
    name = text(slurm.get("clusterName"))
    if name and len(name) > slinky.LONGEST_CLUSTER_NAME:
        problem = f"{len(name)} characters long; {slinky.LONGEST_CLUSTER_NAME} are allowed"
        yield Finding(f"{path}.clusterName", problem, f"Write {name[: slinky.LONGEST_CLUSTER_NAME]!r}")
    yield from manifest.check(f"{path}.login.template", login.get("template"), pods.POD_SPEC)
    yield from charts.findings(table(slurm.get("charts")), f"{path}.charts")
    yield from images.findings(table(slurm.get("images")), f"{path}.images")
    yield from storage.size(f"{path}.state.size", storage.PERSISTENT, table(slurm.get("state")).get("size"))
    yield from _accounting(f"{path}.accounting", table(slurm.get("accounting")))
    yield from _workers(slurm, path, pools, pools_path, shared)
    used = {key: pool for key, pool in pools.items() if included(key, table(pool), table(slurm.get("pools")))}
    yield from _accounts(slurm, path, used)
    accounts = table(slurm.get("accounting")).get("enabled") is not False
    yield from actor_settings.findings(slurm, path)
    yield from conf_settings.findings(slurm, path, used, accounting=accounts, pools_path=pools_path)
    yield from _home(table(slurm.get("home")), f"{path}.home", disks, disks_path, slurm, pools, pools_path)


def _accounting(path: str, accounting: Plain) -> Iterator[Finding]:
    database = table(accounting.get("database"))
    yield from storage.size(f"{path}.database.size", storage.PERSISTENT, database.get("size"))
    outside, secret = text(database.get("host")), text(database.get("passwordSecret"))
    if outside and secret is None:
        yield Finding(
            f"{path}.database.passwordSecret",
            f"the database at {outside} needs a password",
            "Name a secret of the stack, for example passwordSecret: slurmDatabasePassword",
        )
    if secret and not outside:
        yield Finding(
            f"{path}.database.passwordSecret",
            "the database in the cluster gets a password of its own",
            "Take it out, or set host",
        )


def _accounts(slurm: Plain, path: str, used: Plain) -> Iterator[Finding]:
    who = table(slurm.get("people"))
    types = {kind.gres for pool in used.values() if (kind := catalog.vm_type(table(pool).get("type"))) and kind.gres}
    yield from account_settings.findings(
        table(slurm.get("accounting")),
        f"{path}.accounting",
        people=None if text(who.get("sssdConfSecret")) else table(who.get("users")),
        gpu_types=types,
        kill_wait=whole(table(slurm.get("timing")).get("killWait")),
    )


def included(key: str, pool: Plain, workers: Plain) -> bool:
    """Whether Slurm uses a pool: as its settings say, else when it has GPUs and stays."""
    wanted = table(workers.get(key)).get("include")
    if isinstance(wanted, bool):
        return wanted
    kind = catalog.vm_type(pool.get("type"))
    return kind is not None and kind.gpus > 0


def _workers(slurm: Plain, path: str, pools: Plain, pools_path: str, shared: Collection[str]) -> Iterator[Finding]:
    workers = table(slurm.get("pools"))
    for key, each in workers.items():
        place = f"{path}.pools.{key}"
        if key not in pools:
            known = ", ".join(pools) or "none"
            yield Finding(place, f"there is no node pool {key!r}", f"Write one of {pools_path}: {known}")
        yield from slinky.name("NodeSet", place, key)
        yield from manifest.check(f"{place}.template", table(each).get("template"), pods.POD_SPEC)
    used = [key for key, pool in pools.items() if included(key, table(pool), workers)]
    if not used:
        yield Finding(
            path, "no node pool has GPUs, so Slurm has no workers", "Add one, or set pools.<key>.include: true"
        )
    for key in used:
        pool, place = table(pools.get(key)), f"{pools_path}.{key}"
        mode = table(workers.get(key)).get("scalingMode")
        if pool.get("autoscaling") is not None and mode != "DaemonSet" and key not in shared:
            yield Finding(
                f"{path}.pools.{key}.scalingMode",
                "the autoscaler owns the number of nodes, so it can't be Slurm's",
                "Write scalingMode: DaemonSet, which follows the nodes",
            )
        kind = catalog.vm_type(pool.get("type"))
        if kind is not None and kind.is_slice:
            yield Finding(
                f"{place}.type",
                f"{kind.name} is a slice of a host, which AutoClusters does not repair and no shared disk reaches",
                f"Use the whole host, {catalog.whole_host_of(kind.name)!r}, or pools.{key}.include: false",
            )
        reserve, count = whole(pool.get("reserve")), whole(pool.get("count"))
        if reserve and count and mode == "DaemonSet":
            yield Finding(
                f"{path}.pools.{key}.scalingMode",
                f"a DaemonSet runs on all {count} nodes, so the reserve of {reserve} would not stay free",
                "Write scalingMode: StatefulSet, or reserve: 0",
            )


def _home(
    home: Plain, path: str, disks: Plain, disks_path: str, slurm: Plain, pools: Plain, pools_path: str
) -> Iterator[Finding]:
    mounts = table(home.get("mounts"))
    wanted = {f"{path}.disk": text(home.get("disk")), **{f"{path}.mounts.{key}": key for key in mounts}}
    for place, key in wanted.items():
        if key is None:
            continue
        if key not in disks:
            known = ", ".join(disks) or "none"
            yield Finding(place, f"there is no disk {key!r}", f"Write one of {disks_path}: {known}")
        elif table(disks[key]).get("type") != storage.SHARED:
            yield Finding(place, f"disk {key!r} can be mounted by one VM only", f"Write type: {storage.SHARED} there")
    for key, target in mounts.items():
        where = text(target)
        if where is None or not where.startswith("/") or where.rstrip("/") in ("", "/home", "/etc", "/usr", "/var"):
            yield Finding(f"{path}.mounts.{key}", "no place for a disk", "Write a path such as /checkpoints")
    if any(wanted.values()):
        for key, pool in pools.items():
            if included(key, table(pool), table(slurm.get("pools"))):
                yield from storage.shared_mount(f"{pools_path}.{key}.type", table(pool).get("type"))


def _managed(slurm: Plain, path: str, stack: str, *, infiniband: bool) -> Iterator[Finding]:
    defaults = SlurmSettings().model_dump(by_alias=True, mode="json")
    for key in ONLY_SLINKY:
        if not _same(slurm.get(key), defaults[key]):
            yield Finding(
                f"{path}.{key}", "Crusoe Managed Slurm does not have it", "Take it out, or write mode: slinky"
            )
    login = table(slurm.get("login"))
    for key in login_settings.ONLY_SLINKY:
        if not _same(login.get(key), defaults["login"][key]):
            problem = "Crusoe Managed Slurm does not have it"
            yield Finding(f"{path}.login.{key}", problem, "Take it out, or write mode: slinky")
    if not items(login.get("rootKeys")):
        problem = "Crusoe Managed Slurm needs a key for root"
        yield Finding(f"{path}.login.rootKeys", problem, "Write your SSH public key")
    if slurm.get("managed") is None:
        yield Finding(f"{path}.managed", "missing", "Write nodeSets below it, with type and count")
    else:
        managed = table(slurm.get("managed"))
        yield from managed_settings.findings(managed, f"{path}.managed", stack, infiniband=infiniband)


def _same(given: object, default: object) -> bool:
    """Whether a setting has its default, left out or written."""
    return given is None or json.dumps(given, sort_keys=True, default=str) == json.dumps(default, sort_keys=True)
