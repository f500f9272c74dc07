"""VPC firewall rules, and what a cluster needs of them.

A network other than the default one starts with no rules and denies everything, so a cluster in it never comes up
without a rule that lets its subnet reach the Internet (image registries, the control plane's public address) and one
that lets the nodes of the subnet reach each other.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter
from pydantic import AfterValidator, Field, model_validator

from localcloud.api import vpc_networks
from localcloud.api.family import (
    PROJECT,
    CloudDep,
    Family,
    Project,
    change,
    delete,
    discard,
    existing,
    find,
    free_name,
    idle,
    insert,
    refer,
    remover,
    updater,
)
from localcloud.api.wire import Answer, Body, Cidr, Name, Started, absent, within
from localcloud.cloud import Cloud, new_id
from localcloud.errors import bad_request
from localcloud.operations import Operation, Work
from localcloud.store import Json, Object

OPERATIONS = "networking/vpc-firewall-rules"
KIND = "firewall-rule"
_HIGHEST_PORT = 65535

router = APIRouter(prefix=f"{PROJECT}/networking/vpc-firewall-rules", tags=["VPC firewall rules"])


def port_range(text: str) -> tuple[int, int]:
    """`"22"`, `"1-65535"` or `"*"` as first and last port; raises ValueError."""
    first, dash, last = text.partition("-")
    if text == "*":
        return 1, _HIGHEST_PORT
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ValueError(f"{text!r} is neither a port such as 22 nor a range such as 1-65535")
    low, high = int(first), int(last or first)
    if not 1 <= low <= high <= _HIGHEST_PORT:
        raise ValueError(f"{text!r} is not a range of ports between 1 and {_HIGHEST_PORT}")
    return low, high


def _port(text: str) -> str:
    port_range(text)
    return text


Protocol = Literal["tcp", "udp", "icmp"]
Ports = list[Annotated[str, AfterValidator(_port)]]


class Target(Body):
    """Where traffic comes from or goes to: a CIDR, or the id of a network, subnet or VM."""

    cidr: Cidr | None = None
    resource_id: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.cidr is None) == (self.resource_id is None):
            raise ValueError("exactly one of cidr and resource_id is needed")
        return self


Targets = Annotated[list[Target], Field(min_length=1)]
Protocols = Annotated[list[Protocol], Field(min_length=1)]


class RuleCreate(Body):
    """A new rule; absent ports mean all."""

    name: Name
    vpc_network_id: str
    action: Literal["allow", "deny"]
    direction: Literal["ingress", "egress"]
    protocols: Protocols
    sources: Targets
    destinations: Targets
    source_ports: Ports | None = None
    destination_ports: Ports | None = None


class RuleUpdate(Body):
    """What may change; what is absent stays."""

    name: Name | None = None
    protocols: Protocols | None = None
    sources: Targets | None = None
    destinations: Targets | None = None
    source_ports: Ports | None = None
    destination_ports: Ports | None = None


class TargetView(Answer):
    """A CIDR or a resource."""

    cidr: str = absent()
    resource_id: str = absent()


class RuleView(Answer):
    """A rule; `state` is `active` once it works."""

    id: str
    name: str
    vpc_network_id: str
    action: str
    direction: str
    protocols: list[str]
    sources: list[TargetView]
    destinations: list[TargetView]
    source_ports: list[str] = absent()
    destination_ports: list[str] = absent()
    state: str


class RuleList(Answer):
    """Rules."""

    items: list[RuleView]


@router.post("", response_model=Started)
async def create_rule(body: RuleCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a rule."""
    network = refer(cloud, vpc_networks.KIND, project, body.vpc_network_id, "vpc_network_id")
    idle(cloud, network)
    fields = body.model_dump(exclude_none=True)
    _check(cloud, project, fields)
    identifier = new_id()
    row = {"id": identifier, **fields, "state": "inactive"}
    with cloud.store.transaction():
        insert(cloud, Object(KIND, identifier, project, body.name, row, parent_id=network.id))
        operation = cloud.operations.open(OPERATIONS, "firewall-rule.create", project, identifier)
    return await cloud.operations.launch(operation)


