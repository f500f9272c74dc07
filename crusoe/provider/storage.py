"""Persistent and shared disks."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import cast

from crusoe.client import CrusoeError, QuotaError
from crusoe.provider import supply
from crusoe.provider.existing import JsonObject, text, texts
from crusoe.provider.findings import failures
from crusoe.provider.objects import ADOPT, ApiObject
from crusoe.provider.places import LOCATION, location_faults
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Failure, ListOf, Text
from crusoe.provider.values import Value, Values

_SIZE = re.compile(r"([1-9]\d{0,9})(GiB|TiB)")


def gib(size: Value) -> int | None:
    """Return a size such as `10TiB` in GiB, None when it is none."""
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    return int(match[1]) * (1024 if match[2] == "TiB" else 1) if match else None


def _same_size(one: str, other: str) -> bool:
    return one == other or (gib(one) is not None and gib(one) == gib(other))


class StorageDisk(ApiObject):
    """A disk."""

    name = "StorageDisk"
    title = "disk"
    description = "A disk: persistent-ssd for one VM, shared-volume for many."
    collection = "storage/disks"
    properties = (
        Property("name", Text(), "Name of the disk.", required=True, effect=Effect.REPLACE),
        LOCATION,
        Property(
            "type",
            Text(("persistent-ssd", "shared-volume")),
            "persistent-ssd (the default) or shared-volume.",
            effect=Effect.REPLACE,
            assumed="persistent-ssd",
        ),
        Property("size", Text(equal=_same_size), "Size, such as 512GiB; it can only grow.", required=True),
        ADOPT,
    )
    outputs = (
        Output("serialNumber", Text(), "Serial number, as a VM sees it."),
        Output("dnsName", Text(), "Name that a shared volume is mounted from."),
        Output("vips", ListOf(Text()), "Addresses that a shared volume is mounted from."),
    )

    def faults(self, news: Values) -> list[Failure]:
        """Check the size."""
        from crusoe.rules import storage

        return failures(storage.size("size", news.get("type") or storage.PERSISTENT, news.get("size")))

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check the location."""
        return location_faults(session, olds, news)

    def refusal(self, state: Values, news: Values, changes: Sequence[Difference]) -> str | None:
        """Refuse to shrink."""
        del changes
        before, after = gib(state.get("size")), gib(news.get("size"))
        if before is None or after is None or after >= before:
            return None
        return (
            f"Disk {news.get('name')} has {state['size']} and can't shrink to {news['size']}: disks only grow. Keep the"
            " size, or make a smaller disk under another name and copy the data."
        )

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request."""
        del run
        return {
            "name": inputs["name"],
            "location": inputs["location"],
            "type": inputs.get("type") or "persistent-ssd",
            "size": inputs["size"],
        }

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells."""
        del run, asked
        return {
            "name": text(fields, "name"),
            "location": text(fields, "location"),
            "type": text(fields, "type"),
            "size": text(fields, "size"),
            "serialNumber": text(fields, "serial_number") or "",
            "dnsName": text(fields, "dns_name") or "",
            "vips": cast("Value", texts(fields, "vips")),
        }

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Grow."""
        del state
        return {"size": news["size"]} if "size" in names else {}

    def explain(self, run: Run, inputs: Values, error: CrusoeError) -> str:
        """Name the quota with its numbers."""
        if isinstance(error, QuotaError):
            quota = supply.quota_named(run.client, str(inputs.get("type") or "persistent-ssd"))
            return supply.quota_sentence(f"disk {inputs['name']}", quota, error)
        return super().explain(run, inputs, error)


KINDS = (StorageDisk(),)
