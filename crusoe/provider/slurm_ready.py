"""Waiting for Slinky's parts: releases run, the webhook answers, and what the operator makes is ready.

The operator sets no condition on its objects, so what it makes of them is waited for. An object written before the
webhook answers may stop the operator for good (Slinky 1.2.1), and a Deployment that is available is no proof: so a
NodeSet that only the webhook refuses is sent as a dry run. This resource makes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final, cast

from crusoe.client import Cancelled, CrusoeError
from crusoe.provider import properties, slinky_objects
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.kind import Kind, Reading
from crusoe.provider.properties import Difference, Effect, Property
from crusoe.provider.run import Run
from crusoe.provider.shapes import Field, ListOf, MapOf, Record, Text, Whole
from crusoe.provider.slinky_objects import CHILDREN, RELEASE
from crusoe.provider.values import Values

if TYPE_CHECKING:
    from crusoe.provider.cluster_api import ClusterApi

WAIT_SECONDS: Final = 600
PROBE_NAMESPACE: Final = "slurm"
WEBHOOK: Final = "Webhook"

_PROBE: Final[JsonObject] = {
    "apiVersion": "slinky.slurm.net/v1beta1",
    "kind": "NodeSet",
    "metadata": {"name": "is-the-webhook-there"},
    "spec": {"controllerRef": {}},
}
"""Fits the schema, and is refused by the webhook: `controllerRef.name must not be empty` (Slinky 1.2.1, observed)."""


class SlurmReady(Kind):
    """Slinky's webhook and control part are ready."""

    name = "SlurmReady"
    title = "readiness of Slurm"
    description = (
        "Stands for Slinky's webhook and the objects of the control part being ready, and makes nothing: creating or"
        " updating it waits for them, in bounded time, and says what is in the way. The id is that of the cluster."
    )
    seconds: ClassVar[Mapping[str, float]] = {"create": 86_400, "update": 86_400, "delete": 60, "read": 120}
    delete_before_replace = False
    properties = (
        Property("clusterId", Text(), "Id of the CMK cluster.", required=True, effect=Effect.REPLACE),
        Property(
            "waitFor",
            ListOf(
                Record(
                    "SlurmReadyObject",
                    (
                        Field(
                            "kind",
                            Text((*CHILDREN, RELEASE)),
                            "Controller, RestApi, Accounting or LoginSet, for what is made of it; Webhook (by its"
                            " Deployment), which has to answer too; Release, for all Deployments of a Helm release; or"
                            " a Deployment or StatefulSet.",
                            required=True,
                        ),
                        Field("namespace", Text(), "Namespace.", required=True),
                        Field("name", Text(), "Name of the object, of the webhook's Deployment.", required=True),
                    ),
                )
            ),
            "What to wait for.",
            write_only=True,
            assumed=[],
        ),
        Property(
            "probeNamespace",
            Text(),
            "Namespace in which the webhook has to answer; slurm when left out.",
            write_only=True,
            assumed=PROBE_NAMESPACE,
        ),
        Property("triggers", MapOf(Text()), "Any values whose change has it wait again.", write_only=True, assumed={}),
        Property(
            "waitSeconds",
            Whole(),
            f"For how long to wait, for all together; {WAIT_SECONDS} when left out.",
            effect=Effect.LOCAL,
            assumed=WAIT_SECONDS,
        ),
    )

    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Wait."""
        object_id = str(inputs["clusterId"])
        return object_id, self._waited(run, object_id, inputs)

    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Keep what is recorded; it is gone with its cluster."""
        if run.session.cluster(object_id) is None:
            return None
        if state or inputs:
            return Reading(object_id, inputs, state)
        found, unread = properties.imported(self.properties, {"clusterId": object_id})
        return Reading(object_id, found, self.state_of(found, {}, {properties.UNREAD: [*unread]}))

    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Wait again."""
        del state, changes
        return self._waited(run, object_id, news)

    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Forget it, which the engine does."""
        del run, object_id, state

    def _waited(self, run: Run, object_id: str, inputs: Values) -> Values:
        from crusoe.provider.cluster_api import ClusterApi

        gaps: dict[_One, str] = {}
        try:
            with ClusterApi(run.client, object_id) as api:
                _wait(run, api, inputs, gaps)
        except Cancelled:
            left = f" ({_listed(gaps)})" if gaps else ""
            reason = f"The run was cancelled while Slurm's parts were waited for{left}."
            raise PartlyDoneError(object_id, self.state_of(inputs, {}), [reason]) from None
        except (CrusoeError, RefusalError) as error:
            told = f"Waiting for Slurm's parts in cluster {object_id}: {error}"
            raise PartlyDoneError(object_id, self.state_of(inputs, {}), [told]) from None
        return self.state_of(inputs, {})


