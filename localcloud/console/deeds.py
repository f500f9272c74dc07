"""What the forms do: break a GPU as `python -m localcloud gpu-fault` does, cut a machine's power, give it back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from pydantic import ValidationError

from localcloud.admin import GpuFaultAdd, add_gpu_fault
from localcloud.cloud import Cloud
from localcloud.console.gathering import Picture
from localcloud.control_plane import ControlPlaneError
from localcloud.errors import bad_request

Name = Literal["gpu-fault", "power-off", "power-on"]

XIDS: Mapping[int, str] = {
    79: "it falls off the bus",
    48: "double bit error of its memory",
    64: "a memory row can't be remapped",
    74: "fatal error of NVLink",
    95: "uncontained error of its memory",
}
"""Errors that can be asked for, with what happens to the GPU."""


@dataclass(frozen=True)
class Deed:
    """What was asked for, on a node; `xid` and `gpu` only of a broken GPU."""

    name: Name
    node: str
    xid: int = 0
    gpu: int = 0

    @classmethod
    def read(cls, node: str, fields: Mapping[str, str]) -> Deed:
        """From a form. Raises ApiError for what no form of ours has."""
        name = fields.get("deed", "")
        if name not in get_args(Name):
            raise bad_request(f"deed: {name!r} is none of {', '.join(get_args(Name))}")
        if name != "gpu-fault":
            return cls(cast(Name, name), node)
        try:
            xid, gpu = int(fields.get("xid", "")), int(fields.get("gpu", ""))
        except ValueError:
            raise bad_request("xid and gpu: numbers are needed") from None
        if xid not in XIDS:
            raise bad_request(f"xid: {xid} is none of {', '.join(map(str, XIDS))}")
        return cls("gpu-fault", node, xid, gpu)

    @property
    def title(self) -> str:
        """What it is, as a heading."""
        return {
            "gpu-fault": f"Break GPU {self.gpu} of {self.node}?",
            "power-off": f"Cut the power of {self.node}?",
            "power-on": f"Give {self.node} its power back?",
        }[self.name]

    @property
    def button(self) -> str:
        """What agrees to it."""
        return {
            "gpu-fault": f"Yes, break GPU {self.gpu}",
            "power-off": "Yes, cut the power",
            "power-on": "Yes, give it back",
        }[self.name]


def consequences(deed: Deed, picture: Picture) -> list[str]:
    """What will happen, in sentences."""
    match deed.name:
        case "power-on":
            return ["Its pods of Slurm start again, as after a boot."]
        case "power-off":
            return [
                "Every pod of Slurm on it dies at once, and stays dead until its power is given back here.",
                "AutoClusters sees faults of GPUs only; Slurm notices that the node is silent.",
            ]
        case "gpu-fault":
            return [f"The GPU has XID {deed.xid} from now on: {XIDS[deed.xid]}.", _repair(deed, picture)]


def _repair(deed: Deed, picture: Picture) -> str:
    issue = f"XID_{deed.xid}"
    for cluster in picture.clusters:
        if any(vm.name == deed.node for pool in cluster.pools for vm in pool.vms):
            action = next((each.action for each in cluster.issues if each.name == issue), None)
            if action == "REPLACE_NODE":
                return "AutoClusters will close the node, move its pods away and replace the machine."
            if action is not None:
                return f"AutoClusters will tell of it and do nothing: the action of {issue} is {action}."
    return f"AutoClusters will do nothing: it does not cover {issue} here."


async def do(deed: Deed, cloud: Cloud) -> None:
    """Do it. Raises ApiError where that can't be."""
    if deed.name == "gpu-fault":
        try:
            wanted = GpuFaultAdd(node=deed.node, xid=deed.xid, gpu=deed.gpu)
        except ValidationError:
            raise bad_request(f"gpu: {deed.gpu} is no GPU of {deed.node}") from None
        await add_gpu_fault(wanted, cloud)
    else:
        await _power(cloud, deed.node, on=deed.name == "power-on")


async def _power(cloud: Cloud, node: str, *, on: bool) -> None:
    # Imported here: pages do without a client of Kubernetes.
    from localcloud.kubernetes.api_server import NODES
    from localcloud.slurm.kubelet import POWER

    cluster_id = next((key for key, sight in cloud.sights.all().items() if node in sight.nodes), "")
    api = cloud.sights.door(cluster_id)
    if api is None:
        raise bad_request(f"no cluster that answers has a node {node!r}")
    change = {"metadata": {"annotations": {POWER: None if on else "off"}}}
    try:
        there = await asyncio.to_thread(api.merge, NODES.path(name=node), change)
    except ControlPlaneError as error:
        raise bad_request(f"Kubernetes did not take it: {error}") from error
    if not there:
        raise bad_request(f"the node {node} is gone")
