"""Asks each source again and again, in a thread of its own, and forgets what it has not heard again in time."""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from actor.kubernetes import Kubernetes as Cluster
from actor.kubernetes import KubernetesError
from actor.slurm import Slurm as Rest
from actor.slurm import SlurmError, TokenRefusedError
from exporter import read, sources
from exporter.crusoe_api import CrusoeApi, CrusoeApiError, KeyRefusedError
from exporter.settings import Settings
from exporter.sources import Name, View

KEPT_POLLS = 3
"""What a source said counts for so many of its polls."""

SUPPLY_SECONDS = 60.0
"""From one look at pools, quotas and capacity to the next; they change slowly, and the API is shared."""

OVERLAP_SECONDS = 3600.0
"""How far before the last look AutoClusters' history is read again, beside what is open."""

_LOG = logging.getLogger("exporter")
_TROUBLE = (CrusoeApiError, SlurmError, KubernetesError)


@dataclass(frozen=True)
class Source:
    """One source.

    Attributes:
        ask: what it says now; raises one of `_TROUBLE`.
        seconds: from one poll to the next.
        credential: what it asks with, where that may be refused.
    """

    name: Name
    ask: Callable[[], object]
    seconds: float
    credential: str = ""


@dataclass
class Poller:
    """The sources, and what they said last. Safe to use from several threads."""

    sources: tuple[Source, ...]
    clock: Callable[[], float] = time.time
    _said: dict[Name, tuple[float, object]] = field(default_factory=dict[Name, tuple[float, object]])
    _trouble: dict[Name, str] = field(default_factory=dict[Name, str])
    _refused: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to ask."""
        for source in self.sources:
            threading.Thread(target=self._loop, args=(source,), name=source.name, daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def view(self) -> View:
        """What was said lately, each source by itself."""
        now = self.clock()
        with self._lock:
            said, refused = dict(self._said), frozenset(self._refused)
        fresh: dict[str, Any] = {
            each.name: said[each.name][1]
            for each in self.sources
            if each.name in said and now - said[each.name][0] <= KEPT_POLLS * each.seconds
        }
        return View(
            autoclusters=fresh.get("autoclusters"),
            crusoe=fresh.get("crusoe"),
            slurm=fresh.get("slurm"),
            kubernetes=fresh.get("kubernetes"),
            succeeded={name: at for name, (at, _) in said.items()},
            configured=frozenset(each.name for each in self.sources),
            refused=refused,
        )

    def poll(self, source: Source) -> None:
        """Ask once; what goes wrong is said once while it stays the same, and is never the end of the program."""
        trouble = ""
        try:
            answer = source.ask()
        except _TROUBLE as error:
            trouble = str(error)
            self._refuse(source, refused=isinstance(error, (KeyRefusedError, TokenRefusedError)))
        except Exception as error:  # noqa: BLE001 - an answer that nobody expected must not end the other sources
            trouble = f"{source.name} said what is not understood: {type(error).__name__}: {error}"
        else:
            self._refuse(source, refused=False)
            with self._lock:
                self._said[source.name] = (self.clock(), answer)
        if trouble != self._trouble.get(source.name, ""):
            level = logging.WARNING if trouble else logging.INFO
            _LOG.log(level, json.dumps({"source": source.name, "trouble": trouble or "none any more"}))
            self._trouble[source.name] = trouble

    def _refuse(self, source: Source, *, refused: bool) -> None:
        with self._lock:
            (self._refused.add if refused else self._refused.discard)(source.credential)

    def _loop(self, source: Source) -> None:
        while not self._stop.is_set():
            self.poll(source)
            self._stop.wait(source.seconds)


class History:
    """AutoClusters' history: read whole at first, then only what may have changed."""

    def __init__(self, api: CrusoeApi, cluster_id: str) -> None:
        """`cluster_id` is Crusoe's."""
        self._api, self._cluster_id = api, cluster_id
        self._known: dict[str, sources.Operation] = {}

    def ask(self) -> sources.AutoClusters:
        """Everything that AutoClusters has done. Raises CrusoeApiError."""
        newest = max((each.started for each in self._known.values()), default=0.0)
        open_ones = [each.started for each in self._known.values() if each.state == "IN_PROGRESS"]
        since = min([max(0.0, newest - OVERLAP_SECONDS), *open_ones])
        found = [read.operation(item) for item in self._api.operations(self._cluster_id, since)]
        self._known |= {each.id: each for each in found}
        return sources.AutoClusters(tuple(self._known.values()), self._api.actions(self._cluster_id))


def supply(api: CrusoeApi, settings: Settings) -> sources.Crusoe:
    """Pools, quotas and capacity. Raises CrusoeApiError."""
    pools = [read.cloud_pool(item, api.vms(str(item["id"]))) for item in api.pools(settings.cluster_id)]
    quotas = [read.quota(item) for item in api.quotas()]
    return sources.Crusoe(pools, quotas, read.free(api.capacities(settings.location), settings.location))


def slurm(rest: Rest, token: Callable[[], str]) -> sources.Slurm:
    """Nodes and jobs. Raises SlurmError."""
    return sources.Slurm([*rest.nodes().values()], rest.jobs(), read.token_expires(token()))


def kubernetes(cluster: Cluster, settings: Settings) -> sources.Kubernetes:
    """Nodes, and pods where somebody shares GPUs. Raises KubernetesError."""
    nodes = cluster.nodes()
    workers = read.workers(cluster.workers()) if settings.slurm_url else dict[str, str]()
    resources = {pool.resource for pool in settings.pools.values() if pool.resource}
    spaces = {share.namespace for share in settings.shares if share.namespace}
    pods = [pod for space in sorted(spaces) for pod in cluster.collection(f"/api/v1/namespaces/{space}/pods", {})]
    sets = (
        cluster.collection("/apis/slinky.slurm.net/v1beta1/namespaces/slurm/nodesets", {})
        if settings.shares and settings.slurm_url
        else []
    )
    return sources.Kubernetes(
        [read.machine(item, settings, workers) for item in nodes],
        read.asked(pods, resources),
        read.lent(sets, settings),
    )


def configured(
    settings: Settings,
    api: CrusoeApi | None,
    rest: Rest | None,
    token: Callable[[], str],
    cluster: Cluster | None,
) -> tuple[Source, ...]:
    """The sources that the settings have; None for one that is off."""
    found: list[Source] = []
    if api is not None:
        key, history = "crusoe-api-key", History(api, settings.cluster_id)
        found.append(Source("autoclusters", history.ask, settings.poll_seconds, key))
        found.append(Source("crusoe", lambda: supply(api, settings), SUPPLY_SECONDS, key))
    if rest is not None:
        found.append(Source("slurm", lambda: slurm(rest, token), settings.poll_seconds, "slurm-token"))
    if cluster is not None:
        found.append(Source("kubernetes", lambda: kubernetes(cluster, settings), settings.poll_seconds))
    return tuple(found)
