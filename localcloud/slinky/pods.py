"""The pods of Slurm's daemons but for the workers': pure functions, from a custom resource to a pod template.

`localcloud.slinky` says how these pods look to whoever runs them. A container's field of the custom resource is merged
over ours with its arguments added, and `template` over the whole pod; images have no default, as in Slinky.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localcloud.slinky import conf
from localcloud.slinky.merge import merged, merged_container
from localcloud.slinky.values import Object, at, items, name_of, names, part, words

SLURM_ID = 401
"""Slurm's user and group in Slinky's images."""

NOBODY_ID = 65534
PREFIX = "nodeset.slinky.slurm.net"
CLUSTER_LABEL = "slinky.slurm.net/cluster"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def labels_of(name: str, instance: str) -> dict[str, str]:
    """The labels by which a daemon's pods and other objects are found."""
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": instance}


def slurmctld(controller: Mapping[str, Any], annotations: Mapping[str, str]) -> Object:
    """The pod template of slurmctld; `annotations` hold the hashes whose change restarts it."""
    spec, name = part(controller, "spec"), name_of(controller)
    own: Object = {
        "name": "slurmctld",
        "args": ["-D"],
        "ports": [{"name": "slurmctld", "containerPort": conf.SLURMCTLD_PORT, "protocol": "TCP"}],
        "startupProbe": _probe("/livez", conf.SLURMCTLD_PORT, threshold=6),
        "readinessProbe": _probe("/readyz", conf.SLURMCTLD_PORT),
        "livenessProbe": _probe("/livez", conf.SLURMCTLD_PORT),
        "volumeMounts": [
            {"name": "slurm-etc", "mountPath": conf.FOLDER, "readOnly": True},
            {"name": "run", "mountPath": "/run/slurmctld"},
            {"name": "statesave", "mountPath": "/var/spool/slurmctld"},
            {"name": "slurm-log", "mountPath": "/var/log/slurm"},
        ],
    }
    sidecars = [logfile(spec, "slurmctld")]
    if spec.get("inplaceReconfigure"):
        reconfigure: Object = {
            "name": "reconfigure",
            "restartPolicy": "Always",
            "volumeMounts": own["volumeMounts"][:2],
        }
        sidecars.append(merged_container(reconfigure, part(spec, "reconfigure")))
    maps = [name + "-config", *names([item for field in _FILES for item in items(spec, field)])]
    sources = [*(_config_map(each) for each in maps), *_keys(spec), *_jwks(spec)]
    volumes: list[Object] = [etc(sources), empty("run"), empty("slurm-log"), *state_volume(spec)]
    base: Object = {
        "automountServiceAccountToken": False,
        "securityContext": _as_user(SLURM_ID),
        "initContainers": sidecars,
        "containers": [merged_container(own, part(spec, "slurmctld"))],
        "volumes": volumes,
    }
    return _template(controller, "slurmctld", base, annotations)


def state_volume(spec: Mapping[str, Any]) -> list[Object]:
    """The volume of slurmctld's state where no claim template makes it."""
    if at(spec, "persistence", "enabled") is False:
        return [empty("statesave")]
    if claim := at(spec, "persistence", "existingClaim"):
        return [{"name": "statesave", "persistentVolumeClaim": {"claimName": claim}}]
    return []


def slurmdbd(accounting: Mapping[str, Any], annotations: Mapping[str, str]) -> Object:
    """The pod template of slurmdbd."""
    spec, name = part(accounting, "spec"), name_of(accounting)
    own: Object = {
        "name": "slurmdbd",
        "args": ["-D"],
        "ports": [{"name": "slurmdbd", "containerPort": conf.SLURMDBD_PORT, "protocol": "TCP"}],
        "startupProbe": tcp(conf.SLURMDBD_PORT, threshold=6),
        "readinessProbe": tcp(conf.SLURMDBD_PORT),
        "livenessProbe": tcp(conf.SLURMDBD_PORT),
        "volumeMounts": [
            {"name": "slurm-etc", "mountPath": conf.FOLDER, "readOnly": True},
            {"name": "run", "mountPath": "/run/slurmdbd"},
            {"name": "slurm-log", "mountPath": "/var/log/slurm"},
        ],
    }
    base: Object = {
        "automountServiceAccountToken": False,
        "securityContext": _as_user(SLURM_ID),
        "containers": [merged_container(own, part(spec, "slurmdbd"))],
        "volumes": [
            etc([{"secret": {"name": f"{name}-accounting"}}, *_keys(spec), *_jwks(spec)]),
            empty("run"),
            empty("slurm-log"),
        ],
    }
    return _template(accounting, "slurmdbd", base, annotations)


