"""Slinky's objects as plain documents: pure functions from what Slurm is to be, to the spec of each object.

Owns every field that the platform sets. What people may add to a pod comes as a `template`, merged in last. Nothing
here defaults an image or a volume away: neither the custom resources nor the operator have defaults for them.

What breaks if violated: labels and annotations of a Controller or RestApi reach its pods, so a value that changes with
each run would restart the daemon with each run; there are none. Anything new in a NodeSet's pod drains all its nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from components.slurm import directory, health
from components.slurm.charts import OFF_GPU_NODES

Spec = dict[str, Any]
"""The spec of a Kubernetes object: plain values, as in its manifest."""

CONTROLLER = REST_API = ACCOUNTING = "slurm"
LOGIN = "login"
SLURM_KEY = {"name": "slurm-auth-slurm", "key": "slurm.key"}
JWT_KEY = {"name": "slurm-auth-jwt", "key": "jwt.key"}
SSSD_CONF = {"name": "slurm-sssd", "key": "sssd.conf"}
DATABASE = "mariadb"
DATABASE_PASSWORD = {"name": "slurm-database", "key": "password"}
STATE_CLAIM, HOME_CLAIM = "slurm-state", "slurm-home"
POOL_LABEL = "crusoe.ai/nodepool.name"
WORKER_TAINT = "nodeset.slinky.slurm.net/worker"
"""The toleration that the operator gives to workers, and takes away as soon as there is any other."""

CONF_SERVER = f"{CONTROLLER}-controller:6817"
"""Where clients of Slurm get its configuration: the Service that the operator makes for slurmctld."""

SSH_PORT = 22
SCRATCH = "/scratch"


@dataclass(frozen=True)
class Mount:
    """A shared disk in every login and worker pod: the claim, and where it is mounted."""

    claim: str
    path: str

    @property
    def volume(self) -> Spec:
        """The pod's volume."""
        return {"name": self.claim, "persistentVolumeClaim": {"claimName": self.claim}}

    @property
    def mount(self) -> Spec:
        """The container's mount."""
        return {"name": self.claim, "mountPath": self.path}


@dataclass(frozen=True)
class Pods:
    """What all pods of Slurm have in common.

    Attributes:
        images: reference by name.
        pull_secret: of the images' registry.
        mounts: shared disks of login and worker pods.
        outside_directory: a directory elsewhere has the users; sssd asks it.
        health_checks: workers have the scripts of `components.slurm.health`.
    """

    images: Mapping[str, str]
    pull_secret: str | None = None
    mounts: tuple[Mount, ...] = ()
    outside_directory: bool = False
    health_checks: bool = False

    @property
    def own_homes(self) -> bool:
        """Whether each pod has homes of its own, because there is no shared /home."""
        return all(mount.path != "/home" for mount in self.mounts)

    def spec(self, **fields: object) -> Spec:
        """A pod's spec with the registry's credentials."""
        secrets = {"imagePullSecrets": [{"name": self.pull_secret}]} if self.pull_secret else {}
        return {**secrets, **{key: value for key, value in fields.items() if value}}


@dataclass(frozen=True)
class Worker:
    """One NodeSet: the slurmd pods of one node pool, one on each node.

    Attributes:
        key: of the pool; also the name of the NodeSet, of its feature in Slurm, and (with a number) of its nodes.
        pool: the pool's physical name, by which its nodes are found.
        replicas: nodes that Slurm counts on; None where something else owns the number.
        resource: name under which Kubernetes counts the GPUs; None for a pool without.
        gpus: of one node.
        adapters: InfiniBand adapters of one node, which Kubernetes counts as `nvidia.com/hostdev`.
        conf: items of slurmd's `--conf`.
        partition: the pool's own partition in one line; None when it has none.
        cpus, memory_mib: limits of slurmd; None leaves them to the node.
        grace_seconds: from the pod's deletion to its end, however busy.
        pre_stop: what is run first, in the container.
        tolerations: of the pool's taints.
        max_unavailable: share of the nodes that an update may drain at once.
        template: fields that people add to the pod.
        labels: of the pods.
    """

    key: str
    pool: str
    replicas: int | None
    conf: str
    grace_seconds: int
    pre_stop: str
    resource: str | None = None
    gpus: int = 0
    adapters: int = 0
    partition: str | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    scaling_mode: str = "StatefulSet"
    tolerations: tuple[Mapping[str, str], ...] = ()
    update: str = "RollingUpdate"
    max_unavailable: str = "25%"
    shared_memory: str | None = None
    template: Mapping[str, object] = field(default_factory=dict[str, object])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def controller(
    pods: Pods,
    *,
    cluster_name: str,
    conf: str,
    config_maps: Sequence[str],
    prologs: Sequence[str] = (),
    epilogs: Sequence[str] = (),
    accounting: bool,
    metrics: bool,
) -> Spec:
    """The Controller: slurmctld with its state on a disk of the platform."""
    return {
        "clusterName": cluster_name,
        "slurmKeyRef": SLURM_KEY,
        "jwtKeyRef": JWT_KEY,
        **({"accountingRef": {"name": ACCOUNTING}} if accounting else {}),
        "slurmctld": {"image": pods.images["slurmctld"], "resources": _needs("500m", "1Gi")},
        "logfile": {"image": pods.images["alpine"]},
        # The pod restarts with each new slurm.conf. Jobs run on meanwhile, and nothing waits for a kubelet's minute.
        "inplaceReconfigure": False,
        "persistence": {"enabled": True, "existingClaim": STATE_CLAIM},
        "extraConf": conf,
        "configFileRefs": _names(config_maps),
        "prologScriptRefs": _names(prologs),
        "epilogScriptRefs": _names(epilogs),
        "metrics": {"enabled": metrics},
        "service": {"spec": {"type": "ClusterIP"}},
        "template": {"spec": pods.spec(affinity=OFF_GPU_NODES, priorityClassName="system-cluster-critical")},
    }


