"""The exporter in the cluster: repairs, jobs and recovery figures as metrics (`exporter/`, docs/metrics.md).

Owns its Deployment of one, its files, its service account, which may only look (at nodes, and at pods and NodeSets of
Slurm and of shares), a token of Slurm, the Secret with its access key of Crusoe's API, a Service for scrapers, and who
may scrape. It runs in Slurm's namespace, since the token's Secret is there; without Slurm on Kubernetes in one of its
own.

What breaks if violated: nothing of the platform waits for it. Without it nobody is told of repairs and recoveries.
"""

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pulumi
from pydantic import Field

from components.cluster import Cluster
from components.kubernetes import SKIP_AWAIT, KubernetesObject, digest
from components.node_pools import Pool
from components.settings import Form, Plain, Settings
from components.slurm import images
from components.slurm.charts import NAMESPACE as SLURM_NAMESPACE
from components.slurm.charts import OFF_GPU_NODES
from components.slurm.policies import EXPORTER, MONITORING, within
from components.slurm.settings import SlurmSettings
from crusoe import catalog
from crusoe.rules.finding import Finding
from crusoe.rules.slinky import API_VERSION
from crusoe.rules.values import table, text

if TYPE_CHECKING:
    from components.gpu_sharing.plan import SharingPlan

NAME = EXPORTER
LABELS = {"app.kubernetes.io/name": NAME}
"""Labels of its pod and its Service, by which scrapers find it."""
OWN_NAMESPACE = "gpuplatform"
"""Where it runs without Slurm on Kubernetes."""
PORT, PORT_NAME = 9108, "metrics"
FOLDER = "/opt/gpuplatform"
TOKEN_SECRET = "slurm-token-exporter"  # noqa: S105 (the name of a Secret)
KEY_SECRET, KEY_ITEM = "gpuplatform-exporter-key", "secret"
SLURM_USER = "slurm"
"""Whose token sees all jobs also where `privateData` hides them from everybody else."""

_ROOT = Path(__file__).parents[1]
_OURS = ("exporter", "actor", "crusoe/client")
_ALONE = ("crusoe/__init__.py", "training/__init__.py", "training/codes.py", "training/progress.py")
_LIBRARY = "prometheus_client"
_NOT_USED = ("aiohttp", "bridge", "django", "twisted", "parser.py", "multiprocess.py")
"""Parts of the library for servers and jobs of other kinds."""
_GROUP = "rbac.authorization.k8s.io"
_NOBODY = 65534
_LOOK = ["get", "list", "watch"]

Spec = Mapping[str, Any]
Day = Annotated[str, Form(r"\d{4}-\d{2}-\d{2}", "not a day such as 2027-03-31")]


class ApiKeySettings(Settings):
    """The access key of Crusoe's API that the exporter reads with."""

    id: str = Field(
        description="Access key id of a key that can only read.", examples=["AbCdEf0123456789"], min_length=1
    )
    secret: str = Field(
        description="Name of the stack's secret with the secret key, set by `pulumi config set --secret <name>`.",
        examples=["exporterSecretKey"],
        min_length=1,
    )
    expires: Day | None = Field(
        default=None,
        description="Last day of the key, as Crusoe shows it. The API doesn't tell, and an alert comes before it.",
        examples=["2027-03-31"],
    )


class ResourceSettings(Settings):
    """What the exporter's pod may use."""

    cpu: str = Field(default="50m", description="CPU that it asks for.", examples=["100m"])
    memory: str = Field(default="256Mi", description="Memory that it asks for, and its limit.", examples=["512Mi"])


class ExporterSettings(Settings):
    """The platform's exporter: repairs, jobs and recovery figures as metrics."""

    poll_seconds: int = Field(
        default=15,
        description="Seconds from one look at Slurm, Kubernetes and AutoClusters to the next.",
        examples=[30],
        ge=1,
        le=300,
    )
    api_key: ApiKeySettings | None = Field(
        default=None,
        description="Access key of Crusoe's API. Without it repairs, spare capacity and quotas are not told.",
        examples=[{"id": "AbCdEf0123456789", "secret": "exporterSecretKey"}],
    )
    resources: ResourceSettings = Field(
        default=ResourceSettings(), description="What its pod may use.", examples=[{"memory": "512Mi"}]
    )


def findings(exporter: Plain, path: str) -> Iterator[Finding]:
    """Check the day on which the key ends."""
    day = text(table(exporter.get("apiKey")).get("expires"))
    try:
        date.fromisoformat(day or "2000-01-01")
    except ValueError:
        yield Finding(f"{path}.apiKey.expires", f"{day!r} is no day", "Write one such as 2027-03-31")


def slinky(slurm: SlurmSettings | None) -> bool:
    """Whether there is a Slurm in the platform's own cluster."""
    return slurm is not None and slurm.mode == "slinky"


