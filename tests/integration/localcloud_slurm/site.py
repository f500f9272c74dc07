"""A small Slurm site of hand-written pods on a real control plane, seen through kubectl and the pods' processes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from localcloud.control_plane import NodeSpec
from localcloud.facts import Facts
from localcloud.kubernetes import KwokControlPlane
from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.egress import egress
from localcloud.slurm.kubelet import Kubelets
from localcloud.slurm.lab import Lab
from localcloud.slurm.reach import lab_folder
from tests.integration.localcloud_kubernetes.conftest import ACCESS
from tests.integration.localcloud_kubernetes.support import Live, until
from tests.unit.localcloud_kubernetes.support import CLUSTER, h100
from tools.slurm_root.root import folder as slurm_root
from tools.toolchain import binary

Json = dict[str, Any]

SLURM_CONF = """\
ClusterName=site
SlurmUser=slurm
SlurmctldHost=slurm-controller-0(slurm-controller.slurm)
SlurmctldPort=6817
StateSaveLocation=/var/spool/slurmctld
SlurmdUser=root
SlurmdPort=6818
SlurmdSpoolDir=/var/spool/slurmd
MaxNodeCount=64
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
AuthType=auth/slurm
CredType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
AuthInfo=use_client_ids,cred_expire=10
SlurmctldParameters=enable_configless,reconfig_on_restart
AccountingStorageType=accounting_storage/none
NodeSet=gpu Feature=gpu
PartitionName=gpu Nodes=gpu Default=YES
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
PrologFlags=Contain
JobAcctGatherType=jobacct_gather/cgroup
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
"""

KEYS = [{"secret": {"name": "slurm-auth-slurm", "items": [{"key": "slurm.key", "path": "slurm.key"}]}}]
ALL_KEYS = [*KEYS, {"secret": {"name": "slurm-auth-jwt", "items": [{"key": "jwt.key", "path": "jwt.key"}]}}]
CONFIG = {"configMap": {"name": "slurm-config"}}


def etc(*sources: Json) -> Json:
    return {"name": "slurm-etc", "projected": {"defaultMode": 0o600, "sources": list(sources)}}


def empty(*names: str) -> list[Json]:
    return [{"name": name, "emptyDir": {}} for name in names]


def user(number: int) -> Json:
    return {"runAsUser": number, "runAsGroup": number, "fsGroup": number}


def pod(name: str, kind: str, node: str, spec: Json, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "slurm", "labels": {"app.kubernetes.io/name": kind, **labels}},
        "spec": {"nodeName": node, "automountServiceAccountToken": False, **spec},
    }


def mount(name: str, path: str) -> Json:
    return {"name": name, "mountPath": path}


def controller(node: str) -> Json:
    container = {
        "name": "slurmctld",
        "image": "slurmctld",
        "args": ["-D"],
        "ports": [{"containerPort": 6817}],
        "readinessProbe": {"tcpSocket": {"port": 6817}},
        "volumeMounts": [
            mount("slurm-etc", "/etc/slurm"),
            mount("run", "/run/slurmctld"),
            mount("state", "/var/spool/slurmctld"),
            mount("log", "/var/log/slurm"),
        ],
    }
    logfile = {
        "name": "logfile",
        "image": "alpine",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "touch /var/log/slurm/slurmctld.log && exec tail -F /var/log/slurm/slurmctld.log"],
        "volumeMounts": [mount("log", "/var/log/slurm")],
    }
    volumes: list[Json] = [etc(CONFIG, *ALL_KEYS), *empty("run", "state", "log")]
    spec = {
        "securityContext": user(401),
        "initContainers": [logfile],
        "containers": [container],
        "volumes": volumes,
        "hostname": "slurm-controller-0",
    }
    return pod("slurm-controller-0", "slurmctld", node, spec)


def rest_api(node: str) -> Json:
    container = {
        "name": "slurmrestd",
        "image": "slurmrestd",
        "args": ["0.0.0.0:6820"],
        "env": [{"name": "SLURM_JWT", "value": "daemon"}],
        "ports": [{"containerPort": 6820}],
        "volumeMounts": [mount("slurm-etc", "/etc/slurm")],
    }
    spec = {"securityContext": user(65534), "containers": [container], "volumes": [etc(CONFIG, *ALL_KEYS)]}
    return pod("slurm-restapi-0", "slurmrestd", node, spec)


def worker(name: str, node: str, *, pre_stop: str = "", grace: int = 30, command: str = "") -> Json:
    """A worker with eight GPUs; with `command`, a pod of the same kind that runs a script and shares a disk."""
    container: Json = {
        "name": "slurmd",
        "image": "slurmd",
        "args": [
            *("-D", "-Z", "--conf-server", "slurm-controller.slurm:6817"),
            *("--conf", "Features=gpu Gres=gpu:h100:8"),
        ],
        "ports": [{"containerPort": 6818}],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("slurm-etc", "/etc/slurm"),
            mount("run", "/run"),
            mount("spool", "/var/spool/slurmd"),
            mount("log", "/var/log/slurm"),
        ],
    }
    if pre_stop:
        container["lifecycle"] = {"preStop": {"exec": {"command": ["/usr/bin/sh", "-c", pre_stop]}}}
    if command:
        mounts = [*container["volumeMounts"], mount("shared", "/shared")]
        container |= {"command": ["bash", "-c", command], "args": [], "ports": [], "volumeMounts": mounts}
    volumes: list[Json] = [etc(*KEYS), *empty("run", "spool", "log")]
    if command:
        volumes.append({"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}})
    spec = {
        "containers": [container],
        "volumes": volumes,
        "hostname": name,
        "terminationGracePeriodSeconds": grace,
    }
    return pod(name, "slurmd", node, spec)


def service(name: str, kind: str, port: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "slurm"},
        "spec": {"selector": {"app.kubernetes.io/name": kind}, "ports": [{"port": port}]},
    }


def key(name: str, file: str) -> Json:
    data = {file: base64.b64encode(os.urandom(1024)).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "slurm"}, "data": data}


def config(**files: str) -> Json:
    data = {"slurm.conf": SLURM_CONF, "cgroup.conf": "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainCores=yes\n"}
    data |= {"gres.conf": "AutoDetect=nvidia\n", **{name.replace("__", "."): text for name, text in files.items()}}
    metadata = {"name": "slurm-config", "namespace": "slurm"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


_SIZE = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
_VOLUME = {**_SIZE, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/shared"}}
_CLAIM = {**_SIZE, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "shared"}

BASE = [
    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "shared"}, "spec": _VOLUME},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared", "namespace": "slurm"},
        "spec": _CLAIM,
    },
    key("slurm-auth-slurm", "slurm.key"),
    key("slurm-auth-jwt", "jwt.key"),
    config(),
    service("slurm-controller", "slurmctld", 6817),
    service("slurm-restapi", "slurmrestd", 6820),
]


def cluster(root: Path) -> tuple[Live, list[NodeSpec]]:
    """A control plane below a folder, and its four nodes with GPUs."""
    plane = KwokControlPlane(root, binary=binary, access=ACCESS, drain_seconds=5)
    plane.create(CLUSTER)
    nodes = [h100(number) for number in range(4)]
    plane.apply_nodes(CLUSTER.id, nodes)
    return Live(plane, CLUSTER, root), nodes


@dataclass
class Site:
    """The pods of one cluster, with a kubelet that can be stopped and started again."""

    live: Live
    kubelets: Kubelets = field(default_factory=lambda: Kubelets(slurm_root, Facts().vm_types))
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def begin(self) -> None:
        """Start the kubelet, as a start of the local cloud does."""
        self.stop = threading.Event()
        place = Place(self.live.cluster, self.live.home, self.live.plane._watching(self.live.cluster.id))  # pyright: ignore[reportPrivateUsage]  what starts actors gives it to them
        actors = (self.kubelets.act, egress([self.kubelets.resolve]))
        self.threads = [threading.Thread(target=actor, args=(place, self.stop), daemon=True) for actor in actors]
        for thread in self.threads:
            thread.start()

    def halt(self) -> None:
        """Stop the kubelet and leave the pods alone, as a kill of the local cloud does."""
        self.stop.set()
        for thread in self.threads:
            thread.join(10)

    def create(self, *items: Json) -> None:
        for item in items:
            self.live.create(item)

    def pod(self, name: str) -> Json:
        return self.live.get("pod", name, "-n", "slurm")

    def ready(self, name: str) -> bool:
        conditions = self.pod(name).get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def gone(self, name: str) -> bool:
        return "NotFound" in self.live.kubectl("get", "pod", name, "-n", "slurm", ok=False)

    @property
    def lab(self) -> Lab:
        return self.kubelets._labs[self.live.cluster.id]  # pyright: ignore[reportPrivateUsage]  the pods' processes are what is looked at

    @property
    def shared(self) -> Path:
        """The disk behind the claim `shared`."""
        return self.live.home.root / "disks" / "shared"

    def process(self, name: str) -> psutil.Process:
        """The first process of a pod."""
        folder = lab_folder(self.live.home) / "pods" / self.pod(name)["metadata"]["uid"]
        return self.lab.running()[folder]

    def run(self, name: str, container: str, *command: str, ok: bool = True) -> str:
        """The output of a command in a container."""
        folder = lab_folder(self.live.home) / "pods" / self.pod(name)["metadata"]["uid"]
        inner = json.loads((folder / "status.json").read_text())["containers"][container]["pid"]
        pid = self.lab.pid(self.lab.running()[folder], inner)
        assert pid is not None
        done = subprocess.run(
            [*self.lab.inside(pid), *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def slurm(self, *command: str) -> str:
        """The output of one of Slurm's commands in slurmctld's pod."""
        return self.run("slurm-controller-0", "slurmctld", *command)

    def log(self, name: str, container: str) -> str:
        """What a container has written."""
        folder = lab_folder(self.live.home) / "pods" / self.pod(name)["metadata"]["uid"]
        return (folder / "containers" / container / "log").read_text(errors="replace")

    def await_ready(self, *names: str, seconds: float = 60) -> None:
        for name in names:
            until(lambda name=name: self.ready(name), seconds)
