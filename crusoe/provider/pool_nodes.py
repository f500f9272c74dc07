"""The VMs of a node pool: waiting until they run, and deleting those that a deleted pool leaves behind."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from crusoe.client import NotFound
from crusoe.provider.existing import JsonObject, text, texts

if TYPE_CHECKING:
    from crusoe.provider.run import Run

VMS: Final = "compute/vms/instances"

SETTLING_SECONDS: Final = 20.0
"""For how long a pool at rest may have fewer VMs than asked for before they are taken as not coming."""

FEW: Final = 16
"""Up to this many VMs are looked at one by one; a list of all VMs of the project is dearer."""

_AT_REST = ("RUNNING", "DEGRADED", "UNHEALTHY")


class Watch:
    """What is seen of a pool while `wanted` nodes are waited for; `said` is why the API could not start all of them."""

    def __init__(self, run: Run, pool_id: str, wanted: int, said: str | None) -> None:
        self.wanted = wanted
        self.said = said
        self.running = 0
        self.state = ""
        self.fields: JsonObject = {}
        self._run = run
        self._pool_id = pool_id
        self._at_rest_since: float | None = None

    def look(self) -> JsonObject | None:
        """Return the pool when its nodes run, or when no more are coming."""
        self.fields = self._run.client.get(f"kubernetes/nodepools/{self._pool_id}")
        vms = vms_of(self._run, self._pool_id, self.fields)
        self.state = text(self.fields, "state") or ""
        self.running = sum("RUNNING" in state.upper() for _, state in vms)
        if self.running >= self.wanted:
            return self.fields
        self._run.progress(f"{self.running} of {self.wanted} nodes run ({self.state})")
        starting = len(vms) > self.running
        if starting or not any(word in self.state.upper() for word in _AT_REST):
            self._at_rest_since = None
            return None
        if self._at_rest_since is None:
            self._at_rest_since = self._run.now
        given_up = self.said is not None or self._run.now - self._at_rest_since >= SETTLING_SECONDS
        return self.fields if given_up else None


def vms_of(run: Run, pool_id: str, fields: JsonObject) -> list[tuple[str, str]]:
    """Return id and state of the pool's VMs; where the API doesn't list them, its own word is taken."""
    try:
        rows = run.client.list(f"kubernetes/nodepools/{pool_id}/vms")
    except NotFound:
        return [(each, "STATE_RUNNING") for each in texts(fields, "instance_ids")]
    return [(vm_id, text(row, "state") or "") for row in rows if (vm_id := text(row, "id"))]


def delete_left_over(run: Run, vms: Collection[str]) -> None:
    """Delete those of the VMs that still exist, and wait until they are gone."""
    for vm_id in _remaining(run, vms):
        run.progress(f"deleting VM {vm_id}, which the node pool left behind")
        try:
            answer = run.client.delete(f"{VMS}/{vm_id}")
            if "operation" in answer:
                run.client.wait(answer, VMS, run.left, reread=lambda: None)
        except NotFound:
            continue


def _remaining(run: Run, vms: Collection[str]) -> list[str]:
    if len(vms) > FEW:
        return sorted({vm_id for row in run.client.list(VMS) if (vm_id := text(row, "id"))} & set(vms))
    return [vm_id for vm_id in sorted(vms) if _exists(run, vm_id)]


def _exists(run: Run, vm_id: str) -> bool:
    try:
        run.client.get(f"{VMS}/{vm_id}")
    except NotFound:
        return False
    return True
