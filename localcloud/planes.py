"""The control planes as the event loop uses them: off its thread, and only once they run again after a start."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from localcloud.control_plane import (
    AuthType,
    ClusterCredentials,
    ClusterSpec,
    ControlPlane,
    ControlPlaneError,
    NodeSpec,
)
from localcloud.managed_slurm.records import SlurmSpec, SlurmStatus

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class Planes:
    """Control planes by cluster. A call for one that is still coming back waits until it is."""

    def __init__(self, make: Callable[[], ControlPlane]) -> None:
        """Use the implementation that `make` answers. It is made when first needed: that costs half of a start."""
        self._make = make
        self._made: ControlPlane | None = None
        self._making = threading.Lock()
        self._recovering: dict[str, asyncio.Task[None]] = {}
        self._calls: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()

    @property
    def instant(self) -> bool:
        """Whether calls take no time."""
        return self._control_plane.instant

    def recover(self, clusters: Sequence[tuple[ClusterSpec, Sequence[NodeSpec]]]) -> None:
        """Begin to start every cluster again, with exactly these nodes. One that won't start is logged and left."""
        for cluster, nodes in clusters:
            self._recovering[cluster.id] = asyncio.create_task(asyncio.to_thread(self._recover, cluster, nodes))

    async def ended(self, cluster_id: str) -> Sequence[str]:
        """Components of a control plane that should run and don't; asked once it is back after a start."""
        if (task := self._recovering.get(cluster_id)) is not None:
            await asyncio.wait([task])
        return await asyncio.to_thread(lambda: self._control_plane.ended(cluster_id))

    def changing(self, cluster_id: str) -> bool:
        """Whether a call creates, updates or deletes this control plane now."""
        return self._changes[cluster_id] > 0

    async def restore(self, cluster: ClusterSpec, nodes: Sequence[NodeSpec]) -> None:
        """Start again what ended of a control plane that nothing is `changing`; other calls for it wait meanwhile.

        Its nodes are made to be exactly these, unless a call that began earlier is still busy with them.
        """
        wanted = None if self._calls[cluster.id] else nodes
        task = asyncio.create_task(asyncio.to_thread(self._bring_back, cluster, wanted))
        self._recovering[cluster.id] = task
        await asyncio.shield(task)

    async def stop(self) -> None:
        """Wait for nothing any more."""
        for task in self._recovering.values():
            task.cancel()
        await asyncio.gather(*self._recovering.values(), return_exceptions=True)

    async def create(self, cluster: ClusterSpec) -> None:
        """Bring a control plane up; what a failed attempt leaves is removed."""
        try:
            await self._change(cluster.id, lambda plane: plane.create(cluster))
        except ControlPlaneError:
            await self._change(cluster.id, lambda plane: plane.delete(cluster.id))
            raise

    async def update(self, cluster: ClusterSpec) -> None:
        """Make changed add-ons true."""
        await self._change(cluster.id, lambda plane: plane.update(cluster))

    async def delete(self, cluster_id: str) -> None:
        """End a control plane."""
        await self._change(cluster_id, lambda plane: plane.delete(cluster_id))

    async def credentials(self, cluster: ClusterSpec, auth_type: AuthType) -> ClusterCredentials:
        """A kubeconfig with a new client certificate."""
        return await self._call(cluster.id, lambda plane: plane.credentials(cluster, auth_type))

    async def apply_nodes(self, cluster_id: str, nodes: Sequence[NodeSpec]) -> None:
        """Make these nodes Ready."""
        if nodes:
            await self._call(cluster_id, lambda plane: plane.apply_nodes(cluster_id, nodes))

    async def remove_nodes(self, cluster_id: str, names: Collection[str], *, drain: bool) -> None:
        """Take these nodes out."""
        if names:
            await self._call(cluster_id, lambda plane: plane.remove_nodes(cluster_id, names, drain=drain))

    async def slurm(self, cluster_id: str, wanted: SlurmSpec) -> SlurmStatus:
        """Make a managed Slurm cluster true in the cluster behind it; answers what runs of it."""
        return await self._call(cluster_id, lambda plane: plane.slurm(cluster_id, wanted))

    @property
    def _control_plane(self) -> ControlPlane:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made

    async def _call(self, cluster_id: str, step: Callable[[ControlPlane], _T]) -> _T:
        if (task := self._recovering.get(cluster_id)) is not None:
            # Whoever began it tells of its failure; the call finds out for itself.
            await asyncio.wait([task])
        self._calls[cluster_id] += 1
        try:
            return await asyncio.to_thread(lambda: step(self._control_plane))
        finally:
            self._calls[cluster_id] -= 1

    async def _change(self, cluster_id: str, step: Callable[[ControlPlane], None]) -> None:
        self._changes[cluster_id] += 1
        try:
            await self._call(cluster_id, step)
        finally:
            self._changes[cluster_id] -= 1

    def _recover(self, cluster: ClusterSpec, nodes: Sequence[NodeSpec]) -> None:
        try:
            self._bring_back(cluster, nodes)
        except ControlPlaneError as error:
            _LOG.error("cluster %s (%s) did not come back: %s", cluster.name, cluster.id, error)

    def _bring_back(self, cluster: ClusterSpec, nodes: Sequence[NodeSpec] | None) -> None:
        plane = self._control_plane
        plane.ensure_running(cluster)
        if nodes is None:
            return
        present = {node.name for node in plane.nodes(cluster.id)}
        plane.remove_nodes(cluster.id, present - {node.name for node in nodes}, drain=False)
        plane.apply_nodes(cluster.id, nodes)
