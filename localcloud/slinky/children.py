"""Controller, Accounting, RestApi and LoginSet in, the objects they own out: pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localcloud.slinky import conf, pods
from localcloud.slinky.merge import merged
from localcloud.slinky.pods import PREFIX, labels_of
from localcloud.slinky.values import Object, at, digest, name_of, part, without_empty, words

HASHES = "slinky.slurm.net"


def controller_children(
    controller: Mapping[str, Any], surroundings: conf.Surroundings, *, users_cgroup_conf: bool, keys_hash: str
) -> list[Object]:
    """What a Controller owns. `users_cgroup_conf`: the user's files have one; `keys_hash` is of the key Secrets."""
    name, spec = name_of(controller), part(controller, "spec")
    workers = [_workers_service(name), _workers_budget(name)]
    if spec.get("external"):
        return workers
    files = {"slurm.conf": conf.slurm_conf(controller, surroundings)}
    if not users_cgroup_conf:
        files["cgroup.conf"] = conf.CGROUP_CONF
    labels = labels_of("slurmctld", name)
    annotations = {f"{HASHES}/keys-hash": keys_hash}
    if not spec.get("inplaceReconfigure"):
        # The pod restarts with each new text; edits inside the user's ConfigMaps are neither hashed nor noticed.
        annotations[f"{HASHES}/config-hash"] = digest(files)
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-config", **_inherited(controller, labels)},
            "data": files,
        },
        _service(controller, f"{name}-controller", labels, "slurmctld", conf.SLURMCTLD_PORT),
        _stateful_set(
            controller,
            f"{name}-controller",
            labels,
            pods.slurmctld(controller, annotations),
            _state_claims(spec),
        ),
        *workers,
    ]


def accounting_children(accounting: Mapping[str, Any], password: str, keys_hash: str) -> list[Object]:
    """What an Accounting owns; `password` is the database user's."""
    if at(accounting, "spec", "external"):
        return []
    name = f"{name_of(accounting)}-accounting"
    labels = labels_of("slurmdbd", name_of(accounting))
    text = conf.slurmdbd_conf(accounting, password)
    annotations = {f"{HASHES}/keys-hash": keys_hash, f"{HASHES}/config-hash": digest(text)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, **_inherited(accounting, labels)},
            "stringData": {"slurmdbd.conf": text},
        },
        _service(accounting, name, labels, "slurmdbd", conf.SLURMDBD_PORT),
        _stateful_set(accounting, name, labels, pods.slurmdbd(accounting, annotations), []),
    ]


def rest_api_children(rest_api: Mapping[str, Any], controller: Mapping[str, Any]) -> list[Object]:
    """What a RestApi owns."""
    name = f"{name_of(rest_api)}-restapi"
    labels = labels_of("slurmrestd", name_of(rest_api))
    return [
        _service(rest_api, name, labels, "slurmrestd", conf.SLURMRESTD_PORT),
        _deployment(rest_api, name, labels, pods.slurmrestd(rest_api, controller)),
    ]


def login_set_children(login_set: Mapping[str, Any], controller: Mapping[str, Any], sssd_hash: str) -> list[Object]:
    """What a LoginSet owns, but for its host keys, which are made once (`sshd.host_keys`)."""
    name = name_of(login_set)
    labels = labels_of("login", name)
    files = ssh_files(part(login_set, "spec"))
    annotations = {f"{HASHES}/sssd-hash": sssd_hash, f"{HASHES}/sshd-hash": digest(files)}
    return [
        ssh_config(name, labels, files),
        _service(login_set, name, labels, "login", 22),
        _deployment(login_set, name, labels, pods.login(login_set, controller, annotations)),
    ]


