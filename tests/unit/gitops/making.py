"""Events as the engine writes them, for plans that no kept preview has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gitops import events, plan
from gitops.plan import Reviewed

SECRET_KEY = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
POOL = "crusoe:index:KubernetesNodePool"
DISK = "crusoe:index:StorageDisk"

Json = dict[str, Any]


def secret(value: object = None) -> Json:
    """A secret as the engine blinds it; with a value as a stack's export in clear would have it."""
    told: Json = {SECRET_KEY: SECRET, "ciphertext": "[secret]"}
    return told if value is None else {**told, "plaintext": json.dumps(value)}


def urn(kind: str, name: str, parents: str = "") -> str:
    return f"urn:pulumi:prod::shop::{f'{parents}$' if parents else ''}{kind}::{name}"


def state(
    kind: str,
    name: str,
    inputs: Mapping[str, object],
    outputs: Mapping[str, object] | None = None,
    parents: str = "",
    **more: Any,
) -> Json:
    outputs = inputs if outputs is None else outputs
    return {
        "type": kind,
        "urn": urn(kind, name, parents),
        "custom": True,
        "id": f"id-of-{name}",
        "parent": "",
        "provider": "",
        "inputs": dict(inputs),
        "outputs": dict(outputs),
        **more,
    }


def step(op: str, old: Json | None, new: Json | None, detailed: Mapping[str, str] | None = None, **more: Any) -> Json:
    side = new or old
    assert side
    diff = (
        None if detailed is None else {path: {"diffKind": kind, "inputDiff": True} for path, kind in detailed.items()}
    )
    metadata = {
        "op": op,
        "urn": side["urn"],
        "type": side["type"],
        "old": old,
        "new": new,
        "detailedDiff": diff,
        **more,
    }
    return {"sequence": 1, "resourcePreEvent": {"metadata": metadata, "planning": True}}


def diagnostic(message: str, severity: str = "error") -> Json:
    return {"sequence": 1, "diagnosticEvent": {"message": message, "severity": severity, "color": "never"}}


def violation(message: str, level: str = "mandatory", **more: Any) -> Json:
    told = {"message": message, "enforcementLevel": level, "policyName": "p", "policyPackName": "house", **more}
    return {"sequence": 1, "policyEvent": told}


def summary(result: str = "succeeded", **more: Any) -> Json:
    return {"sequence": 9, "summaryEvent": {"isPreview": True, "result": result, "durationSeconds": 3, **more}}


def review(told: Sequence[Json], status: int = 0, labels: Sequence[str] = ()) -> Reviewed:
    preview = events.read([json.dumps(one) for one in told])
    return plan.review(preview, project="shop", stack="prod", status=status, labels=labels)


def reviewed(*steps: Json, labels: Sequence[str] = ()) -> Reviewed:
    """The review of a preview that ended well."""
    return review([*steps, summary()], labels=labels)
