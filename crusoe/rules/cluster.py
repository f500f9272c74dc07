"""Clusters: version, sign-in through OIDC, extra arguments, add-ons.

Facts: Crusoe's API description (2026-07-20) and Terraform provider 1.1.1. CMK v1 sets add-ons at creation only and
names its versions `1.33.4-cmk.43`; v2 has bare versions and add-on endpoints.
"""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crusoe import catalog
from crusoe.rules import versions
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text

if TYPE_CHECKING:
    from collections.abc import Mapping

KNOWN_ADD_ONS: Mapping[str, str] = MappingProxyType(
    {
        "crusoe_csi": "CSI driver",
        "nvidia_gpu_operator": "NVIDIA GPU operator",
        "nvidia_network_operator": "NVIDIA network operator",
        "amd_gpu_operator": "AMD GPU operator",
        "amd_network_operator": "AMD network operator",
        "cluster_autoscaler": "cluster autoscaler",
        "autocluster_active_testing": "Active Health Checks",
    }
)
"""Add-ons that a source names. There are others, so an unknown one is only a fault when it resembles one of these."""

OLDEST_POOL_LAG = 3
"""Minor versions by which nodes may be older than the control plane (Kubernetes version skew policy)."""


def version(path: str, value: object) -> list[Finding]:
    """Check the form of a cluster's version; which ones are offered is for the API to say."""
    given = text(value)
    if given is None or versions.parse(given) is not None:
        return []
    bare = given.strip().removeprefix("v")
    near = bare if versions.parse(bare) is not None else "1.33.4-cmk.43"
    return [
        Finding(
            path,
            f"{given[:40]!r} is not a cluster version; CMK v1 has the form 1.33.4-cmk.43, v2 the form 1.35.5",
            f"Write {near!r}" if near == bare else f"Write one such as {near!r}",
        )
    ]


def pool_version(path: str, value: object, cluster_version: object) -> list[Finding]:
    """Check a node pool's version against its cluster's: its form, not newer, at most three minor versions older."""
    form = version(path, value)
    nodes, control_plane = versions.parse(value), versions.parse(cluster_version)
    if form or nodes is None or control_plane is None:
        return form
    if (nodes.major, nodes.minor, nodes.patch) > (control_plane.major, control_plane.minor, control_plane.patch):
        problem = f"nodes of version {nodes} are newer than the cluster's control plane, {control_plane}"
        return [Finding(path, problem, f"Write {str(control_plane)!r}, or leave it out for the newest that fits")]
    if nodes.major == control_plane.major and control_plane.minor - nodes.minor > OLDEST_POOL_LAG:
        problem = f"nodes of version {nodes} are more than {OLDEST_POOL_LAG} minor versions older than {control_plane}"
        return [Finding(path, problem, f"Write {str(control_plane)!r}, or leave it out for the newest that fits")]
    return []


def unchanged_version(path: str, old: object, new: object) -> list[Finding]:
    """Check that the version of a running cluster stays: the API upgrades none in place."""
    before, after = text(old), text(new)
    if before is None or after is None or before == after:
        return []
    return [
        Finding(
            path,
            f"the cluster runs {before}; Crusoe's API can't change that to {after} in place, and a replacement would"
            " take all its workloads down",
            f"Write {before!r} and ask Crusoe for the upgrade, or declare a second cluster with {after!r} and move",
        )
    ]


def oidc(path: str, value: object) -> list[Finding]:
    """Check the sign-in settings: issuer and client together, the issuer an https address."""
    given = table(value)
    issuer, client = text(given.get("issuerUrl")), text(given.get("clientId"))
    found: list[Finding] = []
    if given and "issuerUrl" not in given:
        found.append(Finding(f"{path}.issuerUrl", "missing beside the others", "Write 'https://login.example.com'"))
    if given and "clientId" not in given:
        found.append(
            Finding(f"{path}.clientId", "missing beside the others", "Write the client's id, such as 'kubernetes'")
        )
    if given.get("clientId") is not None and client is None and isinstance(given["clientId"], str):
        found.append(Finding(f"{path}.clientId", "empty", "Write the client's id, such as 'kubernetes'"))
    if issuer is not None or isinstance(given.get("issuerUrl"), str):
        parts = _split(issuer or "")
        if parts.scheme != "https" or not parts.hostname:
            found.append(
                Finding(
                    f"{path}.issuerUrl",
                    f"{(issuer or '')[:80]!r} is not an https address, which Kubernetes insists on",
                    f"Write 'https://{parts.hostname or 'login.example.com'}{parts.path if parts.hostname else ''}'",
                )
            )
        elif parts.query or parts.fragment:
            found.append(
                Finding(
                    f"{path}.issuerUrl",
                    f"{issuer!r} has a query or fragment, which an issuer has not",
                    f"Write 'https://{parts.netloc}{parts.path}'",
                )
            )
    return found


