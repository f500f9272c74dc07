"""A control plane with the stand-in charts of Slinky, installed by the real Pulumi, and a Slurm that is made up."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.api_server import PODS
from localcloud.slinky.rest import RestError, SlurmNode
from tests.harness import ROOT, VIRTUALENV, execute
from tests.integration.localcloud_kubernetes.support import Json, Live
from tools import places

CHARTS = ROOT / "localcloud" / "charts"
PROGRAM = """
import os
import pulumi
from pulumi_kubernetes import Provider
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.helm.v3 import Release

cluster = Provider("cluster", kubeconfig=os.environ["KUBECONFIG_OF_THE_TEST"])
before = [Namespace("slurm", metadata={"name": "slurm"}, opts=pulumi.ResourceOptions(provider=cluster))]
for chart, namespace, values in (
    ("cert-manager", "cert-manager", {"crds": {"enabled": True}}),
    ("slurm-operator-crds", "slinky", {}),
    ("slurm-operator", "slinky", {
        "operator": {"namespaces": "slurm", "pdb": {"enabled": True}},
        "webhook": {"namespaces": "slurm", "pdb": {"enabled": True}},
        "propagatedNodeConditions": ["GpuLost"],
    }),
    ("mariadb-operator-crds", "mariadb-operator", {}),
    ("mariadb-operator", "mariadb-operator", {}),
):
    before = [Release(
        chart, name=chart, chart=os.environ["CHARTS"] + "/" + chart, namespace=namespace, create_namespace=True,
        values=values, timeout=60, opts=pulumi.ResourceOptions(provider=cluster, depends_on=before),
    )]
"""
KEYS = {
    "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"},
    "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
}
SECRETS = {
    "slurm-auth-slurm": {"slurm.key": "slurm-key-of-the-test"},
    "slurm-auth-jwt": {"jwt.key": "jwt-key-of-the-test"},
    "slurm-sssd": {"sssd.conf": "[sssd]"},
    "slurm-database": {"password": "database-password", "root-password": "root"},
}


class FakeSlurm:
    """A Slurm whose nodes do what the test says. Safe to use from several threads."""

    def __init__(self) -> None:
        self._nodes: dict[str, SlurmNode] = {}
        self._lock = threading.Lock()
        self.answers = True
        self.updates: list[tuple[str, str, str | None]] = []
        self.places: dict[str, str] = {}

    def set(self, name: str, *states: str, reason: str = "") -> None:
        with self._lock:
            self._nodes[name] = SlurmNode(name, frozenset(states), reason)

    def node(self, name: str) -> SlurmNode:
        with self._lock:
            return self._nodes[name]

    def clear(self) -> None:
        with self._lock:
            self._nodes.clear()
            self.updates.clear()
            self.answers = True

    def nodes(self) -> Mapping[str, SlurmNode]:
        if not self.answers:
            raise RestError("GET http://slurmrestd/: connection refused")
        with self._lock:
            return dict(self._nodes)

    def update_node(self, name: str, state: str, reason: str | None = None) -> None:
        with self._lock:
            self.updates.append((name, state, reason))
            found = self._nodes[name]
            states = found.states | {"DRAIN"} if state == "DRAIN" else found.states - {"DRAIN"}
            self._nodes[name] = SlurmNode(name, states, reason or "")

    def move_node(self, name: str, topology: str) -> None:
        with self._lock:
            self.places[name] = topology

    def delete_node(self, name: str) -> None:
        with self._lock:
            self._nodes.pop(name, None)


def kubelet(place: Place, stop: threading.Event) -> None:
    """Plays the kubelets of Slurm's pods, which kwok leaves alone: bound pods are ready, deleted ones are gone."""
    names = "slurmctld,slurmd,slurmrestd,slurmdbd,mariadb,login"
    while not stop.wait(0.3):
        for pod in place.api.list(PODS.path(), labelSelector=f"app.kubernetes.io/name in ({names})"):
            path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"])
            if "deletionTimestamp" in pod["metadata"]:
                place.api.delete(path, grace_seconds=0)
            elif "nodeName" in pod["spec"] and pod["status"].get("phase") != "Running":
                ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
                status = {
                    "phase": "Running",
                    "podIP": "10.234.0.9",
                    "podIPs": [{"ip": "10.234.0.9"}],
                    "conditions": ready,
                }
                place.api.merge(f"{path}/status", {"status": status}, strategic=True)


