"""The watch over the control planes: what ended by itself is started again, as the real service would.

A look at a cluster is one scan of the process table in a worker thread. Only clusters that the state file says run are
looked at, so one that an operation creates or deletes is left to that operation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from localcloud import pools
from localcloud.cloud import Cloud
from localcloud.control_plane import ControlPlaneError, NodeSpec
from localcloud.store import Object

_LOG = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 300.0
_RUNNING = "STATE_RUNNING"


@dataclass(frozen=True)
class Finding:
    """What a look at a cluster found: which components had ended, and why they could not be started again, if so."""

    cluster: str
    ended: Sequence[str]
    error: str | None = None


@dataclass
class _Trouble:
    """A cluster that does not come back; each attempt takes long, so they get rarer."""

    message: str
    attempts: int
    next_at: float


class Watch:
    """Looks at every running cluster each `watch_seconds` of the settings; 0 switches it off."""

    def __init__(self, cloud: Cloud) -> None:
        """Watch the control planes of `cloud` once started."""
        self._cloud = cloud
        self._task: asyncio.Task[None] | None = None
        self._looks: dict[str, asyncio.Task[Finding | None]] = {}
        self._troubles: dict[str, _Trouble] = {}

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="watch")

    async def stop(self) -> None:
        """End; what is being started may go on in its worker thread."""
        tasks = [*self._looks.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> list[Finding]:
        """Look at every running cluster now and wait until what had ended runs; answers where something had."""
        looks = [self._look_at(cluster.id) for cluster in running_clusters(self._cloud)]
        found = await asyncio.gather(*map(asyncio.shield, looks))
        return [finding for finding in found if finding is not None]

    async def _run(self) -> None:
        looked_at = time.monotonic()
        while True:
            await asyncio.sleep(min(self._cloud.watch_seconds, _TICK_SECONDS) or _TICK_SECONDS)
            now = time.monotonic()
            if 0 < self._cloud.watch_seconds <= now - looked_at:
                looked_at = now
                for cluster in running_clusters(self._cloud):
                    trouble = self._troubles.get(cluster.id)
                    if trouble is None or trouble.next_at <= now:
                        self._look_at(cluster.id)

    def _look_at(self, cluster_id: str) -> asyncio.Task[Finding | None]:
        """The look at this cluster that is under way, or a new one."""
        task = self._looks.get(cluster_id)
        if task is None:
            task = self._looks[cluster_id] = asyncio.create_task(self._look(cluster_id))
            task.add_done_callback(lambda _: self._looks.pop(cluster_id, None))
        return task

    async def _look(self, cluster_id: str) -> Finding | None:
        planes = self._cloud.planes
        ended: Sequence[str] = ()
        try:
            ended = await planes.ended(cluster_id)
            cluster = self._cloud.store.get(pools.CLUSTER, cluster_id)
            if not ended or cluster is None or cluster.body["state"] != _RUNNING or planes.changing(cluster_id):
                return None
            _LOG.warning("cluster %s (%s): %s ended; starting again", cluster.name, cluster_id, ", ".join(ended))
            await planes.restore(pools.cluster_spec(cluster), nodes_of(self._cloud, cluster))
        except ControlPlaneError as error:
            return self._failed(cluster_id, ended, str(error))
        except Exception:  # noqa: BLE001  whatever breaks, the watch goes on
            _LOG.exception("the look at cluster %s broke", cluster_id)
            return self._failed(cluster_id, ended, "an internal error; the server's log has it")
        self._troubles.pop(cluster_id, None)
        _LOG.info("cluster %s (%s) is back", cluster.name, cluster_id)
        self._cloud.journal.record("cluster.revived", cluster_id, name=cluster.name, ended=list(ended))
        return Finding(cluster.name, ended)

    def _failed(self, cluster_id: str, ended: Sequence[str], message: str) -> Finding:
        before = self._troubles.get(cluster_id)
        attempts = before.attempts + 1 if before else 1
        pause = min(self._cloud.watch_seconds * 2**attempts, _LONGEST_PAUSE_SECONDS)
        self._troubles[cluster_id] = _Trouble(message, attempts, time.monotonic() + pause)
        cluster = self._cloud.store.get(pools.CLUSTER, cluster_id)
        name = cluster.name if cluster else cluster_id
        if before is None or before.message != message:
            _LOG.error("cluster %s (%s) did not come back: %s", name, cluster_id, message)
            self._cloud.journal.record("cluster.not_revived", cluster_id, name=name, message=message)
        return Finding(name, ended, message)


def running_clusters(cloud: Cloud) -> list[Object]:
    """Every cluster that should run and that no operation creates or deletes."""
    return [cluster for cluster in cloud.store.all(pools.CLUSTER) if cluster.body["state"] == _RUNNING]


def nodes_of(cloud: Cloud, cluster: Object) -> list[NodeSpec]:
    """Every node that a cluster should have."""
    return [
        pools.node_spec(cloud, cluster, pool, vm)
        for pool in cloud.store.all(pools.POOL, parent_id=cluster.id)
        for vm in pools.vms_of(cloud, pool)
    ]
