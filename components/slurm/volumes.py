"""Disks of the platform as volumes of the cluster: Slurm's state, the accounting's database, homes and shared data.

Owns volumes and claims, which are only names for the disks. The disks themselves are the platform's: they stay when the
cluster goes, and a new cluster finds its queue, its history and its homes again.

A static volume names a disk by its id, and the CSI driver finds its device by the serial number among the attributes
(`csi.crusoe.ai/serial-number`, as the driver writes them for volumes that it makes itself).
"""

from dataclasses import dataclass
from typing import Any, Literal

import pulumi

from components.cluster import Cluster
from components.kubernetes import SKIP_AWAIT, KubernetesObject
from components.slurm.charts import NAMESPACE
from crusoe.resources import StorageDisk
from crusoe.rules import storage

Access = Literal["ReadWriteOnce", "ReadWriteMany"]
STORAGE_CLASS = "gpuplatform-disk"
"""Of volumes made by hand. There is no such class, so nothing ever makes a volume for it."""


@dataclass(frozen=True)
class Volume:
    """A disk under the name of its claim.

    Attributes:
        claim: name of volume and claim.
        disk: the platform's disk.
        size: of the disk, as in the settings: `16GiB`.
        access: written by one node, or by many.
        claimed_by: name of the claim where something else makes it, such as a StatefulSet.
    """

    claim: str
    disk: StorageDisk
    size: str
    access: Access
    claimed_by: str | None = None


def quantity(size: str) -> str:
    """A disk's size as Kubernetes writes it: `16GiB` is `16Gi`."""
    return size.removesuffix("B")


def persistent_volume(volume: Volume) -> dict[str, Any]:
    """The spec of the volume; it outlives its claim, and its disk outlives both."""
    driver = "ssd.csi.crusoe.ai" if volume.access == "ReadWriteOnce" else "fs.csi.crusoe.ai"
    return {
        "capacity": {"storage": quantity(volume.size)},
        "accessModes": [volume.access],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": STORAGE_CLASS,
        # Bound before anybody else's claim of that size can take it.
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": NAMESPACE,
            "name": volume.claimed_by or volume.claim,
        },
        "csi": {
            "driver": driver,
            "volumeHandle": volume.disk.id,
            **({"fsType": "ext4"} if volume.access == "ReadWriteOnce" else {}),
            "volumeAttributes": {
                "csi.crusoe.ai/serial-number": volume.disk.serial_number,
                "csi.crusoe.ai/disk-name": volume.disk.name,
            },
        },
    }


class Volumes(pulumi.ComponentResource):
    """Volumes and claims of Slurm's disks.

    Attributes:
        claims: what a pod's object has to wait for.
    """

    claims: list[pulumi.Resource]

    def __init__(
        self,
        name: str,
        volumes: list[Volume],
        *,
        cluster: Cluster,
        namespace: pulumi.Resource,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare a volume for each disk, and its claim unless something else makes it."""
        super().__init__("gpuplatform:slurm:Volumes", name, None, opts)
        self.claims = []
        for each in volumes:
            volume = KubernetesObject(
                f"{name}-{each.claim}",
                "v1",
                "PersistentVolume",
                {"name": f"{NAMESPACE}-{each.claim}"},
                {"spec": persistent_volume(each)},
                cluster.inside(self),
            )
            if each.claimed_by:
                self.claims.append(volume)
                continue
            claim = KubernetesObject(
                f"{name}-{each.claim}-claim",
                "v1",
                "PersistentVolumeClaim",
                {"name": each.claim, "namespace": NAMESPACE, "annotations": SKIP_AWAIT},
                {
                    "spec": {
                        "accessModes": [each.access],
                        "storageClassName": STORAGE_CLASS,
                        "volumeName": f"{NAMESPACE}-{each.claim}",
                        "resources": {"requests": {"storage": quantity(each.size)}},
                    }
                },
                cluster.inside(self, [volume, namespace]),
            )
            self.claims.append(claim)
        self.register_outputs({"claims": [each.claim for each in volumes]})


def disk(name: str, physical: str, *, size: str, location: str, protect: bool, parent: pulumi.Resource) -> StorageDisk:
    """A disk that one node writes, such as Slurm's state."""
    return StorageDisk(
        name,
        name=physical,
        location=location,
        type=storage.PERSISTENT,
        size=size,
        adopt_existing=True,
        opts=pulumi.ResourceOptions(parent=parent, protect=protect),
    )
