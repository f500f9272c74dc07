"""The Helm charts that Slurm on Kubernetes is made of: their versions, where they come from, and their values.

Versions are pinned here and nowhere else. Everything of Slinky is numbered in lock-step, so one number serves its
charts and images; a chart, operator and CRDs of different versions break the webhook.

What breaks if violated: cert-manager answers first, then the CRDs are there, then the operator and its webhook; objects
written before the webhook answers can stop the operator for good (docs/concepts.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from components.settings import Plain, Settings
from crusoe.rules.finding import Finding
from crusoe.rules.values import text

SLINKY = "1.2.1"
CERT_MANAGER = "v1.21.2"
MARIADB_OPERATOR = "25.10.2"

NAMESPACE_CERT_MANAGER = "cert-manager"
NAMESPACE_OPERATOR = "slinky"
NAMESPACE_MARIADB = "mariadb-operator"
WEBHOOK = "slurm-operator-webhook"
"""Its Deployment, whatever the release is called."""
NAMESPACE = "slurm"
"""One Slurm cluster is one namespace: Slinky's references never cross one."""

PUBLIC: Mapping[str, str] = {
    "cert-manager": "oci://quay.io/jetstack/charts",
    "mariadb-operator-crds": "https://helm.mariadb.com/mariadb-operator",
    "mariadb-operator": "https://helm.mariadb.com/mariadb-operator",
    "slurm-operator-crds": "oci://ghcr.io/slinkyproject/charts",
    "slurm-operator": "oci://ghcr.io/slinkyproject/charts",
    "slurm-bridge": "oci://ghcr.io/slinkyproject/charts",
}
"""Where each chart is published."""

WAIT_SECONDS = 300
"""How long a release may take until all of its Deployments are available."""

# A GPU host is for work, and its loss must not take the operator along.
OFF_GPU_NODES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "crusoe.ai/accelerator", "operator": "DoesNotExist"},
                        {"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"},
                    ]
                }
            ]
        }
    }
}

Values = Mapping[str, object]


class ChartSettings(Settings):
    """Where the charts come from."""

    source: str | None = Field(
        default=None,
        description="An OCI registry (`oci://registry.example.com/charts`), a chart repository "
        "(`https://charts.example.com`) or a folder of this project (`./charts`) that has all charts by their names, "
        "for networks that can't reach the public ones.",
        examples=["oci://registry.example.com/charts"],
    )
    timeout_seconds: int = Field(
        default=WAIT_SECONDS,
        description="How long each release may take until its pods are available.",
        examples=[600],
        ge=30,
        le=3600,
    )


def findings(charts: Plain, path: str) -> Iterator[Finding]:
    """Check where charts come from; a folder has to hold them."""
    source = text(charts.get("source"))
    if source is None or source.startswith(("oci://", "https://")):
        return
    if "://" in source:
        yield Finding(f"{path}.source", f"{source!r} is neither oci:// nor https://", "Write one of them, or a folder")
        return
    missing = [name for name in PUBLIC if not holds(source, name)]
    if len(missing) == len(PUBLIC):
        yield Finding(
            f"{path}.source", f"there are no charts in the folder {source!r}", "Write oci://…, https://… or a folder"
        )
    elif missing:
        yield Finding(f"{path}.source", f"{source!r} lacks {', '.join(missing)}", "Put them there")


def holds(folder: str, name: str) -> bool:
    """Whether a folder has a chart."""
    return (Path(folder) / name / "Chart.yaml").is_file()


