"""What Slurm on Kubernetes stands on: cert-manager, the CRDs, the operator with its webhook, and mariadb-operator.

Owns these releases and their namespaces. Leaves alone everything that they bring along.

What breaks if violated: each release waits for those that it needs, and Slurm's objects for all. An object that is
there before the webhook answers may stop the operator for good, and CRDs that go before their objects take every Slurm
cluster with them.

It is not Helm that waits for the pods: it can't say what is in their way, and ended by force meanwhile it leaves a note
that keeps the next run out.
"""

from collections.abc import Sequence

import pulumi

from components.cluster import Cluster
from components.kubernetes import HelmRelease, KubernetesObject, digest
from components.slurm.charts import NAMESPACE, Chart
from crusoe.resources import SlurmReady

# slurmd needs privileges, and without this label a cluster with a default policy would refuse its pods.
PRIVILEGED = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}


class Releases(pulumi.ComponentResource):
    """The releases that have to stand before Slurm's own objects.

    Attributes:
        namespace: of Slurm's objects.
        all: what Slurm's objects come after.
    """

    namespace: KubernetesObject
    all: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        charts: Sequence[Chart],
        *,
        timeout_seconds: int,
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the releases once `after` stands, such as the nodes that their pods run on."""
        super().__init__("gpuplatform:slurm:Releases", name, None, opts)
        self._cluster = cluster
        namespaces = {
            each: self._namespace(f"{name}-namespace-{each}", each)
            for each in dict.fromkeys([*(chart.namespace for chart in charts), NAMESPACE])
        }
        self.namespace = namespaces[NAMESPACE]
        releases: dict[str, pulumi.Resource] = {}
        for each in charts:
            before = [namespaces[each.namespace], *(releases[need] for need in each.needs), *after]
            releases[each.name] = release(
                f"{name}-{each.name}",
                each,
                timeout_seconds=timeout_seconds,
                cluster=cluster,
                after=before,
                parent=self,
            )
        self.all = [*releases.values()]
        self.register_outputs({"charts": {each.name: each.version for each in charts}})

    def _namespace(self, name: str, namespace: str) -> KubernetesObject:
        labels = PRIVILEGED if namespace == NAMESPACE else {}
        return KubernetesObject(
            name, "v1", "Namespace", {"name": namespace, "labels": labels}, {}, self._cluster.inside(self)
        )


def release(
    name: str,
    planned: Chart,
    *,
    timeout_seconds: int,
    cluster: Cluster,
    after: Sequence[pulumi.Resource],
    parent: pulumi.Resource,
) -> pulumi.Resource:
    """Declare one release; what is returned stands once its programs are available."""
    made = HelmRelease(
        name,
        {
            "name": planned.name,
            "chart": planned.reference,
            "version": planned.version,
            "namespace": planned.namespace,
            "repositoryOpts": {"repo": planned.repository} if planned.repository else None,
            "values": dict(planned.values),
            "skipAwait": True,
            "cleanupOnFail": True,
            "timeout": timeout_seconds,
            "maxHistory": 5,
        },
        cluster.inside(parent, after),
    )
    if not planned.runs:
        return made
    return SlurmReady(
        f"{name}-ready",
        cluster_id=cluster.cluster.id,
        wait_for=[{"kind": "Release", "namespace": planned.namespace, "name": planned.name}],
        wait_seconds=timeout_seconds,
        # Whatever changes the release has its programs waited for again.
        triggers={"release": digest([planned.reference, planned.version, dict(planned.values)])[:16]},
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[made], deleted_with=cluster.cluster),
    )
