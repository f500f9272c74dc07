"""What was seen last of each cluster. Written by the threads that look, read by the event loop's."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from localcloud.kubernetes.api_server import ApiServer

INTEREST_SECONDS = 5.0
"""How long a look goes on after somebody wanted to know: a little longer than an open page is silent."""

_MOST_NEWS = 500


@dataclass(frozen=True)
class NodeSight:
    """A Node.

    Attributes:
        lost: GPUs that fell off the bus, from 0.
        unhealthy: the reason of the problem detector's condition.
        mark: that of a repair.
        place: where it is in Slurm's topology.
    """

    name: str
    ready: bool = True
    cordoned: bool = False
    power: bool = True
    lost: frozenset[int] = frozenset()
    unhealthy: str = ""
    mark: str = ""
    place: str = ""


@dataclass(frozen=True)
class PodSight:
    """A pod that has a node and has not ended.

    Attributes:
        gpus: what it asks for.
        worker: the name of its node in Slurm, where it is a worker.
        part, share, lent: what its labels say of its share of the GPUs, and that they are borrowed.
    """

    namespace: str
    name: str
    node: str
    gpus: int = 0
    ready: bool = True
    worker: str = ""
    part: str = ""
    share: str = ""
    lent: bool = False


@dataclass(frozen=True)
class SlurmNodeSight:
    """A node in Slurm: its states in upper case, and why it is drained."""

    name: str
    states: frozenset[str]
    reason: str = ""

    @property
    def drained(self) -> bool:
        """Whether it takes no new jobs."""
        return "DRAIN" in self.states and "UNDRAIN" not in self.states


@dataclass(frozen=True)
class JobSight:
    """A job of Slurm.

    Attributes:
        reason: why it waits.
        nodes: the names of its nodes in Slurm.
        since: when it started, in seconds since 1970; 0 where it hasn't.
    """

    id: str
    name: str
    user: str
    state: str
    partition: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    restarts: int = 0
    since: float = 0.0

    @property
    def running(self) -> bool:
        """Whether it holds nodes."""
        return self.state in ("RUNNING", "COMPLETING", "SUSPENDED")

    @property
    def waiting(self) -> bool:
        """Whether it is in the queue."""
        return self.state == "PENDING"


@dataclass(frozen=True)
class ClusterSight:
    """One cluster as it was seen.

    Attributes:
        trouble: why nothing newer is known.
        slurm: whether it has a Slurm that was ever asked.
        slurm_trouble: why that doesn't answer now.
    """

    at: float
    nodes: Mapping[str, NodeSight] = field(default_factory=dict[str, NodeSight])
    pods: Sequence[PodSight] = ()
    trouble: str = ""
    slurm: bool = False
    slurm_nodes: Mapping[str, SlurmNodeSight] = field(default_factory=dict[str, SlurmNodeSight])
    jobs: Sequence[JobSight] = ()
    slurm_trouble: str = ""


Source = Literal["kubernetes", "slurm"]


@dataclass(frozen=True)
class News:
    """Something that changed between two looks; `at` in seconds of the machine's clock, `worker` a node in Slurm."""

    at: float
    cluster_id: str
    source: Source
    text: str
    node: str = ""


class Sights:
    """The last sight of every cluster, and the news since the start. Safe to use from several threads."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._lock = threading.Lock()
        self._seen: dict[str, ClusterSight] = {}
        self._doors: dict[str, ApiServer] = {}
        self._news: deque[News] = deque(maxlen=_MOST_NEWS)
        self._wanted_until = 0.0
        # Counts begin anew with every start, and an open page outlives its cloud: the start is a part of the version.
        self._start = secrets.token_hex(8)
        self._changes = 0
        self._closed = False

    def want(self) -> None:
        """Somebody looks at a page now."""
        self._wanted_until = time.monotonic() + INTEREST_SECONDS

    @property
    def wanted(self) -> bool:
        """Whether somebody did lately."""
        return time.monotonic() < self._wanted_until

    def close(self) -> None:
        """Nobody is told of anything any more: the server ends."""
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether the server ends."""
        return self._closed

    @property
    def version(self) -> str:
        """Another text whenever there is something new to see; no two starts of a cloud have one in common."""
        return f"{self._start}.{self._changes}"

    def of(self, cluster_id: str) -> ClusterSight | None:
        """What was seen last of a cluster; None where nothing was yet."""
        with self._lock:
            return self._seen.get(cluster_id)

    def all(self) -> Mapping[str, ClusterSight]:
        """The last sight of every cluster."""
        with self._lock:
            return dict(self._seen)

    def news(self) -> Sequence[News]:
        """What has changed, oldest first."""
        with self._lock:
            return tuple(self._news)

    def update(
        self, cluster_id: str, change: Callable[[ClusterSight], ClusterSight], news: Sequence[News] = ()
    ) -> None:
        """Keep what `change` makes of the last sight of a cluster, and what is new about it."""
        with self._lock:
            before = self._seen.get(cluster_id) or ClusterSight(0.0)
            after = change(before)
            self._seen[cluster_id] = after
            self._news.extend(news)
            if news or replace(after, at=before.at) != before:
                self._changes += 1

    def open(self, cluster_id: str, api: ApiServer) -> None:
        """A cluster's API server can be asked from now on."""
        with self._lock:
            self._doors[cluster_id] = api

    def door(self, cluster_id: str) -> ApiServer | None:
        """The API server of a cluster, with an administrator's rights."""
        with self._lock:
            return self._doors.get(cluster_id)

    def forget(self, cluster_id: str) -> None:
        """A cluster is not looked at any more."""
        with self._lock:
            self._seen.pop(cluster_id, None)
            self._doors.pop(cluster_id, None)
            self._changes += 1