def hides(slurm: SlurmSettings) -> bool:
    """Whether Slurm shows other people's jobs, or nodes, to its own user alone."""
    return bool({"jobs", "nodes"} & {*slurm.conf.private_data})


def namespace(slurm: SlurmSettings | None) -> str:
    """Where the exporter runs."""
    return SLURM_NAMESPACE if slinky(slurm) else OWN_NAMESPACE


def files() -> dict[str, str]:
    """The program and its library, by path below the folder that Python looks in."""
    sources = [path for room in _OURS for path in sorted((_ROOT / room).glob("*.py"))]
    found = {path.relative_to(_ROOT).as_posix(): path for path in (*sources, *(_ROOT / each for each in _ALONE))}
    library = importlib.util.find_spec(_LIBRARY)
    if library is None or library.origin is None:
        raise pulumi.RunError(f"the package {_LIBRARY} is missing: set the environment up again (`make env`)")
    root = Path(library.origin).parent
    for path in sorted(root.rglob("*.py")):
        within_library = path.relative_to(root)
        if not {*within_library.parts} & {*_NOT_USED}:
            found[f"{_LIBRARY}/{within_library.as_posix()}"] = path
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}


def key_of(path: str) -> str:
    """A file's key in the ConfigMap, which may not have slashes."""
    return path.replace("/", ".")


@dataclass(frozen=True)
class Place:
    """Where in Crusoe Cloud the platform is."""

    endpoint: str
    project: str
    location: str


def told(
    exporter: ExporterSettings,
    place: Place,
    pools: Mapping[str, Pool],
    slurm: SlurmSettings | None,
    sharing: "SharingPlan | None",
) -> dict[str, Any]:
    """What the exporter is told (`exporter/settings.py`), but for the cluster's id."""
    key = exporter.api_key
    expires = datetime.fromisoformat(key.expires).replace(tzinfo=UTC).timestamp() if key and key.expires else 0
    return {
        "version": version("crusoe-gpu-platform"),
        "poll_seconds": exporter.poll_seconds,
        "pools": {each: _pool(pool) for each, pool in pools.items()},
        "shares": [*_shares(sharing)] if sharing else [],
        "slurm_url": f"http://slurm-restapi.{SLURM_NAMESPACE}:6820" if slinky(slurm) else "",
        **({"key_id": key.id, "key_expires": expires, **vars(place)} if key else {}),
    }


def _pool(pool: Pool) -> Spec:
    kind = catalog.vm_type(pool.settings.type)
    return {
        "name": pool.name.value,
        "vm_type": pool.settings.type,
        "gpus": pool.gpus,
        "vendor": (kind.gpu_vendor if kind else None) or "none",
        "resource": (kind.resource_name if kind else None) or "",
    }


def _shares(sharing: "SharingPlan") -> Iterator[Spec]:
    for pool in sharing.pools:
        yield {"share": "training", "pool": pool.key, "side": "training", "floor": pool.floor * pool.gpus}
        for share in pool.shares:
            floor = share.floor * share.gpus_per_replica
            place = {"pool": pool.key, "side": "inference", "namespace": share.namespace}
            yield {"share": share.name, "floor": floor, **place}


def rules(slurm: SlurmSettings | None, sharing: "SharingPlan | None") -> dict[tuple[str, str | None], Sequence[Spec]]:
    """What it may look at, by kind of role and namespace; it may change nothing."""
    found: dict[tuple[str, str | None], Sequence[Spec]] = {
        ("ClusterRole", None): [{"apiGroups": [""], "resources": ["nodes"], "verbs": _LOOK}]
    }
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": _LOOK}
    if slinky(slurm):
        node_sets = {"apiGroups": [API_VERSION.partition("/")[0]], "resources": ["nodesets"], "verbs": _LOOK}
        found["Role", SLURM_NAMESPACE] = [pods, node_sets]
    for space in sharing.share_namespaces if sharing else ():
        found["Role", space] = [pods]
    return found


def policy() -> Spec:
    """Who may reach it: what scrapes, from the namespace `monitoring`, and nobody else."""
    return {
        "podSelector": {"matchLabels": LABELS},
        "policyTypes": ["Ingress"],
        "ingress": [within(MONITORING, PORT)],
    }