def slurmrestd(rest_api: Mapping[str, Any], controller: Mapping[str, Any]) -> Object:
    """The pod template of slurmrestd."""
    own: Object = {
        "name": "slurmrestd",
        "args": [f"0.0.0.0:{conf.SLURMRESTD_PORT}"],
        "env": [{"name": "SLURM_JWT", "value": "daemon"}],
        "ports": [{"name": "slurmrestd", "containerPort": conf.SLURMRESTD_PORT, "protocol": "TCP"}],
        "startupProbe": tcp(conf.SLURMRESTD_PORT, threshold=6),
        "readinessProbe": tcp(conf.SLURMRESTD_PORT),
        "livenessProbe": tcp(conf.SLURMRESTD_PORT),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "slurm-etc", "mountPath": conf.FOLDER, "readOnly": True}],
    }
    base: Object = {
        "automountServiceAccountToken": False,
        "securityContext": _as_user(NOBODY_ID),
        "containers": [merged_container(own, part(rest_api, "spec", "slurmrestd"))],
        "volumes": [etc([_config_map(f"{name_of(controller)}-config"), *_keys(part(controller, "spec"))])],
    }
    return _template(rest_api, "slurmrestd", base, {})


def login(login_set: Mapping[str, Any], controller: Mapping[str, Any], annotations: Mapping[str, str]) -> Object:
    """The pod template of the login nodes."""
    spec, name = part(login_set, "spec"), name_of(login_set)
    own: Object = {
        "name": "login",
        "env": [{"name": "SACKD_OPTIONS", "value": f"--conf-server {conf_server(controller)}"}],
        "ports": [{"name": "login", "containerPort": 22, "protocol": "TCP"}],
        "startupProbe": _socket("/run/slurm/sack.socket", threshold=6),
        "readinessProbe": _socket("/run/slurm/sack.socket"),
        "securityContext": {"privileged": False, "capabilities": {"add": ["SYS_CHROOT"]}},
        "volumeMounts": [
            {"name": "slurm-etc", "mountPath": conf.FOLDER, "readOnly": True},
            {"name": "run", "mountPath": "/run/slurm"},
            *ssh_mounts(),
            {"name": "authorized-keys", "mountPath": "/root/.ssh/authorized_keys", "subPath": "authorized_keys"},
        ],
    }
    initconf: Object = {"name": "initconf", "volumeMounts": own["volumeMounts"][:2]}
    base: Object = {
        "automountServiceAccountToken": False,
        "initContainers": [merged_container(initconf, part(spec, "initconf"))],
        "containers": [merged_container(own, part(spec, "login"))],
        "volumes": [
            etc(slurm_key(part(controller, "spec"))),
            empty("run"),
            *ssh_volumes(name, part(spec, "sssdConfRef")),
            {"name": "authorized-keys", "configMap": {"name": f"{name}-ssh-config", "defaultMode": 0o600}},
        ],
    }
    return _template(login_set, "login", base, annotations)


def conf_server(controller: Mapping[str, Any]) -> str:
    """Where slurmd and sackd fetch the configuration."""
    external = part(controller, "spec", "externalConfig")
    if at(controller, "spec", "external"):
        return f"{external.get('host')}:{external.get('port')}"
    return f"{name_of(controller)}-controller.{controller['metadata']['namespace']}:{conf.SLURMCTLD_PORT}"


_FILES = (
    "configFileRefs",
    "prologScriptRefs",
    "epilogScriptRefs",
    "prologSlurmctldScriptRefs",
    "epilogSlurmctldScriptRefs",
)


def _template(item: Mapping[str, Any], name: str, base: Object, annotations: Mapping[str, str]) -> Object:
    template = part(item, "spec", "template")
    return {
        "metadata": {
            "labels": {
                **words(item, "metadata", "labels"),
                **words(template, "metadata", "labels"),
                **labels_of(name, name_of(item)),
            },
            "annotations": {
                **words(item, "metadata", "annotations"),
                **words(template, "metadata", "annotations"),
                DEFAULT_CONTAINER: name,
                **annotations,
            },
        },
        "spec": merged(base, part(template, "spec")),
    }


