"""Node pools of both CMK generations.

A pool is done when the nodes that were asked for run. Fewer are an error below `minCount` and a warning at or above
it; either way the pool is recorded, and the next `up` asks for the missing ones again. A pool with autoscaling has its
count from the autoscaler: it is never read, compared or sent, except once when new bounds leave it outside. On CMK v1
the API has no place for the bounds, so they are told to whoever runs the autoscaler, and only the count is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import ClassVar, Final, cast

from crusoe.client import CapacityError, CrusoeError, Operation, OperationFailed, QuotaError
from crusoe.provider import supply
from crusoe.provider.clusters import generation_of
from crusoe.provider.existing import JsonObject, text, texts
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.findings import ROOT, failures
from crusoe.provider.objects import ApiObject
from crusoe.provider.pool_fields import (
    OUTPUTS,
    PROPERTIES,
    SIMPLE,
    bounds_sent,
    bounds_told,
    nodes_behind,
    reservation_told,
    taints_sent,
    taints_told,
)
from crusoe.provider.pool_nodes import Watch, delete_left_over, vms_of
from crusoe.provider.properties import Difference
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Change, Failure, did_you_mean
from crusoe.provider.values import UNKNOWN, Value, Values

CLUSTER_VERSION: Final = "__clusterVersion"
"""State: the version of the pool's cluster, which tells the generation. Two underscores hide it from displays."""

SHORTFALL: Final = "_shortfall"
"""Field added to a pool: why the operation that filled it could not start all VMs."""


