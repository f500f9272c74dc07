"""Disks that outlive clusters: shared ones for homes and checkpoints, persistent ones for a single VM.

Owns the disks. Leaves alone their contents, who mounts them, and the volumes that the cluster's CSI driver makes for
claims. Disks only grow; a change of type or location would replace one with its data, so all of them are protected.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import pulumi
from pydantic import Field

from components.naming import PhysicalName, physical_name
from components.settings import Plain, Settings
from crusoe.resources import StorageDisk
from crusoe.rules import names
from crusoe.rules import storage as rules
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text


class DiskSettings(Settings):
    """One disk."""

    type: Literal["shared-volume", "persistent-ssd"] = Field(
        default="shared-volume",
        description="`shared-volume` is mounted by many nodes (CPU types and whole hosts only), `persistent-ssd` "
        "written by one VM. A change replaces the disk with its data.",
        examples=["shared-volume"],
    )
    size: str = Field(
        description="Size in GiB or TiB, which may only grow: shared disks in steps of 1 TiB up to 1000 TiB, "
        "persistent ones up to 10 TiB.",
        examples=["10TiB"],
    )
    name: str | None = Field(
        default=None, description="Name in Crusoe Cloud, by default `<stack>-<key>`.", examples=["research-home"]
    )


class StorageSettings(Settings):
    """Disks that outlive the cluster."""

    disks: Mapping[str, DiskSettings] = Field(
        default={}, description="Disks by a key of your own.", examples=[{"home": {"size": "10TiB"}}]
    )


def findings(storage: Plain, path: str, stack: str) -> Iterator[Finding]:
    """Check all disks."""
    disks = table(storage.get("disks"))
    yield from names.unique(
        {f"{path}.disks.{key}.name": text(table(disk).get("name")) or f"{stack}-{key}" for key, disk in disks.items()}
    )
    for key, each in disks.items():
        disk, place = table(each), f"{path}.disks.{key}"
        yield from names.physical(place, stack, key, disk.get("name"))
        yield from rules.size(f"{place}.size", disk.get("type"), disk.get("size"))


class Storage(pulumi.ComponentResource):
    """All disks of the platform.

    Attributes:
        disks: each disk's resource, by the key that it has in the settings.
    """

    disks: Mapping[str, StorageDisk]

    def __init__(
        self,
        name: str,
        settings: StorageSettings,
        *,
        stack: str,
        location: str,
        protect: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the disks. The crusoe provider comes with `opts`."""
        super().__init__("gpuplatform:storage:Storage", name, None, opts)
        self.disks = {
            key: self._disk(f"{name}-{key}", disk, physical_name(stack, key, disk.name), location, protect=protect)
            for key, disk in settings.disks.items()
        }
        self.register_outputs({"diskIds": {key: disk.id for key, disk in self.disks.items()}})

    def _disk(
        self, name: str, disk: DiskSettings, physical: PhysicalName, location: str, *, protect: bool
    ) -> StorageDisk:
        return StorageDisk(
            name,
            name=physical.value,
            location=location,
            type=disk.type,
            size=disk.size,
            adopt_existing=physical.adopt_existing,
            opts=pulumi.ResourceOptions(parent=self, protect=protect),
        )
