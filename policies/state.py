"""What must not go by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from crusoe import catalog
from crusoe.rules.finding import Finding
from crusoe.rules.values import items
from policies import examples, kinds
from policies.policy import Parameters, Resource, ResourcePolicy, example

KEPT = {
    kinds.CLUSTER: "all pods and their volumes",
    kinds.SLURM_CLUSTER: "all jobs, the queue and /home",
    kinds.NODE_POOL: "the nodes, and the reservation's hosts with them",
    kinds.SLURM_NODE_SET: "the nodes and the jobs on them",
    kinds.DISK: "the data on it",
}
"""What goes with each kind."""

KEPT_IN_CLUSTER = {"NodeSet": "the workers and the jobs on them", "GeneratedSecret": "what was made with it"}
"""The same for what can be made again, at a price."""

LENT = "gpuplatform/lent"
"""Label of a NodeSet whose workers are on borrowed nodes, and end whenever those are wanted back."""

NODE_SETS = kinds.kubernetes("NodeSet", group=kinds.SLINKY)


def _unprotected(resource: Resource, parameters: Parameters, lost: str) -> Iterator[Finding]:
    if not resource.protect and any(fnmatchcase(resource.stack, str(each)) for each in items(parameters["stacks"])):
        problem = f"not protected in the stack {resource.stack}: with it go {lost}"
        yield Finding("options.protect", problem, "Set the resource option protect to true")


def _protected(resource: Resource, parameters: Parameters) -> Iterator[Finding]:
    if resource.type == kinds.NODE_POOL:
        kind = catalog.vm_type(resource.read("type"))
        # A pool that is drained is on its way out.
        if kind is None or not kind.gpus or resource.read("drained") is True:
            return
    yield from _unprotected(resource, parameters, KEPT[resource.type])


def _protected_in_cluster(resource: Resource, parameters: Parameters) -> Iterator[Finding]:
    if resource.kind == "NodeSet":
        gone = resource.read("spec", "replicas") == 0
        lent = resource.read("metadata", "labels", LENT) == "true"
        if gone or lent or (resource.unknown and not resource.protect):
            return
    yield from _unprotected(resource, parameters, KEPT_IN_CLUSTER[resource.kind])


def _deleted_first(resource: Resource, _: Parameters) -> Iterator[Finding]:
    if resource.delete_before_replace is not True:
        problem = "a replacement would find the object that it replaces, under the same name, and then delete it"
        yield Finding("options.deleteBeforeReplace", problem, "Set the resource option deleteBeforeReplace to true")


def _disk(**options: object) -> examples.Declared:
    return {"type": kinds.DISK, "name": "home", "properties": {"name": "prod-home", "size": "10TiB"}, **options}


STACKS = {
    "stacks": {
        "type": "array",
        "items": {"type": "string"},
        "default": ["*prod*"],
        "description": "Names of production stacks, as patterns.",
    }
}

POLICIES = [
    ResourcePolicy(
        name="production-protected",
        refuses="In production clusters, GPU pools, node sets and disks are protected.",
        why="A line that is removed by mistake takes away what can't be brought back.",
        fix="Set the resource option protect to true; to retire one, take the protection away in an `up` of its own.",
        parameters=STACKS,
        applies=KEPT.__contains__,
        check=_protected,
        good=example("Protected.", _disk(protect=True, deleteBeforeReplace=True), stack="prod"),
        bad=example("Not protected.", _disk(deleteBeforeReplace=True), stack="prod"),
    ),
    ResourcePolicy(
        name="production-protected-slurm",
        refuses="In production Slinky's NodeSets and generated keys are protected.",
        why="They can be made again, but jobs end and every daemon has to be restarted. A NodeSet without replicas is "
        "on its way out, and one labelled `gpuplatform/lent` has its workers on borrowed nodes: these may go.",
        fix="Set the resource option protect to true. A key is drawn anew by its keepers, in place.",
        parameters=STACKS,
        applies=kinds.either(kinds.one_of(kinds.SECRET), NODE_SETS),
        check=_protected_in_cluster,
        good=example("Protected.", {**examples.workers(), "protect": True}, stack="prod"),
        bad=example("Not protected.", examples.workers(), stack="prod"),
    ),
    ResourcePolicy(
        name="named-delete-before-replace",
        refuses="A resource with a name of its own is deleted before it is replaced.",
        why="No two objects of Crusoe's can have one name, so the new one can't come first.",
        fix="Set the resource option deleteBeforeReplace to true; crusoe.resources does it by itself.",
        applies=kinds.NAMED.__contains__,
        check=_deleted_first,
        good=example("Deleted first.", _disk(protect=True, deleteBeforeReplace=True)),
        bad=example("Left to chance.", _disk(protect=True, deleteBeforeReplace=False)),
    ),
]
