"""What a real API server with the stand-in CRDs and webhook takes and refuses, row by row of what was observed."""

from __future__ import annotations

import json

import pytest

from tests.integration.localcloud_kubernetes.slinky import (
    KEYS,
    Slinky,
    accounting,
    controller,
    login_set,
    node_set,
    resource,
    rest_api,
    token,
)
from tests.integration.localcloud_kubernetes.support import Json

pytestmark = pytest.mark.integration

SCHEDULED = {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": "2026-12-01T00:00:00Z"}}

REFUSED: dict[str, tuple[Json, str]] = {
    "unknown field": (node_set(foo=1), 'unknown field "spec.foo"'),
    "a field of older versions": (node_set(taintKubeNodes=True), 'unknown field "spec.taintKubeNodes"'),
    "a reference to another namespace": (
        node_set(controllerRef={"name": "slurm", "namespace": "x"}),
        'unknown field "spec.controllerRef.namespace"',
    ),
    "no reference of a NodeSet": (resource("NodeSet", "a", {}), "spec.controllerRef: Required value"),
    "no reference of a RestApi": (resource("RestApi", "a", {}), "spec.controllerRef: Required value"),
    "an empty reference": (node_set(controllerRef={}), "controllerRef.name must not be empty"),
    "NodeSet without spec": (resource("NodeSet", "a", None), "denied the request"),
    "negative replicas": (node_set(replicas=-1), "should be a non-negative integer"),
    "replicas as text": (node_set(replicas="2"), "must be of type integer"),
    "replicas with a fraction": (node_set(replicas=2.5), "must be of type integer"),
    "no keys": (resource("Controller", "a", {}), "slurmKeyRef and jwtKeyRef are required"),
    "external without where": (resource("Controller", "a", {"external": True}), "externalConfig is required"),
    "a long cluster name": (controller(clusterName="x" * 41), "at most 40"),
    "a long default cluster name": (resource("Controller", "c" * 35, KEYS), "at most 40"),
    "an upper-case name": (node_set("GPU"), "RFC 1123"),
    "a host name with an underscore": (node_set(template={"spec": {"hostname": "GPU_"}}), "hostname"),
    "an absent ConfigMap": (controller(configFileRefs=[{"name": "absent"}]), 'ConfigMap "absent" not found'),
    "a ConfigMap with slurm.conf": (controller(configFileRefs=[{"name": "bad"}]), "reserved for slurm-operator use"),
    "no room for an update": (
        node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        "maxUnavailable must not be 0",
    ),
    "another strategy": (node_set(updateStrategy={"type": "Recreate"}), "Unsupported value"),
    "another scaling mode": (node_set(scalingMode="Deployment"), "Unsupported value"),
    "another pruning": (node_set(pruneSlurmNodeRecords="Always"), "Unsupported value"),
    "ScheduledUpdate without when": (
        node_set(updateStrategy={"type": "ScheduledUpdate"}),
        "scheduledUpdate with startTime and duration is required",
    ),
    "a short ScheduledUpdate": (
        node_set(
            updateStrategy={
                "type": "ScheduledUpdate",
                "scheduledUpdate": {"startTime": "2026-12-01T00:00:00Z", "duration": "30s"},
            }
        ),
        "at least 1m",
    ),
    "a partition of two lines": (node_set(partition={"config": "Default=YES\nHidden=YES"}), "should match"),
    "ssh without sssd": (node_set(ssh={"enabled": True}), "spec.ssh.sssdConfRef: Required value"),
    "sssd without a key": (
        node_set(ssh={"enabled": True, "sssdConfRef": {"name": "a"}}),
        "spec.ssh.sssdConfRef.key: Required value",
    ),
    "LoginSet without sssd": (
        resource("LoginSet", "a", {"controllerRef": {"name": "slurm"}}),
        "spec.sssdConfRef: Required value",
    ),
    "LoginSet with a nameless sssd": (login_set(sssdConfRef={"key": "k"}), "sssdConfRef.name must not be empty"),
    "storage that is no amount": (
        controller(persistence={"resources": {"requests": {"storage": "lots"}}}),
        "should match",
    ),
    "Accounting without the password": (
        accounting(storageConfig={"host": "mariadb"}),
        "spec.storageConfig.passwordKeyRef: Required value",
    ),
    "Token without user": (
        resource("Token", "a", {"jwtKeyRef": KEYS["jwtKeyRef"]}),
        "spec.username: Required value",
    ),
    "Token without key": (resource("Token", "a", {"username": "u"}), "exactly one of jwtKeyRef and jwtHs256KeyRef"),
    "Token for days": (token(lifetime="1d"), 'time: unknown unit "d"'),
    "tolerations as text": (node_set(template={"spec": {"tolerations": "none"}}), "json: cannot unmarshal string"),
    "claims as a map": (node_set(volumeClaimTemplates={}), "json: cannot unmarshal object"),
    "the old version": (resource("NodeSet", "a", {}, "slinky.slurm.net/v1alpha1"), "no matches for kind"),
    "the old kind": (resource("Cluster", "a", {}), "no matches for kind"),
}

ACCEPTED: dict[str, Json] = {
    "the smallest NodeSet": resource("NodeSet", "a", {"controllerRef": {"name": "slurm"}}),
    "the smallest Controller": resource("Controller", "a", {**KEYS, "clusterName": "c"}),
    "a typo in the pod": node_set(template={"spec": {"nodeSelectr": {}}}, slurmd={"imagPullPolicy": "x"}),
    "a Controller that isn't there": node_set(controllerRef={"name": "absent"}),
    "an empty reference of a RestApi": rest_api(controllerRef={}),
    "negative replicas of a RestApi": rest_api(replicas=-3),
    "a strange port": controller(service={"port": 70000}),
    "a Controller without spec": resource("Controller", "a", None),
    "an absent key Secret": controller(slurmKeyRef={"name": "absent", "key": "k"}),
    "a cluster name with a space": controller(clusterName="My Cluster"),
    "a trailing dash": node_set(template={"spec": {"hostname": "gpu-"}}),
    "a meaningless share": node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": "abc"}}),
    "ScheduledUpdate with the default duration": node_set(updateStrategy=SCHEDULED),
    "an empty partition": node_set(partition={}),
    "a meaningless strategy of a LoginSet": login_set(strategy={"type": "Never"}),
    "an item without a value": node_set(extraConf="Gres"),
    "persistence without saying so": controller(persistence={"accessModes": ["ReadWriteOnce"]}),
    "Accounting without storage": resource("Accounting", "a", KEYS),
    "an empty user": token(username=""),
    "a priority class that isn't there": node_set(template={"spec": {"priorityClassName": "ghost"}}),
}


@pytest.fixture(scope="module", autouse=True)
def files(slinky: Slinky) -> None:
    for name, file in (("bad", "slurm.conf"), ("odd", "motd")):
        metadata = {"name": name, "namespace": "slurm"}
        slinky.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {file: ""}})


