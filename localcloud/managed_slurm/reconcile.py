"""One pass of Crusoe's Slurm operator over a cluster: what is missing is made, what is seen is told.

Nothing is kept in memory: an object carries the digest of what it was last made from, so that a pass writes only where
something has changed, and edits by people stay where the operator has nothing new to say. The SlurmCluster is made once
and belongs to people from then on; the login Service follows it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from localcloud.kubernetes.api_server import PODS, ApiError, ApiServer, Kind
from localcloud.managed_slurm import identities, objects, slinky
from localcloud.managed_slurm.definitions import API_VERSION, definitions
from localcloud.managed_slurm.records import NAMESPACE, SlurmSpec, SlurmStatus

Object = dict[str, Any]

_DIGEST = "local.crusoe.ai/digest"
_KINDS: Mapping[tuple[str, str], Kind] = {**objects.KINDS, **slinky.KINDS}
_PLAIN = [("apps/v1", "StatefulSet"), ("apps/v1", "Deployment")]
_NEW_KIND_SECONDS, _PAUSE_SECONDS = 10.0, 0.1


def reconcile(api: ApiServer, spec: SlurmSpec) -> SlurmStatus:
    """Make a Slurm cluster true in its Kubernetes cluster, and answer what runs; raises ControlPlaneError."""
    for item in (*objects.namespaces(), *definitions()):
        _ensure(api, item)
    cluster = _cluster(api, spec)
    for purpose, key in (("slurm", "slurm.key"), ("jwths256", "jwt_hs256.key")):
        secret = base64.b64encode(secrets.token_bytes(1024)).decode()
        _create(api, objects.key_secret(spec, purpose, key, secret))
    for item in objects.home(spec):
        _create(api, item)
    _put_back(api, objects.default_checks(spec))
    _ensure(api, objects.login_service(spec, cluster))
    _ensure_workloads(api, spec, cluster)
    status = _seen(api, spec, cluster)
    _tell_cluster(api, cluster, status)
    _tell_people(api, spec)
    return status


def path_of(item: Object) -> str:
    """The path of an object of one of the kinds that are used here."""
    kind = _KINDS[item["apiVersion"], item["kind"]]
    return kind.path(item["metadata"].get("namespace"), item["metadata"]["name"])


def _cluster(api: ApiServer, spec: SlurmSpec) -> Object:
    wanted = objects.slurm_cluster(spec)
    _create(api, wanted)
    found = api.get(path_of(wanted))
    # Someone may have deleted it this moment; the next pass makes it again.
    return found or wanted


def _ensure_workloads(api: ApiServer, spec: SlurmSpec, cluster: Object) -> None:
    """Make what runs the pods, by Slinky's kinds where they are installed, and take away what is no longer wanted."""
    definition = _KINDS["apiextensions.k8s.io/v1", "CustomResourceDefinition"]
    by_slinky = api.get(definition.path(name=slinky.DEFINITION)) is not None
    wanted = slinky.workloads(spec, cluster) if by_slinky else objects.workloads(spec, cluster)
    keep = {path_of(item) for item in wanted}
    selector = ",".join(f"{key}={value}" for key, value in objects.labels(spec).items())
    for api_version, name in [*_PLAIN, *(slinky.KINDS if by_slinky else ())]:
        kind = _KINDS[api_version, name]
        for item in api.list(kind.path(NAMESPACE), labelSelector=selector):
            path = kind.path(NAMESPACE, item["metadata"]["name"])
            # What Slinky makes of an object inherits its labels, and goes with it.
            if path not in keep and "ownerReferences" not in item["metadata"]:
                api.delete(path)
    for item in wanted:
        _ensure(api, item)


def _seen(api: ApiServer, spec: SlurmSpec, cluster: Object) -> SlurmStatus:
    pods = api.list(PODS.path(NAMESPACE), labelSelector=f"{objects.OF_CLUSTER}={spec.name}")
    ready = [pod for pod in pods if _is_ready(pod)]
    nodes: dict[str, set[str]] = {}
    for pod in _of(ready, objects.WORKER):
        name = pod["metadata"]["labels"].get(objects.NODE_SET, "")
        nodes.setdefault(name, set()).add(pod["spec"]["nodeName"])
    service = api.get(objects.KINDS["v1", "Service"].path(NAMESPACE, objects.login_name(spec.name))) or {}
    addresses = service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
    return SlurmStatus(
        login_endpoint=addresses[0].get("ip", "") if addresses else "",
        login_ready=len(_of(ready, objects.LOGIN)),
        controller_ready=bool(_of(ready, objects.CONTROLLER)),
        ready={node_set.name: len(nodes.get(node_set.name, ())) for node_set in spec.node_sets},
        login_ranges=tuple(objects.login_ranges(cluster)),
    )


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    there = "deletionTimestamp" not in pod["metadata"] and "nodeName" in pod["spec"]
    return there and any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _of(pods: Iterable[Object], component: str) -> list[Object]:
    return [pod for pod in pods if pod["metadata"]["labels"].get(objects.COMPONENT) == component]


