"""The custom resources of slurm.crusoe.ai/v1alpha1, with closed schemas: pure functions.

Known from Crusoe's example, user pages and health check page: the kinds; the fields of SlurmCluster and SlurmUser; that
the SlurmCluster's name is the `clusterReference` of users and groups; the rules for names of users; the bounds and
names of health check scripts. Assumed, because no source shows them: `users` of SlurmUserGroup; `scripts[].name` of
SlurmClusterHealthCheck (`source` is known); every status. Where Crusoe may be more lenient, this isn't: a list that
opens a door must not be empty, and what the REST API can't change can't be changed here either.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

GROUP = "slurm.crusoe.ai"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
MOST_SCRIPTS, LARGEST_SCRIPT = 50, 16 * 1024
_USER = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_CIDR = r"^([0-9]{1,3}\.){3}[0-9]{1,3}/([0-9]|[12][0-9]|3[0-2])$"
_KEY = r"^(ssh-|ecdsa-|sk-)[^ ]+ [A-Za-z0-9+/=]+( .*)?$"
_TEXT: Object = {"type": "string", "minLength": 1}


def definitions() -> list[Object]:
    """The CustomResourceDefinitions."""
    return [
        _definition(
            "SlurmCluster",
            "slurmclusters",
            _cluster(),
            _cluster_status(),
            _columns(
                ("Version", "string", ".spec.clusterVersion"),
                ("Endpoint", "string", ".status.loginEndpoint"),
            ),
        ),
        _definition(
            "SlurmUser",
            "slurmusers",
            _user(),
            _identity_status("uid"),
            _columns(
                ("Cluster", "string", ".spec.clusterReference"),
                ("UID", "integer", ".status.uid"),
            ),
            rules=[_named_as_users_are()],
        ),
        _definition(
            "SlurmUserGroup",
            "slurmusergroups",
            _group(),
            _identity_status("gid"),
            _columns(
                ("Cluster", "string", ".spec.clusterReference"),
                ("GID", "integer", ".status.gid"),
            ),
            rules=[_named_as_users_are()],
        ),
        _definition(
            "SlurmClusterHealthCheck",
            "slurmclusterhealthchecks",
            _health_check(),
            None,
            _columns(),
            rules=[
                {
                    "rule": "self.metadata.name.endsWith('-custom') || self.metadata.name.endsWith('-defaults')",
                    "message": "the name must be <cluster>-custom; <cluster>-defaults is Crusoe's own",
                }
            ],
        ),
    ]


def _cluster() -> Object:
    return _closed(
        {
            "clusterVersion": {
                **_TEXT,
                "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+-cmk\.[0-9]+$",
                "x-kubernetes-validations": [_fixed("clusterVersion")],
            },
            "loginSet": _closed(
                {
                    "replicas": {"type": "integer", "minimum": 1, "default": 1},
                    "instanceType": {**_TEXT, "x-kubernetes-validations": [_fixed("instanceType")]},
                    "firewallRuleSourceRanges": {
                        "type": "array",
                        "items": {"type": "string", "pattern": _CIDR},
                        "minItems": 1,
                        "default": ["0.0.0.0/0"],
                    },
                },
                ["instanceType"],
            ),
            "rootSSHPubKeys": _keys(),
            "homeVolumeSize": {
                "type": "string",
                "pattern": r"^([1-9][0-9]*(Gi|Ti|Pi))?$",
                "x-kubernetes-validations": [_fixed("homeVolumeSize")],
            },
        },
        ["clusterVersion", "loginSet", "rootSSHPubKeys"],
    )


def _user() -> Object:
    return _closed(
        {
            "clusterReference": _TEXT,
            "fullName": {"type": "string", "pattern": r"^[^:\n]*$"},
            "sshPublicKeys": _keys(),
            # By the newer page every user has passwordless sudo unless this says otherwise.
            "disableSudo": {"type": "boolean", "default": False},
        },
        ["clusterReference", "sshPublicKeys"],
    )


def _group() -> Object:
    users: Object = {"type": "array", "items": {"type": "string", "pattern": _USER}, "x-kubernetes-list-type": "set"}
    return _closed({"clusterReference": _TEXT, "users": users}, ["clusterReference"])


def _health_check() -> Object:
    script = _closed(
        {
            "name": {"type": "string", "pattern": r"^[0-9]{2}-[a-z0-9-]+$"},
            "source": {**_TEXT, "maxLength": LARGEST_SCRIPT},
        },
        ["name", "source"],
    )
    scripts: Object = {
        "type": "array",
        "items": script,
        "maxItems": MOST_SCRIPTS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    return _closed({"scripts": scripts}, ["scripts"])


def _cluster_status() -> Object:
    node_set = _closed({"name": _TEXT, "readyNodes": {"type": "integer"}}, ["name", "readyNodes"])
    return _closed(
        {
            "loginEndpoint": {"type": "string"},
            "nodeSets": {"type": "array", "items": node_set},
            "conditions": _conditions(),
        },
        [],
    )


def _identity_status(field: str) -> Object:
    return _closed({field: {"type": "integer"}, "conditions": _conditions()}, [])


def _conditions() -> Object:
    names = ("type", "status", "reason", "message")
    condition = _closed(
        {
            **{name: {"type": "string"} for name in names},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
        ["type", "status"],
    )
    return {"type": "array", "items": condition}


def _keys() -> Object:
    return {"type": "array", "items": {"type": "string", "pattern": _KEY}, "minItems": 1}


def _closed(properties: Object, required: list[str]) -> Object:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _fixed(name: str) -> Object:
    return {"rule": "self == oldSelf", "message": f"{name} cannot be changed"}


def _named_as_users_are() -> Object:
    return {
        "rule": f"self.metadata.name.size() <= 32 && self.metadata.name.matches('{_USER}')",
        "message": "the name must begin with a lower-case letter, go on with lower-case letters, digits and hyphens,"
        " not end with a hyphen, and have at most 32 characters",
    }


def _columns(*columns: tuple[str, str, str]) -> list[Object]:
    return [
        *({"name": name, "type": kind, "jsonPath": path} for name, kind, path in columns),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _definition(
    kind: str,
    plural: str,
    spec: Object,
    status: Object | None,
    columns: list[Object],
    *,
    rules: list[Object] | None = None,
) -> Object:
    schema = _closed({"spec": spec, **({"status": status} if status else {})}, ["spec"])
    if rules:
        schema["x-kubernetes-validations"] = rules
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": columns,
                    **({"subresources": {"status": {}}} if status else {}),
                }
            ],
        },
    }
