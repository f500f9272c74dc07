"""Programs of the cloud that work in a cluster from outside of it: one thread each per cluster.

An actor is a function that gets the cluster and an event to stop at. It keeps nothing that another process would need:
after a restart of the local cloud, also after a kill, it starts again from what the API server and the cluster's folder
tell. Whatever it raises is logged, and it begins again a moment later, as a crashed program would.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from localcloud.control_plane import ClusterSpec
from localcloud.kubernetes.api_server import ApiServer
from localcloud.kubernetes.home import Home

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0
_LONGEST_AGAIN_SECONDS = 30.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Place:
    """Where an actor works: a cluster, its folder, and its API server with an administrator's rights."""

    cluster: ClusterSpec
    home: Home
    api: ApiServer


Actor = Callable[[Place, threading.Event], None]
"""Works in a cluster until the event is set, then returns soon (`event.wait` is how it pauses)."""


@dataclass
class _Running:
    place: Place
    stop: threading.Event
    threads: list[threading.Thread]


class Actors:
    """The actors of all clusters of one local cloud. Safe to use from several threads."""

    def __init__(self, actors: Mapping[str, Actor]) -> None:
        """`actors` by name; the name is what a log line and a thread show."""
        self._actors = dict(actors)
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()

    def start(self, cluster: ClusterSpec, home: Home, connect: Callable[[], ApiServer]) -> None:
        """Have every actor work in the cluster; nothing where they do already."""
        with self._lock:
            if not self._actors or cluster.id in self._running:
                return
            place = Place(cluster, home, connect())
            stop = threading.Event()
            threads = [
                threading.Thread(
                    target=_work, args=(name, actor, place, stop), name=f"{name}-{cluster.name}", daemon=True
                )
                for name, actor in self._actors.items()
            ]
            self._running[cluster.id] = _Running(place, stop, threads)
            for thread in threads:
                thread.start()

    def stop(self, cluster_id: str) -> None:
        """End the actors of a cluster and wait for them, within a bound."""
        with self._lock:
            running = self._running.pop(cluster_id, None)
        if running is None:
            return
        running.stop.set()
        for thread in running.threads:
            thread.join(_STOP_SECONDS)
        running.place.api.close()

    def stop_all(self) -> None:
        """End all actors."""
        for cluster_id in list(self._running):
            self.stop(cluster_id)


def _work(name: str, actor: Actor, place: Place, stop: threading.Event) -> None:
    pause = _AGAIN_SECONDS
    while not stop.is_set():
        try:
            actor(place, stop)
        except Exception:  # noqa: BLE001  an actor's bug must not end the others
            if not stop.is_set():
                _LOG.exception("%s in cluster %s broke; it begins again", name, place.cluster.name)
        stop.wait(pause)
        pause = min(2 * pause, _LONGEST_AGAIN_SECONDS)
