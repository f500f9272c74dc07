"""The actors that look: at Kubernetes from a watch's memory, at Slurm through its REST API.

They look while a page is open, while a repair goes on and for some minutes after it, and cost nothing else of the time.
"""

from __future__ import annotations

import logging
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace

from localcloud.autoclusters import incidents
from localcloud.cloud import Cloud
from localcloud.console import changes, reading
from localcloud.console.repairs import AFTERWARDS_SECONDS
from localcloud.console.sights import News, Sights
from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.actors import Actor, Place
from localcloud.kubernetes.api_server import NODES, PODS
from localcloud.slinky import tokens
from localcloud.slinky.kinds import CONTROLLERS, SECRETS
from localcloud.slinky.rest import RestError, UnixRest
from localcloud.slinky.values import part
from localcloud.slurm.reach import rest_socket

_LOG = logging.getLogger(__name__)
_TICK_SECONDS = 0.2
_SLURM_SECONDS = 0.8
_ASK_SECONDS = 1.0
_GAP_SECONDS = 4.0
"""What changed since a look that is older than this is not told as news: nobody saw when."""


class _Pace:
    """Whether to look now: for a person, or since a repair goes on."""

    def __init__(self, cloud: Cloud, cluster_id: str) -> None:
        self._cloud = cloud
        self._cluster_id = cluster_id
        self._ask_at = 0.0
        self._repairing = False

    def due(self) -> bool:
        if self._cloud.sights.wanted:
            return True
        if time.monotonic() >= self._ask_at:
            self._repairing = self._cloud.from_thread(self._repairs)
            self._ask_at = time.monotonic() + _ASK_SECONDS
        return self._repairing

    async def _repairs(self) -> bool:
        """Whether a repair goes on, or jobs may still wait for what it gave back."""
        found, now = incidents.of_cluster(self._cloud, self._cluster_id), time.time()
        return any(each.open or now - each.since < AFTERWARDS_SECONDS for each in found)


def kubernetes(cloud: Cloud) -> Actor:
    """The actor that looks at nodes and pods."""

    def act(place: Place, stop: threading.Event) -> None:
        cloud.sights.open(place.cluster.id, place.api)
        try:
            _repeat(cloud, place, stop, _Kubernetes(cloud.sights, place).look, _TICK_SECONDS)
        finally:
            cloud.sights.forget(place.cluster.id)

    return act


def slurm(cloud: Cloud) -> Actor:
    """The actor that looks at Slurm's nodes and jobs, where the cluster has a slurmrestd."""

    def act(place: Place, stop: threading.Event) -> None:
        _repeat(cloud, place, stop, _Slurm(cloud.sights, place).look, _SLURM_SECONDS)

    return act


def _repeat(cloud: Cloud, place: Place, stop: threading.Event, look: Callable[[], None], seconds: float) -> None:
    pace = _Pace(cloud, place.cluster.id)
    while not stop.is_set():
        if pace.due():
            began = time.monotonic()
            look()
            # Where much changes all the time, it takes a third of a core at most.
            stop.wait(max(seconds, 2 * (time.monotonic() - began)))
        else:
            stop.wait(_TICK_SECONDS)


class _Kubernetes:
    def __init__(self, sights: Sights, place: Place) -> None:
        self._sights = sights
        self._cluster_id = place.cluster.id
        self._api = place.api
        self._revisions: tuple[int | None, int | None] = (None, None)

    def look(self) -> None:
        revisions = (self._api.revision(NODES.path()), self._api.revision(PODS.path()))
        before, now = self._sights.of(self._cluster_id), time.time()
        if None not in revisions and revisions == self._revisions and before is not None and not before.trouble:
            self._sights.update(self._cluster_id, lambda seen: replace(seen, at=now))
            return
        try:
            nodes = {item["metadata"]["name"]: reading.node(item) for item in self._api.list(NODES.path())}
            pods = reading.pods(self._api.list(PODS.path()))
        except ControlPlaneError as error:
            said = str(error)
            self._sights.update(self._cluster_id, lambda seen: replace(seen, trouble=said))
            return
        self._revisions = revisions
        news = changes.of_pods(self._cluster_id, now, before.pods, pods) if before and _fresh(before.at, now) else ()
        self._sights.update(
            self._cluster_id, lambda seen: replace(seen, at=now, nodes=nodes, pods=pods, trouble=""), news
        )


class _Slurm:
    def __init__(self, sights: Sights, place: Place) -> None:
        self._sights = sights
        self._place = place
        self._at = 0.0

    def look(self) -> None:
        cluster_id, now = self._place.cluster.id, time.time()
        before = self._sights.of(cluster_id)
        socket = rest_socket(self._place.home)
        if not socket.exists():
            if before is not None and before.slurm and not before.slurm_trouble:
                said = "slurmrestd has no pod that is ready"
                self._sights.update(cluster_id, lambda seen: replace(seen, slurm_trouble=said))
            return
        try:
            token = self._token()
            if token is None:
                return
            rest = UnixRest(socket, token)
            nodes, jobs = reading.slurm_nodes(rest.nodes()), tuple(reading.job(each) for each in rest.jobs())
        except (RestError, ControlPlaneError) as error:
            said = str(error)
            self._sights.update(cluster_id, lambda seen: replace(seen, slurm=True, slurm_trouble=said))
            return
        news: list[News] = []
        if before is not None and before.slurm and _fresh(self._at, now):
            news += changes.of_slurm_nodes(cluster_id, now, before.slurm_nodes, nodes)
            news += changes.of_jobs(cluster_id, now, before.jobs, jobs)
        self._at = now
        self._sights.update(
            cluster_id,
            lambda seen: replace(seen, slurm=True, slurm_nodes=nodes, jobs=jobs, slurm_trouble=""),
            news,
        )

    def _token(self) -> Callable[[], str] | None:
        """A maker of tokens of Slurm's administrator; None where the cluster has no Controller or no key."""
        for controller in self._place.api.list(CONTROLLERS.path()):
            reference = tokens.jwt_key(controller)
            path = SECRETS.path(controller["metadata"]["namespace"], reference.get("name") or "-")
            secret = self._place.api.get(path)
            if secret is not None:
                key = b64decode(part(secret, "data").get(reference.get("key", ""), ""))
                return lambda: tokens.jwt(key, "slurm", time.time(), 60)
        return None


def _fresh(at: float, now: float) -> bool:
    return now - at < _GAP_SECONDS
