"""Crusoe's CSI drivers in a cluster: provision, attach, detach, grow and delete disks.

Plays the two controller Deployments of the add-on `crusoe_csi`, each while it is ready. It makes and deletes disks
through the same routes as any client, so quotas, names and operations are the API's own. What decides is in `csi` and
`attachments`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from localcloud.api import disks
from localcloud.cloud import Cloud
from localcloud.control_plane import ClusterSpec, ControlPlaneError
from localcloud.errors import ApiError as RefusedError
from localcloud.in_cluster import csi
from localcloud.in_cluster.attachments import DISK, VM, CannotAttachError, Mode, attach, detach
from localcloud.in_cluster.csi import CannotProvisionError, Driver
from localcloud.in_cluster.objects import (
    ATTACHMENTS,
    CLAIMS,
    CLASSES,
    DEPLOYMENTS,
    VOLUMES,
    Object,
    annotation,
    deleting,
    finalizers,
    tell,
    with_finalizers,
)
from localcloud.kubernetes.actors import Actor, Place
from localcloud.kubernetes.add_ons import SYSTEM
from localcloud.kubernetes.api_server import NODES
from localcloud.store import Json

_LOG = logging.getLogger(__name__)
_BUSY_SECONDS, _IDLE_SECONDS = 0.3, 1.5


def volumes(cloud: Cloud) -> Actor:
    """The actor that plays the CSI drivers in a cluster."""

    def act(place: Place, stop: threading.Event) -> None:
        drivers = Drivers(cloud, place)
        while not stop.is_set():
            try:
                busy = drivers.round()
            except ControlPlaneError as error:
                # The watch sees to a control plane that ended.
                _LOG.info("volumes of cluster %s wait: %s", place.cluster.name, error)
                busy = False
            stop.wait(_BUSY_SECONDS if busy else _IDLE_SECONDS)

    return act


class Drivers:
    """Both drivers in one cluster."""

    def __init__(self, cloud: Cloud, place: Place) -> None:
        """Work in the cluster of `place`."""
        self._cloud = cloud
        self._cluster = place.cluster
        self._api = place.api

    def round(self) -> bool:
        """Look once and do what can be done now; answers whether something is under way."""
        claims = self._api.list(CLAIMS.path())
        found = {item["metadata"]["name"]: item for item in self._api.list(VOLUMES.path())}
        attachments = self._api.list(ATTACHMENTS.path())
        classes: dict[str, Object] = {}
        if any(claim.get("status", {}).get("phase") == "Pending" for claim in claims):
            classes = {item["metadata"]["name"]: item for item in self._api.list(CLASSES.path())}
        steps = [
            *((driver, partial(self._provision, *rest, driver)) for *rest, driver in csi.to_provision(claims, classes)),
            *(
                (driver, partial(self._attach, item, found, driver))
                for item in attachments
                if (driver := csi.DRIVERS.get(item["spec"]["attacher"])) and self._undone(item, driver)
            ),
            *((driver, partial(self._grow, *rest, driver)) for *rest, driver in csi.to_grow(claims, found)),
            *((driver, partial(self._release, item)) for item, driver in csi.to_release(found.values())),
        ]
        ready = {driver: self._runs(driver) for driver in {driver for driver, _ in steps}}
        todo = [step for driver, step in steps if ready[driver]]
        for step in todo:
            self._attempt(step)
        return bool(todo)

    def _runs(self, driver: Driver) -> bool:
        found = self._api.get(DEPLOYMENTS.path(SYSTEM, driver.deployment))
        return found is not None and found.get("status", {}).get("readyReplicas", 0) > 0

    def _attempt(self, step: Callable[[], None]) -> None:
        """One object's trouble must not hold the others up; the next round tries again."""
        try:
            step()
        except (ControlPlaneError, RefusedError) as error:
            _LOG.info("a volume of cluster %s waits: %s", self._cluster.name, error)

    # Provisioning ---------------------------------------------------------------------------------------------------

    def _provision(self, claim: Object, storage_class: Object, driver: Driver) -> None:
        try:
            gib = csi.disk_gib(claim, driver)
            if driver.disk_type == "shared-volume":
                self._check_shared(claim, driver)
            make = partial(_disk_for, self._cloud, self._cluster, claim, driver, gib)
            disk = self._cloud.from_thread(make)
        except (CannotProvisionError, RefusedError) as error:
            name = storage_class["metadata"]["name"]
            message = f'failed to provision volume with StorageClass "{name}": {error}'
            tell(self._api, claim, driver.name, "ProvisioningFailed", message)
            if isinstance(error, CannotProvisionError) and error.reschedule:
                self._forget_node(claim)
            return
        if disk is not None:
            self._api.create(VOLUMES.path(), csi.volume(claim, storage_class, driver, disk))
            message = f"Successfully provisioned volume {csi.volume_name(claim)}"
            tell(self._api, claim, driver.name, "ProvisioningSucceeded", message, warning=False)

    def _check_shared(self, claim: Object, driver: Driver) -> None:
        """The chosen node, or some node where none was chosen, must be able to mount shared disks."""
        label = f"{driver.name}/supports-shared-disks"
        chosen = annotation(claim, csi.SELECTED_NODE)
        if chosen is not None:
            node = self._api.get(NODES.path(name=chosen))
            fits = node is not None and node["metadata"].get("labels", {}).get(label) == "true"
        else:
            fits = bool(self._api.list(NODES.path(), labelSelector=f"{label}=true"))
        if not fits:
            raise CannotProvisionError(
                f"shared disk requested but no node in reach has the label {label}=true", reschedule=chosen is not None
            )

    def _forget_node(self, claim: Object) -> None:
        """Have the scheduler choose again, as the provisioner does when another node may fit."""
        metadata = claim["metadata"]
        patch = {"metadata": {"annotations": {csi.SELECTED_NODE: None}}}
        self._api.merge(CLAIMS.path(metadata["namespace"], metadata["name"]), patch)

    # Attaching ------------------------------------------------------------------------------------------------------

    def _undone(self, attachment: Object, driver: Driver) -> bool:
        if deleting(attachment):
            return driver.attacher_finalizer in finalizers(attachment)
        return not attachment.get("status", {}).get("attached", False)

    def _attach(self, attachment: Object, found: dict[str, Object], driver: Driver) -> None:
        path = ATTACHMENTS.path(name=attachment["metadata"]["name"])
        node = attachment["spec"]["nodeName"]
        volume = found.get(attachment["spec"]["source"].get("persistentVolumeName", ""))
        kept = [name for name in finalizers(attachment) if name != driver.attacher_finalizer]
        project = self._cluster.project_id
        if deleting(attachment):
            if volume is not None:
                handle = volume["spec"]["csi"]["volumeHandle"]
                self._cloud.from_thread(partial(_detached, self._cloud, project, handle, node))
            self._api.merge(path, with_finalizers(attachment, kept))
            return
        if volume is None:
            return
        if driver.attacher_finalizer not in finalizers(attachment):
            self._api.merge(path, with_finalizers(attachment, [*kept, driver.attacher_finalizer]))
        try:
            handle, mode = volume["spec"]["csi"]["volumeHandle"], _mode(volume)
            self._cloud.from_thread(partial(_attached, self._cloud, project, handle, node, mode))
        except CannotAttachError as error:
            if attachment.get("status", {}).get("attachError", {}).get("message") != str(error):
                at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                failed = {"attached": False, "attachError": {"message": str(error), "time": at}}
                self._api.merge(f"{path}/status", {"status": failed})
            return
        self._api.merge(f"{path}/status", {"status": {"attached": True, "attachError": None}})

    # Growing and deleting -------------------------------------------------------------------------------------------

    def _grow(self, claim: Object, volume: Object, driver: Driver) -> None:
        handle = volume["spec"]["csi"]["volumeHandle"]
        try:
            gib = csi.wanted_gib(claim, driver)
            grow = partial(_grown, self._cloud, self._cluster.project_id, handle, driver, gib)
            size = self._cloud.from_thread(grow)
        except (CannotProvisionError, RefusedError) as error:
            tell(self._api, claim, driver.name, "VolumeResizeFailed", f"resize volume failed: {error}")
            return
        if size is not None:
            metadata, capacity = claim["metadata"], {"storage": f"{size}Gi"}
            self._api.merge(VOLUMES.path(name=volume["metadata"]["name"]), {"spec": {"capacity": capacity}})
            path = CLAIMS.path(metadata["namespace"], metadata["name"])
            self._api.merge(f"{path}/status", {"status": {"capacity": capacity}})
            tell(self._api, claim, driver.name, "VolumeResizeSuccessful", "Resize volume succeeded", warning=False)

    def _release(self, volume: Object) -> None:
        path = VOLUMES.path(name=volume["metadata"]["name"])
        if csi.deletes_disk(volume):
            handle = volume["spec"]["csi"]["volumeHandle"]
            try:
                gone = self._cloud.from_thread(partial(_deleted, self._cloud, self._cluster.project_id, handle))
            except RefusedError as error:
                tell(self._api, volume, volume["spec"]["csi"]["driver"], "VolumeFailedDelete", str(error))
                return
            if not gone:
                return
            self._api.delete(path)
            current = self._api.get(path)
        else:
            current = volume
        if current is not None:
            kept = [name for name in finalizers(current) if name != csi.FINALIZER]
            self._api.merge(path, with_finalizers(current, kept))


