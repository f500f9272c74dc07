"""What the actors in a cluster share: kinds, quantities, events."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from localcloud.kubernetes.api_server import ApiServer, Kind

Object = dict[str, Any]

CLAIMS = Kind("v1", "persistentvolumeclaims", namespaced=True)
VOLUMES = Kind("v1", "persistentvolumes", namespaced=False)
CLASSES = Kind("storage.k8s.io/v1", "storageclasses", namespaced=False)
ATTACHMENTS = Kind("storage.k8s.io/v1", "volumeattachments", namespaced=False)
DEPLOYMENTS = Kind("apps/v1", "deployments", namespaced=True)
SERVICES = Kind("v1", "services", namespaced=True)
SLICES = Kind("discovery.k8s.io/v1", "endpointslices", namespaced=True)
_EVENTS = Kind("v1", "events", namespaced=True)

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(m|[kMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)}


def quantity(text: str) -> Decimal:
    """A Kubernetes quantity such as `100Gi`, `1.5T` or `500m` as a number; raises ValueError."""
    parts = _QUANTITY.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a quantity such as 100Gi")
    number, suffix = parts[1], parts[2] or ""
    if suffix == "m":
        return Decimal(number) / 1000
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return Decimal(number + suffix)
    return Decimal(number) * {**_BINARY, **_DECIMAL, "": Decimal(1)}[suffix]


def annotation(item: Object, name: str) -> str | None:
    """An annotation's value, or None."""
    return item["metadata"].get("annotations", {}).get(name)


def finalizers(item: Object) -> list[str]:
    """An object's finalizers."""
    return item["metadata"].get("finalizers", [])


def deleting(item: Object) -> bool:
    """Whether an object waits for its finalizers only."""
    return "deletionTimestamp" in item["metadata"]


def with_finalizers(item: Object, names: list[str]) -> Object:
    """A merge patch that sets the finalizers, refused by the API server if the object has changed meanwhile."""
    return {"metadata": {"finalizers": names, "resourceVersion": item["metadata"]["resourceVersion"]}}


def tell(api: ApiServer, item: Object, component: str, reason: str, message: str, *, warning: bool = True) -> None:
    """Record a Kubernetes event about an object; the same words about the same object once only."""
    metadata: Mapping[str, str] = item["metadata"]
    namespace = metadata.get("namespace", "default")
    digest = hashlib.sha256(f"{metadata['uid']} {reason} {message}".encode()).hexdigest()[:16]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": item["apiVersion"],
            "kind": item["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            **({"namespace": namespace} if "namespace" in metadata else {}),
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "source": {"component": component},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    api.create(_EVENTS.path(namespace), event)
