"""What can be reached from outside."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import exposure, network
from crusoe.rules.finding import Finding
from policies import examples, kinds, values
from policies.policy import Parameters, Resource, ResourcePolicy, example

SERVICES = kinds.kubernetes("Service", "LoginSet", "RestApi", "Controller", "Accounting")


def _ingress(resource: Resource, _: Parameters) -> Iterator[Finding]:
    if resource.read("direction") == "ingress" and resource.read("action") == "allow":
        for index, source in enumerate(values.listed(resource.read("sources"))):
            # Ids of networks, subnets and VMs are sources too.
            if isinstance(source, str) and network.parse(source) is not None:
                for each in network.ingress("sources", [source]):
                    yield Finding(f"sources[{index}]", each.problem, each.fix)


def _public_ip(resource: Resource, _: Parameters) -> Iterator[Finding]:
    if resource.has("publicIpType"):
        yield from exposure.public_ip("publicIpType", resource.read("type"), resource.read("publicIpType"))
    else:
        yield from exposure.public_ip("publicIpType", resource.read("type"), None)


def _services(resource: Resource, _: Parameters) -> Iterator[Finding]:
    for path, kind, fields in kinds.objects(resource):
        inner = ("spec",) if kind == "Service" else ("spec", "service", "spec")
        spec = values.at(fields, *inner)
        if values.at(spec, "type") == "LoadBalancer":
            place = (*path, *inner)
            resource.known(*place, "loadBalancerSourceRanges")
            yield from exposure.load_balancer(values.spoken(place), spec)
        else:
            resource.read(*path, *inner, "type")


def _login(resource: Resource, _: Parameters) -> Iterator[Finding]:
    for path, _kind, _fields in kinds.objects(resource):
        place = (*path, "spec", "loginSet", "firewallRuleSourceRanges")
        # A patch that does not speak of the login leaves it as it is.
        if not resource.type.endswith("Patch") or resource.has(*path, "spec", "loginSet"):
            yield from exposure.source_ranges(values.spoken(place), resource.known(*place))


def _anonymous(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from exposure.anonymous_api("apiserverExtraArgs", resource.read("apiserverExtraArgs"))


def _public_api(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from exposure.public_api("private", resource.known("private"))


def _rule(*sources: str) -> dict[str, object]:
    properties = {
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp"],
        "sources": [*sources],
        "destinationPorts": ["22"],
    }
    return {"type": kinds.FIREWALL_RULE, "name": "ssh", "properties": properties}


def _service(**spec: object) -> dict[str, object]:
    properties = {"metadata": {"name": "login"}, "spec": {"type": "LoadBalancer", **spec}}
    return {"type": "kubernetes:core/v1:Service", "name": "login", "properties": properties}


def _managed(ranges: list[str]) -> dict[str, object]:
    spec = {"loginSet": {"firewallRuleSourceRanges": ranges}}
    return {
        "type": "kubernetes:slurm.crusoe.ai/v1alpha1:SlurmClusterPatch",
        "name": "login",
        "properties": {"metadata": {"name": "slurm"}, "spec": spec},
    }


POLICIES = [
    ResourcePolicy(
        name="network-ingress-open",
        refuses="A firewall rule lets in named address ranges only.",
        why="What answers there is found and tried by everybody within minutes.",
        fix="Name the ranges that have to come in, such as 203.0.113.0/24.",
        applies=kinds.one_of(kinds.FIREWALL_RULE),
        check=_ingress,
        good=example("The office.", _rule("203.0.113.0/24")),
        bad=example("Everybody.", _rule("0.0.0.0/0")),
    ),
    ResourcePolicy(
        name="gpu-node-public-ip",
        refuses="GPU nodes have no public IPs.",
        why="Each node of a pool that does not say otherwise has one, and with it the whole Internet before its door.",
        fix="Write publicIpType: none, and give the subnet a NAT gateway.",
        applies=kinds.one_of(kinds.NODE_POOL),
        check=_public_ip,
        good=example(
            "Nodes behind a NAT gateway.",
            examples.pool(),
        ),
        bad=example(
            "Nothing said, so each has one.",
            examples.pool(publicIpType=None),
        ),
    ),
    ResourcePolicy(
        name="load-balancer-open",
        refuses="A load balancer names who may reach it.",
        why="Logins, models and Slurm's own API would be open to the world.",
        fix="Set loadBalancerSourceRanges, such as [203.0.113.0/24].",
        applies=SERVICES,
        check=_services,
        good=example("The office.", _service(loadBalancerSourceRanges=["203.0.113.0/24"])),
        bad=example("Nobody is named, so it is everybody.", _service()),
    ),
    ResourcePolicy(
        name="slurm-login-open",
        refuses="Managed Slurm's login names who may reach it.",
        why="Until ranges are set the login nodes are open to the world.",
        fix="Set spec.loginSet.firewallRuleSourceRanges, such as [203.0.113.0/24].",
        applies=kinds.kubernetes("SlurmCluster", group=kinds.MANAGED),
        check=_login,
        good=example("The office.", _managed(["203.0.113.0/24"])),
        bad=example("Everybody.", _managed(["0.0.0.0/0"])),
    ),
    ResourcePolicy(
        name="cluster-api-anonymous",
        refuses="The cluster's API answers only to whom it knows.",
        why="Whoever reaches the address could read or change what runs.",
        fix='Leave anonymous-auth out of apiserverExtraArgs, or write "false".',
        applies=kinds.one_of(kinds.CLUSTER),
        check=_anonymous,
        good=example("The service's own choice.", examples.cluster()),
        bad=example(
            "Everybody may ask.",
            examples.cluster(apiserverExtraArgs={"anonymous-auth": "true"}),
        ),
    ),
    ResourcePolicy(
        name="cluster-api-public",
        level="advisory",
        refuses="The cluster's API is reached from inside the network.",
        why="A public address is found and tried; a client certificate is then all that is in the way.",
        fix="Write private: true, and run Pulumi from inside the network.",
        applies=kinds.one_of(kinds.CLUSTER),
        check=_public_api,
        good=example("Private.", examples.cluster()),
        bad=example("Public.", examples.cluster(private=False)),
    ),
]