def service() -> Spec:
    """Makes it found; each scraper asks the pod itself."""
    port = {"name": PORT_NAME, "port": PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
    return {"clusterIP": "None", "selector": LABELS, "ports": [port]}


def deployment(
    exporter: ExporterSettings, slurm: SlurmSettings | None, program: Mapping[str, str], settings: pulumi.Input[str]
) -> Spec:
    """The Deployment's spec; `settings` is what it is told, as JSON. Other files are other pods."""
    source = slurm.images if slurm else images.ImageSettings()
    key = exporter.api_key is not None
    mounts = [{"name": "program", "mountPath": f"{FOLDER}/program", "readOnly": True}]
    volumes: list[Spec] = [
        {
            "name": "program",
            "configMap": {"name": NAME, "items": [{"key": key_of(path), "path": path} for path in program]},
        }
    ]
    if slinky(slurm):
        mounts.append({"name": "token", "mountPath": f"{FOLDER}/token", "readOnly": True})
        volumes.append({"name": "token", "secret": {"secretName": TOKEN_SECRET}})
    if key:
        mounts.append({"name": "key", "mountPath": f"{FOLDER}/key", "readOnly": True})
        volumes.append({"name": "key", "secret": {"secretName": KEY_SECRET}})
    container = {
        "name": "exporter",
        "image": images.references(source)["python"],
        "command": ["python3", "-m", "exporter"],
        "workingDir": f"{FOLDER}/program",
        "env": [
            {"name": "EXPORTER_SETTINGS", "value": settings},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": PORT_NAME}},
        "resources": {
            "requests": {"cpu": exporter.resources.cpu, "memory": exporter.resources.memory},
            "limits": {"memory": exporter.resources.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    spec = {
        "serviceAccountName": NAME,
        "affinity": OFF_GPU_NODES,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
        **({"imagePullSecrets": [{"name": source.pull_secret}]} if source.pull_secret else {}),
    }
    return {
        "replicas": 1,
        # Two beside each other would count everything twice.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS, "annotations": {"gpuplatform/digest": digest(dict(program))}},
            "spec": spec,
        },
    }


class Exporter(pulumi.ComponentResource):
    """The exporter and all that it needs."""

    def __init__(
        self,
        name: str,
        exporter: ExporterSettings,
        *,
        place: Place,
        pools: Mapping[str, Pool],
        slurm: SlurmSettings | None,
        sharing: "SharingPlan | None",
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        secrets: Callable[[str], pulumi.Output[str]],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare it, once `after` stands (Slurm, else the node pools); `secrets` reads one of the stack's."""
        super().__init__("gpuplatform:exporter:Exporter", name, None, opts)
        self._name, self._cluster, self._home = name, cluster, namespace(slurm)
        before = [*after]
        if not slinky(slurm):
            before.append(self._object("namespace", "v1", "Namespace", None, {}, after, OWN_NAMESPACE))
        account = self._object("account", "v1", "ServiceAccount", self._home, {}, before)
        program = files()
        data = {"data": {key_of(path): content for path, content in program.items()}}
        needed: list[pulumi.Resource] = [account, self._object("program", "v1", "ConfigMap", self._home, data, before)]
        for (kind, home), allowed in rules(slurm, sharing).items():
            thing = f"{kind.lower()}-{home or 'all'}"
            role = self._object(thing, f"{_GROUP}/v1", kind, home, {"rules": allowed}, before)
            fields = {
                "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": self._home}],
            }
            binding = f"{kind}Binding"
            needed.append(self._object(f"{thing}-binding", f"{_GROUP}/v1", binding, home, fields, [role, account]))
        if slurm is not None and slinky(slurm):
            from components.slurm import objects, plan  # with the room itself

            # Anybody's token reads all there is, one of a user that is nobody can change nothing (26.05.5).
            user = SLURM_USER if hides(slurm) else plan.METRICS_USER
            token = {"spec": objects.token(user, plan.TOKEN_LIFETIME, TOKEN_SECRET)}
            needed.append(self._object("token", API_VERSION, "Token", self._home, token, before, "exporter"))
        if exporter.api_key is not None:
            secret = {"stringData": {KEY_ITEM: secrets(exporter.api_key.secret)}}
            needed.append(self._object("key", "v1", "Secret", self._home, secret, before, KEY_SECRET))
        known = told(exporter, place, pools, slurm, sharing)
        settings = cluster.cluster.id.apply(lambda each: json.dumps({**known, "cluster_id": each}, sort_keys=True))
        spec = deployment(exporter, slurm, program, settings)
        self._object("deployment", "apps/v1", "Deployment", self._home, {"spec": spec}, needed)
        self._object("service", "v1", "Service", self._home, {"spec": service()}, before, labels=LABELS)
        self._object("policy", "networking.k8s.io/v1", "NetworkPolicy", self._home, {"spec": policy()}, before)
        self.register_outputs({})

    def _object(
        self,
        thing: str,
        api_version: str,
        kind: str,
        home: str | None,
        fields: Mapping[str, Any],
        after: Sequence[pulumi.Resource],
        called: str = NAME,
        labels: Mapping[str, str] | None = None,
    ) -> KubernetesObject:
        metadata = {
            "name": called,
            **({"namespace": home} if home else {}),
            **({"labels": labels} if labels else {}),
            # A Service without an address of its own has endpoints only once its pod is ready, which nobody waits for.
            **({"annotations": SKIP_AWAIT} if kind == "Service" else {}),
        }
        options = self._cluster.inside(self, after)
        return KubernetesObject(f"{self._name}-{thing}", api_version, kind, metadata, fields, options)
