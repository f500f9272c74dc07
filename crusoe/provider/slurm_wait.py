"""Waiting for the workers of a NodeSet, and saying why they don't come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crusoe.provider import cluster_events, slinky_objects
from crusoe.provider.faults import RefusalError
from crusoe.provider.slinky_objects import Workers
from crusoe.provider.slurm_workers import CONTROLLER, WAIT_SECONDS

if TYPE_CHECKING:
    from crusoe.provider.cluster_api import ClusterApi
    from crusoe.provider.run import Run
    from crusoe.provider.values import Values


class Wait:
    """One wait for the workers of a NodeSet; `shown` gets what is shown of it."""

    def __init__(self, run: Run, api: ClusterApi, namespace: str, name: str, inputs: Values, shown: list[str]) -> None:
        wait, replicas, least, enough = (inputs.get(key) for key in ("waitSeconds", "replicas", "minReady", "enough"))
        self.run, self.api, self.namespace, self.name, self.shown = run, api, namespace, name, shown
        self.seconds = min(wait if isinstance(wait, int) else WAIT_SECONDS, int(run.left))
        self.replicas = replicas if isinstance(replicas, int) else None
        self.least = least if isinstance(least, int) else None
        self.enough = enough if isinstance(enough, int) else None
        self.controller = str(inputs.get("controller") or CONTROLLER)
        self.missing_controller: str | None = None
        self.seen = Workers(0, 0, 0, 0, current=False)

    @property
    def wanted(self) -> int:
        """Workers to wait for."""
        return self.seen.desired if self.replicas is None else self.replicas

    def end(self) -> Values:
        """Wait; return the outputs.

        Raises:
            RefusalError: the workers are not up in time, and it is not for want of nodes alone.
        """
        if slinky_objects.until(self.run, self._look, self.seconds):
            if self.seen.there > self.wanted:
                surplus = slinky_objects.workers(self.seen.there - self.wanted)
                self.run.warn(f"{surplus} of NodeSet {self.namespace}/{self.name} will go when no job runs there.")
            return {"readyWorkers": self.seen.ready, "missingWorkers": max(0, self.wanted - self.seen.ready)}
        message = self._short()
        missing = self.wanted - self.seen.ready
        least = self.wanted if self.least is None else self.least
        sound = self.missing_controller is None and self.seen.current and self.seen.desired == self.wanted
        enough = missing > 0 and self.seen.registered >= self.seen.ready >= least
        if not (sound and enough and self._without_node() >= missing):
            raise RefusalError(message)
        self.run.warn(message)
        return {"readyWorkers": self.seen.ready, "missingWorkers": missing}

    def _look(self) -> bool | None:
        node_set = slinky_objects.fetch(self.api, "NodeSet", self.namespace, self.name)
        if node_set is None:
            raise RefusalError(f"There is no NodeSet {self.namespace}/{self.name}; declare it before its workers.")
        self.seen = Workers.of(node_set)
        kind, pattern = slinky_objects.CHILDREN["Controller"]
        child = slinky_objects.fetch(self.api, kind, self.namespace, pattern.format(self.controller))
        self.missing_controller = slinky_objects.gap(kind, child)
        now, wanted = self.seen, self.wanted
        counted = f"{now.ready} of {wanted} ready, {now.registered} known to Slurm"
        self.shown[:] = [f"{counted}; Controller: {self.missing_controller}" if self.missing_controller else counted]
        self.run.progress(f"waiting for the workers of NodeSet {self.name}: {self.shown[0]}")
        enough = wanted if self.enough is None else self.enough
        up = now.current and now.desired == wanted and now.ready >= enough and now.registered >= enough
        return True if up and self.missing_controller is None else None

    def _short(self) -> str:
        now = self.seen
        child = slinky_objects.CHILDREN["Controller"][1].format(self.controller)
        names = [self.name, self.controller] if self.missing_controller is None else [child, self.controller]
        if self.missing_controller is not None:
            why = f"StatefulSet {child} of Controller {self.controller} is not ready: {self.missing_controller}"
        elif not now.current:
            why = "the operator has not taken up the NodeSet's newest form; see that Deployment slurm-operator runs"
        elif now.desired != self.wanted:
            asked = slinky_objects.workers(self.wanted)
            why = f"{asked} asked for, but the NodeSet wants {now.desired}: something else scales it"
        else:
            why = f"{now.ready} of {self.wanted} workers are ready and {now.registered} are known to Slurm"
        events = cluster_events.told(self.api, self.namespace, names)
        return f"After {self.seconds} s {why}. {events}"

    def _without_node(self) -> int:
        """Count the workers for which the scheduler finds no node."""
        pods = slinky_objects.worker_pods(self.api, self.namespace, self.name)
        return sum("PodScheduled" in slinky_objects.conditions(pod, "False") for pod in pods)
