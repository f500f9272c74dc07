"""Which part of a platform a resource belongs to: the outermost component that declared it.

An outermost component that stands alone and holds others is the platform itself, and is passed over. This holds for any
program; what no component declared is grouped by its package.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitops.urns import Urn

_ROOMS = {
    "network": "Network",
    "storage": "Storage",
    "cluster": "Cluster",
    "autoclusters": "AutoClusters",
    "node_pools": "Node pools",
    "slurm": "Slurm",
    "gpu_sharing": "GPU sharing",
    "observability": "Observability",
}
_ORDER = list(_ROOMS.values())
_PACKAGES = {"crusoe": "Crusoe", "kubernetes": "Kubernetes", "pulumi": "Pulumi"}
CONNECTIONS = "Connections"
"""Providers that no component but the platform has declared."""

STACK = "pulumi:pulumi:Stack"


class Parts:
    """The parts of one program."""

    def __init__(self, components: Iterable[Urn]) -> None:
        """Learn a program's components, without the stack itself."""
        known = list(components)
        outermost = {(each.type, each.name) for each in known if not each.ancestors}
        alone = next(iter(outermost))[0] if len(outermost) == 1 else None
        self._whole = alone if any(each.ancestors[:1] == (alone,) for each in known) else None
        names: dict[str, set[str]] = {}
        for each in known:
            if not self._below(each):
                names.setdefault(each.type, set()).add(each.name)
        self._names = {kind: next(iter(found)) for kind, found in names.items() if len(found) == 1}

    def _below(self, urn: Urn) -> tuple[str, ...]:
        return urn.ancestors[1:] if urn.ancestors[:1] == (self._whole,) else urn.ancestors

    def of(self, urn: Urn) -> str:
        """Return the title of a resource's part."""
        components = self._below(urn)
        if not components:
            package = urn.type.partition(":")[0]
            return CONNECTIONS if urn.type.startswith("pulumi:providers:") else _PACKAGES.get(package, package)
        kind = components[0]
        package, _, rest = kind.partition(":")
        if package == "gpuplatform" and (room := _ROOMS.get(rest.partition(":")[0])):
            return room
        title = kind.rpartition(":")[2]
        return f"{self._names[kind]} ({title})" if kind in self._names else title


def order(part: str) -> tuple[int, str]:
    """Return where a part stands in a report: as the platform is built, then by name."""
    return (_ORDER.index(part), "") if part in _ORDER else (len(_ORDER), part)
