"""One small stack on one cloud, and rounds on it: a command is killed somewhere, the next one finishes its work.

A round's seed decides what is killed (the CLI, the plugin or the cloud), in which command (`up` of a new stack, `up` of
a change, `destroy`) and when. What `make up` clears by itself on the stack `dev` is cleared here with the same code and
the same commands. Then the same command runs to its end, and state and cloud are compared, both listed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from tests.harness import Json, leftovers, until
from tests.processes import command_line
from tests.rest_cloud import RestCloud
from tests.small_stack import SmallStack

Victim = Literal["cli", "plugin", "cloud"]
VICTIMS: tuple[Victim, ...] = ("cli", "plugin", "cloud")
Command = Literal["up", "change", "destroy"]

NAME = "soak"
OPERATION_SECONDS = 0.2
COMMAND_SECONDS = 180.0
KINDS = {
    "crusoe:index:VpcNetwork": "/networking/vpc-networks",
    "crusoe:index:IbPartition": "/networking/ib-partitions",
    "crusoe:index:StorageDisk": "/storage/disks",
    "crusoe:index:KubernetesNodePool": "/kubernetes/nodepools",
}
IB_NETWORK = "00000000-0000-4000-8000-000000000101"
CLUSTER = {"name": "kept", "location": "us-east1-a", "version": "1.35.5"}


@dataclass(frozen=True)
class Round:
    """What a round does; `moment` is where in the command's usual time it kills, from 0 to 1."""

    seed: int
    command: Command
    victim: Victim
    moment: float


@dataclass(frozen=True)
class Told:
    """What came of a round: whether the kill met the command, and what had to be cleared after it."""

    round: Round
    met: bool
    lock: bool
    pending: tuple[str, ...]
    seconds: float

    @property
    def line(self) -> str:
        """For people who watch."""
        did = f"{self.round.command}, {self.round.victim} killed at {self.round.moment:.0%} of its time"
        late = "" if self.met else ", which came too late"
        cleared = [*(["a lock"] if self.lock else []), *self.pending]
        after = f"; cleared {', '.join(cleared)}" if cleared else ""
        return f"seed {self.round.seed}: {did}{late}{after}; {self.seconds:.0f} s"


def planned(seed: int, *, exists: bool) -> Round:
    """The round of a seed; what it does depends on whether the stack is up."""
    chance = random.Random(seed)
    command: Command = chance.choice(("change", "destroy")) if exists else "up"
    return Round(seed, command, chance.choice(VICTIMS), chance.uniform(0.2, 1.0))


class Stack:
    """The stack and its cloud, with a cluster that is kept for its pools."""

    def __init__(self, folder: Path, cloud: RestCloud) -> None:
        self.cloud = cloud
        self.small = SmallStack(folder, cloud, NAME)
        self.project = self.small.project
        cloud.api("POST", "/kubernetes/clusters", CLUSTER)
        until(lambda: self._kept()["state"] == "STATE_RUNNING", 30, "the cluster that is kept")
        self.cluster = self._kept()["id"]
        # How long each takes, as the last one of it did.
        self.seconds: dict[Command, float] = {"up": 4.0, "change": 4.0, "destroy": 3.0}
        self.exists = False

    def _kept(self) -> Json:
        (one,) = self.cloud.items("/kubernetes/clusters")
        return one

    def want(self, number: int) -> None:
        """Write what the program says from now on; disks only grow, so theirs does with each number."""
        place, own = {"location": "us-east1-a"}, {"adopt_existing": True}
        pool = {"cluster_id": self.cluster, "type": "c1a.4x", "count": 1 + number % 3, "allow_scale_down": True}
        inputs: dict[str, Json] = {
            "VpcNetwork": {"name": f"soak-network-{number}", "cidr": "10.30.0.0/16"},
            "IbPartition": {"name": "soak-partition", "ib_network_id": IB_NETWORK},
            "StorageDisk": {"name": "soak-disk", "size": f"{1 + number}GiB", **place},
            "KubernetesNodePool": {"name": "soak-pool", "node_labels": {"round": str(number)}, **pool},
        }
        resources = [{"kind": kind, "name": kind, "inputs": {**values, **own}} for kind, values in inputs.items()]
        self.small.want(resources)

    def play(self, number: int, seed: int) -> Told:
        """Play one round.

        Raises:
            AssertionError: the next run did not finish, or state and cloud differ; says how.
        """
        started = time.monotonic()
        one = planned(seed, exists=self.exists)
        self.want(number)
        met = self._killed(one)
        lock, pending = self.small.clear()
        again = time.monotonic()
        result = self.project.pulumi(*self._arguments(one.command), check=False, seconds=COMMAND_SECONDS)
        assert result.code == 0, f"the run after the kill failed:\n{result.text}"
        self.seconds[one.command] = time.monotonic() - again
        self.exists = one.command != "destroy"
        self.compare()
        return Told(one, met, lock, pending, time.monotonic() - started)

    def _arguments(self, command: Command) -> list[str]:
        return self.small.arguments("destroy" if command == "destroy" else "up")

    def _killed(self, one: Round) -> bool:
        """Run the command up to the moment, kill, and wait until it has ended; whether it was still running."""
        process = self.project.start(*self._arguments(one.command))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.seconds[one.command] * one.moment)
        met = process.poll() is None
        if met:
            self._kill(one.victim, process.pid)
        process.communicate(timeout=COMMAND_SECONDS)
        return met

    def _kill(self, victim: Victim, cli: int) -> None:
        if victim == "cli":
            os.kill(cli, signal.SIGKILL)
        elif victim == "cloud":
            self.cloud.kill()
            # An `up` is not to wait for its end without a cloud.
            self.cloud.up()
        else:
            for plugin in _plugins(cli):
                with contextlib.suppress(psutil.NoSuchProcess):
                    plugin.kill()

    def compare(self) -> None:
        """State and cloud hold the same objects, each once; no machine is there that no pool has."""
        recorded = self.small.recorded()
        for token, path in KINDS.items():
            there = sorted(one["id"] for one in self.cloud.items(path) if one["name"].startswith("soak-"))
            known = sorted(str(one["id"]) for one in recorded if one["type"] == token)
            assert there == known, f"{path}: the cloud has {there}, the state {known}"
        pools = self.cloud.items("/kubernetes/nodepools")
        owned = {vm for pool in pools for vm in pool["instance_ids"]}
        vms = {one["id"] for one in self.cloud.items("/compute/vms/instances")}
        assert vms == owned, f"machines of no pool: {sorted(vms - owned)}"
        assert all(len(pool["instance_ids"]) == pool["count"] for pool in pools), pools
        if not self.exists:
            left = leftovers(self.cloud)
            assert left == {"/kubernetes/clusters": [CLUSTER["name"]]}, left


def _plugins(cli: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(cli).children(recursive=True):
            if any(part.endswith("crusoe/provider") for part in command_line(process)):
                yield process
