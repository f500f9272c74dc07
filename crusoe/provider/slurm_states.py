"""The states and issues of Managed Slurm's clusters and node sets.

Both have the states PROVISIONING, RUNNING, UPDATING, UNHEALTHY, DELETING, DELETED, CREATE_FAILED and DELETE_FAILED,
clusters FAILED too (API description of 2026-07-20). What is wrong is told in `issues`, not in the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from crusoe.client import CrusoeError, OperationFailed
from crusoe.client.answers import as_object
from crusoe.provider.existing import JsonObject, text

if TYPE_CHECKING:
    from crusoe.provider.objects import ApiObject
    from crusoe.provider.run import Run
    from crusoe.provider.values import Values


def state_of(fields: JsonObject) -> str:
    """Return the state in capitals, such as `RUNNING`; empty when there is none."""
    return (text(fields, "state") or "").upper()


def has_failed(fields: JsonObject) -> bool:
    """Say whether a cluster or node set has failed for good or is being deleted."""
    return "FAIL" in state_of(fields) or "DELET" in state_of(fields)


def issues_of(fields: JsonObject) -> str:
    """Return the issues of a cluster or node set as a sentence with a space before it; empty when there are none."""
    listed = fields.get("issues")
    rows = cast("list[object]", listed) if isinstance(listed, list) else []
    parts = [[text(issue, "code"), text(issue, "message")] for row in rows if (issue := as_object(row))]
    told = [": ".join(filter(None, pair)).rstrip(".") for pair in parts if any(pair)]
    return f" Crusoe says {'; '.join(told)}." if told else ""


def issues_left(kind: ApiObject, run: Run, inputs: Values, error: CrusoeError) -> str:
    """Return, as a sentence, the issues of what a failed create has left behind."""
    if not isinstance(error, OperationFailed):
        return ""
    try:
        left = run.existing.find(kind.collection, str(inputs.get("name")), since=run.now)
    except CrusoeError:
        return ""
    return issues_of(left[0]) if left else ""
