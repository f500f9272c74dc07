"""Slurm in the platform's own cluster: Slinky's releases, and on top of them Slurm's objects.

Owns the namespace `slurm` with everything in it: keys, configuration, controller, REST API, accounting with its
database, login nodes, and a NodeSet for each pool that Slurm uses. Leaves alone what the operator makes of them,
which node a worker runs on, and the state of Slurm's nodes: a drained, replaced or autoscaled node is never drift.

What breaks if violated: order. Objects come after the webhook answers; the database before the accounting, and that
before the controller, which dies without it; workers last. On the way back the workers are drained before their NodeSet
goes, since deleting a NodeSet ends its jobs, and the REST API goes after them: it is the operator's only way to ask
whether a node still works.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

from components.cluster import Cluster
from components.kubernetes import KubernetesObject
from components.naming import physical_name
from components.network import Network
from components.slurm import accounts, actor, directory, health, login, objects, policies, volumes
from components.slurm.charts import NAMESPACE, NAMESPACE_OPERATOR, OFF_GPU_NODES, WEBHOOK
from components.slurm.keys import Keys
from components.slurm.plan import SlinkyPlan
from components.slurm.releases import Releases, release
from components.slurm.volumes import Volume, Volumes
from crusoe.resources import SlurmReady, SlurmWorkers, StorageDisk
from crusoe.rules.slinky import API_VERSION

Secrets = Callable[[str], pulumi.Output[str]]
"""Reads a secret of the stack by its name."""

LENT_LABEL = "gpuplatform/lent"
"""Label of a NodeSet on borrowed nodes: its workers come and go, so it is not protected, and policies don't mind."""

Guards = Callable[[Sequence[pulumi.Resource]], Sequence[pulumi.Resource]]
"""Declares, once Slurm's namespace and what decides over its pods stand, what has to stand before the first worker."""


