"""Persistent and shared disks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource


class StorageDiskInputs(TypedDict):
    """Inputs of a disk.

    Attributes:
        name: name of the disk; a change replaces.
        location: location, such as us-east1-a; a change replaces.
        type: `persistent-ssd` (the default) or `shared-volume`; a change replaces.
        size: such as 512GiB or 10TiB; it grows in place and can't shrink.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    location: pulumi.Input[str]
    type: NotRequired[pulumi.Input[str] | None]
    size: pulumi.Input[str]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


class StorageDisk(CrusoeResource, inputs=StorageDiskInputs):
    """A disk: persistent-ssd for one VM, shared-volume for many."""

    name: pulumi.Output[str]
    location: pulumi.Output[str]
    type: pulumi.Output[str | None]
    size: pulumi.Output[str]
    adopt_existing: pulumi.Output[bool | None]
    serial_number: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    vips: pulumi.Output[Sequence[str]]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[StorageDiskInputs],
    ) -> None:
        """Declare the disk."""
        super().__init__(resource_name, inputs, opts)
