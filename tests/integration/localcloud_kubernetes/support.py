"""A control plane under test, seen as its users see it: through kubectl and the process table."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from localcloud.control_plane import ClusterSpec
from localcloud.kubernetes import KwokControlPlane
from localcloud.kubernetes.home import COMPONENTS, Home
from tests import processes
from tests.harness import wait
from tools.toolchain import binary

Json = dict[str, Any]


@dataclass(frozen=True)
class Live:
    """A running control plane."""

    plane: KwokControlPlane
    cluster: ClusterSpec
    root: Path

    @property
    def home(self) -> Home:
        return Home(self.root, self.cluster.id)

    def kubectl(self, *arguments: str, stdin: str | None = None, ok: bool = True) -> str:
        """kubectl's output, with credentials of its own."""
        config = self.root / "kubeconfig-of-the-test"
        if not config.exists():
            config.write_text(self.plane.credentials(self.cluster, "admin_cert").kube_config)
        done = subprocess.run(
            [str(binary("kubectl")), f"--kubeconfig={config}", "--request-timeout=20s", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout + ("" if ok else done.stderr)

    def get(self, *arguments: str) -> Json:
        """`kubectl get` as JSON."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def create(self, item: Json) -> None:
        """`kubectl create`."""
        self.kubectl("create", "-f", "-", stdin=json.dumps(item))

    def processes(self) -> dict[str, psutil.Process]:
        """The components' processes, found by what they execute."""
        return components_of(self.home)


def components_of(home: Home) -> dict[str, psutil.Process]:
    """A cluster's component processes by name."""
    found: dict[str, psutil.Process] = {}
    for process in processes.mentioning(home.folder):
        line = processes.command_line(process)
        if line and Path(line[0]).parent == home.folder / "bin":
            found[Path(line[0]).name] = process
    return found


def processes_below(root: Path) -> list[str]:
    """The command lines of everything that works on files below a folder."""
    lines = map(processes.command_line, processes.mentioning(root))
    return [" ".join(line) for line in lines if line]


PATIENCE = 4
"""How many times longer than here a wait may take on a machine whose cores are busy with other tests."""


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for a condition; fail the test if it doesn't come true."""
    wait(condition, seconds * PATIENCE, "the condition did not come true in time")


def pod(name: str, *, gpus: int = 0, node: str | None = None) -> Json:
    """A pod that asks for GPUs."""
    container: Json = {"name": "main", "image": "registry.example/main:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
    }


ALL = set(COMPONENTS)
