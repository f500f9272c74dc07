"""What AutoClusters tells, and the webhook that it is told to.

Crusoe's API has models of notification preferences and webhook endpoints, but no published path and no published body;
both are the local cloud's own here.
"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from localcloud.autoclusters.incidents import Incident

Kind = Literal[
    "issue_detected", "remediation_started", "remediation_succeeded", "remediation_failed", "remediation_skipped"
]
KINDS: dict[Kind, str] = {
    "issue_detected": "A fault was detected.",
    "remediation_started": "The node takes no more pods, and will be replaced.",
    "remediation_succeeded": "The node was replaced.",
    "remediation_failed": "The node could not be replaced.",
    "remediation_skipped": "The node is not replaced.",
}
"""What is told, with its text."""

TRIES = 60
"""Tries to deliver a notice, about one a second, before it is given up."""

_SECONDS = 2.0


def notice(kind: Kind, incident: Incident, message: str, *, at: str) -> dict[str, Any]:
    """The body of a notice; `at` is a time of the cloud's clock."""
    return {
        "type": f"autoclusters.{kind}",
        "time": at,
        "cluster_id": incident.cluster_id,
        "vm_id": incident.vm_id,
        "node": incident.node,
        "issue_name": incident.issue,
        "operation_id": incident.operation_id,
        "message": message,
    }


def deliver(url: str, body: dict[str, Any]) -> bool:
    """POST a notice once; whether it was taken (2xx). A receiver that hangs costs two seconds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_SECONDS)
    try:
        connection.request("POST", parts.path or "/", json.dumps(body), {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return http.client.OK <= status < http.client.MULTIPLE_CHOICES