def groups(path: str, names: object, oidc_path: str, oidc_value: object) -> list[Finding]:
    """Check groups that are to get a role: they only exist with OIDC and a claim that carries them."""
    given = items(names)
    if not given:
        return []
    found = [
        Finding(
            f"{path}[{index}]", f"{name!r} is a built-in group of Kubernetes", "Name a group of your identity provider"
        )
        for index, name in enumerate(given)
        if isinstance(name, str) and name.startswith("system:")
    ]
    settings = table(oidc_value)
    if not settings:
        problem = "groups sign in through OIDC, and the cluster has none"
        found.append(
            Finding(path, problem, f"Set {oidc_path}.issuerUrl, .clientId and .groupsClaim, or leave the groups out")
        )
    elif text(settings.get("groupsClaim")) is None:
        problem = "without a groups claim nobody is in a group"
        found.append(Finding(f"{oidc_path}.groupsClaim", problem, "Write the claim's name, usually 'groups'"))
    return found


def extra_args(path: str, value: object) -> list[Finding]:
    """Check arguments of a control plane component: never an empty map, names as on the command line without dashes."""
    given = table(value)
    if value == {}:
        problem = "an empty map would clear every argument, also those that others have set"
        return [Finding(path, problem, "Leave it out to keep them, or name the arguments that you want")]
    return [
        Finding(f"{path}.{key}", "written with leading dashes", f"Write {key.lstrip('-')!r}")
        for key in given
        if key.startswith("-") and key.lstrip("-")
    ]


def add_ons(path: str, value: object, vm_types: object = ()) -> list[Finding]:
    """Check add-ons: none twice, no misspelt one, and operators for the GPUs of the pools' VM types.

    Without its vendor's operator a GPU node offers no GPUs; on CMK v1 the add-on can't be added later.
    """
    names = [text(each) for each in items(value)]
    found: list[Finding] = []
    for index, name in enumerate(names):
        if name is None:
            continue
        if name in names[:index]:
            found.append(Finding(f"{path}[{index}]", f"{name!r} is there twice", "Leave one out"))
        elif name not in KNOWN_ADD_ONS:
            near = difflib.get_close_matches(name.lower().replace("-", "_"), KNOWN_ADD_ONS, n=1, cutoff=0.85)
            if near:
                found.append(Finding(f"{path}[{index}]", f"{name[:60]!r} is not a known add-on", f"Write {near[0]!r}"))
    if not isinstance(value, list | tuple):
        return found
    types = [found_type for each in items(vm_types) if (found_type := catalog.vm_type(each)) is not None]
    for vendor in ("nvidia", "amd"):
        users = [each for each in types if each.gpu_vendor == vendor]
        wanted = [f"{vendor}_gpu_operator"] if users else []
        wanted += [f"{vendor}_network_operator"] if any(each.fabric for each in users) else []
        found += [
            Finding(path, f"{name!r} is missing, which {users[0].name} nodes need", f"Add {name!r}")
            for name in wanted
            if name not in names
        ]
    return found


def generation_settings(path: str, cluster_version: object, settings: object) -> list[Finding]:
    """Refuse cluster settings that the version's generation does not have."""
    if versions.generation_of(cluster_version) != "v1":
        return []
    return [
        Finding(
            f"{path}.{key}",
            f"CMK v1 has no {key}, and {cluster_version} is v1",
            f"Leave {key} out, or use a CMK v2 version",
        )
        for key in ("routingMode",)
        if table(settings).get(key) is not None
    ]


def _split(address: str):  # noqa: ANN202 - urlsplit's result type has no short name
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
