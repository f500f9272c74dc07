"""Who may reach a platform from outside: public addresses, load balancers, the cluster's API.

Facts: a node pool whose public IP type is left out has public IPs, and a managed Slurm cluster's login is open to the
world until it has ranges (Crusoe's API description of 2026-07-20, Crusoe's Slurm examples of 2026-08).
"""

from __future__ import annotations

from crusoe import catalog
from crusoe.rules import network
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text

_OFFICE = "['203.0.113.0/24']"


def public_ip(path: str, vm_type_name: object, value: object) -> list[Finding]:
    """Refuse public IPs on GPU nodes; a pool that says nothing of them has them."""
    kind = catalog.vm_type(vm_type_name)
    if kind is None or not kind.gpus or value == "none" or not (value is None or isinstance(value, str)):
        return []
    said = "left out, which" if value is None else repr(value[:40])
    problem = f"{said} gives each node a public IP"
    return [Finding(path, problem, "Write 'none', and give the subnet a NAT gateway")]


def load_balancer(path: str, service_spec: object) -> list[Finding]:
    """Refuse a load balancer that everybody may reach; `service_spec` is that of a Kubernetes Service."""
    spec = table(service_spec)
    if spec.get("type") != "LoadBalancer":
        return []
    return source_ranges(f"{path}.loadBalancerSourceRanges", spec.get("loadBalancerSourceRanges"))


def source_ranges(path: str, value: object) -> list[Finding]:
    """Refuse a list of address ranges that is missing, empty or holds everybody."""
    if value is None or value == []:
        return [Finding(path, "nothing says who may reach it, so everybody may", f"Write {_OFFICE}")]
    return network.ingress(path, value)


def anonymous_api(path: str, extra_args: object) -> list[Finding]:
    """Refuse arguments of the API server that let in whom it does not know."""
    given = table(extra_args)
    found = [
        Finding(f"{path}.{key}", "lets everybody ask the API without signing in", 'Leave it out, or write "false"')
        for key in ("anonymous-auth", "insecure-port")
        if given.get(key) is True or (text(given.get(key)) or "false").lower() not in {"false", "0"}
    ]
    if "AlwaysAllow" in (text(given.get("authorization-mode")) or "").split(","):
        found.append(Finding(f"{path}.authorization-mode", "allows everything to everybody", 'Write "Node,RBAC"'))
    return found


def public_api(path: str, value: object) -> list[Finding]:
    """Name a cluster whose API has a public address: advice, as it asks for a client certificate."""
    if value is True or not (value is None or isinstance(value, bool)):
        return []
    return [Finding(path, "the API server answers on a public address", "Write true, and come in through the network")]
