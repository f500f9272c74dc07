"""Every resource kind and look-up of the provider; a new one is one line here."""

from __future__ import annotations

from crusoe.provider import (
    autoclusters,
    clusters,
    generated,
    lookups,
    networking,
    node_pools,
    slurm_clusters,
    slurm_node_sets,
    slurm_ready,
    slurm_workers,
    storage,
)
from crusoe.provider.kind import Kind
from crusoe.provider.lookups import Lookup

KINDS: dict[str, Kind] = {
    kind.token: kind
    for family in (
        networking.KINDS,
        storage.KINDS,
        clusters.KINDS,
        node_pools.KINDS,
        autoclusters.KINDS,
        slurm_clusters.KINDS,
        slurm_node_sets.KINDS,
        slurm_ready.KINDS,
        slurm_workers.KINDS,
        generated.KINDS,
    )
    for kind in family
}

LOOKUPS: dict[str, Lookup] = {lookup.token: lookup for lookup in lookups.LOOKUPS}
