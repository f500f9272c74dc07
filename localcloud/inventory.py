"""What is left: stock by location and InfiniBand network, quotas by project, slots of reservations.

All three are counted from the VMs (and disks) that exist, so nothing can drift. Stock and quotas come from the facts
and can be edited while the cloud runs; the edits are kept in the state file.
"""

from __future__ import annotations

from dataclasses import dataclass

from localcloud.facts import Facts, IbNetwork, Reservation, VmType
from localcloud.store import Json, Store


@dataclass(frozen=True)
class Quota:
    """A project's quota in slices of a VM family, or in GiB of a disk type."""

    name: str
    maximum: int
    used: int

    @property
    def available(self) -> int:
        """What is left, never below zero."""
        return max(0, self.maximum - self.used)


class Inventory:
    """Counts what is used and says what is left."""

    def __init__(self, store: Store, facts: Facts) -> None:
        """Count in the state file against the facts."""
        self._store = store
        self._facts = facts

    def free_vms(self, vm_type: VmType, location: str, ib_network_id: str | None = None) -> int:
        """How many more VMs of a type the location (and the IB network, if given) can start."""
        free = (
            self._stock(vm_type.family, location) - self._used_in_location(vm_type.family, location)
        ) // vm_type.slices
        if ib_network_id is not None:
            network = self._facts.ib_networks[ib_network_id]
            free = min(free, self.ib_free_slices(network, vm_type) // vm_type.slices)
        return max(0, free)

    def ib_free_slices(self, network: IbNetwork, vm_type: VmType) -> int:
        """How many slices of a VM type an IB network can still take."""
        return max(0, self._ib_stock(network, vm_type) - self._used_in_ib_network(network, vm_type))

    def offered(self, vm_type: VmType, location: str) -> bool:
        """Whether the location has this family at all, in stock or not."""
        return vm_type.family in self._facts.locations[location].capacity

    def quota(self, project_id: str, name: str) -> Quota:
        """One quota by VM family or disk type."""
        maximum = int(self._store.setting(f"quota:{project_id}:{name}", self._facts.quotas.get(name, 0)))
        types = self._family(name)
        used = self._slices("project_id = ?", types, project_id) if types else self._used_gib(project_id, name)
        return Quota(name, maximum, used)

    def quotas(self, project_id: str) -> list[Quota]:
        """Every quota of a project."""
        return [self.quota(project_id, name) for name in self._facts.quotas]

    def capacities(self) -> list[Json]:
        """Free VMs by location and type, as `GET /capacities` answers them."""
        return [
            {
                "location": location.name,
                "type": vm_type.name,
                "quantity": self.free_vms(vm_type, location.name),
                "num_slices": vm_type.slices,
                "quota_type": vm_type.family,
            }
            for location in self._facts.locations.values()
            for vm_type in self._facts.vm_types.values()
            if self.offered(vm_type, location.name)
        ]

    def reservation_vms(self, reservation: Reservation) -> list[str]:
        """Ids of the VMs that occupy a reservation."""
        rows = self._store.connection.execute(
            "SELECT id FROM objects WHERE kind = 'vm' AND json_extract(body, '$.reservation_id') = ? ORDER BY seq",
            (reservation.id,),
        )
        return [row[0] for row in rows]

    def set_free_vms(self, vm_type: VmType, location: str, quantity: int) -> None:
        """Set the stock so that `quantity` more VMs of a type can start."""
        stock = self._used_in_location(vm_type.family, location) + quantity * vm_type.slices
        self._store.set_setting(f"capacity:{location}:{vm_type.family}", stock)

    def set_ib_free_vms(self, network: IbNetwork, vm_type: VmType, quantity: int) -> None:
        """Set an IB network's stock so that `quantity` more VMs of a type can start in it."""
        stock = self._used_in_ib_network(network, vm_type) + quantity * vm_type.slices
        self._store.set_setting(f"ib_capacity:{network.id}:{vm_type.name}", stock)

    def take_out(self, vm_type: VmType, location: str, network: IbNetwork | None) -> None:
        """Make the stock smaller by the host of one VM."""
        key = f"capacity:{location}:{vm_type.family}"
        self._store.set_setting(key, self._stock(vm_type.family, location) - vm_type.slices)
        if network is not None:
            key = f"ib_capacity:{network.id}:{vm_type.name}"
            self._store.set_setting(key, self._ib_stock(network, vm_type) - vm_type.slices)

    def set_quota(self, project_id: str, name: str, maximum: int) -> None:
        """Set the most that a project may use."""
        self._store.set_setting(f"quota:{project_id}:{name}", maximum)

    def _stock(self, family: str, location: str) -> int:
        default = self._facts.locations[location].capacity.get(family, 0)
        return int(self._store.setting(f"capacity:{location}:{family}", default))

    def _ib_stock(self, network: IbNetwork, vm_type: VmType) -> int:
        default = network.capacity.get(vm_type.name, 0)
        return int(self._store.setting(f"ib_capacity:{network.id}:{vm_type.name}", default))

    def _family(self, name: str) -> list[VmType]:
        return [vm_type for vm_type in self._facts.vm_types.values() if vm_type.family == name]

    def _used_in_location(self, family: str, location: str) -> int:
        return self._slices("json_extract(body, '$.location') = ?", self._family(family), location)

    def _used_in_ib_network(self, network: IbNetwork, vm_type: VmType) -> int:
        return self._slices("json_extract(hidden, '$.ib_network_id') = ?", [vm_type], network.id)

    def _slices(self, where: str, types: list[VmType], value: str) -> int:
        # `where` is written in this module; values are always bound, so S608 doesn't apply.
        query = f"SELECT count(*) FROM objects WHERE kind = 'vm' AND json_extract(body, '$.type') = ? AND {where}"  # noqa: S608
        return sum(
            int(self._store.connection.execute(query, (vm_type.name, value)).fetchone()[0]) * vm_type.slices
            for vm_type in types
        )

    def _used_gib(self, project_id: str, disk_type: str) -> int:
        row = self._store.connection.execute(
            "SELECT coalesce(sum(json_extract(hidden, '$.gib')), 0) FROM objects"
            " WHERE kind = 'disk' AND project_id = ? AND json_extract(body, '$.type') = ?",
            (project_id, disk_type),
        ).fetchone()
        return int(row[0])
