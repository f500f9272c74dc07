"""The MariaDB operator, as far as an accounting database needs it: a MariaDB becomes a StatefulSet and a Service."""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from localcloud.kubernetes.api_server import ApiServer
from localcloud.slinky.kinds import MARIADBS, SECRETS
from localcloud.slinky.objects import Objects, owned
from localcloud.slinky.pods import labels_of
from localcloud.slinky.values import Object, at, digest, items, name_of, part, without_empty

_IMAGE = "docker-registry1.mariadb.com/library/mariadb:11.8.2"
_PASSWORD_BYTES = 24
_PORT = 3306


def sync(api: ApiServer, objects: Objects) -> None:
    """Make every MariaDB true."""
    for database in api.list(MARIADBS.path()):
        for reference in _generated(database):
            _generate(api, database, reference)
        stored: Object = {}
        for item in children(database):
            stored = objects.apply(owned(item, database))
        ready = at(stored, "status", "readyReplicas") == at(stored, "spec", "replicas")
        status = _status(ready)
        if items(database, "status", "conditions") != status["conditions"]:
            path = MARIADBS.path(database["metadata"]["namespace"], name_of(database))
            api.merge(f"{path}/status", {"status": status})


def children(database: Mapping[str, Any]) -> list[Object]:
    """What a MariaDB owns; the StatefulSet comes last."""
    spec, name = part(database, "spec"), name_of(database)
    labels = labels_of("mariadb", name)
    port = spec.get("port") or _PORT
    container: Object = {
        "name": "mariadb",
        "image": spec.get("image") or _IMAGE,
        "env": _environment(spec),
        "ports": [{"name": "mariadb", "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 10},
        "livenessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 10},
        "volumeMounts": [
            {"name": "storage", "mountPath": "/var/lib/mysql"},
            {"name": "config", "mountPath": "/etc/mysql/conf.d"},
        ],
        **without_empty({key: spec.get(key) for key in ("resources", "imagePullPolicy", "securityContext")}),
    }
    fields = ("affinity", "nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets")
    pod: Object = {
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": f"{name}-config"}}],
        **without_empty({**{key: spec.get(key) for key in fields}, "securityContext": spec.get("podSecurityContext")}),
    }
    storage = part(spec, "storage")
    claim = without_empty(
        {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage.get("storageClassName"),
            "resources": {"requests": {"storage": storage.get("size")}},
        }
    )
    text = spec.get("myCnf") or "[mariadb]\n"
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-config", "labels": labels},
            "data": {"0-my.cnf": text},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": labels},
            "spec": {"selector": labels, "ports": [{"name": "mariadb", "port": port, "targetPort": port}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "replicas": spec.get("replicas", 1),
                "serviceName": name,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": {"k8s.mariadb.com/config": digest(text)}},
                    "spec": pod,
                },
                "volumeClaimTemplates": [{"metadata": {"name": "storage"}, "spec": claim}],
            },
        },
    ]


def _environment(spec: Mapping[str, Any]) -> list[Object]:
    texts = {"MARIADB_DATABASE": spec.get("database"), "MARIADB_USER": spec.get("username")}
    keys = {
        "MARIADB_ROOT_PASSWORD": part(spec, "rootPasswordSecretKeyRef"),
        "MARIADB_PASSWORD": part(spec, "passwordSecretKeyRef"),
    }
    return [
        *({"name": name, "value": value} for name, value in texts.items() if value),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": key.get("name"), "key": key.get("key")}}}
            for name, key in keys.items()
            if key
        ),
    ]


def _generated(database: Mapping[str, Any]) -> list[Object]:
    """References to passwords that the operator is asked to make."""
    keys = (part(database, "spec", "rootPasswordSecretKeyRef"), part(database, "spec", "passwordSecretKeyRef"))
    return [key for key in keys if key.get("generate")]


def _generate(api: ApiServer, database: Mapping[str, Any], reference: Mapping[str, Any]) -> None:
    namespace = database["metadata"]["namespace"]
    found = api.get(SECRETS.path(namespace, reference["name"]))
    if found and reference["key"] in part(found, "data"):
        return
    data = {reference["key"]: b64encode(secrets.token_urlsafe(_PASSWORD_BYTES).encode()).decode()}
    if found:
        api.merge(SECRETS.path(namespace, reference["name"]), {"data": data})
        return
    metadata = {"name": reference["name"], "namespace": namespace}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    api.create(SECRETS.path(namespace), owned(secret, database))


def _status(ready: bool) -> Object:
    reason = "StatefulSetReady" if ready else "StatefulSetNotReady"
    message = "Running" if ready else "Not ready"
    return {
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": reason, "message": message}]
    }
