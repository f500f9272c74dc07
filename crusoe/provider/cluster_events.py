"""Why something does not get ready: the newest warnings among a cluster's events, and what helps against them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from crusoe.client.answers import as_object
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError
from crusoe.provider.slinky_objects import items

if TYPE_CHECKING:
    from crusoe.provider.cluster_api import ClusterApi

SHOWN: Final = 3
LONGEST: Final = 200

_IMAGE: Final = "Check the image's name, and that the nodes may pull it."
_VOLUME: Final = "Check that the Secrets, ConfigMaps, claims and the StorageClass that it names exist."
_FIXES: Final = {
    "FailedScheduling": "Add or free nodes that fit, or loosen what the pod asks for.",
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "InspectFailed": _IMAGE,
    "FailedMount": _VOLUME,
    "FailedAttachVolume": _VOLUME,
    "ProvisioningFailed": _VOLUME,
    "FailedBinding": _VOLUME,
    "Unhealthy": "Look at the pod's log.",
    "ControllerRefFailed": "Declare the Controller that it names.",
    "SyncFinalizerFailed": "See that slurmrestd and slurmctld run: without them the operator changes no workers.",
    "SyncFailed": "Correct what the message names; with slurmrestd or slurmctld down, see to those first.",
    "CreateFailed": "Correct what the message names.",
    "FailedCreate": "Correct what the message names.",
}


def told(api: ClusterApi, namespace: str, names: Collection[str]) -> str:
    """Return, as sentences, the newest warnings about objects of these names and what their names begin.

    A pod `train-0` belongs to `train`, and so does a claim `data-train-0`. Never raises for want of events.
    """
    where = f"/api/v1/namespaces/{quote(namespace, safe='')}/events?fieldSelector=type%3DWarning"
    try:
        return sentences(items(api, where), names)
    except RefusalError:
        return "Its events can't be read."


def sentences(events: Iterable[JsonObject], names: Collection[str]) -> str:
    """Put the newest warnings into words, each object and reason once, with what helps against the newest."""
    found: dict[tuple[str, str, str], str] = {}
    for event in sorted(events, key=_when, reverse=True):
        about = as_object(event.get("involvedObject"))
        kind, name, reason = text(about, "kind") or "", text(about, "name") or "", text(event, "reason") or ""
        if text(event, "type") in {"Warning", None} and _concerns(name, names):
            message = " ".join((text(event, "message") or "").split())
            found.setdefault((kind, name, reason), message if len(message) <= LONGEST else f"{message[:LONGEST]}…")
    if not found:
        return "No warning is recorded about it; see that its operator runs."
    newest = list(found.items())[:SHOWN]
    shown = "; ".join(f"{kind} {name}: {reason}: {message.rstrip('.')}" for (kind, name, reason), message in newest)
    fixes = (_fix(reason, message) for (_, _, reason), message in newest)
    return f"Newest warnings: {shown}. {next((fix for fix in fixes if fix), '')}".rstrip()


def _fix(reason: str, message: str) -> str:
    if reason in {"Failed", "BackOff"}:
        return _IMAGE if "pull" in message.lower() or "image" in message.lower() else "Look at the pod's log."
    return _FIXES.get(reason, "")


def _concerns(name: str, names: Collection[str]) -> bool:
    return any(name == one or name.startswith(f"{one}-") or f"-{one}-" in name for one in names)


def _when(event: JsonObject) -> str:
    """Return when an event was seen last, to the second; which field tells depends on who wrote it."""
    moments = (
        text(as_object(event.get("series")), "lastObservedTime"),
        text(event, "lastTimestamp"),
        text(event, "eventTime"),
        text(as_object(event.get("metadata")), "creationTimestamp"),
    )
    return next((moment[:19] for moment in moments if moment), "")