@pytest.mark.parametrize(("item", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(slinky: Slinky, item: Json, reason: str) -> None:
    said = slinky.offer(item)
    assert reason in said
    assert "created" not in said


@pytest.mark.parametrize("item", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(slinky: Slinky, item: Json) -> None:
    assert "created" in slinky.offer(item)


def test_server_side_apply_refuses_unknown_fields_even_without_validation(slinky: Slinky) -> None:
    item = json.dumps(node_set(foo=1))
    said = slinky.live.kubectl(
        "apply", "--server-side", "--validate=ignore", "--dry-run=server", "-f", "-", stdin=item, ok=False
    )
    assert ".spec.foo: field not declared in schema" in said
    assert "created" in slinky.live.kubectl(
        "create", "--validate=ignore", "--dry-run=server", "-f", "-", stdin=item, ok=False
    )


def test_warnings(slinky: Slinky) -> None:
    assert "motd" in slinky.offer(controller(configFileRefs=[{"name": "odd"}]))
    external = {"spec": {"externalIPs": ["198.51.100.1"]}}
    assert "externalIPs is not supported" in slinky.offer(controller(service=external))


def stored(slinky: Slinky, item: Json) -> Json:
    text = slinky.live.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(item))
    return json.loads(text)["spec"]


def test_stored_defaults(slinky: Slinky) -> None:
    found = stored(slinky, node_set(replicas=None))
    defaults = {
        "replicas": 1,
        "scalingMode": "StatefulSet",
        "ordinalPadding": 0,
        "oversubscribeNode": False,
        "pinToNode": False,
        "pruneSlurmNodeRecords": "Never",
        "revisionHistoryLimit": 0,
        "workloadDisruptionProtection": True,
    }
    assert {key: found[key] for key in defaults} == defaults
    assert not {"updateStrategy", "partition", "persistentVolumeClaimRetentionPolicy"} & set(found)
    assert stored(slinky, login_set())["replicas"] == stored(slinky, rest_api())["replicas"] == 1
    found = stored(slinky, controller())
    assert (found["external"], found["inplaceReconfigure"], found["persistence"]["enabled"]) == (False, False, True)
    assert stored(slinky, accounting())["storageConfig"]["database"] == "slurm_acct_db"
    assert stored(slinky, token())["refresh"] is True


CHANGES: dict[str, tuple[Json, Json, str | None]] = {
    "cluster name": (controller("c"), controller("c", clusterName="b"), "clusterName"),
    "name of the key": (
        controller("c"),
        controller("c", slurmKeyRef={"name": "x", "key": "slurm.key"}),
        "slurmKeyRef.name",
    ),
    "key in the key": (controller("c"), controller("c", slurmKeyRef={**KEYS["slurmKeyRef"], "key": "x"}), None),
    "persistence off": (controller("c"), controller("c", persistence={"enabled": False}), "persistence.enabled"),
    "storage class": (
        controller("c"),
        controller("c", persistence={**controller()["spec"]["persistence"], "storageClassName": "x"}),
        None,
    ),
    "Controller of a NodeSet": (node_set("n"), node_set("n", controllerRef={"name": "x"}), "controllerRef"),
    "claims": (node_set("n"), node_set("n", volumeClaimTemplates=[{"metadata": {"name": "a"}}]), "volumeClaimT"),
    "scaling mode": (node_set("n"), node_set("n", scalingMode="DaemonSet"), None),
    "key of a Token": (token(), token(jwtKeyRef={"name": "x", "key": "y"}), "jwtKeyRef"),
    "user of a Token": (token(), token(username="x"), None),
}


@pytest.mark.parametrize(("before", "after", "reason"), CHANGES.values(), ids=CHANGES.keys())
def test_changes(slinky: Slinky, before: Json, after: Json, reason: str | None) -> None:
    kind, name = before["kind"].lower(), before["metadata"]["name"]
    slinky.apply(before)
    try:
        said = slinky.apply(after, ok=False)
        if reason is None:
            assert "serverside-applied" in said
        else:
            assert "denied the request" in said
            assert reason in said
    finally:
        slinky.delete(kind, name)


def test_tables(slinky: Slinky) -> None:
    slinky.apply(node_set("shown", controllerRef={"name": "absent"}))
    try:
        heads = slinky.live.kubectl("get", "nss", "-n", "slurm", "-o", "wide").splitlines()[0].split()
        assert heads == ["NAME", "DESIRED", "REPLICAS", "UPDATED", "READY", "IDLE", "ALLOCATED", "DOWN", "DRAIN", "AGE"]
        slinky.live.kubectl("scale", "nodeset/shown", "--replicas=3", "-n", "slurm")
        assert slinky.get("nodeset", "shown")["spec"]["replicas"] == 3
    finally:
        slinky.delete("nodeset", "shown")