class Slinky(pulumi.ComponentResource):
    """Slurm on Kubernetes.

    Attributes:
        login_host: address of the login nodes; empty where nothing leads in from outside.
        node_sets: each NodeSet, by its name.
    """

    login_host: pulumi.Output[str]
    node_sets: Mapping[str, KubernetesObject]

    def __init__(
        self,
        name: str,
        plan: SlinkyPlan,
        *,
        stack: str,
        cluster: Cluster,
        network: Network,
        disks: Mapping[str, StorageDisk],
        after: Sequence[pulumi.Resource],
        location: str,
        protect: bool,
        secrets: Secrets,
        programs: Sequence[pulumi.Resource],
        guards: Guards | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare Slurm as planned, once `after` (the node pools) stands; its pods once `programs` do."""
        super().__init__("gpuplatform:slurm:Slinky", name, None, opts)
        self._name, self._plan, self._cluster = name, plan, cluster
        own = pulumi.ResourceOptions(parent=self)
        releases = Releases(
            f"{name}-releases",
            plan.charts,
            timeout_seconds=plan.chart_timeout,
            cluster=cluster,
            after=after,
            opts=own,
        )
        self._namespace = releases.namespace
        hook = self._ready("webhook", {"Webhook": WEBHOOK}, [*releases.all], namespace=NAMESPACE_OPERATOR)
        keys = Keys(
            f"{name}-keys",
            plan,
            cluster=cluster,
            namespace=releases.namespace,
            secrets=secrets,
            protect=protect,
            opts=own,
        )
        claims = Volumes(
            f"{name}-volumes",
            self._volumes(stack, location, disks, protect=protect),
            cluster=cluster,
            namespace=releases.namespace,
            opts=own,
        ).claims
        policies.declare(
            f"{name}-policy",
            database=plan.database is not None,
            cluster=cluster,
            namespace=releases.namespace,
            parent=self,
        )
        before: list[pulumi.Resource] = [hook, *keys.all, *claims, *programs]

        control = [*before, *self._config_maps(), *self._accounting(before)]
        controller = self._object("controller", "Controller", objects.CONTROLLER, plan.controller, control)
        rest = self._object("restapi", "RestApi", objects.REST_API, plan.rest_api, [controller])
        self._budget("slurmrestd", objects.REST_API)
        self._accounts(controller)
        people = self._people(secrets)
        logins = self._object("login", "LoginSet", objects.LOGIN, plan.login, [controller, *people])
        service = login.service(f"{name}-login-service", plan.login_cidrs, cluster=cluster, after=[logins], parent=self)
        if service is not None:
            rule = f"{name}-login-rule"
            login.firewall_rule(rule, plan.login_cidrs, service, stack=stack, network=network, parent=self)
        tokens = [self._object(f"token-{key}", "Token", key, spec, [controller]) for key, spec in plan.tokens.items()]
        if plan.actor is not None:
            actor.declare(
                f"{name}-actor",
                plan.actor,
                webhook=secrets(plan.webhook_secret) if plan.webhook_secret else None,
                cluster=cluster,
                namespace=releases.namespace,
                after=[rest, *tokens],
                parent=self,
            )
        if plan.bridge is not None:
            release(
                f"{name}-releases-slurm-bridge",
                plan.bridge,
                timeout_seconds=plan.chart_timeout,
                cluster=cluster,
                after=[rest, *tokens],
                parent=self,
            )
        checks = [*self._health(), *(guards([releases.namespace, *programs]) if guards else ())]
        parts = {"Controller": objects.CONTROLLER, "RestApi": objects.REST_API, "LoginSet": objects.LOGIN}
        ready = self._ready("control", parts, [rest, logins])
        self.node_sets = self._workers([controller, rest, *people, *checks], ready, protect=protect)
        self.login_host = service.status.apply(login.address) if service is not None else pulumi.Output.from_input("")
        self.register_outputs({"loginHost": self.login_host, "nodeSets": list(self.node_sets)})

    def _volumes(self, stack: str, location: str, disks: Mapping[str, StorageDisk], *, protect: bool) -> list[Volume]:
        """Volumes of the disks that Slurm has to itself, and of the shared ones."""
        plan = self._plan

        def own(thing: str, size: str) -> StorageDisk:
            name, physical = f"{self._name}-disk-{thing}", physical_name(stack, f"slurm-{thing}").value
            return volumes.disk(name, physical, size=size, location=location, protect=protect, parent=self)

        found = [Volume(objects.STATE_CLAIM, own("state", plan.state_size), plan.state_size, "ReadWriteOnce")]
        found += [Volume(each.claim, disks[each.disk], each.size, "ReadWriteMany") for each in plan.shared]
        if plan.database_size:
            disk = own("database", plan.database_size)
            # The operator's StatefulSet makes the claim, and numbers it.
            claim = f"storage-{objects.DATABASE}-0"
            found.append(Volume(objects.DATABASE, disk, plan.database_size, "ReadWriteOnce", claimed_by=claim))
        return found

    def _config_maps(self) -> list[pulumi.Resource]:
        """Files of slurmctld, under names that hold their content: the pod restarts with another name only."""
        return [
            KubernetesObject(
                f"{self._name}-config-{thing}",
                "v1",
                "ConfigMap",
                {"name": each.name, "namespace": NAMESPACE},
                {"data": dict(each.files)},
                self._cluster.inside(self, [self._namespace]),
            )
            for thing, each in self._plan.config_maps.items()
        ]

    def _health(self) -> list[pulumi.Resource]:
        """The health checks, under a name that never changes: they reach running workers by themselves."""
        if self._plan.health is None:
            return []
        metadata = {"name": health.CONFIG_MAP, "namespace": NAMESPACE}
        data = {"data": dict(self._plan.health)}
        inside = self._cluster.inside(self, [self._namespace])
        return [KubernetesObject(f"{self._name}-health", "v1", "ConfigMap", metadata, data, inside)]

    def _accounts(self, controller: pulumi.Resource) -> None:
        """What brings accounts and limits into the database; `up` waits until it has."""
        scripts = self._plan.accounts
        if scripts is None:
            return
        metadata = {"name": accounts.NAME, "namespace": NAMESPACE}
        texts = KubernetesObject(
            f"{self._name}-accounts-scripts",
            "v1",
            "ConfigMap",
            metadata,
            {"data": dict(scripts)},
            self._cluster.inside(self, [self._namespace]),
        )
        pods = self._plan.pods
        spec = accounts.deployment(
            image=pods.images["login"],
            pod=pods.spec(affinity=OFF_GPU_NODES),
            key=objects.SLURM_KEY,
            scripts=scripts,
        )
        KubernetesObject(
            f"{self._name}-accounts",
            "apps/v1",
            "Deployment",
            {**metadata, "annotations": {"pulumi.com/timeoutSeconds": "300"}},
            {"spec": spec},
            self._cluster.inside(self, [texts, controller]),
        )

    def _people(self, secrets: Secrets) -> list[pulumi.Resource]:
        """Who is who, under names that never change: what is in there reaches the pods without a restart."""
        conf = secrets(self._plan.sssd_conf_secret) if self._plan.sssd_conf_secret else login.LOCAL_SSSD_CONF
        objects_of: list[tuple[str, str, str, Mapping[str, Any]]] = [
            ("people", "ConfigMap", directory.CONFIG_MAP, {"data": dict(self._plan.people)}),
            ("sssd", "Secret", objects.SSSD_CONF["name"], {"stringData": {objects.SSSD_CONF["key"]: conf}}),
        ]
        return [
            KubernetesObject(
                f"{self._name}-{thing}",
                "v1",
                kind,
                {"name": name, "namespace": NAMESPACE},
                fields,
                self._cluster.inside(self, [self._namespace]),
            )
            for thing, kind, name, fields in objects_of
        ]

    def _accounting(self, before: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """Database and slurmdbd, in this order, and only what answers is built upon."""
        plan = self._plan
        if plan.accounting is None:
            return []
        base = list(before)
        if plan.database is not None:
            database = KubernetesObject(
                f"{self._name}-database",
                "k8s.mariadb.com/v1alpha1",
                "MariaDB",
                {"name": objects.DATABASE, "namespace": NAMESPACE},
                {"spec": plan.database},
                self._cluster.inside(self, before),
            )
            base.append(self._ready("database", {"StatefulSet": objects.DATABASE}, [database]))
        accounting = self._object("accounting", "Accounting", objects.ACCOUNTING, plan.accounting, base)
        return [accounting, self._ready("slurmdbd", {"Accounting": objects.ACCOUNTING}, [accounting])]

    def _workers(
        self, before: Sequence[pulumi.Resource], ready: pulumi.Resource, *, protect: bool
    ) -> dict[str, KubernetesObject]:
        """Each NodeSet, and what drains it before it goes.

        The NodeSets do not wait until slurmctld runs: each one that comes later restarts it. That of a pool that is
        being retired has no workers and no protection any more, and goes with the pool.
        """
        pods = self._plan.pods
        for key, worker in self._plan.leaving.items():
            self._object(f"nodeset-{key}", "NodeSet", key, worker.spec(pods), before)
        found: dict[str, KubernetesObject] = {}
        for key, worker in self._plan.workers.items():
            node_set = self._object(
                f"nodeset-{key}",
                "NodeSet",
                key,
                worker.spec(pods),
                before,
                labels={LENT_LABEL: "true"} if worker.lent else {},
                protect=protect and not worker.lent,
            )
            SlurmWorkers(
                f"{self._name}-workers-{key}",
                cluster_id=self._cluster.cluster.id,
                namespace=NAMESPACE,
                controller=objects.CONTROLLER,
                node_set=key,
                replicas=worker.replicas,
                min_ready=worker.min_ready,
                enough=worker.floor,
                wait_seconds=0 if worker.lent else None,
                drain_seconds=worker.drain_seconds,
                opts=pulumi.ResourceOptions(
                    parent=self, depends_on=[node_set, ready], deleted_with=self._cluster.cluster
                ),
            )
            found[key] = node_set
        return found

    def _object(
        self,
        thing: str,
        kind: str,
        name: str,
        spec: pulumi.Input[Mapping[str, Any]],
        after: Sequence[pulumi.Resource],
        *,
        labels: Mapping[str, str] | None = None,
        protect: bool = False,
    ) -> KubernetesObject:
        inside = self._cluster.inside(self, after)
        return KubernetesObject(
            f"{self._name}-{thing}",
            API_VERSION,
            kind,
            {"name": name, "namespace": NAMESPACE, **({"labels": labels} if labels else {})},
            {"spec": spec},
            pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(protect=protect)),
        )

    def _ready(
        self,
        thing: str,
        parts: Mapping[str, str],
        after: Sequence[pulumi.Resource],
        namespace: str = NAMESPACE,
    ) -> SlurmReady:
        """Waits, bounded, for what others build upon, as kind and name; these kinds have no status to wait for."""
        return SlurmReady(
            f"{self._name}-ready-{thing}",
            cluster_id=self._cluster.cluster.id,
            wait_for=[{"kind": kind, "namespace": namespace, "name": name} for kind, name in parts.items()],
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after), deleted_with=self._cluster.cluster),
        )

    def _budget(self, name: str, instance: str) -> None:
        """Keeps one of two pods through drains of nodes."""
        labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": instance}
        KubernetesObject(
            f"{self._name}-budget-{name}",
            "policy/v1",
            "PodDisruptionBudget",
            {"name": f"{instance}-{name}", "namespace": NAMESPACE},
            {"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}},
            self._cluster.inside(self, [self._namespace]),
        )