# On the event loop, where the inventory is --------------------------------------------------------------------------


async def _disk_for(cloud: Cloud, cluster: ClusterSpec, claim: Object, driver: Driver, gib: int) -> Json | None:
    """The disk of a claim, made if it is missing, with its size as `gib`; None while it is being made."""
    name = csi.disk_name(claim)
    if cloud.store.named(DISK, cluster.project_id, name) is None:
        body = disks.DiskCreate.model_validate(
            {"name": name, "location": cluster.location, "type": driver.disk_type, "size": f"{gib}GiB"}
        )
        await disks.create_disk(body, cluster.project_id, cloud)
    disk = cloud.store.named(DISK, cluster.project_id, name)
    if disk is None:
        return None
    if (disk.body["type"], disk.body["location"], disk.hidden["gib"]) != (driver.disk_type, cluster.location, gib):
        raise CannotProvisionError(f"disk {name} already exists but does not match the claim")
    if disk.hidden.get("cluster_id") != cluster.id:
        metadata = claim["metadata"]
        disk.hidden |= {"cluster_id": cluster.id, "claim": f"{metadata['namespace']}/{metadata['name']}"}
        with cloud.store.transaction():
            cloud.store.save(disk)
    if cloud.operations.in_progress(disk.id) is not None:
        return None
    return {**disk.body, "gib": gib}


