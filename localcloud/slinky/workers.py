"""The sync of one NodeSet: looks at its workers and at Slurm, decides, and carries the decision out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from localcloud.kubernetes.api_server import NODES, PODS, ApiError, ApiServer
from localcloud.slinky import decisions, placement
from localcloud.slinky.children import ssh_config, ssh_files
from localcloud.slinky.conf import node_set_name
from localcloud.slinky.decisions import CAUSE, CORDON, Plan, Slot, Worker
from localcloud.slinky.kinds import CLAIMS, NODE_SETS, SECRETS
from localcloud.slinky.objects import Objects, ReconcileError, owned, owned_by
from localcloud.slinky.pods import PREFIX, labels_of
from localcloud.slinky.rest import RestError, SlurmNode, SlurmRest
from localcloud.slinky.sshd import host_keys
from localcloud.slinky.values import Object, at, items, name_of, part
from localcloud.slinky.worker import TOPOLOGY

_LOG = logging.getLogger(__name__)
PROTECT = f"{PREFIX}/pod-protect"
_CONDITION = "SlurmNodeState"
# The states that are mirrored; Slurm's flags beside them, such as DYNAMIC_NORM, are not.
_STATES: Mapping[str, str] = {
    **{
        state.upper(): state
        for state in (
            "Idle",
            "Allocated",
            "Mixed",
            "Down",
            "Drain",
            "Undrain",
            "Completing",
            "Error",
            "Future",
            "Unknown",
            "Fail",
            "Invalid",
            "Maintenance",
        )
    },
    "INVALID_REG": "InvalidReg",
    "NOT_RESPONDING": "NotResponding",
}


@dataclass(frozen=True)
class Slurm:
    """The Slurm cluster of a NodeSet: its Controller, and its REST API if a RestApi object says that there is one."""

    controller: Object
    rest: SlurmRest | None


class NodeSetSync:
    """Brings NodeSets and their workers together, one look at a time."""

    def __init__(self, api: ApiServer, objects: Objects, slurm_of: Callable[[Mapping[str, Any]], Slurm]) -> None:
        """`slurm_of` finds a NodeSet's Slurm cluster; it raises ReconcileError where there is none."""
        self._api = api
        self._objects = objects
        self._slurm_of = slurm_of

    def sync(self, node_set: Object, conditions: Collection[str]) -> None:
        """Do what is to do now. Raises ReconcileError for what an event should tell, and leaves everything then.

        `conditions` are the node conditions whose text becomes the reason of a cordon.
        """
        if at(node_set, "metadata", "deletionTimestamp"):
            # Its workers go with it, jobs or not: nothing drains them.
            return
        slurm = self._slurm_of(node_set)
        try:
            known: Mapping[str, SlurmNode] = slurm.rest.nodes() if slurm.rest else dict[str, SlurmNode]()
        except RestError as error:
            # The real operator looks for a reservation first, and any failure there ends the sync.
            raise ReconcileError("SyncFinalizerFailed", str(error)) from error
        nodes = {name_of(node): node for node in self._api.list(NODES.path())}
        workers = self._workers(node_set, known, nodes)
        suffix = datetime.now(UTC).isoformat()
        try:
            planned = decisions.plan(
                node_set,
                workers,
                list(nodes.values()),
                has_client=slurm.rest is not None,
                conditions=conditions,
                suffix=suffix,
            )
            self._support(node_set)
            self._create(node_set, slurm.controller, planned)
        except ValueError as error:
            # The real operator panics here, is recovered, and says nothing.
            _LOG.warning("NodeSet %s: %s", name_of(node_set), error)
            return
        try:
            self._cordon(slurm.rest, workers, planned)
            self._place(slurm.rest, workers)
            self._prune(slurm.rest, node_set, known, list(nodes.values()))
        except RestError as error:
            raise ReconcileError("SyncFailed", str(error)) from error
        self._protect(node_set, workers)
        for worker in planned.delete:
            self._api.delete(PODS.path(node_set["metadata"]["namespace"], worker.name))
            self._release_claims(node_set, worker)
        for worker in workers:
            self._show_state(worker)
        self._report(node_set, self._workers(node_set, known, nodes), planned.desired)

    def _workers(self, node_set: Object, known: Mapping[str, SlurmNode], nodes: Mapping[str, Object]) -> list[Worker]:
        selector = ",".join(f"{key}={value}" for key, value in labels_of("slurmd", name_of(node_set)).items())
        found = self._api.list(PODS.path(node_set["metadata"]["namespace"]), labelSelector=selector)
        workers = [Worker(pod, node=nodes.get(at(pod, "spec", "nodeName") or "")) for pod in found]
        return [
            replace(worker, slurm=known.get(worker.hostname)) for worker in workers if owned_by(worker.pod, node_set)
        ]

    def _support(self, node_set: Object) -> None:
        """What sshd in the workers needs."""
        if not at(node_set, "spec", "ssh", "enabled"):
            return
        name, namespace = name_of(node_set), node_set["metadata"]["namespace"]
        labels = labels_of("slurmd", name)
        self._objects.apply(owned(ssh_config(name, labels, ssh_files(part(node_set, "spec", "ssh"))), node_set))
        if self._api.get(SECRETS.path(namespace, f"{name}-ssh-host-keys")) is None:
            self._api.create(SECRETS.path(namespace), owned(host_keys(name, labels), node_set))

    def _create(self, node_set: Object, controller: Object, planned: Plan) -> None:
        namespace = node_set["metadata"]["namespace"]
        for slot in planned.create:
            pod = owned(decisions.worker_pod(node_set, controller, slot), node_set)
            try:
                self._claim(node_set, slot)
                self._api.create(PODS.path(namespace), pod)
            except ApiError as error:
                text = f"create Pod {slot.name} in NodeSet {name_of(node_set)} failed error: {error}"
                raise ReconcileError("FailedCreate", text) from error

    def _claim(self, node_set: Object, slot: Slot) -> None:
        """Make the claims of a worker's own volumes; they outlive it unless the NodeSet says otherwise."""
        namespace = node_set["metadata"]["namespace"]
        for template in items(node_set, "spec", "volumeClaimTemplates"):
            claim: Object = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"{template['metadata']['name']}-{slot.name}",
                    "namespace": namespace,
                    "labels": {**part(template, "metadata", "labels"), **labels_of("slurmd", name_of(node_set))},
                },
                "spec": part(template, "spec"),
            }
            if at(node_set, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete":
                claim = owned(claim, node_set)
            self._api.create(CLAIMS.path(namespace), claim)

    def _release_claims(self, node_set: Object, worker: Worker) -> None:
        scaled_in = worker.annotation(CAUSE) == "scale-in"
        if scaled_in and at(node_set, "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled") == "Delete":
            for template in items(node_set, "spec", "volumeClaimTemplates"):
                name = f"{template['metadata']['name']}-{worker.name}"
                self._api.delete(CLAIMS.path(node_set["metadata"]["namespace"], name))

    def _cordon(self, rest: SlurmRest | None, workers: Sequence[Worker], planned: Plan) -> None:
        """Cordon and drain, or take back our own cordons and drains; what others drained is theirs."""
        for worker in (each for each in workers if not each.terminating and not each.over):
            node = worker.slurm
            if found := planned.cordon.get(worker.name):
                cause, reason = found
                noted = {} if cause == "user" else {CAUSE: cause}
                self._annotate(worker, {CORDON: "true", **noted})
                if rest and node and not node.draining:
                    rest.update_node(node.name, "DRAIN", reason)
                continue
            if worker.annotation(CAUSE) is not None:
                self._annotate(worker, {CORDON: None, CAUSE: None})
            if rest and node and node.draining and node.ours:
                rest.update_node(node.name, "UNDRAIN")

    def _place(self, rest: SlurmRest | None, workers: Sequence[Worker]) -> None:
        """Have Slurm know a worker's place where its node told it only after the worker was bound."""
        for worker in workers:
            place = at(worker.node, "metadata", "annotations", TOPOLOGY)
            if rest and worker.slurm and place and worker.annotation(TOPOLOGY) != place:
                rest.move_node(worker.slurm.name, place)
                self._annotate(worker, {TOPOLOGY: place})

    def _annotate(self, worker: Worker, annotations: Mapping[str, str | None]) -> None:
        if any(worker.annotation(key) != value for key, value in annotations.items()):
            self._api.merge(_path(worker), {"metadata": {"annotations": dict(annotations)}})

    def _protect(self, node_set: Object, workers: Sequence[Worker]) -> None:
        """Label busy workers, for the disruption budget that keeps evictions off them."""
        wanted = at(node_set, "spec", "workloadDisruptionProtection") is not False
        for worker in workers:
            value = "true" if wanted and worker.slurm is not None and worker.slurm.busy else None
            if worker.label(PROTECT) != value:
                self._api.merge(_path(worker), {"metadata": {"labels": {PROTECT: value}}})

    def _prune(
        self, rest: SlurmRest | None, node_set: Object, known: Mapping[str, SlurmNode], nodes: Sequence[Object]
    ) -> None:
        """Forget Slurm's nodes in DaemonSet mode whose Kubernetes node is gone, where that is asked for."""
        spec = part(node_set, "spec")
        if (
            rest is None
            or spec.get("scalingMode") != "DaemonSet"
            or spec.get("pruneSlurmNodeRecords") != "NodeNotFound"
        ):
            return
        present = {placement.slurm_name(node) for node in nodes}
        feature = node_set_name(node_set)
        for node in known.values():
            if feature in node.features and node.name not in present:
                rest.delete_node(node.name)

    def _show_state(self, worker: Worker) -> None:
        """Mirror Slurm's states of the node as conditions of the pod."""
        present = {
            each["type"]: each.get("message") or ""
            for each in items(worker.pod, "status", "conditions")
            if str(each["type"]).startswith(_CONDITION)
        }
        node = worker.slurm
        states = node.states & set(_STATES) if node else frozenset[str]()
        wanted = {_CONDITION + _STATES[state]: node.reason for state in states} if node else {}
        if wanted == present:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changes: list[Object] = [
            {"type": kind, "status": "True", "message": message, "lastTransitionTime": now}
            for kind, message in wanted.items()
        ]
        changes += [{"$patch": "delete", "type": kind} for kind in present if kind not in wanted]
        self._api.merge(f"{_path(worker)}/status", {"status": {"conditions": changes}}, strategic=True)

    def _report(self, node_set: Object, workers: Sequence[Worker], desired: int) -> None:
        wanted = decisions.status(node_set, workers, desired)
        if {key: value for key, value in wanted.items() if value is not None} != part(node_set, "status"):
            path = NODE_SETS.path(node_set["metadata"]["namespace"], name_of(node_set))
            self._api.merge(f"{path}/status", {"status": wanted})


def _path(worker: Worker) -> str:
    return PODS.path(worker.pod["metadata"]["namespace"], worker.name)
