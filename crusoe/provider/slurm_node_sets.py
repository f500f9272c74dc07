"""The resource kind of node sets of Crusoe Managed Slurm: what a program may ask for, by `<cluster>/<nodeset>`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from crusoe.client import NotFound
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.findings import ROOT, failures
from crusoe.provider.kind import Reading
from crusoe.provider.node_pools import type_faults
from crusoe.provider.properties import Difference
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Change, Failure
from crusoe.provider.slurm_node_set_objects import NodeSets, faults_in, scale_down, slurm_cluster, whole
from crusoe.provider.values import UNKNOWN, Values


class SlurmNodeSet(NodeSets):
    """A node set, by `<cluster>/<nodeset>`: each operation is one on its cluster's node sets."""

    description = (
        "A node set of a cluster of Crusoe Managed Slurm; done when the asked-for nodes are ready. Only the count"
        " changes in place; the id is <cluster>/<nodeset>."
    )
    seconds: ClassVar[Mapping[str, float]] = {"create": 3600, "update": 3600, "delete": 3600, "read": 120}

    # Check and diff

    def faults(self, news: Values) -> list[Failure]:
        """Check name, counts and partition."""
        from crusoe.rules import node_pools
        from crusoe.rules import slurm_managed as rules

        found = [
            *rules.node_set_name("name", news.get("name"), None, news.get("count")),
            *node_pools.counts(ROOT, count=news.get("count"), min_count=news.get("minCount")),
        ]
        partition = news.get("transportPartitionId")
        if partition is not UNKNOWN:
            found += rules.partition("transportPartitionId", news.get("type"), partition)
        return failures(found)

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check the VM type, and what the cluster allows, when something changed."""
        if olds == news:
            return []
        found = type_faults(session, "type", news.get("type")) if olds.get("type") != news.get("type") else []
        cluster_id = news.get("slurmClusterId")
        cluster = slurm_cluster(session, cluster_id) if isinstance(cluster_id, str) else None
        return found + (faults_in(cluster, news) if cluster is not None else [])

    def upkeep(self, state: Values) -> list[Difference]:
        """Ask for the nodes again that could not be had."""
        if whole(state.get("missingNodes")) < 1:
            return []
        return [Difference("missingNodes", "missingNodes", Change.UPDATE, replaces=False, of_inputs=False)]

    def refusal(self, state: Values, news: Values, changes: Sequence[Difference]) -> str | None:
        """Refuse a lower count that nobody agreed to."""
        if not any(change.property == "count" for change in changes):
            return None
        return scale_down(state.get("count"), news)

    def lost_by_replacing(self, state: Values) -> str:
        """Say what is lost."""
        return f"Replacing Slurm node set {state.get('name')} deletes its nodes first, with every job that they run."

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Say that other nodes will be ready afterwards."""
        return {**super().planned_update(state, news, changes), "readyCount": UNKNOWN, "missingNodes": UNKNOWN}

    def preflight(self, run: Run, state: Values, inputs: Values) -> None:
        """Compare what is asked for with the project's quota, together with the other pools of this preview."""
        more, vm_type, cluster_id = inputs.get("count"), inputs.get("type"), inputs.get("slurmClusterId")
        more = whole(more) - whole(state.get("count"))
        if more > 0 and isinstance(vm_type, str):
            cluster = slurm_cluster(run.session, cluster_id) if isinstance(cluster_id, str) else None
            run.session.ledger.ask(run, f"Slurm node set {inputs.get('name')}", vm_type, more, cluster)

    # Operations

    def stands_for(self, session: Session, object_id: str, urn: str) -> None:
        """Remember whose object it is, by the API's own id."""
        session.existing.claim(object_id.rpartition("/")[2], urn)

    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Make the node set, or adopt it, and wait until its nodes are ready."""
        of = NodeSets(str(inputs["slurmClusterId"]))
        with _whole_ids(of):
            object_id, state = of.create(run, inputs)
        return of.reference(object_id), state

    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Read the node set for a refresh or an import; it is gone with its cluster."""
        of, own_id = _parts(object_id)
        try:
            found = of.read(run, own_id, inputs, state)
        except NotFound:
            return None
        return Reading(object_id, found.inputs, found.state) if found is not None else None

    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Send the count, then wait until the nodes are ready."""
        of, own_id = _parts(object_id)
        with _whole_ids(of):
            return of.update(run, own_id, state, news, changes)

    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Delete the node set and wait until it is gone."""
        of, own_id = _parts(object_id)
        of.delete(run, own_id, state)


@contextmanager
def _whole_ids(of: NodeSets) -> Generator[None]:
    """Report what was made half way by its whole id."""
    try:
        yield
    except PartlyDoneError as error:
        raise PartlyDoneError(of.reference(error.object_id), error.state, error.reasons) from None


def _parts(object_id: str) -> tuple[NodeSets, str]:
    cluster_id, _, own_id = object_id.partition("/")
    if not cluster_id or not own_id or "/" in own_id:
        raise RefusalError(f"{object_id!r} is not the id of a Slurm node set, which is <cluster>/<nodeset>.")
    return NodeSets(cluster_id), own_id


KINDS = (SlurmNodeSet(),)