def logfile(spec: Mapping[str, Any], daemon: str) -> Object:
    """The sidecar that prints the daemon's log."""
    log = f"/var/log/slurm/{daemon}.log"
    own: Object = {
        "name": "logfile",
        "restartPolicy": "Always",
        # tail as the container's first process would not end by SIGTERM, and hold the pod up for its grace period.
        "command": ["sh", "-c", f"touch {log}; trap 'exit 0' TERM; tail -n +0 -F {log} & wait"],
        "volumeMounts": [{"name": "slurm-log", "mountPath": "/var/log/slurm"}],
    }
    return merged_container(own, part(spec, "logfile"))


def _keys(spec: Mapping[str, Any]) -> list[Object]:
    reference = part(spec, "jwtKeyRef") or part(spec, "jwtHs256KeyRef")
    return [*slurm_key(spec), _key_file(reference, "jwt.key")]


def slurm_key(spec: Mapping[str, Any]) -> list[Object]:
    """The projected file with the key of auth/slurm."""
    return [_key_file(part(spec, "slurmKeyRef"), "slurm.key")]


def _key_file(reference: Mapping[str, Any], file: str) -> Object:
    return {"secret": {"name": reference.get("name", ""), "items": [{"key": reference.get("key", ""), "path": file}]}}


def _jwks(spec: Mapping[str, Any]) -> list[Object]:
    reference = part(spec, "jwksKeyRef")
    files = [{"key": reference.get("key", ""), "path": "jwks.json"}]
    return [{"configMap": {"name": reference.get("name", ""), "items": files}}] if reference else []


def _config_map(name: str) -> Object:
    return {"configMap": {"name": name}}


def etc(sources: Sequence[Object]) -> Object:
    """The volume of /etc/slurm."""
    return {"name": "slurm-etc", "projected": {"defaultMode": 0o600, "sources": list(sources)}}


def empty(name: str) -> Object:
    """An empty folder that lives as long as the pod."""
    return {"name": name, "emptyDir": {}}


def _as_user(number: int) -> Object:
    return {"runAsNonRoot": True, "runAsUser": number, "runAsGroup": number, "fsGroup": number}


def ssh_mounts() -> list[Object]:
    """Where sshd and sssd look for their files."""
    keys = [f"ssh_host_{kind}_key{end}" for kind in ("ed25519", "ecdsa", "rsa") for end in ("", ".pub")]
    return [
        *({"name": "ssh-host-keys", "mountPath": f"/etc/ssh/{key}", "subPath": key, "readOnly": True} for key in keys),
        {"name": "ssh-config", "mountPath": "/etc/ssh/sshd_config", "subPath": "sshd_config", "readOnly": True},
        {"name": "sssd-conf", "mountPath": "/etc/sssd/sssd.conf", "subPath": "sssd.conf", "readOnly": True},
    ]


def ssh_volumes(name: str, sssd: Mapping[str, Any]) -> list[Object]:
    """The volumes with the files of sshd and sssd."""
    files = [{"key": sssd.get("key", ""), "path": "sssd.conf"}]
    return [
        {"name": "ssh-host-keys", "secret": {"secretName": f"{name}-ssh-host-keys", "defaultMode": 0o600}},
        {"name": "ssh-config", "configMap": {"name": f"{name}-ssh-config", "defaultMode": 0o600}},
        {"name": "sssd-conf", "secret": {"secretName": sssd.get("name", ""), "items": files, "defaultMode": 0o600}},
    ]


def _probe(path: str, port: int, threshold: int = 3) -> Object:
    return {"httpGet": {"path": path, "port": port}, "failureThreshold": threshold, "periodSeconds": 10}


def tcp(port: int, threshold: int = 3) -> Object:
    """A probe that the port takes connections."""
    return {"tcpSocket": {"port": port}, "failureThreshold": threshold, "periodSeconds": 10}


def _socket(path: str, threshold: int = 3) -> Object:
    return {"exec": {"command": ["test", "-S", path]}, "failureThreshold": threshold, "periodSeconds": 10}