async def _attached(cloud: Cloud, project_id: str, disk_id: str, node: str, mode: Mode) -> None:
    with cloud.store.transaction():
        attach(cloud, disk_id, node, project_id, mode)


async def _detached(cloud: Cloud, project_id: str, disk_id: str, node: str) -> None:
    vm = cloud.store.named(VM, project_id, node)
    if vm is not None:
        with cloud.store.transaction():
            detach(cloud, disk_id, vm.id)


async def _grown(cloud: Cloud, project_id: str, disk_id: str, driver: Driver, gib: int) -> int | None:
    """The disk's size in GiB once it is at least `gib`; None while it grows."""
    disk = cloud.store.get(DISK, disk_id)
    if disk is None:
        raise CannotProvisionError(f"disk {disk_id} not found")
    attached = disk.body["attached_to"]
    if disk.hidden["gib"] < gib:
        if attached and not driver.grows_attached:
            raise CannotProvisionError(f"volume {disk_id} is attached to instance {attached[0]['vm_id']}")
        if cloud.operations.in_progress(disk_id) is None:
            await disks.update_disk(disk_id, disks.DiskUpdate(size=f"{gib}GiB"), project_id, cloud)
        disk = cloud.store.get(DISK, disk_id)
    return None if disk is None or disk.hidden["gib"] < gib else disk.hidden["gib"]


async def _deleted(cloud: Cloud, project_id: str, disk_id: str) -> bool:
    """Whether a disk is gone; one that isn't is told to go."""
    disk = cloud.store.get(DISK, disk_id)
    if disk is None or disk.project_id != project_id:
        return True
    await disks.delete_disk(disk_id, project_id, cloud)
    return cloud.store.get(DISK, disk_id) is None


def _mode(volume: Object) -> Mode:
    spec = volume["spec"]
    return "read-only" if spec["csi"].get("readOnly") or spec["accessModes"] == ["ReadOnlyMany"] else "read-write"