# Statuses -----------------------------------------------------------------------------------------------------------


def _tell_cluster(api: ApiServer, cluster: Object, status: SlurmStatus) -> None:
    problem = None
    if not status.controller_ready:
        problem = ("ControllerNotReady", "the Slurm controller does not run")
    elif status.login_ready < cluster["spec"]["loginSet"]["replicas"]:
        problem = ("LoginNotReady", f"{status.login_ready} login pods run")
    node_sets = [{"name": name, "readyNodes": count} for name, count in status.ready.items()]
    _tell(api, cluster, {"loginEndpoint": status.login_endpoint, "nodeSets": node_sets}, problem)


def _tell_people(api: ApiServer, spec: SlurmSpec) -> None:
    """Give users and groups their ids, and say which of them belong to no cluster or name nobody."""
    users = _all(api, "SlurmUser")
    groups = _all(api, "SlurmUserGroup")
    user_ids = identities.assigned(users, "uid", identities.USER_IDS)
    group_ids = identities.assigned(groups, "gid", identities.GROUP_IDS)
    for user in users:
        _tell_id(api, user, "uid", user_ids, identities.user_problem(user, spec.name))
    for group in groups:
        _tell_id(api, group, "gid", group_ids, identities.group_problem(group, spec.name, users))


def _tell_id(
    api: ApiServer, item: Object, field: str, ids: Mapping[str, int | None], problem: tuple[str, str] | None
) -> None:
    number = ids[item["metadata"]["name"]]
    if number is None:
        _tell(api, item, {}, ("NoIdLeft", f"every {field} of the range is taken"))
    else:
        _tell(api, item, {field: number}, problem)


def _tell(api: ApiServer, item: Object, values: Object, problem: tuple[str, str] | None) -> None:
    """Set a status with its condition Ready; nothing is written when it says all that already."""
    before = item.get("status", {})
    reason, message = problem or ("Ready", "")
    condition: Object = {
        "type": "Ready",
        "status": "False" if problem else "True",
        "reason": reason,
        "message": message,
    }
    told = [{key: one.get(key) for key in condition} for one in before.get("conditions", [])]
    if told == [condition] and all(before.get(key) == value for key, value in values.items()):
        return
    condition["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    api.merge(f"{path_of(item)}/status", {"status": {**values, "conditions": [condition]}})


def _all(api: ApiServer, kind: str) -> list[Object]:
    # Items of a list don't say what kind they are.
    items = api.list(_KINDS[API_VERSION, kind].path(NAMESPACE))
    return [{**item, "apiVersion": API_VERSION, "kind": kind} for item in items]


# Objects ------------------------------------------------------------------------------------------------------------


def _ensure(api: ApiServer, item: Object) -> None:
    """Apply an object unless it was last made from the same."""
    digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:16]
    found = api.get(path_of(item))
    if found is not None and found["metadata"].get("annotations", {}).get(_DIGEST) == digest:
        return
    annotations = {**item["metadata"].get("annotations", {}), _DIGEST: digest}
    marked = {**item, "metadata": {**item["metadata"], "annotations": annotations}}
    _when_served(lambda: api.apply(marked, path_of(item)))


def _put_back(api: ApiServer, item: Object) -> None:
    """Apply an object whose specification is nobody's but the operator's."""
    found = api.get(path_of(item))
    if found is None or found["spec"] != item["spec"]:
        _when_served(lambda: api.apply(item, path_of(item)))


def _create(api: ApiServer, item: Object) -> None:
    """Make an object that is people's, or random, from then on."""
    path = path_of(item)
    if api.get(path) is None:
        _when_served(lambda: api.create(path.rpartition("/")[0], item))


def _when_served(write: Callable[[], object]) -> None:
    """Write an object; of a kind that was defined a moment ago it is tried again until the API serves the kind."""
    deadline = time.monotonic() + _NEW_KIND_SECONDS
    while True:
        try:
            write()
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
