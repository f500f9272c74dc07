"""A managed Slurm cluster as objects of Slinky's kinds, which its operator turns into pods: pure functions.

Used where the kinds of slinky.slurm.net/v1beta1 are installed in the cluster. The names are those of section 3.3 of the
facts; the partition is the one that Crusoe's training examples submit to. Every container's image is set, as Slinky
defaults none.
"""

from __future__ import annotations

from localcloud.kubernetes.api_server import Kind
from localcloud.managed_slurm import objects
from localcloud.managed_slurm.objects import CONTROLLER, LOGIN, Object, image, named, placement, pod_labels
from localcloud.managed_slurm.records import NodeSetSpec, SlurmSpec

API_VERSION = "slinky.slurm.net/v1beta1"
DEFINITION = "controllers.slinky.slurm.net"
KINDS = {
    (API_VERSION, kind): Kind(API_VERSION, f"{kind.lower()}s", namespaced=True)
    for kind in ("Controller", "RestApi", "LoginSet", "NodeSet")
}
_EXTRA_CONF = "GresTypes=gpu\nPartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
_SSSD = """[sssd]
services = nss, pam
domains = DEFAULT
[domain/DEFAULT]
id_provider = proxy
proxy_lib_name = files
proxy_pam_target = sssd-shadowutils
"""


def workloads(spec: SlurmSpec, cluster: Object) -> list[Object]:
    """Controller, RestApi, LoginSet and one NodeSet for each node set."""
    name = f"slurm-{spec.name}"
    reference = {"controllerRef": {"name": name}}
    sssd = f"{spec.name}-sssd"
    return [
        named("v1", "Secret", sssd, {"stringData": {"sssd.conf": _SSSD}}, objects.labels(spec)),
        _object(
            spec,
            "Controller",
            name,
            {
                "clusterName": spec.name,
                "slurmKeyRef": {"name": f"{spec.name}-auth-slurm", "key": "slurm.key"},
                "jwtKeyRef": {"name": f"{spec.name}-auth-jwths256", "key": "jwt_hs256.key"},
                "slurmctld": {"image": image(spec, "slurmctld")},
                "logfile": {"image": image(spec, "logfile")},
                "persistence": {"enabled": False},
                "extraConf": _EXTRA_CONF,
                "template": _template(spec, CONTROLLER, spec.login_pool),
            },
        ),
        _object(
            spec,
            "RestApi",
            name,
            {
                **reference,
                "replicas": 1,
                "slurmrestd": {"image": image(spec, "slurmrestd")},
                "template": {"spec": placement(spec.login_pool)},
            },
        ),
        _object(
            spec,
            "LoginSet",
            f"{name}-login",
            {
                **reference,
                "replicas": cluster["spec"]["loginSet"]["replicas"],
                "login": {"image": image(spec, "login")},
                "initconf": {"image": image(spec, "logfile")},
                "rootSshAuthorizedKeys": "\n".join(cluster["spec"]["rootSSHPubKeys"]),
                "sssdConfRef": {"name": sssd, "key": "sssd.conf"},
                "template": _template(spec, LOGIN, spec.login_pool),
            },
        ),
        *(_node_set(spec, node_set, reference) for node_set in spec.node_sets),
    ]


def _node_set(spec: SlurmSpec, node_set: NodeSetSpec, reference: Object) -> Object:
    slurmd: Object = {"image": image(spec, "slurmd")}
    content: Object = {**reference, "replicas": node_set.replicas, "slurmd": slurmd}
    if node_set.gpu_resource:
        amount = {node_set.gpu_resource: str(node_set.gpus)}
        slurmd["resources"] = {"requests": amount, "limits": amount}
        content["extraConf"] = f"Gres=gpu:{node_set.gpus}"
    content["logfile"] = {"image": image(spec, "logfile")}
    content["template"] = _template(spec, objects.WORKER, node_set.pool_id, node_set)
    return _object(spec, "NodeSet", objects.worker_name(spec, node_set), content)


def _template(spec: SlurmSpec, component: str, pool_id: str, node_set: NodeSetSpec | None = None) -> Object:
    return {"metadata": {"labels": pod_labels(spec, component, node_set)}, "spec": placement(pool_id)}


def _object(spec: SlurmSpec, kind: str, name: str, content: Object) -> Object:
    return named(API_VERSION, kind, name, {"spec": content}, objects.labels(spec))
