"""Slinky's objects: what the API server lets pass and the operator trips over is refused here, by path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crusoe.rules import slinky

Spec = dict[str, Any]
KEY = {"name": "slurm-auth", "key": "slurm.key"}
IMAGE = {"image": "ghcr.io/slinkyproject/daemon:26.05.1-ubuntu26.04"}
WORKING: dict[str, Spec] = {
    "Controller": {
        "clusterName": "dev",
        "slurmKeyRef": KEY,
        "jwtKeyRef": KEY,
        "slurmctld": IMAGE,
        "logfile": IMAGE,
        "persistence": {"enabled": True, "existingClaim": "slurm-state"},
    },
    "Accounting": {
        "slurmKeyRef": KEY,
        "jwtKeyRef": KEY,
        "slurmdbd": IMAGE,
        "storageConfig": {"host": "mariadb", "passwordKeyRef": KEY},
    },
    "RestApi": {"controllerRef": {"name": "slurm"}, "slurmrestd": IMAGE},
    "LoginSet": {"controllerRef": {"name": "slurm"}, "sssdConfRef": KEY, "login": IMAGE, "initconf": IMAGE},
    "NodeSet": {"controllerRef": {"name": "slurm"}, "slurmd": IMAGE, "logfile": IMAGE},
    "Token": {"jwtKeyRef": KEY, "username": "slurm"},
}


def told(kind: str, spec: Spec) -> dict[str, str]:
    return {finding.path: f"{finding.problem}; {finding.fix}" for finding in slinky.spec(kind, "o", spec)}


def changed(kind: str, path: str, value: object) -> Spec:
    """The working spec with one field set; with None, without it."""
    spec = json.loads(json.dumps(WORKING[kind]))  # no object in two places
    *parents, last = path.split(".")
    place = spec
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return spec


@pytest.mark.parametrize("kind", WORKING)
def test_the_smallest_working_object_of_each_kind_is_right(kind: str) -> None:
    assert told(kind, WORKING[kind]) == {}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, spec in WORKING.items() for field in spec])
def test_no_field_of_the_smallest_working_object_can_be_left_out(kind: str, field: str) -> None:
    assert told(kind, changed(kind, field, None)).keys() & {f"o.{field}", f"o.{field}.image"}


@pytest.mark.parametrize(
    ("kind", "daemon"),
    [
        ("Controller", "slurmctld"),
        ("Controller", "logfile"),
        ("Accounting", "slurmdbd"),
        ("RestApi", "slurmrestd"),
        ("LoginSet", "login"),
        ("LoginSet", "initconf"),
        ("NodeSet", "slurmd"),
        ("NodeSet", "logfile"),
    ],
)
def test_every_container_needs_its_image(kind: str, daemon: str) -> None:
    assert "nothing defaults it" in told(kind, changed(kind, daemon, {"env": []}))[f"o.{daemon}.image"]


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        ("NodeSet", "foo", 1, "no such field"),
        ("NodeSet", "taintKubeNodes", True, "no such field"),
        ("NodeSet", "controllerRef", {"name": "slurm", "namespace": "other"}, "no such field"),
        ("NodeSet", "template.spec", {"nodeSelectr": {}}, "Write nodeSelector"),
        ("NodeSet", "slurmd", {**IMAGE, "imagPullPolicy": "Always"}, "Write imagePullPolicy"),
        ("NodeSet", "slurmd", {**IMAGE, "env": [{"name": "A", "valu": "1"}]}, "Write value"),
        ("LoginSet", "service.spec", {"loadBalancerSourceRange": []}, "Write loadBalancerSourceRanges"),
        ("NodeSet", "template.spec", {"tolerations": "none"}, "not a list"),
        ("NodeSet", "template.spec", {"tolerations": [{"key": "a", "operator": "exists"}]}, "Write Exists or Equal"),
        ("NodeSet", "volumeClaimTemplates", {}, "not a list"),
        ("NodeSet", "replicas", -1, "Write 0 or more"),
        ("RestApi", "replicas", -3, "Write 0 or more"),
        ("NodeSet", "replicas", "2", "not a whole number"),
        ("NodeSet", "minReadySeconds", -5, "Write 0 or more"),
        ("Controller", "service.port", 70000, "Write 65535 or less"),
        ("NodeSet", "scalingMode", "Deployment", "Write StatefulSet or DaemonSet"),
        ("NodeSet", "extraConf", "Gres=gpu:h100:8 Weight", "on which the operator panics"),
        ("NodeSet", "extraConf", "Gres=gpu:h100:8\nWeight=1", "more than one line"),
        ("NodeSet", "partition.config", "Default=YES\nMaxTime=1", "more than one line"),
        ("NodeSet", "updateStrategy.rollingUpdate.maxUnavailable", "0%", "nothing is ever updated"),
        ("NodeSet", "updateStrategy.rollingUpdate.maxUnavailable", 0, "nothing is ever updated"),
        ("NodeSet", "template.spec.hostname", "GPU_", "no host name"),
        ("Controller", "clusterName", "c" * 41, "40 are allowed"),
        ("Controller", "persistence", {"enabled": True}, "can't be put right in place"),
        ("Controller", "persistence", {"accessModes": ["ReadWriteOnce"]}, "can't be put right in place"),
        ("Controller", "persistence", {"storage": "4Gi", "existingClaim": "a"}, "no such field"),
        ("Controller", "inplaceReconfigure", True, "missing, and nothing defaults it"),
        ("Accounting", "storageConfig.passwordKeyRef", None, "missing"),
        ("Token", "lifetime", "1d", "no duration"),
        ("Token", "lifetime", "soon", "no duration"),
    ],
)
def test_what_the_operator_trips_over_is_refused(kind: str, path: str, value: object, words: str) -> None:
    found = told(kind, changed(kind, path, value))
    assert any(words in each for each in found.values()), found
    assert all(place.startswith("o.") for place in found)


def test_every_field_inside_a_pod_template_is_known_by_name() -> None:
    spec = changed("NodeSet", "template.spec", {"volumes": [{"name": "home", "persistentVolumeClaim": {"claim": "x"}}]})
    assert told("NodeSet", spec) == {
        "o.template.spec.volumes[0].persistentVolumeClaim.claim": "there is no such field; Write claimName",
        "o.template.spec.volumes[0].persistentVolumeClaim.claimName": "missing; Set claimName",
    }


@pytest.mark.parametrize(("kind", "longest"), [("Controller", 41), ("Accounting", 41), ("NodeSet", 58)])
def test_names_leave_room_for_what_is_made_of_them(kind: str, longest: int) -> None:
    assert list(slinky.name(kind, "p", "n" * longest)) == []
    (finding,) = slinky.name(kind, "p", "n" * (longest + 1))
    assert f"{longest} are allowed" in finding.problem


def test_two_node_sets_with_one_host_name_prefix_are_refused() -> None:
    (finding,) = slinky.host_names("p", {"train": "gpu-", "debug": "gpu", "other": "cpu-"})
    assert (finding.path, "those of train" in finding.problem) == ("p.debug", True)


@pytest.mark.parametrize(
    ("kind", "path"),
    [(kind, path) for kind, paths in slinky.IMMUTABLE.items() for path in paths if "storage" not in path],
)
def test_a_field_that_can_not_change_in_place_is_refused_by_path(kind: str, path: str) -> None:
    before, after = changed(kind, path, "before"), changed(kind, path, "after")
    assert [finding.path for finding in slinky.changes(kind, "o", before, after)] == [f"o.{path}"]
    assert list(slinky.changes(kind, "o", before, before)) == []
