"""The AutoClusters configuration of a CMK v1 cluster: which issues are repaired, everything else explicitly OFF.

The API merges: an override is set or removed by issue name, and everything else stays. It has no create and no delete,
so creating this resource sets an override for every issue of the cluster's own catalogue, and deleting it takes back
those that it set. Its id is the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from crusoe.client import NotFound
from crusoe.provider import properties
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError
from crusoe.provider.findings import failures
from crusoe.provider.kind import Kind, Reading
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Change, Failure, Flag, ListOf, MapOf, Text
from crusoe.provider.values import UNKNOWN, Value, Values

OFF: Final = "OFF"
ACTIONS: Final = ("REPLACE_NODE", OFF)


@dataclass(frozen=True)
class _Actions(MapOf):
    """Actions by issue, where OFF means the same as leaving the issue out."""

    def changes(self, old: Value, new: Value, path: str) -> Iterator[tuple[str, Change]]:
        """Yield the path of each issue whose action differs."""
        yield from super().changes(_named(old), _named(new), path)


def _named(value: Value) -> Value:
    return {issue: action for issue, action in value.items() if action != OFF} if isinstance(value, dict) else value


@dataclass(frozen=True)
class _Issue:
    """One issue of a cluster's catalogue."""

    name: str
    override: str | None
    effective: str


class AutoClustersConfig(Kind):
    """The AutoClusters configuration of a cluster."""

    name = "AutoClustersConfig"
    title = "AutoClusters configuration"
    description = (
        "Automatic repair on a CMK v1 cluster. Every issue of the cluster's catalogue is set to OFF unless it is named"
        " with REPLACE_NODE. On CMK v2 repairs are set by consentMode of each pool instead."
    )
    properties = (
        Property("clusterId", Text(), "Id of the cluster.", required=True, effect=Effect.REPLACE),
        Property(
            "remediationActions",
            _Actions(Text(ACTIONS)),
            "Issues to repair, such as GPU_FELL_OFF_THE_BUS: REPLACE_NODE; all others are set to OFF.",
            assumed={},
        ),
        Property(
            "fallbackToProjectReservations",
            Flag(),
            "Whether a repair may use the project's own reserved capacity; only sent when given.",
            computed=True,
        ),
    )
    outputs = (
        Output("actions", MapOf(Text()), "Action in effect for every issue of the catalogue.", stable=False),
        Output("overridesSet", ListOf(Text()), "Issues whose override this resource set.", stable=False),
    )

    # Check

    def faults(self, news: Values) -> list[Failure]:
        """Check the form of the issues' names."""
        return _issue_faults(news, None)

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check cluster and issues against the cluster itself, when something changed and the cluster is there."""
        cluster_id = news.get("clusterId")
        if olds == news or not isinstance(cluster_id, str):
            return []
        if session.cluster(cluster_id) is None:
            return [Failure("clusterId", f"there is no Kubernetes cluster {cluster_id} in this project")]
        refused = _version_fault(session, cluster_id)
        if refused:
            return [Failure("clusterId", refused)]
        catalogue = _catalogue(session, cluster_id)
        return _issue_faults(news, catalogue)

    # Preview

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Tell the actions that will be in effect."""
        after = super().planned_update(state, news, changes)
        known = state.get("actions")
        after["actions"] = _wanted(news, known) if isinstance(known, dict) else UNKNOWN
        after["overridesSet"] = UNKNOWN
        return after

    # Operations

    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Set every override."""
        cluster_id = str(inputs["clusterId"])
        if run.session.cluster(cluster_id) is None:
            raise RefusalError(f"There is no Kubernetes cluster {cluster_id} in this project.")
        refused = _version_fault(run.session, cluster_id)
        if refused:
            raise RefusalError(refused)
        return cluster_id, self._set(run, cluster_id, inputs, {})

    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Read the configuration; it is gone with its cluster."""
        config = _config(run, object_id)
        if config is None:
            return None
        actual = self._actual(object_id, config)
        if not inputs and not state:
            found, _ = properties.imported(self.properties, actual)
            return Reading(object_id, found, self.state_of(found, {**actual, "overridesSet": []}))
        return Reading(
            object_id,
            properties.refreshed(self.properties, inputs, actual),
            self.state_of(inputs, actual, state),
        )

    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Set the overrides that differ, new issues included."""
        del changes
        return self._set(run, object_id, news, state)

    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Take back the overrides that this resource set and that are still as it set them."""
        ours, actions = state.get("overridesSet"), state.get("actions")
        recorded = actions if isinstance(actions, dict) else {}
        config = _config(run, object_id)
        if config is None:
            return
        issues = _issues(config)
        mine = [
            issue.name
            for issue in issues
            if isinstance(ours, list)
            and issue.name in ours
            and issue.override is not None
            and issue.override == recorded.get(issue.name)
        ]
        if mine:
            run.progress(f"taking back {len(mine)} AutoClusters overrides")
            run.client.patch(_path(object_id), {"remove_remediation_overrides": mine})

    def _set(self, run: Run, cluster_id: str, inputs: Values, state: Values) -> Values:
        issues = _issues(run.client.get(_path(cluster_id)))
        unknown = _issue_faults(inputs, [issue.name for issue in issues])
        if unknown:
            raise RefusalError(" ".join(f"{fault.path}: {fault.reason}" for fault in unknown))
        wanted = _wanted(inputs, {issue.name: issue.effective for issue in issues})
        differing = [issue.name for issue in issues if issue.override != wanted[issue.name]]
        body: JsonObject = {}
        if differing:
            body["set_remediation_overrides"] = [{"issue_name": name, "action": wanted[name]} for name in differing]
        fallback = inputs.get("fallbackToProjectReservations")
        if isinstance(fallback, bool) and fallback != state.get("fallbackToProjectReservations"):
            body["fallback_to_project_reservations"] = fallback
        if body:
            run.progress("setting the AutoClusters configuration")
            run.client.patch(_path(cluster_id), body)
        before = state.get("overridesSet")
        ours = {*differing, *(str(each) for each in (before if isinstance(before, list) else []))}
        actual = self._actual(cluster_id, run.client.get(_path(cluster_id)))
        return self.state_of(inputs, {**actual, "overridesSet": cast("Value", sorted(ours))}, state)

    def _actual(self, cluster_id: str, config: JsonObject) -> Values:
        effective: dict[str, Value] = {issue.name: issue.effective for issue in _issues(config)}
        actual: Values = {
            "clusterId": cluster_id,
            "remediationActions": _named(effective),
            "actions": effective,
        }
        fallback = config.get("fallback_to_project_reservations")
        if isinstance(fallback, bool):
            actual["fallbackToProjectReservations"] = fallback
        return actual