@dataclass(frozen=True)
class Chart:
    """One release.

    Attributes:
        name: of the chart, and of the release.
        reference: what Helm takes as the chart.
        repository: address of a chart repository; None for OCI and folders.
        version: None for a folder, which has only one.
        needs: releases that have to stand before it.
    """

    name: str
    version: str | None
    namespace: str
    reference: str
    repository: str | None
    values: Values = field(default_factory=dict[str, object])
    needs: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it brings programs, which have to be available before anything builds upon it."""
        return not self.name.endswith("-crds")


def plan(
    *, source: str | None, images: Mapping[str, str], node_conditions: Sequence[str], database: bool
) -> tuple[Chart, ...]:
    """All releases, each after those that it needs; `database` says whether a MariaDB is run here."""
    operator = operator_values(images, node_conditions)
    charts = [
        chart("cert-manager", CERT_MANAGER, NAMESPACE_CERT_MANAGER, cert_manager_values(), source),
        chart("slurm-operator-crds", SLINKY, NAMESPACE_OPERATOR, {}, source),
        chart("slurm-operator", SLINKY, NAMESPACE_OPERATOR, operator, source, ("cert-manager", "slurm-operator-crds")),
    ]
    if database:
        crds, values = "mariadb-operator-crds", mariadb_operator_values()
        charts += [
            chart(crds, MARIADB_OPERATOR, NAMESPACE_MARIADB, {}, source),
            chart("mariadb-operator", MARIADB_OPERATOR, NAMESPACE_MARIADB, values, source, (crds,)),
        ]
    return tuple(charts)


def chart(
    name: str,
    version: str,
    namespace: str,
    values: Values,
    source: str | None,
    needs: tuple[str, ...] = (),
    *,
    public: str | None = None,
) -> Chart:
    """The release of a chart from `source`, or from where it is published: `public`, or one of `PUBLIC`."""
    place = (source or public or PUBLIC[name]).rstrip("/")
    if place.startswith("oci://"):
        return Chart(name, version, namespace, f"{place}/{name}", None, values, needs)
    if place.startswith("https://"):
        return Chart(name, version, namespace, name, place, values, needs)
    # Relative, or the chart would be another one in each clone.
    return Chart(name, None, namespace, f"./{Path(place) / name}", None, values, needs)


def cert_manager_values() -> Values:
    """cert-manager, which gives the webhook its certificate: two of each part, kept off GPU nodes."""
    part = {
        "replicaCount": 2,
        "affinity": OFF_GPU_NODES,
        "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
        "resources": _resources("50m", "128Mi"),
    }
    return {
        "crds": {"enabled": True},
        **part,
        "webhook": part,
        "cainjector": part,
        "startupapicheck": {"enabled": False},
    }


def operator_values(images: Mapping[str, str], node_conditions: Sequence[str]) -> Values:
    """Slinky's operator and webhook: two of each, with budgets, for the namespace of Slurm only.

    The namespace bounds what a dead webhook can stop: outside it nothing ever asks the webhook. Inside it, `Fail` keeps
    objects out that would stop the operator for good, while the hook on pod bindings is `Ignore`, so that pods start.
    """
    part: dict[str, object] = {
        "replicas": 2,
        "pdb": {"enabled": True, "minAvailable": 1},
        "affinity": OFF_GPU_NODES,
        "leaderElection": True,
        "namespaces": NAMESPACE,
        "logLevel": "info",
    }
    return {
        "operator": {
            **part,
            "image": _image(images["slurm-operator"]),
            "resources": _resources("100m", "256Mi"),
            **{f"{kind}Workers": 4 for kind in ("accounting", "controller", "loginset", "nodeset", "restapi", "token")},
            "slurmclientWorkers": 2,
        },
        "webhook": {
            **part,
            "image": _image(images["slurm-operator-webhook"]),
            "resources": _resources("50m", "128Mi"),
            "timeoutSeconds": 10,
            "validating": {"failurePolicy": "Fail"},
            "mutating": {"failurePolicy": "Ignore"},
        },
        # Without cert-manager the chart makes another authority at each render, and the running webhook keeps the old.
        "certManager": {"enabled": True},
        # One owner of the CRDs: their own chart.
        "crds": {"enabled": False},
        "priorityClassName": "system-cluster-critical",
        "propagatedNodeConditions": list(node_conditions),
    }


def mariadb_operator_values() -> Values:
    """mariadb-operator, which runs the accounting's database."""
    return {"ha": {"enabled": True, "replicas": 2}, "affinity": OFF_GPU_NODES, "resources": _resources("50m", "128Mi")}


def bridge_values(images: Mapping[str, str], secret: str, partition: str, namespaces: Sequence[str]) -> Values:
    """slurm-bridge, which lets Slurm place the pods of some namespaces: two of each part, kept off GPU nodes."""
    part = {"affinity": OFF_GPU_NODES, "resources": _resources("50m", "128Mi")}
    return {
        "schedulerConfig": {"partition": partition},
        "sharedConfig": {"slurmRestApi": f"http://slurm-restapi.{NAMESPACE}:6820", "slurmJwtSecret": secret},
        "priorityClassName": "system-cluster-critical",
        "admission": {
            "replicas": 2,
            "image": _image(images["slurm-bridge-admission"]),
            "managedNamespaces": list(namespaces),
            **part,
        },
        "scheduler": {
            "replicaCount": 2,
            "leaderElect": True,
            "image": _image(images["slurm-bridge-scheduler"]),
            **part,
        },
        "controllers": {"replicas": 2, "image": _image(images["slurm-bridge-controllers"]), **part},
    }


def _resources(cpu: str, memory: str) -> Values:
    """Requests for both, a limit for memory only: a limit of CPU would slow an operator down when it is needed most."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


def _image(reference: str) -> Values:
    """`repository:tag` or `repository@digest` as the charts take it."""
    repository, at, digest = reference.partition("@")
    if at:
        return {"repository": repository, "digest": digest}
    repository, _, tag = reference.rpartition(":")
    return {"repository": repository, "tag": tag}
