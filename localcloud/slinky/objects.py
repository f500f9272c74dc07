"""Writing the objects that a custom resource owns, and telling of failures by events.

An object is written again only when what it should be has changed, or somebody else has changed it. What was written is
remembered in memory alone: after a restart everything is applied once more, which changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.kubernetes.api_server import ApiServer
from localcloud.slinky.kinds import EVENTS, KINDS
from localcloud.slinky.values import Object, digest, items, name_of, part

_LOG = logging.getLogger(__name__)
MANAGER = "slurm-operator"


class ReconcileError(Exception):
    """A custom resource could not be made true; `reason` is that of the event, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the event's reason beside the text."""
        super().__init__(message)
        self.reason = reason


class Objects:
    """The objects of one cluster, as the operator writes them."""

    def __init__(self, api: ApiServer, manager: str = MANAGER) -> None:
        """`manager` is the name that managed fields and events show."""
        self._api = api
        self._manager = manager
        self._applied: dict[str, tuple[str, str]] = {}

    def apply(self, item: Object) -> Object:
        """Create or correct an object; answers it as stored."""
        path = path_of(item)
        live = self._api.get(path)
        if live is not None and item["kind"] == "StatefulSet":
            # It can't change, and the operator doesn't try: a new size or class is silently ignored.
            spec = {key: value for key, value in item["spec"].items() if key != "volumeClaimTemplates"}
            claims = items(live, "spec", "volumeClaimTemplates")
            item = {**item, "spec": {**spec, **({"volumeClaimTemplates": claims} if claims else {})}}
        wanted = digest(item)
        if live is not None and self._applied.get(path) == (wanted, _mark(live)):
            return live
        stored = self._api.apply(item, path, manager=self._manager)
        self._applied[path] = (wanted, _mark(stored))
        return stored

    def warn(self, about: Mapping[str, Any], reason: str, message: str) -> None:
        """Leave a Warning event on an object; one that repeats is counted."""
        namespace = about["metadata"]["namespace"]
        name = f"{name_of(about)}.{digest(about['metadata']['uid'], reason, message)}"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = EVENTS.path(namespace, name)
        if live := self._api.get(path):
            self._api.merge(path, {"count": live.get("count", 1) + 1, "lastTimestamp": now})
            return
        self._api.create(
            EVENTS.path(namespace),
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "name": name_of(about),
                    "namespace": namespace,
                    "uid": about["metadata"]["uid"],
                },
                "type": "Warning",
                "reason": reason,
                "message": message[:1024],
                "source": {"component": self._manager},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )


def owned(item: Object, owner: Mapping[str, Any]) -> Object:
    """The object with this owner, in the owner's namespace: it goes when the owner goes."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        **part(item, "metadata"),
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [reference],
    }
    return {**item, "metadata": metadata}


def owned_by(item: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether an object belongs to exactly this owner."""
    return any(each.get("uid") == owner["metadata"]["uid"] for each in items(item, "metadata", "ownerReferences"))


def path_of(item: Mapping[str, Any]) -> str:
    """Where the API server keeps an object of one of our kinds."""
    return KINDS[item["kind"]].path(item["metadata"].get("namespace"), name_of(item))


def _mark(live: Mapping[str, Any]) -> str:
    """What changes when somebody changes the object's contents; its status alone doesn't count where that shows."""
    metadata = live["metadata"]
    return f"{metadata['uid']} {metadata.get('generation') or metadata['resourceVersion']}"