def accounting(pods: Pods, *, conf: str, host: str, port: int, database: str, username: str) -> Spec:
    """The Accounting: slurmdbd on a MariaDB."""
    return {
        "slurmKeyRef": SLURM_KEY,
        "jwtKeyRef": JWT_KEY,
        "slurmdbd": {"image": pods.images["slurmdbd"], "resources": _needs("250m", "1Gi")},
        "storageConfig": {
            "host": host,
            "port": port,
            "database": database,
            "username": username,
            "passwordKeyRef": DATABASE_PASSWORD,
        },
        "extraConf": conf,
        "service": {"spec": {"type": "ClusterIP"}},
        "template": {"spec": pods.spec(affinity=OFF_GPU_NODES, priorityClassName="system-cluster-critical")},
    }


def rest_api(pods: Pods, *, replicas: int) -> Spec:
    """The RestApi: the operator's only way to Slurm, so there are two, apart from each other."""
    return {
        "controllerRef": {"name": CONTROLLER},
        "replicas": replicas,
        "slurmrestd": {"image": pods.images["slurmrestd"], "resources": _needs("100m", "256Mi")},
        "service": {"spec": {"type": "ClusterIP"}},
        "template": {
            "spec": pods.spec(
                affinity={**OFF_GPU_NODES, "podAntiAffinity": _apart("slurmrestd", REST_API)},
                priorityClassName="system-cluster-critical",
            )
        },
    }


def login_set(
    pods: Pods,
    *,
    replicas: int,
    root_keys: Sequence[str],
    resources: Mapping[str, object],
    notice_minutes: int,
    template: Mapping[str, object],
) -> Spec:
    """The LoginSet: where people are when they type `sbatch`. Its Service is the platform's own, beside it."""
    base = pods.spec(
        affinity={**OFF_GPU_NODES, "podAntiAffinity": _apart("login", LOGIN)},
        terminationGracePeriodSeconds=directory.login_grace(notice_minutes),
        volumes=[*(mount.volume for mount in pods.mounts), directory.volume()],
    )
    return {
        "controllerRef": {"name": CONTROLLER},
        "replicas": replicas,
        "login": {
            "image": pods.images["login"],
            "resources": dict(resources),
            "lifecycle": {
                "postStart": directory.post_start("login", homes=True),
                "preStop": directory.login_pre_stop(notice_minutes),
            },
            "volumeMounts": [*(mount.mount for mount in pods.mounts), directory.mount()],
        },
        "initconf": {"image": pods.images["alpine"]},
        "rootSshAuthorizedKeys": "\n".join(root_keys),
        "extraSshdConfig": directory.sshd_conf(own=not pods.outside_directory, root=bool(root_keys)),
        "sssdConfRef": SSSD_CONF,
        # One at a time, or everybody is thrown out at once.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "service": {"spec": {"type": "ClusterIP"}},
        "template": {"spec": merged(base, template)},
    }