def _path(cluster_id: str) -> str:
    return f"kubernetes/clusters/{cluster_id}/autoclusters/config"


def _config(run: Run, cluster_id: str) -> JsonObject | None:
    """GET the configuration; None when the cluster is gone, or has none any more.

    Raises:
        RefusalError: the API does not find it although the cluster is there, and what was set would be forgotten.
    """
    try:
        return run.client.get(_path(cluster_id))
    except NotFound as error:
        run.session.forget_cluster(cluster_id)
        if run.session.cluster(cluster_id) is None or _version_fault(run.session, cluster_id):
            return None
        raise RefusalError(run.about(f"{error} The cluster {cluster_id} is there, so it stays in the state.")) from None


def _issues(config: JsonObject) -> list[_Issue]:
    rows = cast("list[object]", config.get("remediation_configs") or [])
    found: list[_Issue] = []
    for row in rows:
        fields = cast("JsonObject", row) if isinstance(row, dict) else {}
        name = text(fields, "issue_name")
        if name:
            override = text(fields, "user_override")
            effective = text(fields, "effective_action") or override or text(fields, "default_action") or OFF
            found.append(_Issue(name, override, effective))
    return found


def _catalogue(session: Session, cluster_id: str) -> list[str]:
    return [issue.name for issue in _issues(session.client.get(_path(cluster_id)))]


def _issue_faults(inputs: Values, known: Sequence[str] | None) -> list[Failure]:
    """Return what is wrong with the issues' names; the shape of the property checks the actions.

    The path is the property's own, because the engine shows the value at it and finds none at a path inside.
    """
    from crusoe.rules import autoclusters as rules

    asked = inputs.get("remediationActions")
    issues = dict.fromkeys(asked if isinstance(asked, dict) else (), OFF)
    found = failures(rules.actions("remediationActions", issues, known))
    return [Failure("remediationActions", one.reason) for one in found]


def _wanted(inputs: Values, issues: Mapping[str, Value]) -> Values:
    """Return the action to set for each issue of the catalogue."""
    asked = inputs.get("remediationActions")
    named = asked if isinstance(asked, dict) else {}
    return {issue: named.get(issue, OFF) for issue in issues}


def _version_fault(session: Session, cluster_id: str) -> str | None:
    """Return why this cluster can't have the configuration: CMK v2, or a version without the feature."""
    from crusoe.rules import autoclusters as rules

    cluster = session.cluster(cluster_id)
    version = text(cluster, "version") if cluster is not None else None
    found = rules.version("clusterId", version, _features(session, version))
    return f"{found[0].problem}. {found[0].fix}." if found else None


def _features(session: Session, version: str | None) -> list[str] | None:
    """Return the version's features as the API lists them; None when it doesn't list the version."""
    answer = session.client.get("kubernetes/versions", show_deprecated="true")
    for row in cast("list[object]", answer.get("kubernetes_cluster_versions") or []):
        fields = cast("JsonObject", row) if isinstance(row, dict) else {}
        if text(fields, "cluster_version_name") == version:
            listed = fields.get("supported_features")
            return [str(each) for each in cast("list[object]", listed)] if isinstance(listed, list) else None
    return None


KINDS = (AutoClustersConfig(),)