@router.get("", response_model=RuleList)
async def list_rules(project: Project, cloud: CloudDep) -> Json:
    """The project's rules."""
    return {"items": [item.body for item in cloud.store.all(KIND, project)]}


@router.get("/{rule_id}", response_model=RuleView)
async def get_rule(rule_id: str, project: Project, cloud: CloudDep) -> Json:
    """One rule."""
    return find(cloud, KIND, project, rule_id, "VPC firewall rule").body


@router.patch("/{rule_id}", response_model=Started)
async def update_rule(rule_id: str, body: RuleUpdate, project: Project, cloud: CloudDep) -> Json:
    """Change a rule; action, direction and network can't change."""
    item = find(cloud, KIND, project, rule_id, "VPC firewall rule")
    changes = body.model_dump(exclude_none=True)
    _check(cloud, project, {**item.body, **changes})
    if body.name is not None:
        free_name(cloud, item, body.name)
    return await change(cloud, item, OPERATIONS, "firewall-rule.update", changes)


@router.delete("/{rule_id}", response_model=Started)
async def delete_rule(rule_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a rule."""
    item = find(cloud, KIND, project, rule_id, "VPC firewall rule")
    return await delete(cloud, item, OPERATIONS, "firewall-rule.delete", None)


def missing_for_cluster(cloud: Cloud, subnet: Object) -> str | None:
    """What a cluster in this subnet lacks to come up, in words, or None."""
    network = cloud.store.get(vpc_networks.KIND, subnet.body["vpc_network_id"])
    if network is None or network.hidden["default"]:
        return None
    rules = [item.body for item in cloud.store.all(KIND, parent_id=network.id) if item.body["state"] == "active"]
    inside = subnet.body["cidr"]
    if not any(_lets_out(rule, network, subnet) for rule in rules):
        return f"VPC network {network.name} has no egress rule that lets {inside} reach 0.0.0.0/0 by TCP"
    return None


def _lets_out(rule: Json, network: Object, subnet: Object) -> bool:
    """Whether a rule lets a subnet reach the registries and the control plane: anywhere, by TCP 443."""

    def covers(targets: Sequence[dict[str, str]], cidr: str) -> bool:
        ours = cidr == subnet.body["cidr"]
        return any(
            within(cidr, target["cidr"])
            if "cidr" in target
            else ours and target["resource_id"] in (network.id, subnet.id)
            for target in targets
        )

    ports = [port_range(text) for text in rule.get("destination_ports", [])] or [(1, _HIGHEST_PORT)]
    return (
        rule["action"] == "allow"
        and rule["direction"] == "egress"
        and "tcp" in rule["protocols"]
        and covers(rule["sources"], subnet.body["cidr"])
        and covers(rule["destinations"], "0.0.0.0/0")
        and any(low <= 443 <= high for low, high in ports)
    )


def _check(cloud: Cloud, project: str, fields: dict[str, Any]) -> None:
    if "icmp" in fields["protocols"] and (fields.get("source_ports") or fields.get("destination_ports")):
        raise bad_request("protocols: icmp has no ports; use a rule of its own without ports for it")
    for key in ("sources", "destinations"):
        for target in fields[key]:
            if "resource_id" in target and not cloud.store.exists(target["resource_id"], project):
                raise bad_request(f"{key}: there is no resource {target['resource_id']} in this project")


def _view(_cloud: Cloud, item: Object) -> Json:
    return item.body


def _activate(cloud: Cloud, operation: Operation) -> Json:
    item = existing(cloud, KIND, operation.resource_id)
    item.body["state"] = "active"
    cloud.store.save(item)
    return item.body


def _update(_cloud: Cloud, item: Object, payload: Json) -> None:
    item.body.update(payload)
    item.name = item.body["name"]


FAMILY = Family(
    router,
    OPERATIONS,
    {
        "firewall-rule.create": Work(settle=_activate, undo=discard(KIND)),
        "firewall-rule.update": updater(KIND, _view, _update),
        "firewall-rule.delete": remover(KIND),
    },
)
