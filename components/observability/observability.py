"""Monitoring in the cluster: kube-prometheus-stack where it is this project's own, and what it is told.

Owns the release with its namespace, network policies and secrets, and the monitors, rules and dashboards in any case.
Leaves alone the exporters on GPU nodes, which are CMK's, and a Prometheus operator that was there before.

What breaks if violated: monitors and rules come after the release, which brings their kinds. Nothing of the platform
waits for any of it: without monitoring everything runs on, and nobody is told.
"""

from collections.abc import Callable, Mapping, Sequence

import pulumi

from components.cluster import Cluster
from components.gpu_sharing.plan import SharingPlan
from components.kubernetes import KubernetesObject
from components.node_pools import Pool
from components.observability import alertmanager, monitors, stack
from components.observability.alerts import all_rules
from components.observability.dashboards import DASHBOARDS
from components.observability.monitors import NAMESPACE, Manifest
from components.observability.panels import written
from components.observability.rules import RUNBOOKS, Need, group, wanted
from components.observability.settings import ObservabilitySettings
from components.slurm.releases import release
from components.slurm.settings import SlurmSettings
from crusoe import catalog
from crusoe.resources import GeneratedSecret
from crusoe.rules.autoclusters import repairs_wanted

_PASSWORD_CHARACTERS = 32


def has(
    settings: ObservabilitySettings,
    pools: Mapping[str, Pool],
    actions: Mapping[str, str],
    slurm: SlurmSettings | None,
    sharing: SharingPlan | None,
    *,
    exporter: bool,
) -> frozenset[Need]:
    """What the stack has that rules and monitors are about; `actions` are AutoClusters'.

    Without the platform's exporter there are no alerts on repairs, jobs and shares.
    """
    kinds = [kind for pool in pools.values() if (kind := catalog.vm_type(pool.settings.type))]
    vendors = {kind.gpu_vendor for kind in kinds}
    consent = any(pool.consent_mode not in (None, "off") for pool in pools.values())
    found: dict[Need, bool] = {
        "gpu": bool(vendors - {None}),
        "nvidia": "nvidia" in vendors,
        "amd": "amd" in vendors,
        "slurm": slurm is not None,
        "slinky": slurm is not None and slurm.mode == "slinky",
        "sharing": sharing is not None,
        "kueue": sharing is not None and bool(sharing.of("kueue")),
        # Also while they are paused: what is on goes on, and one by hand may be begun.
        "autoclusters": repairs_wanted(actions) or consent,
        "exporter": exporter,
        "own": settings.stack == "own",
    }
    return frozenset(need for need, there in found.items() if there)


def objects(settings: ObservabilitySettings, needs: frozenset[Need]) -> Sequence[Manifest]:
    """Monitors, rules and dashboards of a stack that has these things."""
    rules = group(wanted(all_rules(settings.limits.values), needs), settings.runbooks or RUNBOOKS)
    forward = settings.forward.url if settings.forward else None
    return [
        *monitors.manifests(needs, settings.labels, forward),
        monitors.rule_object(rules, settings.labels),
        *monitors.dashboard_objects({each.name: written(each) for each in DASHBOARDS}),
    ]


class Observability(pulumi.ComponentResource):
    """Monitoring.

    Attributes:
        expected: what `make test-alert` has to know; a stack's output.
    """

    expected: Mapping[str, object]

    def __init__(
        self,
        name: str,
        settings: ObservabilitySettings,
        needs: frozenset[Need],
        *,
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        protect: bool,
        secrets: Callable[[str], pulumi.Output[str]],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare it once `after` stands: the nodes, and the namespaces that monitors are put into."""
        super().__init__("gpuplatform:observability:Observability", name, None, opts)
        self._name, self._cluster, self._guarded = name, cluster, protect
        before = [*after]
        if settings.stack == "own":
            namespace = self._object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, after)
            before += [namespace, *self._own(settings, namespace, after, secrets)]
        if settings.forward:
            token = {monitors.FORWARD_KEY: secrets(settings.forward.token_secret)}
            before.append(self._secret(monitors.FORWARD_SECRET, token, before))
        for each in objects(settings, needs):
            self._object(each, before)
        self.expected = {
            "stack": settings.stack,
            "namespace": NAMESPACE,
            "service": stack.ALERTMANAGER if settings.stack == "own" else "",
            "port": stack.ALERTMANAGER_PORT,
            "routes": {key: route.kind for key, route in settings.routes.items()},
        }
        self.register_outputs({"stack": settings.stack, "routes": [*settings.routes]})

    def _own(
        self,
        settings: ObservabilitySettings,
        namespace: pulumi.Resource,
        after: Sequence[pulumi.Resource],
        secrets: Callable[[str], pulumi.Output[str]],
    ) -> list[pulumi.Resource]:
        """The release and what it needs; returned is what monitors come after."""
        for key, spec in monitors.policies().items():
            metadata = {"name": key, "namespace": NAMESPACE}
            policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}
            self._object(policy, [namespace])
        password = GeneratedSecret(
            f"{self._name}-grafana-password",
            length=_PASSWORD_CHARACTERS,
            encoding="alphanumeric",
            opts=pulumi.ResourceOptions(parent=self, protect=self._guarded),
        )
        needed: list[pulumi.Resource] = [
            self._secret(stack.GRAFANA_SECRET, {"user": "admin", "password": password.value}, [namespace])
        ]
        files = {key: secrets(route.secret) for key, route in settings.routes.items()}
        if settings.heartbeat:
            files[alertmanager.HEARTBEAT] = secrets(settings.heartbeat.secret)
        if files:
            needed.append(self._secret(alertmanager.SECRETS, files, [namespace]))
        return [
            release(
                f"{self._name}-release",
                stack.chart(settings),
                timeout_seconds=settings.timeout_seconds,
                cluster=self._cluster,
                after=[namespace, *needed, *after],
                parent=self,
            )
        ]

    def _secret(
        self, called: str, data: Mapping[str, pulumi.Input[str]], after: Sequence[pulumi.Resource]
    ) -> KubernetesObject:
        metadata = {"name": called, "namespace": NAMESPACE}
        return self._object({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}, after)

    def _object(self, manifest: Manifest, after: Sequence[pulumi.Resource]) -> KubernetesObject:
        metadata, kind = manifest["metadata"], manifest["kind"]
        fields = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
        place = f"{self._name}-{kind.lower()}-{metadata['name']}"
        return KubernetesObject(
            place, manifest["apiVersion"], kind, metadata, fields, self._cluster.inside(self, [*after])
        )
