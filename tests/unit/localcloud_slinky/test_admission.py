"""What the webhook refuses, by the table of what was observed; the API server's own refusals are tested with one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from localcloud.slinky.admission import judge, seconds_of
from localcloud.slinky.values import Object
from tests.unit.localcloud_slinky.support import JWT_KEY, SLURM_KEY, controller, node_set, resource

FILES = {"gres": ["gres.conf"], "odd": ["motd"], "bad": ["slurm.conf"], "worse": ["slurmdbd.conf"]}


def refused(new: Object, old: Object | None = None) -> str:
    """The webhook's refusals; empty if it accepts."""
    return "; ".join(judge("UPDATE" if old else "CREATE", new, old, FILES.get).errors)


def token(**spec: Any) -> Object:
    return resource("Token", "t", {"username": "u", "jwtKeyRef": JWT_KEY, **spec})


def login_set(**spec: Any) -> Object:
    return resource("LoginSet", "l", {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "s"}, **spec})


REFUSED: list[tuple[Object, str]] = [
    (node_set(controllerRef={}), "controllerRef.name must not be empty"),
    ({**node_set(), "spec": None}, "controllerRef.name must not be empty"),
    (controller(clusterName="x" * 41), "at most 40"),
    (resource("Controller", "c" * 35, {}), "at most 40"),
    (node_set(template={"spec": {"hostname": "GPU_"}}), "hostname"),
    (controller(configFileRefs=[{"name": "absent"}]), 'ConfigMap "absent" not found'),
    (controller(configFileRefs=[{"name": "bad"}]), "reserved for slurm-operator use"),
    (controller(configFileRefs=[{"name": "worse"}]), "reserved for slurm-operator use"),
    (node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}), "maxUnavailable"),
    (node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": "0%"}}), "maxUnavailable"),
    (node_set(updateStrategy={"scheduledUpdate": {"startTime": "x", "duration": "30s"}}), "at least 1m"),
    (login_set(sssdConfRef={"key": "k"}), "sssdConfRef.name"),
    (node_set(template={"spec": {"tolerations": "none"}}), "json: cannot unmarshal string into Go struct field"),
    (node_set(volumeClaimTemplates={}), "json: cannot unmarshal object into Go struct field"),
    (node_set(slurmd={"env": [{"name": "A", "value": 1}]}), "json: cannot unmarshal number"),
    (node_set(slurmd={"resources": {"limits": {"cpu": "lots"}}}), "quantities"),
    (controller(service={"spec": {"ports": {}}}), "json: cannot unmarshal object"),
    (token(lifetime="soon"), "time: invalid duration"),
    (token(lifetime="1d"), 'time: unknown unit "d"'),
    (token(lifetime="15"), "time: missing unit"),
]

ACCEPTED: list[Object] = [
    node_set(),
    controller(),
    {**controller(), "spec": None},
    controller(clusterName="My Cluster"),
    controller(clusterName="x" * 40),
    controller(configFileRefs=[{"name": "gres"}, {"name": "odd"}]),
    resource("RestApi", "r", {"controllerRef": {}}),
    resource("RestApi", "r", {"replicas": -3}),
    resource("Accounting", "a", {}),
    node_set(minReadySeconds=-5, ordinalPadding=50, service={"port": 70000}),
    node_set(template={"spec": {"hostname": "gpu-", "nodeSelectr": {}}}, slurmd={"imagPullPolicy": "x"}),
    node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": "abc"}}),
    node_set(updateStrategy={"rollingUpdate": {"maxUnavailable": "150%"}}),
    node_set(updateStrategy={"scheduledUpdate": {"startTime": "x"}}),
    node_set(extraConf="Gres\nWeight=1"),
    login_set(strategy={"type": "Never"}),
    token(username=""),
    token(lifetime="1h30m"),
]


@pytest.mark.parametrize(("item", "reason"), REFUSED)
def test_refused(item: Object, reason: str) -> None:
    assert reason in refused(item)


@pytest.mark.parametrize("item", ACCEPTED)
def test_accepted(item: Object) -> None:
    assert refused(item) == ""


def changed(item: Object, path: str, value: object) -> Object:
    result = deepcopy(item)
    place = result["spec"]
    *parents, last = path.split(".")
    for each in parents:
        place = place.setdefault(each, {})
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return result


FULL = controller(clusterName="a", persistence={"enabled": True, "storageClassName": "x"})
ACCOUNTING = resource("Accounting", "a", {"slurmKeyRef": SLURM_KEY, "jwtKeyRef": JWT_KEY, "storageConfig": {}})
OTHER = {"name": "other", "key": "k"}


@pytest.mark.parametrize(
    ("item", "path", "value", "reason"),
    [
        (FULL, "clusterName", "b", "clusterName"),
        (FULL, "clusterName", None, "clusterName"),
        (FULL, "slurmKeyRef.name", "other", "slurmKeyRef.name"),
        (FULL, "jwtKeyRef", OTHER, "jwtKeyRef"),
        (FULL, "persistence.enabled", False, "cannot change persistence.enabled after deployment"),
        (controller(), "persistence.enabled", True, "cannot change persistence.enabled after deployment"),
        (node_set(), "controllerRef.name", "other", "controllerRef"),
        (node_set(), "volumeClaimTemplates", [{"metadata": {"name": "a"}}], "volumeClaimTemplates"),
        (login_set(), "controllerRef.name", "other", "controllerRef"),
        (ACCOUNTING, "jwtKeyRef", OTHER, "jwtKeyRef"),
        (token(), "jwtKeyRef", OTHER, "jwtKeyRef"),
        (FULL, "slurmKeyRef.key", "other", None),
        (FULL, "external", True, None),
        (FULL, "persistence.storageClassName", "y", None),
        (resource("RestApi", "r", {"controllerRef": {"name": "slurm"}}), "controllerRef.name", "other", None),
        (ACCOUNTING, "slurmKeyRef.name", "other", None),
        (ACCOUNTING, "storageConfig.host", "other", None),
        (token(), "username", "other", None),
        (node_set(), "scalingMode", "DaemonSet", None),
        (node_set(), "template.spec.hostname", "other-", None),
    ],
)
def test_changes(item: Object, path: str, value: object, reason: str | None) -> None:
    found = refused(changed(item, path, value), item)
    assert reason in found if reason else found == ""


def test_the_jwt_key_may_move_to_its_old_field() -> None:
    moved = changed(changed(FULL, "jwtKeyRef", None), "jwtHs256KeyRef", JWT_KEY)
    assert refused(moved, FULL) == ""


def test_warnings() -> None:
    assert "motd" in judge("CREATE", controller(configFileRefs=[{"name": "odd"}]), None, FILES.get).warnings[0]
    service = controller(service={"spec": {"externalIPs": ["198.51.100.1"]}})
    assert "externalIPs" in judge("CREATE", service, None, FILES.get).warnings[0]
    assert judge("CREATE", controller(configFileRefs=[{"name": "gres"}]), None, FILES.get).warnings == []


def test_an_object_on_its_way_out_may_be_changed() -> None:
    going = resource("NodeSet", "train", {}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert refused(going, node_set()) == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("1h30m", 5400), ("0", 0), ("1.5s", 1.5), ("-1m", -60), ("43800h0m0s", 157680000), ("1d", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
