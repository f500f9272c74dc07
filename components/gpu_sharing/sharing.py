"""The sharing in the cluster: what keeps both sides to their parts, then the models that are served.

Owns every object of `components.gpu_sharing.objects` and `inference`, and where engine `kueue` shares a pool, Kueue
with its queues. Leaves alone the NodeSets, which are Slurm's: it only says what they are (`workers`), and is declared
between Slurm's namespace and the first of them.

What breaks if violated: order. A quota doesn't count back what it let in, so namespaces, classes, the admission policy
and the quotas stand, one kind after the other, before the first pod with a GPU is asked for. Kueue's queues come after
its webhooks answer and go before them: only the manager takes its finalizers off.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.cluster import Cluster
from components.gpu_sharing import inference, kueue, objects, workers
from components.gpu_sharing import plan as plans
from components.gpu_sharing.plan import SharingPlan
from components.kubernetes import KubernetesObject
from components.node_pools import Pool
from components.slurm.conf_plan import ConfPlan, SlurmPool
from components.slurm.plan import Sizes, WorkerPlan
from components.slurm.releases import release
from crusoe.rules.finding import Finding

Manifest = objects.Manifest


@dataclass(frozen=True)
class Sharing:
    """What Slurm is told of the sharing.

    Attributes:
        name: of the component.
        path: of the sharing's settings.
        pools: all node pools, by their keys.
        cluster: that it is in.
        protect: whether namespaces of shares are guarded: with one go all pods in it.
        opts: of the component.
    """

    name: str
    plan: SharingPlan
    path: str
    pools: Mapping[str, Pool]
    cluster: Cluster
    protect: bool
    opts: pulumi.ResourceOptions

    def findings(self, sizes: Sizes) -> Iterator[Finding]:
        """Check the models against the VM types as the cloud has them."""
        return plans.findings(self.plan, self.pools, sizes, self.path)

    def split(self, worker: WorkerPlan, pool: SlurmPool, plan: ConfPlan) -> Sequence[WorkerPlan]:
        """The NodeSets of a pool, shared or not."""
        return workers.split(self.plan, worker, pool, plan)

    def programs(self, nodes: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Declare what decides over pods, on nodes that stand; what is returned stands before any pod of Slurm."""
        if not self.plan.of("kueue"):
            return []
        return [Kueue(f"{self.name}-kueue", self.plan, cluster=self.cluster, after=nodes, opts=self.opts).ready]

    def guards(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Declare all else, after Slurm's namespace and the programs; returned is what a worker comes after."""
        return GpuSharing(
            self.name, self.plan, cluster=self.cluster, after=after, protect=self.protect, opts=self.opts
        ).guards


class Kueue(pulumi.ComponentResource):
    """Kueue's release.

    Its webhooks are asked about every pod and Deployment in Slurm's namespace and in those with a share, and until they
    answer each is refused; so it comes before all of them, and goes after them.

    Attributes:
        ready: its managers are, once their webhooks answer.
    """

    ready: pulumi.Resource

    def __init__(
        self,
        name: str,
        plan: SharingPlan,
        *,
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the release once `after` stands, the nodes that it runs on."""
        super().__init__("gpuplatform:gpu_sharing:Kueue", name, None, opts)
        metadata = {"name": kueue.NAMESPACE}
        namespace = KubernetesObject(f"{name}-namespace", "v1", "Namespace", metadata, {}, cluster.inside(self))
        self.ready = release(
            f"{name}-release",
            kueue.chart(plan),
            timeout_seconds=plan.charts.timeout_seconds,
            cluster=cluster,
            after=[namespace, *after],
            parent=self,
        )
        self.register_outputs({"version": kueue.VERSION})


class GpuSharing(pulumi.ComponentResource):
    """Shared GPUs.

    Attributes:
        guards: what has to stand before the first pod with a GPU.
    """

    guards: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        plan: SharingPlan,
        *,
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        protect: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the sharing as planned, once `after` stands."""
        super().__init__("gpuplatform:gpu_sharing:GpuSharing", name, None, opts)
        self._name, self._cluster = name, cluster
        self._kept = plan.namespaces if protect else ()
        before = [*after]
        for stage in _stages(objects.manifests(plan)):
            before += [self._object(each, before) for each in stage]
        for stage in _stages(kueue.manifests(plan)):
            before += [self._object(each, before) for each in stage]
        self.guards = before[len(after) :]
        models = [self._object(each, before) for each in inference.manifests(plan)]
        self.register_outputs({"pools": [pool.key for pool in plan.pools], "models": len(models)})

    def _object(self, manifest: Manifest, after: Sequence[pulumi.Resource]) -> KubernetesObject:
        metadata, kind = manifest["metadata"], manifest["kind"]
        place = [self._name, kind.lower(), metadata.get("namespace"), metadata["name"]]
        fields = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
        opts = self._cluster.inside(self, [*after])
        if kind == "Namespace" and metadata["name"] in self._kept:
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True))
        return KubernetesObject(
            "-".join(each for each in place if each), manifest["apiVersion"], kind, metadata, fields, opts
        )


def _stages(manifests: Sequence[Manifest]) -> Iterator[Sequence[Manifest]]:
    """Objects that may come together: those in a row of one kind."""
    stage: list[Manifest] = []
    for each in manifests:
        if stage and stage[-1]["kind"] != each["kind"]:
            yield stage
            stage = []
        stage.append(each)
    if stage:
        yield stage
