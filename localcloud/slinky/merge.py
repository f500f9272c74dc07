"""A user's part over ours, as Kubernetes' strategic merge does it: pure functions.

Maps are merged field by field. Lists whose items have an identity (a container's name, a volume's name, where a mount
goes) are merged item by item; every other list replaces ours, unless it is empty. A null leaves ours alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from localcloud.slinky.values import Object

_IDENTITY: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "ports": "containerPort",
}


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """`base` with `patch` over it; neither is changed."""
    result: Object = dict(base)
    for key, value in patch.items():
        result[key] = _value(key, base.get(key), value)
    return {key: value for key, value in result.items() if value is not None}


def merged_container(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """A container with a user's container over it: arguments are added to ours, and the name stays ours."""
    arguments: list[str] = [*(base.get("args") or []), *(patch.get("args") or [])]
    result = merged(base, {key: value for key, value in patch.items() if key not in ("args", "name")})
    return {**result, "args": arguments} if arguments else result


def _value(key: str, base: object, patch: object) -> object:
    if patch is None:
        return base
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        return merged(cast(Mapping[str, Any], base), cast(Mapping[str, Any], patch))
    if isinstance(base, list) and isinstance(patch, list):
        identity = _IDENTITY.get(key)
        if identity:
            return _items(identity, cast(list[Object], base), cast(list[Object], patch))
        return cast(list[object], patch) or cast(list[object], base)
    return patch


def _items(identity: str, base: Sequence[Object], patch: Sequence[Object]) -> list[Object]:
    result = {item.get(identity): item for item in base}
    for item in patch:
        found = result.get(item.get(identity))
        result[item.get(identity)] = merged(found, item) if found else item
    return list(result.values())
