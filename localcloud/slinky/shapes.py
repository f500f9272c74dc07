"""The types of fields that the custom resources' schemas leave open: containers, pod and service specs, claims.

The API server stores there whatever it is given. The webhook, and later the operator, read it into typed structures,
where a wrong type is an error and an unknown field is dropped. Only fields whose type is often got wrong are known
here, so a few that the real one refuses get past.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

Plain = Literal["string", "integer", "boolean", "quantity"]
Shape: TypeAlias = "Plain | list[Shape] | Mapping[str, Shape]"
"""A type: a plain one, `[item]` for a list, a mapping by field, where the field `*` stands for any name."""

_WORDS: Shape = {"*": "string"}
_ANY: Shape = {}
_OBJECTS: Shape = [_ANY]

CONTAINER: Shape = {
    **dict[str, Shape].fromkeys(("name", "image", "workingDir", "imagePullPolicy", "restartPolicy"), "string"),
    **dict[str, Shape].fromkeys(("stdin", "tty"), "boolean"),
    "command": ["string"],
    "args": ["string"],
    "env": [{"name": "string", "value": "string", "valueFrom": _ANY}],
    "envFrom": _OBJECTS,
    "ports": [{"name": "string", "containerPort": "integer", "protocol": "string"}],
    "resources": {"limits": {"*": "quantity"}, "requests": {"*": "quantity"}},
    "volumeMounts": [{"name": "string", "mountPath": "string", "subPath": "string", "readOnly": "boolean"}],
    "lifecycle": {"preStop": {"exec": {"command": ["string"]}}, "postStart": {"exec": {"command": ["string"]}}},
    "livenessProbe": _ANY,
    "readinessProbe": _ANY,
    "startupProbe": _ANY,
    "securityContext": {"privileged": "boolean", "runAsUser": "integer", "capabilities": {"add": ["string"]}},
}

POD_SPEC: Shape = {
    **dict[str, Shape].fromkeys(
        (
            "dnsPolicy",
            "hostname",
            "nodeName",
            "priorityClassName",
            "runtimeClassName",
            "schedulerName",
            "serviceAccountName",
            "subdomain",
        ),
        "string",
    ),
    **dict[str, Shape].fromkeys(
        ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "automountServiceAccountToken"), "boolean"
    ),
    "terminationGracePeriodSeconds": "integer",
    "nodeSelector": _WORDS,
    "affinity": {"nodeAffinity": _ANY, "podAffinity": _ANY, "podAntiAffinity": _ANY},
    "tolerations": [
        {"key": "string", "operator": "string", "value": "string", "effect": "string", "tolerationSeconds": "integer"}
    ],
    "topologySpreadConstraints": _OBJECTS,
    "imagePullSecrets": [{"name": "string"}],
    "hostAliases": _OBJECTS,
    "dnsConfig": _ANY,
    "securityContext": {"runAsUser": "integer", "runAsGroup": "integer", "fsGroup": "integer"},
    "volumes": _OBJECTS,
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "resourceClaims": _OBJECTS,
}

SERVICE_SPEC: Shape = {
    **dict[str, Shape].fromkeys(("type", "clusterIP", "externalTrafficPolicy", "loadBalancerClass"), "string"),
    "ports": [{"name": "string", "port": "integer", "nodePort": "integer", "protocol": "string"}],
    "selector": _WORDS,
    "externalIPs": ["string"],
    "loadBalancerSourceRanges": ["string"],
}

CLAIMS: Shape = [{"metadata": {"name": "string"}, "spec": {"accessModes": ["string"], "storageClassName": "string"}}]

OPEN_FIELDS: Mapping[str, Mapping[str, Shape]] = {
    "Controller": {"slurmctld": CONTAINER, "reconfigure": CONTAINER, "logfile": CONTAINER},
    "Accounting": {"slurmdbd": CONTAINER},
    "RestApi": {"slurmrestd": CONTAINER},
    "LoginSet": {"login": CONTAINER, "initconf": CONTAINER},
    "NodeSet": {"slurmd": CONTAINER, "logfile": CONTAINER, "volumeClaimTemplates": CLAIMS},
    "Token": {},
}
"""Fields of each kind's spec; `template.spec` and `service.spec` come on top where a kind has them."""

_GO = {"string": "string", "integer": "int64", "boolean": "bool", "quantity": "resource.Quantity"}
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")


def open_field_error(kind: str, spec: Mapping[str, Any]) -> str | None:
    """The first wrong type in the schema-free fields of a custom resource's spec, as Go's JSON reader words it."""
    fields: dict[str, Shape] = {
        **OPEN_FIELDS[kind],
        "template": {"spec": POD_SPEC},
        "service": {"spec": SERVICE_SPEC},
    }
    return mismatch(spec, fields, f"{kind}Spec.spec")


def mismatch(value: object, shape: Shape, path: str) -> str | None:
    """What is wrong with a value; None if it fits. Absent and null values fit."""
    if value is None:
        return None
    if isinstance(shape, str):
        return None if _fits(value, shape) else _unmarshal(value, path, _GO[shape])
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _unmarshal(value, path, "slice")
        found = (mismatch(item, cast("Shape", shape[0]), path) for item in cast(list[object], value))
        return next((text for text in found if text), None)
    if not isinstance(value, Mapping):
        return _unmarshal(value, path, "struct")
    for key, item in cast(Mapping[str, object], value).items():
        wanted = cast("Shape | None", shape.get(key, shape.get("*")))
        if wanted is not None and (text := mismatch(item, wanted, f"{path}.{key}")):
            return text
    return None


def _fits(value: object, plain: Plain) -> bool:
    if plain == "string":
        return isinstance(value, str)
    if plain == "boolean":
        return isinstance(value, bool)
    if plain == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and _QUANTITY.fullmatch(value) is not None
    )


def _unmarshal(value: object, path: str, wanted: str) -> str:
    if wanted == "resource.Quantity" and isinstance(value, str):
        return f"quantities must match the regular expression of a quantity; {path} is {value!r}"
    return f"json: cannot unmarshal {_json_type(value)} into Go struct field {path} of type {wanted}"


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
