"""What the platform tells the exporter, as one JSON object in the variable EXPORTER_SETTINGS."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from actor.settings import read


@dataclass(frozen=True)
class Pool:
    """A node pool of the settings.

    Attributes:
        name: that Crusoe has for it.
        gpus, vendor: of one node; `none` for a CPU type.
        resource: name under which Kubernetes counts the GPUs; empty for a CPU type.
    """

    name: str
    vm_type: str
    gpus: int = 0
    vendor: str = "none"
    resource: str = ""


@dataclass(frozen=True)
class Share:
    """What is promised of a shared pool: `floor` GPUs to `share`, whose pods are in `namespace` (empty: Slurm's)."""

    share: str
    pool: str
    side: str
    floor: int
    namespace: str = ""


@dataclass(frozen=True)
class Settings:
    """Choices of the platform.

    Attributes:
        version: of the platform.
        poll_seconds: from one look at Slurm, Kubernetes and AutoClusters to the next.
        endpoint, project, cluster_id, location: in Crusoe's API; without `key_id` it is not asked.
        key_id: id of the access key; its secret is a file of the pod.
        key_expires: when the key ends, seconds since 1970; 0 where nobody said.
        slurm_url: of slurmrestd; empty without Slurm on Kubernetes.
        pools: by their key in the settings.
        shares: what GPU sharing promises.
    """

    version: str = ""
    poll_seconds: float = 15.0
    endpoint: str = ""
    project: str = ""
    cluster_id: str = ""
    location: str = ""
    key_id: str = ""
    key_expires: float = 0.0
    slurm_url: str = ""
    pools: Mapping[str, Pool] = field(default_factory=dict[str, Pool])
    shares: tuple[Share, ...] = ()

    def pool_key(self, name: str) -> str:
        """A pool's key, given Crusoe's name for it; `none` for one that is not of this platform."""
        return next((key for key, pool in self.pools.items() if pool.name == name), "none")


def load(text: str) -> Settings:
    """Settings from JSON; raises ValueError."""
    found = read(text, "EXPORTER_SETTINGS", (each.name for each in fields(Settings)))
    try:
        pools = {key: Pool(**each) for key, each in found.pop("pools", {}).items()}
        shares = tuple(Share(**each) for each in found.pop("shares", ()))
    except TypeError as error:
        raise ValueError(f"EXPORTER_SETTINGS: {error}") from error
    return Settings(**found, pools=pools, shares=shares)
