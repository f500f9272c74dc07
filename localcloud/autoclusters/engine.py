"""AutoClusters' loop in one cluster: each incident one step further, then the notices.

It keeps nothing in memory: what a step changed is in Kubernetes, how far an incident is in the state file. A step that
was done and not written down is done again, which changes nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from localcloud.autoclusters import incidents, nodes
from localcloud.autoclusters.decisions import Decision, View, decide
from localcloud.autoclusters.incidents import Delays, Incident
from localcloud.autoclusters.notices import TRIES, deliver
from localcloud.cloud import Cloud
from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.actors import Actor, Place
from localcloud.kubernetes.api_server import NODES, PODS
from localcloud.operations import FAILED

_LOG = logging.getLogger(__name__)
_ROUND_SECONDS = 0.3
_NOTICE_SECONDS = 1.0
_T = TypeVar("_T")


def autoclusters(cloud: Cloud) -> Actor:
    """The actor that plays AutoClusters in a cluster."""

    def act(place: Place, stop: threading.Event) -> None:
        engine = Engine(cloud, place)
        while not stop.is_set():
            try:
                engine.round()
            except ControlPlaneError as error:
                # The watch sees to a control plane that ended.
                _LOG.info("AutoClusters in cluster %s waits: %s", place.cluster.name, error)
            stop.wait(_ROUND_SECONDS)

    return act


class Engine:
    """AutoClusters in one cluster."""

    def __init__(self, cloud: Cloud, place: Place) -> None:
        """Work in the cluster of `place`."""
        self._cloud = cloud
        self._cluster = place.cluster
        self._api = place.api
        self._tell_at = 0.0

    def round(self) -> None:
        """Look once, and do what can be done now."""
        found, delays, webhook = self._ask(
            lambda: (
                incidents.of_cluster(self._cloud, self._cluster.id),
                incidents.delays(self._cloud),
                incidents.webhook(self._cloud),
            )
        )
        for incident in found:
            if incident.open:
                self._step(incident, delays)
        if time.monotonic() >= self._tell_at:
            # Where one try fails, the others would too.
            well = all(self._tell(incident, webhook) for incident in found if incident.outbox)
            self._tell_at = time.monotonic() + (0.0 if well else _NOTICE_SECONDS)

    def _step(self, incident: Incident, delays: Delays) -> None:
        decision = decide(incident, self._view(incident), delays, time.time())
        self._do(decision, incident)
        if decision.phase is not None:
            advance = partial(incidents.advance, self._cloud, incident, decision.phase, decision.tell, decision.message)
            self._ask(advance)

    def _view(self, incident: Incident) -> View:
        pods = self._api.list(PODS.path(), fieldSelector=f"spec.nodeName={incident.node}")
        node = self._api.get(NODES.path(name=incident.node))

        def rest() -> View:
            operation = incidents.operation(self._cloud, incident)
            return View(
                node=node is not None,
                action=incidents.action(self._cloud, incident),
                pods=nodes.movable(pods),
                state=operation.state if operation else "",
                message=str(operation.result["message"]) if operation and operation.state == FAILED else "",
                room=incidents.room(self._cloud, incident),
            )

        return self._ask(rest)

    def _do(self, decision: Decision, incident: Incident) -> None:
        path = NODES.path(name=incident.node)
        match decision.deed:
            case "break":
                if node := self._api.get(path):
                    self._api.merge(path, nodes.broken(node, incident))
            case "show":
                self._api.merge(f"{path}/status", nodes.unhealthy(incident), strategic=True)
            case "isolate":
                self._api.merge(path, nodes.isolated(incident))
            case "evict":
                for pod in nodes.movable(self._api.list(PODS.path(), fieldSelector=f"spec.nodeName={incident.node}")):
                    if not pod.ending:
                        self._api.evict(pod.namespace, pod.name)
            case "replace":
                self._cloud.from_thread(partial(_replace, self._cloud, incident))
            case "nothing":
                pass

    def _tell(self, incident: Incident, webhook: str) -> bool:
        """Deliver the first notice that waits; whether the next may follow at once."""
        first = incident.outbox[0]
        well = not webhook or deliver(webhook, first["body"])
        if not well and first["tries"] + 1 >= TRIES:
            _LOG.warning("no webhook took the notice %s of %s", first["body"]["type"], incident.node)
            well = True
        self._ask(partial(incidents.delivered, self._cloud, incident.id, tried=not well))
        return well

    def _ask(self, step: Callable[[], _T]) -> _T:
        async def on_loop() -> _T:
            return step()

        return self._cloud.from_thread(on_loop)


async def _replace(cloud: Cloud, incident: Incident) -> None:
    await cloud.operations.launch(incidents.replace_vm(cloud, incident))
