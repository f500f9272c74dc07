"""What a team can say about Crusoe Managed Slurm, and the checks of it."""

from collections.abc import Iterator, Mapping

from pydantic import Field

from components.network import Uuid
from components.settings import Plain, Settings
from crusoe import catalog
from crusoe.rules import names, slurm_managed, ssh
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text


class ManagedNodeSetSettings(Settings):
    """A set of worker nodes of Crusoe Managed Slurm."""

    type: str = Field(description="VM type. A change replaces the node set.", examples=["h100-80gb-sxm-ib.8x"])
    count: int = Field(description="Number of nodes.", examples=[2], ge=0)
    name: str | None = Field(default=None, description="Name of the node set, by default its key.", examples=["train"])
    ssh_public_key: str | None = Field(
        default=None,
        description="Key that may log in to the VMs. A change replaces the node set.",
        examples=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample platform-team"],
    )
    transport_partition_id: Uuid | None = Field(
        default=None,
        description="Existing InfiniBand or RoCE partition to join instead of the platform's own. A change replaces "
        "the node set.",
        examples=["3f6c9f0e-22d5-4a0c-8d9b-7b1f6d0a9c55"],
    )
    allow_scale_down: bool | None = Field(
        default=None, description="Lets a lower count take nodes away. Without it one is refused.", examples=[True]
    )


class ManagedSettings(Settings):
    """Crusoe Managed Slurm, `managed` only. Crusoe can't change such a cluster once it is there."""

    name: str | None = Field(
        default=None, description="Name in Crusoe Cloud, by default `<stack>-slurm`.", examples=["research-slurm"]
    )
    login_node_type: str = Field(
        default="c1a.8x", description="VM type of controller and login nodes.", examples=["c1a.8x"]
    )
    home_size: str = Field(
        default="10Ti", description="Size of the shared /home, in whole Ti; empty for none.", examples=["10Ti"]
    )
    node_sets: Mapping[str, ManagedNodeSetSettings] = Field(
        default={},
        description="Worker nodes by a key of your own.",
        examples=[{"train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}],
    )
    replace_on_change: bool = Field(
        default=False,
        description="Consent to replace the Slurm cluster, with its queue and /home, where a setting of it changes.",
        examples=[False],
    )


def findings(managed: Plain, path: str, stack: str, *, infiniband: bool) -> Iterator[Finding]:
    """Check names, types and sizes; `infiniband` says whether the platform has a partition to join."""
    name = text(managed.get("name")) or f"{stack}-slurm"
    yield from slurm_managed.cluster_name(f"{path}.name", name)
    yield from slurm_managed.login_node_type(f"{path}.loginNodeType", managed.get("loginNodeType"))
    yield from slurm_managed.home_size(f"{path}.homeSize", managed.get("homeSize"))
    sets = {key: table(each) for key, each in table(managed.get("nodeSets")).items()}
    yield from names.unique(
        {f"{path}.nodeSets.{key}.name": text(each.get("name")) or key for key, each in sets.items()}
    )
    for key, each in sets.items():
        kind = catalog.vm_type(each.get("type"))
        joins = "the platform's" if infiniband and kind is not None and kind.fabric == "infiniband" else None
        asked = {
            "name": text(each.get("name")) or key,
            "type": each.get("type"),
            "count": each.get("count"),
            "transportPartitionId": each.get("transportPartitionId") or joins,
        }
        owner = {"name": name, "homeVolumeSize": managed.get("homeSize")}
        yield from slurm_managed.node_set(f"{path}.nodeSets.{key}", asked, owner)
        if each.get("sshPublicKey") is not None:
            yield from ssh.public_key(f"{path}.nodeSets.{key}.sshPublicKey", each.get("sshPublicKey"))