class KubernetesNodePool(ApiObject):
    """A node pool."""

    name = "KubernetesNodePool"
    title = "node pool"
    description = (
        "A node pool of a CMK cluster; done when the asked-for nodes run. Labels, taints, version and containerd"
        " storage reach new nodes only."
    )
    collection = "kubernetes/nodepools"
    seconds: ClassVar[Mapping[str, float]] = {"create": 3600, "update": 3600, "delete": 3600, "read": 120}
    properties = PROPERTIES
    outputs = OUTPUTS

    # Check

    def faults(self, news: Values) -> list[Failure]:
        """Check counts, labels, taints and the two names of the partition."""
        from crusoe.rules import node_pools as rules

        found = failures(
            rules.counts(
                ROOT, count=news.get("count"), min_count=news.get("minCount"), autoscaling=news.get("autoscaling")
            )
        )
        if news.get("count") is None and news.get("autoscaling") is None:
            found.append(Failure("count", "is required without autoscaling"))
        found += failures(rules.labels("nodeLabels", news.get("nodeLabels")))
        found += failures(rules.taints("nodeTaints", news.get("nodeTaints")))
        one, other = news.get("ibPartitionId"), news.get("transportPartitionId")
        if one is not None and other is not None and one != other:
            found.append(
                Failure("transportPartitionId", "names another partition than ibPartitionId. Give one of them.")
            )
        return found

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check the VM type, and that no setting belongs to the other generation, when something changed."""
        from crusoe.rules import node_pools as rules

        if olds == news:
            return []
        found: list[Failure] = []
        if olds.get("type") != news.get("type"):
            found += type_faults(session, "type", news.get("type"))
        cluster_id = news.get("clusterId")
        cluster = session.cluster(cluster_id) if isinstance(cluster_id, str) else None
        if cluster is not None:
            found += failures(rules.generation(ROOT, text(cluster, "version"), news))
        return found

    # Diff

    def differences(self, old_inputs: Values, state: Values, news: Values) -> list[Difference]:
        """Leave out the count of an autoscaled pool, and a partition that only changed the name of its argument."""
        found = super().differences(old_inputs, state, news)
        before, after = _partition(old_inputs), _partition(news)
        if before is not None and before == after:
            names = {"ibPartitionId", "transportPartitionId"}
            found = [difference for difference in found if difference.property not in names]
        if news.get("autoscaling") is not None:
            found = [difference for difference in found if difference.property != "count"]
        return found

    def upkeep(self, state: Values) -> list[Difference]:
        """Ask for the nodes again that could not be had."""
        missing = state.get("missingNodes")
        if not isinstance(missing, int) or missing < 1:
            return []
        return [Difference("missingNodes", "missingNodes", Change.UPDATE, replaces=False, of_inputs=False)]

    def refusal(self, state: Values, news: Values, changes: Sequence[Difference]) -> str | None:
        """Refuse a lower count unless what becomes of the VMs is declared."""
        if not any(change.property == "count" for change in changes):
            return None
        return _scale_down(state.get(CLUSTER_VERSION), state.get("count"), news)

    def planned(self, inputs: Values) -> Values:
        """Leave out what only one generation has, as the cluster may not be known yet."""
        state = super().planned(inputs)
        for name in {"consentMode", "allowScaleDown"} - set(inputs):
            state[name] = UNKNOWN
        return state

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Say that asking for nodes may leave some missing."""
        after = super().planned_update(state, news, changes)
        if any(change.property in {"count", "missingNodes", "autoscaling"} for change in changes):
            after["missingNodes"] = UNKNOWN
        if news.get("autoscaling") is not None:
            after.pop("count", None)
        return after

    def preflight(self, run: Run, state: Values, inputs: Values) -> None:
        """Compare what is asked for with the project's quota, together with the other pools of this preview."""
        before, after = state.get("count"), _wanted(inputs)
        vm_type, cluster_id = inputs.get("type"), inputs.get("clusterId")
        more = after - (before if isinstance(before, int) else 0)
        if more <= 0 or not isinstance(vm_type, str):
            return
        cluster = run.session.cluster(cluster_id) if isinstance(cluster_id, str) else None
        run.session.ledger.ask(run, f"node pool {inputs.get('name')}", vm_type, more, cluster)

    # The API

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request. On CMK v2 the consent is always explicit: left out, the service would propose."""
        body: JsonObject = {key: inputs[name] for name, key in SIMPLE.items() if inputs.get(name) is not None}
        body["count"] = _wanted(inputs)
        body["public_ip_type"] = inputs.get("publicIpType") or "dynamic"
        if inputs.get("nodeLabels"):
            body["node_labels"] = inputs["nodeLabels"]
        if inputs.get("nodeTaints"):
            body["node_taints"] = taints_sent(inputs["nodeTaints"])
        if inputs.get("ephemeralStorageForContainerd") is True:
            body["ephemeral_storage_for_containerd"] = True
        reservation = inputs.get("reservation")
        if isinstance(reservation, dict):
            keys = {"id": "id", "selectionStrategy": "selection_strategy"}
            body["reservation_specification"] = {
                key: reservation[name] for name, key in keys.items() if name in reservation
            }
        if generation_of(_cluster_version(run, inputs)) == "v2":
            if inputs.get("autoscaling") is not None:
                body["autoscaling_config"] = bounds_sent(inputs.get("autoscaling"))
            body["consent_mode"] = inputs.get("consentMode") or "off"
            body["update_settings"] = {"allow_scale_down": inputs.get("allowScaleDown") is True}
        return body

    def before_create(self, run: Run, inputs: Values) -> None:
        """Refuse settings of the other generation, which a preview could not know yet."""
        from crusoe.rules import node_pools as rules

        faults = failures(rules.generation(ROOT, _cluster_version(run, inputs), inputs))
        if faults:
            told = " ".join(f"{fault.path}: {fault.reason}" for fault in faults)
            raise RefusalError(f"Node pool {inputs['name']}: {told}")

    def unwrap(self, operation: Operation) -> JsonObject:
        """Return the pool in a result, bare or beside its details."""
        result = operation.object
        inner = result.get("node_pool")
        if not isinstance(inner, dict):
            return result
        details = result.get("details")
        said = text(cast("JsonObject", details), "error") if isinstance(details, dict) else None
        return {**cast("JsonObject", inner), SHORTFALL: said}

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells. Of the labels only those asked for, as the platform adds its own."""
        image = text(fields, "image_id")
        told: Values = {
            "name": text(fields, "name"),
            "clusterId": text(fields, "cluster_id"),
            "type": text(fields, "type"),
            "subnetId": text(fields, "subnet_id"),
            "nodeTaints": taints_told(fields),
            "ephemeralStorageForContainerd": fields.get("ephemeral_storage_for_containerd") is True,
            CLUSTER_VERSION: _cluster_version(run, {"clusterId": text(fields, "cluster_id")}),
        }
        if text(fields, "public_ip_type"):
            told["publicIpType"] = text(fields, "public_ip_type")
        if image and generation_of(image) is not None:
            told["version"] = image
        if "nvlink_domain_id" in fields:
            told["nvlinkDomainId"] = text(fields, "nvlink_domain_id")
        if "reservation_id" in fields:
            told |= reservation_told(text(fields, "reservation_id"), asked.get("reservation"))
        if "consent_mode" in fields:
            told["consentMode"] = text(fields, "consent_mode")
        settings = fields.get("update_settings")
        if isinstance(settings, dict):
            told["allowScaleDown"] = cast("JsonObject", settings).get("allow_scale_down") is True
        bounds = bounds_told(fields) if "autoscaling_config" in fields else asked.get("autoscaling")
        if "autoscaling_config" in fields or bounds is not None:
            told["autoscaling"] = bounds
        count = fields.get("count")
        if bounds is None and isinstance(count, int):
            told["count"] = count
        labels, wanted = fields.get("node_labels"), asked.get("nodeLabels")
        if isinstance(labels, dict) and labels and isinstance(wanted, dict):
            there = cast("Values", labels)
            told["nodeLabels"] = {key: there[key] for key in wanted if isinstance(there.get(key), str)}
        return told

    def explain(self, run: Run, inputs: Values, error: CrusoeError) -> str:
        """Tell a shortage from a quota, each with what helps."""
        reason = error.reason if isinstance(error, OperationFailed) else "other"
        what = f"node pool {inputs.get('name')}"
        vm_type = str(inputs.get("type"))
        if isinstance(error, CapacityError) or reason == "capacity":
            said = error.message if isinstance(error, CapacityError) else ""
            told = supply.capacity_sentence(run.client, vm_type, _location(run, inputs), said)
            return f"Node {what[5:]}: {told}"
        if isinstance(error, QuotaError) or reason == "quota":
            quota = supply.quota_of_type(run.client, vm_type)
            return supply.quota_sentence(
                f"{_wanted(inputs)} x {vm_type} for {what}", quota, error if isinstance(error, QuotaError) else None
            )
        return super().explain(run, inputs, error)

    # Waiting

    def settle(
        self, run: Run, object_id: str, inputs: Values, fields: JsonObject, state: Values
    ) -> tuple[JsonObject, Values]:
        """Wait until the asked-for nodes run, or it is clear that some are not to be had."""
        wanted = _wanted(inputs)
        said = text(fields, SHORTFALL)
        seen = Watch(run, object_id, wanted, said)
        now = run.until(seen.look)
        missing = max(0, wanted - seen.running)
        fields = now or seen.fields
        least = inputs.get("minCount")
        least = least if isinstance(least, int) else wanted
        if missing:
            message = self._short(run, inputs, seen, now is not None)
            if seen.running < least:
                told = {**self.actual(run, fields, inputs), "missingNodes": missing}
                raise PartlyDoneError(object_id, self.state_of(inputs, told, state), [message])
            run.warn(message)
        if inputs.get("autoscaling") != state.get("autoscaling"):
            self._tell_bounds(run, inputs)
        behind = nodes_behind(fields)
        if behind:
            run.warn(
                f"{behind} nodes of node pool {inputs.get('name')} still have the configuration of before; rotate the"
                " pool, or replace them, to bring them up to date."
            )
        return fields, {"missingNodes": missing}

    def _tell_bounds(self, run: Run, inputs: Values) -> None:
        """Say what is left to do by hand: the autoscaler of CMK v1 takes its bounds as arguments, and nowhere else."""
        bounds = inputs.get("autoscaling")
        if isinstance(bounds, dict) and generation_of(_cluster_version(run, inputs)) == "v1":
            run.warn(
                f"CMK v1 keeps no bounds for node pool {inputs.get('name')}. Give them to the autoscaler: the argument"
                f" --nodes={bounds['min']}:{bounds['max']}:{inputs.get('name')} of the Deployment cluster-autoscaler in"
                " the namespace crusoe-system."
            )

    def _short(self, run: Run, inputs: Values, seen: Watch, at_rest: bool) -> str:
        name, vm_type = inputs.get("name"), str(inputs.get("type"))
        count = f"Node pool {name} has {seen.running} of {seen.wanted} nodes"
        if not at_rest:
            return f"{count} after {run.seconds:.0f} s, in state {seen.state}. The next `pulumi up` goes on with it."
        where = supply.capacity_sentence(run.client, vm_type, _location(run, inputs), seen.said or "")
        return f"{count}. {where} The next `pulumi up` asks for the missing ones again."

    # Update

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Return exactly what changed: absent keeps, an empty map or list clears, and the SSH key is never in it."""
        body: JsonObject = {}
        if "nodeLabels" in names:
            body["node_labels"] = news.get("nodeLabels") or {}
        if "nodeTaints" in names:
            body["node_taints"] = taints_sent(news.get("nodeTaints"))
        if "version" in names:
            body["node_pool_version"] = news["version"]
        if "ephemeralStorageForContainerd" in names:
            body["ephemeral_storage_for_containerd"] = news.get("ephemeralStorageForContainerd") is True
        if "consentMode" in names:
            body["consent_mode"] = news.get("consentMode") or "off"
        if "allowScaleDown" in names:
            body["update_settings"] = {"allow_scale_down": news.get("allowScaleDown") is True}
        if "autoscaling" in names and generation_of(state.get(CLUSTER_VERSION)) == "v2":
            body["autoscaling_config"] = bounds_sent(news.get("autoscaling"))
        if names & {"count", "missingNodes", "autoscaling"} and news.get("autoscaling") is None:
            body["count"] = news["count"]
        if "reservation" in names:
            reservation = news.get("reservation")
            wanted = reservation.get("id") if isinstance(reservation, dict) else None
            body |= {"action": "RESERVE", "reservation_id": wanted} if wanted else {"action": "UNRESERVE"}
        return body

    def apply(self, run: Run, object_id: str, names: Set[str], state: Values, news: Values) -> None:
        """Compare a count that is to be sent with the pool's own first: others may have raised it since."""
        if "drained" in names:
            self._drain(run, object_id, news)
        body = self.patch(names, state, news)
        if "count" in body or "autoscaling" in names:
            self._guard(run, object_id, body, news)
        if body:
            self.send(run, object_id, body, names, state, news)

    def _drain(self, run: Run, object_id: str, news: Values) -> None:
        from crusoe.provider import draining

        cluster_id, name = str(news.get("clusterId")), str(news.get("name"))
        if news.get("drained") is True:
            draining.drain(run, cluster_id, object_id, name)
        else:
            draining.resume(run, cluster_id, object_id)

    def _guard(self, run: Run, object_id: str, body: JsonObject, news: Values) -> None:
        now = self.get(run, object_id)
        count = now.get("count") if now is not None else None
        if now is None or not isinstance(count, int):
            return
        bounds = news.get("autoscaling")
        if isinstance(bounds, dict):
            low, high = cast("int", bounds["min"]), cast("int", bounds["max"])
            if generation_of(_cluster_version(run, news)) == "v1":
                # A lower count would leave VMs behind there; the autoscaler deletes what is above its bounds itself.
                high = max(high, count)
            if not low <= count <= high:
                body["count"] = max(low, min(high, count))
        wanted = body.get("count")
        if isinstance(wanted, int):
            refused = _scale_down(_cluster_version(run, news), count, {**news, "count": wanted})
            if refused:
                raise RefusalError(refused)

    def refreshed(self, state: Values, fields: JsonObject) -> Values:
        """Let a refresh lower the number of missing nodes, never raise it: a lost node is being repaired, not drift."""
        missing, count = state.get("missingNodes"), fields.get("count")
        if not isinstance(missing, int) or not isinstance(count, int):
            return {}
        return {"missingNodes": min(missing, max(0, count - len(texts(fields, "instance_ids"))))}

    # Delete

    def remove(self, run: Run, object_id: str) -> None:
        """Delete the pool, and every VM of it that the API would leave behind."""
        fields = self.get(run, object_id)
        vms = set[str]()
        if fields is not None:
            vms = {*texts(fields, "instance_ids"), *(vm for vm, _ in vms_of(run, object_id, fields))}
        super().remove(run, object_id)
        delete_left_over(run, vms)


