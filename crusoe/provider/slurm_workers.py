"""The workers of one Slinky NodeSet: up when it is made or changed, and drained before it is deleted.

The API server takes a NodeSet at once and its operator sets no condition on it, so without this an `up` ends before a
worker runs; and deleting a NodeSet kills its workers with their jobs (Slinky 1.2.1). This resource is declared after
the NodeSet, so it waits after each change, and goes first. It makes nothing of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from crusoe.client import Cancelled, CrusoeError, NotFound
from crusoe.provider import properties, slinky_objects
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.findings import failures
from crusoe.provider.kind import Kind, Reading
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.shapes import Failure, MapOf, Text, Whole
from crusoe.provider.slinky_objects import Workers
from crusoe.provider.values import UNKNOWN, Values

NAMESPACE: Final = "slurm"
CONTROLLER: Final = "slurm"
WAIT_SECONDS: Final = 900
DRAIN_SECONDS: Final = 1800

AS_GIVEN: Final = 7 * 86_400
"""Seconds for an operation: the bound is the resource's own, which may be as long as a job."""


class SlurmWorkers(Kind):
    """The workers of a NodeSet."""

    name = "SlurmWorkers"
    title = "workers of NodeSet"
    description = (
        "Stands for the workers of a Slinky NodeSet and makes nothing: creating or updating it waits until they are"
        " ready and known to Slurm, deleting it drains them and waits until they are gone. Declare it after the"
        " NodeSet; the id is <cluster>/<namespace>/<nodeset>."
    )
    seconds: ClassVar[Mapping[str, float]] = {"create": AS_GIVEN, "update": AS_GIVEN, "delete": AS_GIVEN, "read": 120}
    properties = (
        Property("clusterId", Text(), "Id of the CMK cluster.", required=True, effect=Effect.REPLACE),
        Property("nodeSet", Text(), "Name of the NodeSet.", required=True, effect=Effect.REPLACE),
        Property(
            "namespace",
            Text(),
            "Namespace of NodeSet and Controller; slurm when left out.",
            effect=Effect.REPLACE,
            assumed=NAMESPACE,
        ),
        Property(
            "controller",
            Text(),
            "Name of the Controller; slurm when left out.",
            write_only=True,
            assumed=CONTROLLER,
        ),
        Property(
            "replicas",
            Whole(),
            "Workers to wait for; as many as the NodeSet wants when left out, as with autoscaling.",
            write_only=True,
        ),
        Property(
            "minReady",
            Whole(),
            "With at least so many, workers that find no node are a warning; all are needed when left out.",
            effect=Effect.LOCAL,
        ),
        Property(
            "enough",
            Whole(),
            "With so many ready they are waited for no longer: the others may wait for nodes; all when left out.",
            effect=Effect.LOCAL,
        ),
        Property(
            "triggers",
            MapOf(Text()),
            "Any values whose change has the workers waited for.",
            write_only=True,
            assumed={},
        ),
        Property(
            "waitSeconds",
            Whole(),
            f"For how long they are waited for, 0 for not at all; {WAIT_SECONDS} when left out.",
            effect=Effect.LOCAL,
            assumed=WAIT_SECONDS,
        ),
        Property(
            "drainSeconds",
            Whole(),
            f"For how long jobs may run on when the workers are to go; {DRAIN_SECONDS} when left out.",
            write_only=True,
            assumed=DRAIN_SECONDS,
        ),
    )
    outputs = (
        Output(
            "readyWorkers",
            Whole(),
            "Workers that were ready when they were last waited for; 0 when never.",
            stable=False,
        ),
        Output("missingWorkers", Whole(), "Workers that had found no node then.", stable=False),
    )

    def faults(self, news: Values) -> list[Failure]:
        """Check the numbers."""
        from crusoe.rules import slurm_workers

        return failures(slurm_workers.min_ready("minReady", news.get("minReady"), news.get("replicas")))

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Say that other workers may be ready afterwards."""
        after = super().planned_update(state, news, changes)
        return {**after, "readyWorkers": UNKNOWN, "missingWorkers": UNKNOWN} if _waits(changes) else after

    # Operations

    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Wait for the workers; whatever goes wrong leaves a recorded resource, so that its deletion drains them."""
        object_id = f"{inputs['clusterId']}/{inputs.get('namespace') or NAMESPACE}/{inputs['nodeSet']}"
        return object_id, self._waited(run, object_id, inputs, {})

    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Keep what is recorded while the NodeSet is there, or its cluster does not answer."""
        from crusoe.provider.cluster_api import ClusterApi

        cluster_id, namespace, name = _parts(object_id)
        if run.session.cluster(cluster_id) is None:
            return None
        try:
            with ClusterApi(run.client, cluster_id) as api:
                found = slinky_objects.fetch(api, "NodeSet", namespace, name)
        except NotFound:
            return None
        except RefusalError as error:
            if not state:
                raise
            run.warn(f"Whether NodeSet {namespace}/{name} is still there is not known. {error}")
            return Reading(object_id, inputs, state)
        if found is None:
            return None
        if state or inputs:
            return Reading(object_id, inputs, state)
        there: Values = {"clusterId": cluster_id, "namespace": namespace, "nodeSet": name}
        news, unread = properties.imported(self.properties, there)
        ready: Values = {"readyWorkers": Workers.of(found).ready, "missingWorkers": 0}
        return Reading(object_id, news, self.state_of(news, {**there, **ready}, {properties.UNREAD: [*unread]}))

    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Wait for the workers again; not when they came and only their time to drain has changed."""
        if "readyWorkers" in state and changes and not _waits(changes):
            return self.state_of(news, {}, state)
        return self._waited(run, object_id, news, state)

    def _waited(self, run: Run, object_id: str, inputs: Values, state: Values) -> Values:
        from crusoe.provider import slurm_wait
        from crusoe.provider.cluster_api import ClusterApi

        if inputs.get("waitSeconds") == 0:
            # Their number is nobody's promise, as on borrowed nodes.
            return self.state_of(inputs, {"readyWorkers": 0, "missingWorkers": 0}, state)
        cluster_id, namespace, name = _parts(object_id)
        progress: list[str] = []
        unknown: Values = {name: value for name, value in state.items() if name.startswith("__")}
        try:
            with ClusterApi(run.client, cluster_id) as api:
                told = slurm_wait.Wait(run, api, namespace, name, inputs, progress).end()
        except Cancelled:
            at = f" ({progress[-1]})" if progress else ""
            reason = f"The run was cancelled while the workers of NodeSet {namespace}/{name} were waited for{at}."
            raise PartlyDoneError(object_id, self.state_of(inputs, {}, unknown), [reason]) from None
        except (CrusoeError, RefusalError) as error:
            reason = f"Waiting for the workers of NodeSet {namespace}/{name}: {error}"
            raise PartlyDoneError(object_id, self.state_of(inputs, {}, unknown), [reason]) from None
        return self.state_of(inputs, told, state)

    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Scale the NodeSet to nothing, which drains its workers, and wait until they are gone."""
        from crusoe.provider import slurm_drain
        from crusoe.provider.cluster_api import ClusterApi

        cluster_id, namespace, name = _parts(object_id)
        allowed = state.get("drainSeconds")
        seconds = allowed if isinstance(allowed, int) else DRAIN_SECONDS
        if run.session.cluster(cluster_id) is None:
            return
        try:
            with ClusterApi(run.client, cluster_id) as api:
                slurm_drain.drain(run, api, namespace, name, seconds)
        except NotFound:
            return


def _waits(changes: Sequence[Difference]) -> bool:
    return any(change.property != "drainSeconds" for change in changes)


def _parts(object_id: str) -> tuple[str, str, str]:
    parts = object_id.split("/")
    if len(parts) != 3 or not all(parts):
        raise RefusalError(f"{object_id!r} is not the id of a NodeSet's workers: <cluster>/<namespace>/<nodeset>.")
    return parts[0], parts[1], parts[2]


KINDS = (SlurmWorkers(),)