_One = tuple[str, str, str]
"""Kind, namespace and name of one thing to wait for."""


def _wait(run: Run, api: ClusterApi, inputs: Values, gaps: dict[_One, str]) -> None:
    """Wait until nothing is lacking; `gaps` holds what was at the last look.

    Raises:
        RefusalError: not in time.
    """
    wait, listed, probe = (inputs.get(name) for name in ("waitSeconds", "waitFor", "probeNamespace"))
    seconds = min(wait if isinstance(wait, int) else WAIT_SECONDS, int(run.left))
    rows = [cast("dict[str, str]", each) for each in listed] if isinstance(listed, list) else []

    def look() -> bool | None:
        gaps.clear()
        for row in rows:
            one = row["kind"], row["namespace"], row["name"]
            if lacking := _lacking(api, one, probe if isinstance(probe, str) else PROBE_NAMESPACE):
                gaps[one] = lacking
        if gaps:
            run.progress(f"waiting for {_listed(gaps)}")
        return None if gaps else True

    if not slinky_objects.until(run, look, seconds):
        raise RefusalError(_short(api, gaps, seconds))


def _lacking(api: ClusterApi, one: _One, probe: str) -> str | None:
    """Return what is not there yet of one thing to wait for, None when it is ready."""
    kind, namespace, name = one
    if kind == RELEASE:
        return slinky_objects.release_gap(api, namespace, name)
    child, pattern = CHILDREN[kind]
    child_name = pattern.format(name)
    lacking = slinky_objects.gap(child, slinky_objects.fetch(api, child, namespace, child_name))
    if lacking is not None:
        return lacking if child == kind else f"{child} {child_name}: {lacking}"
    return _silent(api, probe) if kind == WEBHOOK else None


def _silent(api: ClusterApi, namespace: str) -> str | None:
    """Ask whether the webhook answers; None when it does, else what happens instead."""
    where = slinky_objects.collection("NodeSet", namespace)
    status, answer = api.ask("POST", f"{where}?dryRun=All", _PROBE)
    said = text(answer, "message") or f"HTTP {status}"
    if status < HTTPStatus.BAD_REQUEST:
        return f"no webhook refuses a wrong NodeSet in the namespace {namespace}"
    return None if "denied the request" in said else f"a NodeSet can't be tried out: {said}"


def _short(api: ClusterApi, gaps: Mapping[_One, str], seconds: int) -> str:
    from crusoe.provider import cluster_events

    by_namespace: dict[str, list[str]] = {}
    for kind, namespace, name in gaps:
        child = name if kind == RELEASE else CHILDREN[kind][1].format(name)
        by_namespace.setdefault(namespace, []).extend(dict.fromkeys((child, name)))
    told = [cluster_events.told(api, namespace, names) for namespace, names in by_namespace.items()]
    return f"Not ready after {seconds} s: {_listed(gaps)}. {' '.join(dict.fromkeys(told))}"


def _listed(gaps: Mapping[_One, str]) -> str:
    return "; ".join(f"{kind} {space}/{name}: {lacking}" for (kind, space, name), lacking in gaps.items()).rstrip(".")


KINDS = (SlurmReady(),)