@dataclass
class Slinky:
    """The control plane and its Slurm."""

    live: Live
    slurm: FakeSlurm = field(default_factory=FakeSlurm)

    def apply(self, item: Json, *, ok: bool = True) -> str:
        """`kubectl apply`, server side, as Pulumi does it."""
        return self.live.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(item), ok=ok
        )

    def offer(self, item: Json, *options: str) -> str:
        """What creating an object would answer; nothing is stored."""
        return self.live.kubectl(
            "create", "--dry-run=server", "--validate=strict", *options, "-f", "-", stdin=json.dumps(item), ok=False
        )

    def find(self, kind: str, name: str) -> Json | None:
        """An object of the namespace slurm; None if it isn't there."""
        text = self.live.kubectl("get", kind, name, "-n", "slurm", "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def get(self, kind: str, name: str) -> Json:
        found = self.find(kind, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def pods(self, node_set: str) -> list[Json]:
        """A NodeSet's pods."""
        return self.live.get("pods", "-n", "slurm", "-l", f"app.kubernetes.io/instance={node_set}")["items"]

    def workers(self, node_set: str) -> list[str]:
        """The names of a NodeSet's pods."""
        return sorted(item["metadata"]["name"] for item in self.pods(node_set))

    def events(self, name: str) -> list[str]:
        """Reason and message of the warnings about an object."""
        found = self.live.get("events", "-n", "slurm", "--field-selector", f"type=Warning,involvedObject.name={name}")
        return [f"{item['reason']}: {item['message']}" for item in found["items"]]

    def delete(self, kind: str, *names: str) -> None:
        self.live.kubectl("delete", kind, *names, "-n", "slurm", "--ignore-not-found", "--wait=true")


def resource(kind: str, name: str, spec: Json | None, version: str = "slinky.slurm.net/v1beta1") -> Json:
    item: Json = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "slurm"}}
    return item if spec is None else {**item, "spec": spec}


def secret(name: str, values: Mapping[str, str]) -> Json:
    metadata = {"name": name, "namespace": "slurm"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)}


def controller(name: str = "slurm", **changes: Any) -> Json:
    """The smallest Controller that works."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}
    spec = {
        "clusterName": "test",
        **KEYS,
        "slurmctld": {"image": "registry.example/slurmctld:1"},
        "logfile": {"image": "registry.example/alpine:1"},
        "persistence": claim,
    }
    return resource("Controller", name, {**spec, **changes})


def rest_api(**changes: Any) -> Json:
    spec = {"controllerRef": {"name": "slurm"}, "slurmrestd": {"image": "registry.example/slurmrestd:1"}}
    return resource("RestApi", "slurm", {**spec, **changes})


def node_set(name: str = "train", **changes: Any) -> Json:
    spec = {
        "controllerRef": {"name": "slurm"},
        "slurmd": {"image": "registry.example/slurmd:1"},
        "logfile": {"image": "registry.example/alpine:1"},
    }
    return resource("NodeSet", name, {**spec, **changes})


def login_set(**changes: Any) -> Json:
    spec = {
        "controllerRef": {"name": "slurm"},
        "login": {"image": "registry.example/login:1"},
        "initconf": {"image": "registry.example/alpine:1"},
        "sssdConfRef": {"name": "slurm-sssd", "key": "sssd.conf"},
    }
    return resource("LoginSet", "login", {**spec, **changes})


def accounting(**changes: Any) -> Json:
    storage = {
        "host": "mariadb",
        "username": "slurm",
        "passwordKeyRef": {"name": "slurm-database", "key": "password"},
    }
    spec = {**KEYS, "slurmdbd": {"image": "registry.example/slurmdbd:1"}, "storageConfig": storage}
    return resource("Accounting", "slurm", {**spec, **changes})


def token(**changes: Any) -> Json:
    return resource("Token", "metrics", {"username": "scraper", "jwtKeyRef": KEYS["jwtKeyRef"], **changes})


def install(live: Live, folder: Path) -> None:
    """Install the charts with the real Pulumi, as a program of its own."""
    (folder / "backend").mkdir(parents=True)
    project = {
        "name": "slinky",
        "runtime": {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(VIRTUALENV)}},
    }
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (folder / "__main__.py").write_text(PROGRAM)
    base = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    environment = {
        **base,
        "HOME": str(folder),
        "PATH": f"{places.BIN}:{base['PATH']}",
        "PULUMI_HOME": str(folder / "pulumi-home"),
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "KUBECONFIG_OF_THE_TEST": live.plane.credentials(live.cluster, "admin_cert").kube_config,
        "CHARTS": str(CHARTS),
    }
    for arguments in (["stack", "init", "test"], ["up", "--yes", "--skip-preview", "--stack", "test"]):
        done = execute(["pulumi", *arguments, "--non-interactive"], folder, environment, 240)
        assert done.code == 0, done.text
    for name, values in SECRETS.items():
        live.create(secret(name, values))
    _await_webhook(live)


def _await_webhook(live: Live) -> None:
    """Until the API server knows the webhook's CA, its answers are those of a cluster whose webhook is down."""
    deadline = time.monotonic() + 30
    wrong = json.dumps(node_set(controllerRef={}))
    while True:
        said = live.kubectl("create", "--dry-run=server", "-f", "-", stdin=wrong, ok=False)
        if "denied the request: controllerRef.name" in said:
            return
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