def _partition(inputs: Values) -> Value:
    one = inputs.get("ibPartitionId")
    return one if one is not None else inputs.get("transportPartitionId")


def type_faults(session: Session, path: str, vm_type: Value) -> list[Failure]:
    """Check that the project can use a VM type, and name the one that was meant."""
    if not isinstance(vm_type, str):
        return []
    known = session.vm_types()
    if not known or vm_type in known:
        return []
    hint = did_you_mean(vm_type, known) or " getVmTypes lists them."
    return [Failure(path, f"{vm_type} is not a VM type of this project.{hint}")]


def _wanted(inputs: Values) -> int:
    """Return the number of nodes to ask for; the smallest one with autoscaling."""
    bounds = inputs.get("autoscaling")
    value = bounds.get("min") if isinstance(bounds, dict) else inputs.get("count")
    return value if isinstance(value, int) else 0


def _cluster_version(run: Run, inputs: Values) -> str | None:
    cluster_id = inputs.get("clusterId")
    cluster = run.session.cluster(cluster_id) if isinstance(cluster_id, str) else None
    return text(cluster, "version") if cluster is not None else None


def _location(run: Run, inputs: Values) -> str:
    cluster_id = inputs.get("clusterId")
    cluster = run.session.cluster(cluster_id) if isinstance(cluster_id, str) else None
    return (text(cluster, "location") if cluster is not None else None) or "the cluster's location"


def _scale_down(cluster_version: Value, running: Value, news: Values) -> str | None:
    from crusoe.rules import node_pools as rules

    found = rules.scale_down(
        "count",
        cluster_version=cluster_version,
        running=running,
        wanted=news.get("count"),
        leave_vms=news.get("leaveVmsOnScaleDown"),
        allow=news.get("allowScaleDown"),
    )
    return f"Node pool {news.get('name')}: {found[0].problem}. {found[0].fix}." if found else None


KINDS = (KubernetesNodePool(),)
