"""How far a stack can grow: 1,000 node pools with 10,000 nodes through `up`, `refresh` and `destroy` (`make bench
ARGS=limits`).

On the local cloud's API without Kubernetes behind it, since 10,000 kubelets' worth of API server would be measured
otherwise; so these are numbers of the CLI and the plugin. Each with the file backend as it is, which writes the whole
state at every step, and with `PULUMI_SKIP_CHECKPOINTS=true`, which writes it once at the end.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import psutil

from tests import pages
from tests.harness import Json
from tests.processes import command_line, family, resident
from tests.rest_cloud import RestCloud, rest_cloud
from tests.small_stack import SmallStack

COMMAND = "make bench ARGS=limits"
POOLS, NODES_EACH, CLUSTERS = 1000, 10, 4
MEGABYTE = 1e6
LOOK_SECONDS = 0.5
COMMAND_SECONDS = 3000.0
VM_TYPE = "c1a.2x"


@dataclass
class Peaks:
    """The most memory that the CLI and the plugin held, in bytes."""

    cli: int = 0
    plugin: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self, pid: int) -> None:
        """Look at a command's processes until it has ended."""
        while not self.ended.wait(LOOK_SECONDS):
            processes = family(pid)
            plugins = [one for one in processes if any(part.endswith("crusoe/provider") for part in command_line(one))]
            self.cli = max(self.cli, resident(processes[:1]))
            self.plugin = max(self.plugin, resident(_largest(plugins)))


def _largest(processes: list[psutil.Process]) -> list[psutil.Process]:
    """The language host's child that is the plugin itself: it holds more than what started it."""
    return sorted(processes, key=lambda one: resident([one]))[-1:]


@dataclass(frozen=True)
class Row:
    """One command's numbers."""

    command: str
    checkpoints: bool
    seconds: float
    processor: float
    cli: float
    plugin: float


def declared(clusters: list[str], pools: int) -> list[Json]:
    """So many pools, spread over the clusters."""
    return [
        {
            "kind": "KubernetesNodePool",
            "name": f"pool-{number:04}",
            "inputs": {
                "name": f"pool-{number:04}",
                "cluster_id": clusters[number % len(clusters)],
                "type": VM_TYPE,
                "count": NODES_EACH,
                "adopt_existing": True,
            },
        }
        for number in range(pools)
    ]


def measured(stack: SmallStack, verb: str, *, checkpoints: bool) -> Row:
    """Run a command to its end. Raises AssertionError when it fails."""
    stack.project.variables = {} if checkpoints else {"PULUMI_SKIP_CHECKPOINTS": "true"}
    before, began, peaks = _processor(), time.monotonic(), Peaks()
    with (stack.project.folder / "output").open("w+") as output:
        process = stack.project.start(*stack.arguments(verb), output=output)
        watcher = threading.Thread(target=peaks.watch, args=(process.pid,))
        watcher.start()
        code = process.wait(COMMAND_SECONDS)
        peaks.ended.set()
        watcher.join()
        output.seek(0)
        assert code == 0, output.read()[-4000:]
    taken = time.monotonic() - began, _processor() - before
    return Row(verb, checkpoints, *taken, peaks.cli / MEGABYTE, peaks.plugin / MEGABYTE)


def _processor() -> float:
    """Processor seconds of all that has been started and has ended: the CLI, the program and the plugin."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepared(cloud: RestCloud) -> list[str]:
    """Clusters with room, stock and quota for all nodes; their ids."""
    found: list[str] = []
    network = cloud.api("POST", "/networking/vpc-networks", {"name": "limits", "cidr": "10.0.0.0/8"})["network"]["id"]
    place = {"location": "us-east1-a", "vpc_network_id": network}
    body = {"name": "limits", "cidr": "10.0.0.0/16", **place}
    subnet = cloud.api("POST", "/networking/vpc-subnets", body)["subnet"]["id"]
    ends = {"sources": [{"cidr": "10.0.0.0/16"}], "destinations": [{"cidr": "0.0.0.0/0"}], "protocols": ["tcp"]}
    rule = {"name": "limits", "vpc_network_id": network, "action": "allow", "direction": "egress", **ends}
    cloud.api("POST", "/networking/vpc-firewall-rules", rule)
    for number in range(CLUSTERS):
        cluster = {"name": f"limits-{number}", "location": "us-east1-a", "version": "1.35.5", "subnet_id": subnet}
        cloud.api("POST", "/kubernetes/clusters", cluster)
    found += [one["id"] for one in cloud.items("/kubernetes/clusters")]
    cloud.admin("PUT", "/capacities", {"vm_type": VM_TYPE, "location": "us-east1-a", "quantity": 20_000})
    cloud.admin("PUT", "/quotas", {"name": "c1a", "max": 1_000_000})
    return found


def table(rows: list[Row], pools: int) -> str:
    """The numbers in Markdown."""
    kept = {True: "as it is", False: "off"}
    lines = [
        "",
        f"{pools:,} node pools with {pools * NODES_EACH:,} nodes, file backend:",
        "",
        "| command | checkpoints | time | processor time | memory of the CLI | of the plugin |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row.command}` | {kept[row.checkpoints]} | {row.seconds:.0f} s | {row.processor:.0f} s | {row.cli:.0f} MB"
        f" | {row.plugin:.0f} MB |"
        for row in rows
    ]
    return "\n".join([*lines, "", ""])


def main(pools: int = POOLS) -> int:
    """Measure, and write the table where everything was measured."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="limits-") as folder, rest_cloud(Path(folder)) as cloud:
        clusters = prepared(cloud)
        for checkpoints in (False, True):
            stack = SmallStack(Path(folder) / f"checkpoints-{checkpoints}", cloud, "limits")
            stack.want(declared(clusters, pools))
            for verb in ("up", "refresh", "destroy"):
                rows.append(measured(stack, verb, checkpoints=checkpoints))
                print(rows[-1], flush=True)
            assert not cloud.items("/compute/vms/instances")
    text = table(rows, pools)
    print(text)
    if pools == POOLS:
        pages.write(COMMAND, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