def node_set(pods: Pods, worker: Worker) -> Spec:
    """A NodeSet: slurmd on each node of a pool, with all of its GPUs."""
    limits: dict[str, object] = {}
    if worker.resource:
        limits[worker.resource] = worker.gpus
    if worker.adapters:
        limits["nvidia.com/hostdev"] = worker.adapters
    if worker.cpus:
        limits["cpu"] = worker.cpus
    if worker.memory_mib:
        limits["memory"] = f"{worker.memory_mib}Mi"
    shared_memory: Spec = {"medium": "Memory"}
    if worker.shared_memory:
        shared_memory["sizeLimit"] = worker.shared_memory
    volumes: list[Spec] = [
        *(mount.volume for mount in pods.mounts),
        directory.volume(),
        # Loaders of PyTorch hand batches over in shared memory, of which a container has 64 MiB unless told.
        {"name": "shared-memory", "emptyDir": shared_memory},
        {"name": "scratch", "emptyDir": {}},
        *([health.volume()] if pods.health_checks else []),
    ]
    base = pods.spec(
        hostname=f"{worker.key}-",
        nodeSelector={"kubernetes.io/os": "linux", POOL_LABEL: worker.pool},
        tolerations=[{"key": WORKER_TAINT, "operator": "Exists", "effect": "NoExecute"}, *worker.tolerations],
        terminationGracePeriodSeconds=worker.grace_seconds,
        volumes=volumes,
    )
    spec: Spec = {
        "controllerRef": {"name": CONTROLLER},
        "scalingMode": worker.scaling_mode,
        "slurmd": {
            "image": pods.images["slurmd"],
            "resources": {"limits": limits},
            "lifecycle": {
                "postStart": directory.post_start("worker", homes=pods.own_homes),
                "preStop": {"exec": {"command": ["/bin/bash", "-c", worker.pre_stop]}},
            },
            "volumeMounts": [
                *(mount.mount for mount in pods.mounts),
                directory.mount(),
                {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 (the mount point of a volume)
                {"name": "scratch", "mountPath": SCRATCH},
                *([health.mount()] if pods.health_checks else []),
            ],
        },
        "logfile": {"image": pods.images["alpine"]},
        "extraConf": worker.conf,
        "partition": {"enabled": True, "config": worker.partition} if worker.partition else {"enabled": False},
        "updateStrategy": {"type": worker.update},
        "workloadDisruptionProtection": True,
        "template": {
            **({"metadata": {"labels": dict(worker.labels)}} if worker.labels else {}),
            "spec": merged(base, worker.template),
        },
    }
    if pods.outside_directory:
        # sssd runs in a worker beside its sshd only, which lets people in where they have a job (pam_slurm_adopt).
        spec["ssh"] = {"enabled": True, "extraSshdConfig": directory.worker_sshd_conf(), "sssdConfRef": SSSD_CONF}
    if worker.update == "RollingUpdate":
        spec["updateStrategy"]["rollingUpdate"] = {"maxUnavailable": worker.max_unavailable}
    if worker.scaling_mode == "DaemonSet":
        # A replaced node is another name there; the record of the old one would stay for ever.
        spec["pruneSlurmNodeRecords"] = "NodeNotFound"
    elif worker.replicas is not None:
        spec["replicas"] = worker.replicas
    return spec


def token(username: str, lifetime: str, secret: str, key: str = "SLURM_JWT") -> Spec:
    """A Token: a JWT of a Slurm user that the operator renews, in a Secret under `key`."""
    return {
        "jwtKeyRef": JWT_KEY,
        "username": username,
        "lifetime": lifetime,
        "refresh": True,
        "secretRef": {"name": secret, "key": key},
    }


def database(*, image: str | None, size: str, storage_class: str) -> Spec:
    """The MariaDB of the accounting (`k8s.mariadb.com/v1alpha1`), with the settings that slurmdbd wants of InnoDB."""
    return {
        **({"image": image} if image else {}),
        "database": "slurm_acct_db",
        "username": "slurm",
        "passwordSecretKeyRef": {**DATABASE_PASSWORD, "generate": False},
        "rootPasswordSecretKeyRef": {"name": DATABASE_PASSWORD["name"], "key": "root-password", "generate": False},
        "replicas": 1,
        "storage": {"size": size, "storageClassName": storage_class},
        "affinity": OFF_GPU_NODES,
        "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "6Gi"}},
        "myCnf": "\n".join(
            (
                "[mariadb]",
                "innodb_buffer_pool_size=1024M",
                "innodb_log_file_size=256M",
                "innodb_lock_wait_timeout=900",
                "innodb_autoinc_lock_mode=2",
                "binlog_format=row",
                "max_allowed_packet=256M",
                "",
            )
        ),
    }


def merged(base: Mapping[str, Any], added: Mapping[str, Any]) -> Spec:
    """`base` with what people add: maps are merged, lists joined, everything else is the added value."""
    result = dict(base)
    for key, value in added.items():
        present = result.get(key)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            result[key] = merged(cast("Mapping[str, Any]", present), cast("Mapping[str, Any]", value))
        elif isinstance(present, list) and isinstance(value, list):
            result[key] = [*cast("list[object]", present), *cast("list[object]", value)]
        else:
            result[key] = value
    return result


def _names(names: Sequence[str]) -> list[Spec]:
    return [{"name": name} for name in names]


def _needs(cpu: str, memory: str) -> Spec:
    return {"requests": {"cpu": cpu, "memory": memory}}


def _apart(name: str, instance: str) -> Spec:
    """Pods of one kind keep away from each other where there is room."""
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": instance}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"},
            }
        ]
    }