def ssh_config(name: str, labels: Mapping[str, str], files: Mapping[str, str]) -> Object:
    """The ConfigMap with sshd's settings."""
    metadata = {"name": f"{name}-ssh-config", "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(files)}


def ssh_files(spec: Mapping[str, Any]) -> dict[str, str]:
    """sshd_config and the keys that root may use."""
    settings = [
        "Include /etc/ssh/sshd_config.d/*.conf",
        "UsePAM yes",
        "X11Forwarding yes",
        "Subsystem sftp internal-sftp",
        *(at(spec, "extraSshdConfig") or "").strip("\n").splitlines(),
    ]
    return {
        "sshd_config": "".join(f"{line}\n" for line in settings),
        "authorized_keys": f"{at(spec, 'rootSshAuthorizedKeys') or ''}\n",
    }


def login_status(login_set: Mapping[str, Any], deployment: Mapping[str, Any]) -> Object:
    """The status of a LoginSet; no other of these kinds has any."""
    selector = ",".join(f"{key}={value}" for key, value in labels_of("login", name_of(login_set)).items())
    return {"replicas": at(deployment, "status", "replicas") or 0, "selector": selector}


def _state_claims(spec: Mapping[str, Any]) -> list[Object]:
    """The claim template of slurmctld's state; with what is missing in it, the StatefulSet is refused."""
    if pods.state_volume(spec):
        return []
    persistence = part(spec, "persistence")
    claim = {key: value for key, value in persistence.items() if key not in ("enabled", "existingClaim")}
    return [{"metadata": {"name": "statesave"}, "spec": claim}]


def _stateful_set(
    owner: Mapping[str, Any], name: str, labels: Mapping[str, str], template: Object, claims: list[Object]
) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, **_inherited(owner, labels)},
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": dict(labels)},
            "template": template,
            **({"volumeClaimTemplates": claims} if claims else {}),
        },
    }


def _deployment(owner: Mapping[str, Any], name: str, labels: Mapping[str, str], template: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **_inherited(owner, labels)},
        "spec": without_empty(
            {
                "replicas": at(owner, "spec", "replicas"),
                "selector": {"matchLabels": dict(labels)},
                "strategy": at(owner, "spec", "strategy"),
                "revisionHistoryLimit": 0,
                "template": template,
            }
        ),
    }


def _service(owner: Mapping[str, Any], name: str, labels: Mapping[str, str], port_name: str, port: int) -> Object:
    wanted = part(owner, "spec", "service")
    entry: Object = {"name": port_name, "port": wanted.get("port") or port, "targetPort": port, "protocol": "TCP"}
    if wanted.get("nodePort"):
        entry["nodePort"] = wanted["nodePort"]
    own = {"type": "ClusterIP", "selector": dict(labels), "ports": [entry]}
    given = {key: value for key, value in part(wanted, "spec").items() if key not in ("externalIPs", "selector")}
    metadata = _inherited(owner, labels)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "labels": {**words(wanted, "metadata", "labels"), **metadata["labels"]},
            "annotations": {**metadata["annotations"], **words(wanted, "metadata", "annotations")},
        },
        "spec": {**merged(own, given), "ports": own["ports"]},
    }


def _workers_service(name: str) -> Object:
    selector = {"app.kubernetes.io/name": "slurmd", pods.CLUSTER_LABEL: name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"slurm-workers-{name}", "labels": {pods.CLUSTER_LABEL: name}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [{"name": "slurmd", "port": conf.SLURMD_PORT, "protocol": "TCP"}],
        },
    }


def _workers_budget(name: str) -> Object:
    selector = {pods.CLUSTER_LABEL: name, f"{PREFIX}/pod-protect": "true"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"slurm-workers-pdb-{name}", "labels": {pods.CLUSTER_LABEL: name}},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": selector}},
    }


def _inherited(owner: Mapping[str, Any], labels: Mapping[str, str]) -> Object:
    """A custom resource's own labels and annotations go on to what it owns."""
    return {
        "labels": {**words(owner, "metadata", "labels"), **labels},
        "annotations": words(owner, "metadata", "annotations"),
    }
