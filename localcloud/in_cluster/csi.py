"""Crusoe's CSI drivers as pure functions: claims and classes in, disk requests and volumes out.

Source of names, limits and refusals: Crusoe's public CSI driver (github.com/crusoecloud/crusoe-csi-driver, controller),
and what the Kubernetes sidecars around it (external-provisioner, -attacher, -resizer) are documented to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from localcloud.in_cluster.objects import Object, annotation, deleting, finalizers, quantity

GIB = 1024**3
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_WAIT = "WaitForFirstConsumer"


class CannotProvisionError(Exception):
    """The driver refuses a claim; the text says why. `reschedule`: another node might do."""

    def __init__(self, message: str, *, reschedule: bool = False) -> None:
        """Keep the words and the way out."""
        super().__init__(message)
        self.reschedule = reschedule


@dataclass(frozen=True)
class Driver:
    """One of the two drivers; sizes in GiB."""

    name: str
    deployment: str
    disk_type: str
    smallest: int
    largest: int
    access_modes: frozenset[str]
    block: bool
    grows_attached: bool

    @property
    def attacher_finalizer(self) -> str:
        """What keeps a VolumeAttachment until the disk is detached."""
        return f"external-attacher/{self.name.replace('.', '-')}"

    def topology(self, location: str) -> dict[str, str]:
        """The node labels that a pod with such a volume needs."""
        found = {f"{self.name}/location": location}
        if self.disk_type == "shared-volume":
            found[f"{self.name}/supports-shared-disks"] = "true"
        return found


DRIVERS: Mapping[str, Driver] = {
    "ssd.csi.crusoe.ai": Driver(
        name="ssd.csi.crusoe.ai",
        deployment="crusoe-csi-driver-ssd-controller",
        disk_type="persistent-ssd",
        smallest=1,
        largest=10 * 1024,
        access_modes=frozenset({"ReadWriteOnce", "ReadWriteOncePod"}),
        block=True,
        grows_attached=False,
    ),
    "fs.csi.crusoe.ai": Driver(
        name="fs.csi.crusoe.ai",
        deployment="crusoe-csi-driver-fs-controller",
        disk_type="shared-volume",
        smallest=1024,
        largest=1000 * 1024,
        access_modes=frozenset({"ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"}),
        block=False,
        grows_attached=True,
    ),
}


def driver_of(volume: Object) -> Driver | None:
    """The driver that a volume belongs to, if it is one of ours."""
    return DRIVERS.get(volume["spec"].get("csi", {}).get("driver", ""))


def to_provision(claims: Iterable[Object], classes: Mapping[str, Object]) -> list[tuple[Object, Object, Driver]]:
    """The claims that wait for one of our drivers now, each with its class.

    Kubernetes' volume controller names the provisioner on a claim when its time has come; with WaitForFirstConsumer a
    node must have been chosen too.
    """
    found: list[tuple[Object, Object, Driver]] = []
    for claim in claims:
        driver = DRIVERS.get(annotation(claim, _PROVISIONER) or "")
        storage_class = classes.get(claim["spec"].get("storageClassName", ""))
        if driver is None or storage_class is None or deleting(claim) or claim["spec"].get("volumeName"):
            continue
        waits = storage_class.get("volumeBindingMode") == _WAIT
        if storage_class["provisioner"] == driver.name and not (waits and annotation(claim, SELECTED_NODE) is None):
            found.append((claim, storage_class, driver))
    return found


def disk_name(claim: Object) -> str:
    """The disk's name: the claim's uid, since shared disks have at most 36 characters in their names."""
    return claim["metadata"]["uid"]


def disk_gib(claim: Object, driver: Driver) -> int:
    """The size of a claim's disk in whole GiB, rounded up; raises CannotProvisionError."""
    spec = claim["spec"]
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        raise CannotProvisionError(f"{driver.name} makes empty disks only: snapshots and clones are not supported")
    if spec.get("selector"):
        raise CannotProvisionError("claim selectors are not supported")
    if unsupported := sorted(set(spec["accessModes"]) - driver.access_modes):
        raise CannotProvisionError(f"access mode not supported: {', '.join(unsupported)}")
    if spec.get("volumeMode") == "Block" and not driver.block:
        raise CannotProvisionError("access type not supported: block")
    return wanted_gib(claim, driver)


def wanted_gib(claim: Object, driver: Driver) -> int:
    """The size that a claim asks for in whole GiB, rounded up; raises CannotProvisionError outside the limits."""
    asked = quantity(claim["spec"]["resources"]["requests"]["storage"])
    if asked < driver.smallest * GIB:
        raise CannotProvisionError(f"disk size too small: minimum {driver.smallest} GiB, requested {asked:f} bytes")
    if asked > driver.largest * GIB:
        raise CannotProvisionError(f"disk size too large: maximum {driver.largest} GiB, requested {asked:f} bytes")
    return math.ceil(asked / GIB)


def volume(claim: Object, storage_class: Object, driver: Driver, disk: Object) -> Object:
    """The PersistentVolume of a disk that was made for a claim, already bound to it from its own side.

    `disk` is the disk as the REST API shows it, `gib` its size added.
    """
    terms = [
        {"key": key, "operator": "In", "values": [value]} for key, value in driver.topology(disk["location"]).items()
    ]
    block = claim["spec"].get("volumeMode") == "Block"
    parameters = storage_class.get("parameters", {})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": {PROVISIONED_BY: driver.name},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "capacity": {"storage": f"{disk['gib']}Gi"},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "mountOptions": storage_class.get("mountOptions", []),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": claim["metadata"]["uid"],
            },
            "csi": {
                "driver": driver.name,
                "volumeHandle": disk["id"],
                "volumeAttributes": {
                    "csi.crusoe.ai/serial-number": disk["serial_number"],
                    "csi.crusoe.ai/disk-name": disk["name"],
                },
                **({} if block else {"fsType": parameters.get("csi.storage.k8s.io/fstype", "ext4")}),
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}},
        },
    }


def volume_name(claim: Object) -> str:
    """The name of a claim's volume, as Kubernetes' provisioners give it."""
    return f"pvc-{claim['metadata']['uid']}"


def to_release(volumes: Iterable[Object]) -> list[tuple[Object, Driver]]:
    """Volumes of ours that nobody claims any more and whose disk or finalizer is still to be dealt with."""
    found: list[tuple[Object, Driver]] = []
    for item in volumes:
        driver = driver_of(item)
        if driver is None or annotation(item, PROVISIONED_BY) != driver.name:
            continue
        phase = item.get("status", {}).get("phase")
        released = phase in ("Released", "Failed") and deletes_disk(item)
        leaving = deleting(item) and phase != "Bound" and FINALIZER in finalizers(item)
        if released or leaving:
            found.append((item, driver))
    return found


def deletes_disk(item: Object) -> bool:
    """Whether a volume takes its disk with it."""
    return item["spec"].get("persistentVolumeReclaimPolicy") == "Delete"


def to_grow(claims: Iterable[Object], volumes: Mapping[str, Object]) -> list[tuple[Object, Object, Driver]]:
    """Bound claims that ask for more than they have, each with its volume."""
    found: list[tuple[Object, Object, Driver]] = []
    for claim in claims:
        bound = volumes.get(claim["spec"].get("volumeName", ""))
        driver = driver_of(bound) if bound else None
        if bound is None or driver is None or claim.get("status", {}).get("phase") != "Bound" or deleting(claim):
            continue
        has = quantity(claim["status"].get("capacity", {}).get("storage", "0"))
        if quantity(claim["spec"]["resources"]["requests"]["storage"]) > has:
            found.append((claim, bound, driver))
    return found
