"""How people come in: the login nodes' service, and where they learn who is who.

Owns the one load balancer of Slurm. It is the platform's own object, not the LoginSet's, for two reasons: its cloud
part goes before the cluster does, and its address is known to `up`.

What breaks if violated: without source ranges Crusoe's load balancer lets everybody in, so there is none unless the
settings name networks. The VPC's firewall sees the port on the nodes, and the rule for it is the platform's: the one
that the load balancer's controller would make is never changed afterwards. Kubernetes draws that port: one that was
asked for is lost for minutes where an `up` is ended in the moment in which it is taken, and may be taken by something
else of an adopted cluster.
"""

from collections.abc import Sequence
from typing import Any

import pulumi

from components.cluster import Cluster
from components.kubernetes import KubernetesObject
from components.naming import physical_name
from components.network import ALL_PORTS, Network
from components.slurm import objects
from components.slurm.charts import NAMESPACE
from crusoe.resources import VpcFirewallRule
from crusoe.rules.values import items, table, text, whole

SERVICE = "slurm-login"

LOCAL_SSSD_CONF = """\
[sssd]
config_file_version = 2
services = nss, pam
domains = local

[domain/local]
id_provider = proxy
proxy_lib_name = files
auth_provider = none
"""
"""Users are those of the image: root and the system's own."""


def service_spec(cidrs: Sequence[str]) -> dict[str, Any]:
    """The load balancer's spec: SSH from these networks to the login pods."""
    return {
        "type": "LoadBalancer",
        "loadBalancerSourceRanges": list(cidrs),
        "selector": {"app.kubernetes.io/name": "login", "app.kubernetes.io/instance": objects.LOGIN},
        "ports": [
            {
                "name": "ssh",
                "port": objects.SSH_PORT,
                "targetPort": objects.SSH_PORT,
                "protocol": "TCP",
            }
        ],
    }


def service(
    name: str, cidrs: Sequence[str], *, cluster: Cluster, after: Sequence[pulumi.Resource], parent: pulumi.Resource
) -> KubernetesObject | None:
    """Declare the load balancer, if anybody may come in."""
    if not cidrs:
        return None
    options = cluster.inside(parent, after)
    # It owns a load balancer, which has to go before the cluster that tells to remove it.
    options.deleted_with = None
    metadata = {"name": SERVICE, "namespace": NAMESPACE}
    return KubernetesObject(name, "v1", "Service", metadata, {"spec": service_spec(cidrs)}, options)


def firewall_rule(
    name: str,
    cidrs: Sequence[str],
    service: KubernetesObject,
    *,
    stack: str,
    network: Network,
    parent: pulumi.Resource,
) -> VpcFirewallRule:
    """Declare the rule that lets these networks through to the login nodes, by the Service's port on the nodes."""
    physical = physical_name(stack, "slurm-login")
    return VpcFirewallRule(
        name,
        name=physical.value,
        vpc_network_id=network.vpc.id,
        action="allow",
        direction="ingress",
        protocols=["tcp"],
        sources=list(cidrs),
        source_ports=list(ALL_PORTS),
        destinations=[network.cidr],
        # A preview tries the Service out, with a port that is another one then: only one that is ready has its own.
        destination_ports=pulumi.Output.all(service.spec, service.status).apply(lambda read: node_ports(read[0])),
        adopt_existing=physical.adopt_existing,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def node_ports(spec: object) -> list[str]:
    """The ports of a Service on the nodes.

    Raises:
        pulumi.RunError: it has none; a rule without ports would let through to all of them.
    """
    found = [whole(table(each).get("nodePort")) for each in items(table(spec).get("ports"))]
    ports = [str(port) for port in found if port is not None]
    if not ports:
        raise pulumi.RunError(
            f"Service {NAMESPACE}/{SERVICE} has no port on the nodes, so no firewall rule leads to it. Delete it "
            f"(`kubectl delete service -n {NAMESPACE} {SERVICE}`), run `pulumi refresh`, then this again."
        )
    return ports


def address(status: object) -> str:
    """The load balancer's address, from the Service's status; empty while it has none."""
    balancer = table(table(status).get("loadBalancer"))
    first = table(next(iter(items(balancer.get("ingress"))), None))
    return text(first.get("ip")) or text(first.get("hostname")) or ""
