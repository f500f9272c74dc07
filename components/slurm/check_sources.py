"""What `make check` reads: nodes and workers from Kubernetes, nodes from Slurm. It asks, and changes nothing.

Slurm is asked inside slurmctld's pod (`scontrol show nodes --json`, Slurm 26.05), so nothing of Slurm has to be
reachable from here but the API server.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.slurm.charts import NAMESPACE
from components.slurm.check import Host, Seen, SlurmNode, Worker
from components.slurm.objects import POOL_LABEL
from crusoe import catalog
from crusoe.rules.values import items, table, text

TYPE_LABEL = "node.kubernetes.io/instance-type"
NAME_LABEL, INSTANCE_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/instance"
HOSTNAME_LABEL = "nodeset.slinky.slurm.net/pod-hostname"
"""Slinky's label with the name that a worker has in Slurm."""
CONTROLLER = SLURMCTLD = "slurmctld"
REQUEST_SECONDS, COMMAND_SECONDS = 15, 60
"""How long the API server may take for an answer, and any command as a whole."""

_GPUS = re.compile(r"gpu(?::[^:]*[^:\d][^:]*)?(?::(\d+))?")


class SourceError(Exception):
    """A source did not answer; `str()` says which and why."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig."""

    program: str
    kubeconfig: Path

    def run(self, *arguments: str) -> str:
        """Return what a command prints. Raises SourceError with kubectl's last line."""
        command = [self.program, f"--kubeconfig={self.kubeconfig}", *arguments]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"kubectl {arguments[0]} did not end within {COMMAND_SECONDS} s") from None
        except OSError as error:
            raise SourceError(f"{self.program} can't be run: {error.strerror}") from None
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise SourceError(said[-1] if said else f"kubectl {arguments[0]} ended with {done.returncode}")
        return done.stdout

    def get(self, *arguments: str) -> list[Mapping[str, Any]]:
        """Return the objects of a list."""
        answer = self.run("get", *arguments, "-o", "json", f"--request-timeout={REQUEST_SECONDS}s")
        return [table(each) for each in items(table(json.loads(answer)).get("items"))]


def read(kubectl: Kubectl) -> Seen:
    """Ask both. Raises SourceError when Kubernetes does not answer; that Slurm does not is part of what is seen."""
    nodes = kubectl.get("nodes")
    pods = kubectl.get("pods", "-n", NAMESPACE, "-l", f"{NAME_LABEL} in (slurmd,{SLURMCTLD})")
    found: list[SlurmNode] | None = None
    silence = ""
    try:
        found = slurm_nodes(kubectl.run("exec", "-n", NAMESPACE, controller(pods), "-c", SLURMCTLD, "--", *SHOW_NODES))
    except SourceError as error:
        silence = str(error).rstrip(".")
    return Seen([host(each) for each in nodes], list(workers(pods)), found, silence)


SHOW_NODES = ("scontrol", "show", "nodes", "--json")


def host(node: Mapping[str, Any]) -> Host:
    """A node as Kubernetes has it."""
    metadata = table(node.get("metadata"))
    labels, offered = table(metadata.get("labels")), table(table(node.get("status")).get("allocatable"))
    return Host(
        name=text(metadata.get("name")) or "",
        type=text(labels.get(TYPE_LABEL)) or "",
        pool=text(labels.get(POOL_LABEL)) or "",
        gpus=sum(int(str(offered.get(name) or 0)) for name in catalog.RESOURCE_NAMES.values()),
        cordoned=table(node.get("spec")).get("unschedulable") is True,
    )


def workers(pods: list[Mapping[str, Any]]) -> Iterator[Worker]:
    """The slurmd pods that are not about to go."""
    for pod in pods:
        metadata, spec = table(pod.get("metadata")), table(pod.get("spec"))
        labels = table(metadata.get("labels"))
        if labels.get(NAME_LABEL) == "slurmd" and not metadata.get("deletionTimestamp"):
            name = text(labels.get(HOSTNAME_LABEL)) or text(spec.get("hostname")) or text(metadata.get("name")) or ""
            yield Worker(text(labels.get(INSTANCE_LABEL)) or "", name, text(spec.get("nodeName")))


def controller(pods: list[Mapping[str, Any]]) -> str:
    """The name of slurmctld's pod. Raises SourceError when there is none, or it is not ready."""
    for pod in pods:
        metadata, status = table(pod.get("metadata")), table(pod.get("status"))
        if table(metadata.get("labels")).get(NAME_LABEL) != CONTROLLER:
            continue
        conditions = {
            text(table(each).get("type")): table(each).get("status") for each in items(status.get("conditions"))
        }
        if conditions.get("Ready") != "True":
            raise SourceError(f"the pod {metadata.get('name')} is not ready ({status.get('phase')})")
        return str(metadata["name"])
    raise SourceError(f"there is no pod of slurmctld in the namespace {NAMESPACE}")


def slurm_nodes(answer: str) -> list[SlurmNode]:
    """The nodes in what `scontrol show nodes --json` prints. Raises SourceError when it is something else."""
    try:
        document = table(json.loads(answer))
    except ValueError:
        raise SourceError(f"scontrol answered {answer[:80]!r} and not JSON") from None
    errors = [text(table(each).get("error")) or str(each) for each in items(document.get("errors"))]
    if errors:
        raise SourceError(f"scontrol says {errors[0]}")
    return [
        SlurmNode(
            name=text(node.get("name")) or "",
            gpus=gpus(text(node.get("gres")) or ""),
            states=tuple(str(state) for state in items(node.get("state"))),
            reason=text(node.get("reason")) or "",
        )
        for node in map(table, items(document.get("nodes")))
    ]


def gpus(gres: str) -> int:
    """GPUs in a node's gres, such as `gpu:h100:8(S:0-1),nic:4`."""
    bare = re.sub(r"\([^)]*\)", "", gres)
    found = [_GPUS.fullmatch(item) for item in bare.split(",")]
    return sum(int(match.group(1) or 1) for match in found if match)
