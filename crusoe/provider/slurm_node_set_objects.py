"""Node sets of Crusoe Managed Slurm: the GPU nodes of a Slurm cluster.

The `count` in the API's answers is that of the nodes whose Slurm pods all run, not the number asked for, which the API
never tells (description of 2026-07-20). So the count asked for is the program's and is recorded here, the API's is the
output `readyCount`, and a node that is being repaired is no drift. Only the count changes in place.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, cast

from crusoe.client import CapacityError, CrusoeError, NotFound, OperationFailed, QuotaError
from crusoe.provider import supply
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.findings import failures
from crusoe.provider.objects import ADOPT, ApiObject
from crusoe.provider.properties import Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Failure, Flag, Text, Whole
from crusoe.provider.slurm_states import has_failed, issues_left, issues_of, state_of
from crusoe.provider.values import Value, Values

STILL_SECONDS: Final = 600.0
"""For how long a node set at rest may gain no node before the missing ones are taken as not coming: a VM starts and
pulls its images in less."""

_SENT: Final = {
    "name": "name",
    "type": "type",
    "count": "count",
    "subnetId": "subnet_id",
    "transportPartitionId": "transport_partition_id",
    "vmSshPublicKey": "vm_ssh_public_key",
}


class NodeSets(ApiObject):
    """The node sets of one Slurm cluster, by the API's own ids."""

    name = "SlurmNodeSet"
    title = "Slurm node set"
    properties = (
        Property("slurmClusterId", Text(), "Id of the Slurm cluster.", required=True, effect=Effect.REPLACE),
        Property("name", Text(), "Name of the node set.", required=True, effect=Effect.REPLACE),
        Property("type", Text(), "VM type, such as h100-80gb-sxm-ib.8x.", required=True, effect=Effect.REPLACE),
        Property("count", Whole(), "Number of nodes, changed in place.", required=True),
        Property("subnetId", Text(), "Id of the subnet.", effect=Effect.REPLACE, computed=True),
        Property(
            "transportPartitionId",
            Text(),
            "Id of the InfiniBand or RoCE partition; types with a fabric need one.",
            effect=Effect.REPLACE,
        ),
        Property("vmSshPublicKey", Text(), "SSH public key on the nodes.", effect=Effect.REPLACE, write_only=True),
        Property(
            "minCount",
            Whole(),
            "With fewer ready nodes it is an error; all that are asked for when left out.",
            effect=Effect.LOCAL,
        ),
        Property(
            "allowScaleDown",
            Flag(),
            "Consent to a lower count, which takes nodes away whose jobs may not have ended.",
            effect=Effect.LOCAL,
            assumed=False,
        ),
        ADOPT,
    )
    outputs = (
        Output("readyCount", Whole(), "Nodes whose Slurm pods all run.", stable=False),
        Output(
            "missingNodes",
            Whole(),
            "Nodes that were not ready when the set was last created or updated; the next `up` asks for them again.",
            stable=False,
        ),
    )

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.collection = f"slurm/{cluster_id}/nodesets"

    def reference(self, object_id: str) -> str:
        """Return `<cluster>/<nodeset>`."""
        return f"{self.cluster_id}/{object_id}"

    # The API

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request; what is unset is left out."""
        del run
        return {key: inputs[name] for name, key in _SENT.items() if inputs.get(name) is not None}

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Return the count, which is all that the API can change."""
        del state
        return {"count": news["count"]} if names & {"count", "missingNodes"} else {}

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells. The count is the one asked for; an import has only the ready one to go by."""
        del run
        ready = _ready(fields)
        told: Values = {
            "slurmClusterId": self.cluster_id,
            "name": text(fields, "name"),
            "type": text(fields, "type"),
            "count": asked.get("count", ready),
            "readyCount": ready,
        }
        optional = {"subnetId": "subnet_id", "transportPartitionId": "transport_partition_id"}
        return told | {name: found for name, key in optional.items() if (found := text(fields, key))}

    def before_create(self, run: Run, inputs: Values) -> None:
        """Refuse what only the cluster tells, and a preview could not know yet."""
        cluster = slurm_cluster(run.session, self.cluster_id)
        if cluster is None:
            raise RefusalError(f"There is no Slurm cluster {self.cluster_id} in this project.")
        faults = faults_in(cluster, inputs)
        if faults:
            told = " ".join(f"{fault.path}: {fault.reason}" for fault in faults)
            raise RefusalError(f"Slurm node set {inputs['name']}: {told}")

    def apply(self, run: Run, object_id: str, names: Set[str], state: Values, news: Values) -> None:
        """Compare a count that is to be sent with the nodes that are ready first: others may have raised it since."""
        now = self.get(run, object_id)
        refused = scale_down(_ready(now), news) if now is not None and self.patch(names, state, news) else None
        if refused:
            raise RefusalError(refused)
        super().apply(run, object_id, names, state, news)

    def refreshed(self, state: Values, fields: JsonObject) -> Values:
        """Let a refresh lower the number of missing nodes, never raise it: a lost node is being repaired, not drift."""
        missing = min(whole(state.get("missingNodes")), max(0, whole(state.get("count")) - _ready(fields)))
        return {"missingNodes": missing}

    def explain(self, run: Run, inputs: Values, error: CrusoeError) -> str:
        """Tell a shortage from a quota, each with what helps, and the issues of what a failure left behind."""
        reason = error.reason if isinstance(error, OperationFailed) else "other"
        what, vm_type = f"Slurm node set {inputs.get('name')}", str(inputs.get("type"))
        if isinstance(error, CapacityError) or reason == "capacity":
            said = error.message if isinstance(error, CapacityError) else ""
            told = f"{what}: {supply.capacity_sentence(run.client, vm_type, self._location(run), said)}"
        elif isinstance(error, QuotaError) or reason == "quota":
            quota = supply.quota_of_type(run.client, vm_type)
            asked = f"{inputs.get('count')} x {vm_type} for {what}"
            told = supply.quota_sentence(asked, quota, error if isinstance(error, QuotaError) else None)
        else:
            told = super().explain(run, inputs, error)
        return told + issues_left(self, run, inputs, error)

    def _location(self, run: Run) -> str:
        return text(slurm_cluster(run.session, self.cluster_id) or {}, "location") or "the cluster's location"

    # Waiting

    def settle(
        self, run: Run, object_id: str, inputs: Values, fields: JsonObject, state: Values
    ) -> tuple[JsonObject, Values]:
        """Wait until the asked-for nodes are ready, or it is clear that some are not coming."""
        wanted, least = whole(inputs.get("count")), inputs.get("minCount")
        least = least if isinstance(least, int) else wanted
        if not state and run.existing.adopted(object_id):
            # How many nodes an object of before was to have is not known.
            self.apply(run, object_id, {"count"}, state, inputs)
        now = self._ready_nodes(run, object_id, inputs, fields)
        ready = _ready(now)
        missing = max(0, wanted - ready)
        if missing:
            message = (
                f"Slurm node set {inputs.get('name')} has {ready} of {wanted} nodes ready, in state {state_of(now)}."
                f"{issues_of(now)} The next `pulumi up` asks for the missing ones again."
            )
            if ready < least:
                told = {**self.actual(run, now, inputs), "missingNodes": missing}
                raise PartlyDoneError(object_id, self.state_of(inputs, told, state), [message])
            run.warn(message)
        elif ready > wanted:
            run.warn(f"{ready - wanted} nodes of Slurm node set {inputs.get('name')} are still to go.")
        return now, {"missingNodes": missing}

    def _ready_nodes(self, run: Run, object_id: str, inputs: Values, fields: JsonObject) -> JsonObject:
        name, wanted = inputs.get("name"), whole(inputs.get("count"))
        seen: list[JsonObject] = [fields]
        best, since = -1, run.now

        def look() -> JsonObject | None:
            nonlocal best, since
            now = seen[0] = self.get(run, object_id) or {}
            if not now or has_failed(now):
                raise RefusalError(
                    f"Slurm node set {name} is {state_of(now) or 'gone'}.{issues_of(now)} Put that right, then make it"
                    f" anew with `pulumi up --replace '{run.urn}'`."
                )
            at_rest = state_of(now).endswith(("RUNNING", "UNHEALTHY"))
            if at_rest and _ready(now) >= wanted:
                return now
            run.progress(f"{_ready(now)} of {wanted} nodes of Slurm node set {name} are ready ({state_of(now)})")
            if not at_rest or _ready(now) > best:
                best, since = _ready(now), run.now
            return now if run.now - since >= STILL_SECONDS else None

        return run.until(look) or seen[0]


def slurm_cluster(session: Session, cluster_id: str) -> JsonObject | None:
    """Return the Slurm cluster; None when there is none."""
    try:
        return session.client.get(f"slurm/clusters/{cluster_id}")
    except NotFound:
        return None


def faults_in(cluster: JsonObject, inputs: Values) -> list[Failure]:
    """Return what does not go together with the cluster."""
    from crusoe.rules import slurm_managed as rules

    return failures(
        [
            *rules.node_set_name("name", inputs.get("name"), text(cluster, "name"), inputs.get("count")),
            *rules.home_mount("type", inputs.get("type"), cluster.get("home_volume_size")),
        ]
    )


def scale_down(running: Value, news: Values) -> str | None:
    """Return why a lower count than that of the running nodes can't be had, or None."""
    from crusoe.rules import slurm_managed as rules

    found = rules.scale_down("count", running=running, wanted=news.get("count"), allow=news.get("allowScaleDown"))
    return f"Slurm node set {news.get('name')}: {found[0].problem}. {found[0].fix}." if found else None


def _ready(fields: JsonObject) -> int:
    return whole(cast("Value", fields.get("count")))


def whole(value: Value) -> int:
    """Return a whole number, 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
