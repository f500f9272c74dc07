"""Crusoe's Slurm operator, the part that knows the cloud: it keeps Slurm clusters and those behind them together.

It looks at a cluster when something happened to the VMs of it, each second while something is still coming up, and now
and then besides, because people edit objects in the cluster. A look makes the wanted objects true, and writes down
which pods run; that is all that the REST API knows of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from localcloud.cloud import Cloud
from localcloud.control_plane import ControlPlaneError
from localcloud.events import Event
from localcloud.managed_slurm import state
from localcloud.store import Object

_LOG = logging.getLogger(__name__)
_SOON_SECONDS, _LATER_SECONDS = 1.0, 5.0
_WAKING = ("vm.", "nodepool.", "cluster.", "slurm.")


class SlurmOperator:
    """Looks at every managed Slurm cluster of a cloud."""

    def __init__(self, cloud: Cloud) -> None:
        """Look after the Slurm clusters of `cloud` once started."""
        self._cloud = cloud
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._troubles: dict[str, str] = {}
        cloud.journal.subscribe(self._happened)

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="slurm operator")

    async def stop(self) -> None:
        """End; what a look has begun may go on in its worker thread."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _happened(self, event: Event) -> None:
        if event.kind.startswith(_WAKING):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            clusters = [item for item in self._cloud.store.all(state.CLUSTER) if present(self._cloud, item)]
            self._wake.clear()
            await asyncio.gather(*(self._look_at(item) for item in clusters))
            waiting = [item for item in clusters if not self._settled(item)]
            with contextlib.suppress(TimeoutError):
                # Not wait_for: up to Python 3.11 that forgets a cancellation which comes together with the event.
                async with asyncio.timeout(_SOON_SECONDS if waiting else _LATER_SECONDS):
                    await self._wake.wait()

    def _settled(self, item: Object) -> bool:
        slurm = self._cloud.store.get(state.CLUSTER, item.id)
        return slurm is None or item.id in self._troubles or state.settled(self._cloud, slurm)

    async def _look_at(self, slurm: Object) -> None:
        try:
            await look(self._cloud, slurm)
        except ControlPlaneError as error:
            self._failed(slurm, str(error))
        except Exception:  # noqa: BLE001  whatever breaks, the operator goes on
            _LOG.exception("the look at Slurm cluster %s broke", slurm.name)
            self._failed(slurm, "an internal error; the server's log has it")
        else:
            self._troubles.pop(slurm.id, None)

    def _failed(self, slurm: Object, message: str) -> None:
        # The cluster may have been deleted meanwhile, or its control plane be starting again: the watch tells of that.
        if present(self._cloud, slurm) and self._troubles.get(slurm.id) != message:
            self._troubles[slurm.id] = message
            _LOG.warning("Slurm cluster %s was not looked at: %s", slurm.name, message)


def present(cloud: Cloud, slurm: Object) -> bool:
    """Whether the cluster behind a Slurm cluster runs, and no operation creates or deletes it."""
    cluster = state.kubernetes_cluster(cloud, slurm)
    return cluster is not None and cluster.body["state"] == "STATE_RUNNING"


async def look(cloud: Cloud, slurm: Object) -> None:
    """Make a Slurm cluster true in the cluster behind it, and write down what runs; raises ControlPlaneError."""
    seen = await cloud.planes.slurm(slurm.hidden["cluster_id"], state.spec_of(cloud, slurm))
    with cloud.store.transaction():
        state.note(cloud, slurm.id, seen)
