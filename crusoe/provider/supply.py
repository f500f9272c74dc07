"""What the project may use and what the locations have: quotas, stock, and the sentences about both.

A quota and a shortage are different things: the first is asked of Crusoe's support, the second is waited for or avoided
by another type or location. So no message about one speaks of the other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crusoe.client import Client, CrusoeError, QuotaError
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError

if TYPE_CHECKING:
    from crusoe.provider.run import Run


@dataclass(frozen=True)
class Quota:
    """A quota of the project, in slices of a VM family (GPUs or vCPUs) or GiB of a disk type."""

    name: str
    used: int
    limit: int

    @property
    def free(self) -> int:
        """What is left."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True)
class Stock:
    """A VM type in a location: free VMs, the slices of `quota` that one takes."""

    location: str
    vm_type: str
    free: int
    slices: int
    quota: str


def quotas(client: Client) -> dict[str, Quota]:
    """Return the project's quotas by name."""
    found: dict[str, Quota] = {}
    for item in client.list("quotas"):
        name, limit, used = text(item, "name"), _number(item, "max"), _number(item, "used")
        if name and limit is not None and used is not None:
            found[name] = Quota(name, used, limit)
    return found


def stock(client: Client, vm_type: str) -> list[Stock]:
    """Return where a VM type is offered, with what is free."""
    found: list[Stock] = []
    for item in client.list("/capacities", product_name=vm_type):
        location, free = text(item, "location"), _number(item, "quantity")
        if location and free is not None and item.get("type") in {vm_type, None}:
            found.append(
                Stock(location, vm_type, free, _number(item, "num_slices") or 1, text(item, "quota_type") or "")
            )
    return found


def quota_named(client: Client, name: str) -> Quota | None:
    """Return one quota; None when it is unknown or can't be read now."""
    try:
        return quotas(client).get(name)
    except CrusoeError:
        return None


def quota_of_type(client: Client, vm_type: str) -> Quota | None:
    """Return the quota that VMs of a type count against; None when it is unknown or can't be read now."""
    try:
        name = next((one.quota for one in stock(client, vm_type) if one.quota), vm_type.rpartition(".")[0])
    except CrusoeError:
        return None
    return quota_named(client, name)


def quota_sentence(what: str, quota: Quota | None, error: QuotaError | None = None) -> str:
    """Say that the project's quota doesn't allow it, with the quota's name and numbers as far as they are known."""
    name = quota.name if quota else error.quota if error else None
    used, limit = (quota.used, quota.limit) if quota else (error.used, error.limit) if error else (None, None)
    numbers = f", {used} of {limit} used" if used is not None and limit is not None else ""
    said = f" ({error.message.rstrip('. ')})" if error and not (name and numbers) else ""
    return (
        f"The project's quota{f' {name}' if name else ''} does not allow {what}{numbers}{said}. Ask Crusoe's support"
        " for more, or ask for less."
    )


def capacity_sentence(client: Client, vm_type: str, location: str, said: str = "") -> str:
    """Say that there are no free VMs of a type in a location, and where there are some."""
    try:
        where = elsewhere_sentence(stock(client, vm_type))
    except CrusoeError:
        where = "Where it has some could not be read."
    reason = f" ({said.rstrip('. ')})" if said else ""
    return f"Crusoe has no free capacity for {vm_type} in {location}{reason}. {where}"


class Ledger:
    """What the new VMs of one preview would take of the quotas, all pools together; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._quotas: dict[str, Quota] | None = None
        self._stock: dict[str, list[Stock]] = {}
        self._asked: dict[str, dict[str, int]] = {}

    def ask(self, run: Run, what: str, vm_type: str, vms: int, cluster: JsonObject | None) -> None:
        """Note that the resource of `run` wants more VMs; warns when stock is short, which may change until the update.

        Raises:
            RefusalError: the project's quota doesn't allow it.
        """
        with self._lock:
            if self._quotas is None:
                self._quotas = quotas(run.client)
            if vm_type not in self._stock:
                self._stock[vm_type] = stock(run.client, vm_type)
            offered = self._stock[vm_type]
            if not offered:
                return
            quota = self._quotas.get(offered[0].quota)
            if quota is not None:
                asked = self._asked.setdefault(quota.name, {})
                asked[run.urn] = vms * offered[0].slices
                together = sum(asked.values())
                if together > quota.free:
                    rest = together - asked[run.urn]
                    beside = f" beside {rest} for other resources of this preview" if rest else ""
                    needs = f"{what} ({vms} x {vm_type} need {asked[run.urn]} of it{beside})"
                    raise RefusalError(quota_sentence(needs, quota))
        location = text(cluster, "location") if cluster is not None else None
        here = next((one for one in offered if one.location == location), None)
        if here is not None and here.free < vms:
            run.warn(
                f"{what} needs {vms} x {vm_type}, and {location} has {here.free} free now."
                f" {elsewhere_sentence(offered)}"
            )


def elsewhere_sentence(offered: list[Stock]) -> str:
    """Say where a VM type has free VMs."""
    places = [f"{one.location} ({one.free})" for one in offered if one.free > 0]
    if not places:
        return "No location has free VMs of it now; try again later or use another type."
    return f"Free VMs of it: {', '.join(places)}."


def _number(fields: JsonObject, name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
