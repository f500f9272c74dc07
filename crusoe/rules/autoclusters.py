"""AutoClusters: from which version, for which VM types, and what can be set.

CMK v1 has one configuration per cluster, an action per issue; CMK v2 has a consent mode per pool. Facts are in the
catalogue (AutoClusters documentation, read 2026-10-06; API description of 2026-07-20).
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from crusoe import catalog
from crusoe.rules import versions
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

REPLACE_NODE = "REPLACE_NODE"
OFF = "OFF"

OF_APPLICATIONS = frozenset(f"XID_{code}" for code in (13, 31, 43, 45, 94))
"""Issues that mean an error of what runs on the GPU: they come back on every node that it is moved to."""


def minimum_version(value: object) -> str | None:
    """Return the first version of this minor that has AutoClusters.

    For a minor older than all that have it the oldest such version; None when every version of the minor has it, or
    `value` is no version.
    """
    version = versions.parse(value)
    if version is None:
        return None
    minimums = catalog.autoclusters().minimum_versions
    if version.minor_name in minimums:
        return minimums[version.minor_name]
    known = [parsed for each in minimums.values() if (parsed := versions.parse(each)) is not None]
    oldest = min(known)
    return str(oldest) if version < oldest else None


def supported(value: object, features: object = None) -> bool:
    """Say whether a cluster of this version can have AutoClusters' configuration.

    `features` is the version's `supported_features` as the API lists them, which decides when it is known.
    """
    if features is not None:
        return catalog.autoclusters().feature in items(features)
    version, least = versions.parse(value), versions.parse(minimum_version(value))
    return version is not None and version.generation == "v1" and (least is None or version >= least)


def version(path: str, value: object, features: object = None) -> list[Finding]:
    """Refuse a cluster version without AutoClusters, and name the minimum."""
    given = versions.parse(value)
    if given is None:
        return []
    if given.generation == "v2":
        return [_v2(path, str(given))]
    if supported(value, features):
        return []
    least = minimum_version(value)
    if least is None or given >= (versions.parse(least) or given):
        problem = f"the API lists {given} without the feature {catalog.autoclusters().feature!r}"
        return [Finding(path, problem, "Use a version that has it, or leave AutoClusters out")]
    return [Finding(path, f"AutoClusters needs at least {least}, {given} is older", f"Write {least!r} or newer")]


def generation(path: str, cluster_version: object, settings: object) -> list[Finding]:
    """Refuse AutoClusters' configuration on CMK v2, where repairs are set per pool."""
    given = versions.parse(cluster_version)
    asked = table(settings)
    if given is None or given.generation == "v1":
        return []
    keys = [key for key in ("actions", "fallbackToProjectReservations") if asked.get(key) not in (None, {}, False)]
    return [_v2(f"{path}.{key}", str(given), key) for key in keys]


def _v2(path: str, version_text: str, key: str = "AutoClusters' configuration") -> Finding:
    problem = f"{key} is a setting of CMK v1, and the cluster's version {version_text} is v2"
    return Finding(path, problem, "Leave it out and set consentMode: auto on the pools that are to be repaired")


def actions(path: str, value: object, known_issues: object = None) -> list[Finding]:
    """Check the actions: each REPLACE_NODE or OFF, each issue one of the cluster's own catalogue when that is known.

    `known_issues` are the issue names that the cluster's configuration lists; None before there is a cluster.
    """
    known = sorted(each for each in items(known_issues) if isinstance(each, str))
    found: list[Finding] = []
    for issue, action in table(value).items():
        place = f"{path}.{issue}"
        if known_issues is not None and issue not in known:
            # XID_95 is another fault than XID_999, not another spelling of it.
            alike = [each for each in known if _numbers(each) == _numbers(issue)]
            near = difflib.get_close_matches(issue.upper().replace("-", "_"), alike, n=1, cutoff=0.6)
            listing = ", ".join(known) or "none"
            fix = f"Write {near[0]}; known are {listing}" if near else f"Write one of {listing}"
            found.append(Finding(place, f"{issue[:60]!r} is not an issue of this cluster", fix))
        elif known_issues is None and not _issue_form(issue):
            right = issue.strip().upper().replace("-", "_").replace(" ", "_")
            shown = right if _issue_form(right) else catalog.autoclusters().confirmed_issues[0]
            found.append(Finding(place, f"{issue[:60]!r} does not look like an issue's name", f"Write {shown}"))
        if action is False:
            # YAML 1.1 reads a bare OFF as false.
            found.append(Finding(place, "YAML reads a bare OFF as false", 'Write "OFF" in quotes'))
        elif isinstance(action, str) and action not in (REPLACE_NODE, OFF):
            near_action = OFF if action.upper() in {"OFF", "NONE", "DISABLED", ""} else REPLACE_NODE
            problem = f"{action[:40]!r} is not one of {REPLACE_NODE}, {OFF}"
            found.append(Finding(place, problem, f'Write "{near_action}"'))
    return found


def repairs_wanted(actions_value: object) -> bool:
    """Say whether any issue is to be answered with a replacement."""
    return any(action == REPLACE_NODE for action in table(actions_value).values())


def repairable(path: str, actions_value: object, pools_path: str, pools: object) -> list[Finding]:
    """Refuse repairs in a cluster that has no pool AutoClusters could repair, as they would never happen.

    `pools` maps each pool's key to `{type, ...}`.
    """
    if not repairs_wanted(actions_value):
        return []
    kinds = [catalog.vm_type(table(pool).get("type")) for pool in table(pools).values()]
    # An unknown type has a finding of its own, and might be repairable once it is written right.
    if not kinds or any(kind is None or kind.autoclusters for kind in kinds):
        return []
    slices = next((kind for kind in kinds if kind is not None and kind.is_slice), None)
    host = catalog.vm_type(catalog.whole_host_of(slices.name)) if slices else None
    example = host.name if host and host.autoclusters else "h100-80gb-sxm-ib.8x"
    problem = f"repairs are on, but no pool of {pools_path} has a VM type that AutoClusters repairs"
    return [Finding(path, problem, f"Add a pool such as {example!r}, or leave the actions out")]


def unrepaired(path: str, pools: object) -> list[Finding]:
    """Name the GPU pools that AutoClusters never repairs: slices of shared hosts and unsupported types.

    On CMK v1, where actions hold for the whole cluster, this is advice; see `consent` for v2.
    """
    return [
        finding
        for key, pool in table(pools).items()
        if (finding := _never_repaired(f"{path}.{key}.type", table(pool).get("type"))) is not None
    ]


def shared_host(path: str, vm_type_name: object) -> list[Finding]:
    """Refuse a slice of a host, and name the whole host's type."""
    kind = catalog.vm_type(vm_type_name)
    finding = _never_repaired(path, vm_type_name) if kind is not None and kind.is_slice else None
    return [finding] if finding else []


def unsupported(path: str, vm_type_name: object) -> list[Finding]:
    """Name a whole host that AutoClusters does not support: advice, as it can be replaced by hand."""
    kind = catalog.vm_type(vm_type_name)
    finding = _never_repaired(path, vm_type_name) if kind is not None and kind.whole_host else None
    return [finding] if finding else []


def unwise(path: str, actions_value: object) -> list[Finding]:
    """Name the issues that mean an error of the application: advice, since they come back on every node.

    A new node cures none of them, and one broken job would use up all spares (NVIDIA's XID catalogue: 13 and 31 are
    faults of a kernel or its memory, 43 and 45 end a process after one, 94 is an error that the GPU has contained).
    """
    return [
        Finding(
            f"{path}.{issue}",
            f"{issue} is raised by a faulty job as well, and comes back with it on every node",
            "Leave it OFF, and look at the job first",
        )
        for issue, action in table(actions_value).items()
        if action == REPLACE_NODE and issue in OF_APPLICATIONS
    ]


def way_back(path: str, actions_value: object) -> list[Finding]:
    """Refuse an action that takes a node away without bringing another: the cluster would shrink with each fault."""
    return [
        Finding(
            f"{path}.{issue}",
            f"{action[:40]} takes the node out of work, and nothing brings it or another one back",
            f'Write "{REPLACE_NODE}", which does both, or "{OFF}"',
        )
        for issue, action in table(actions_value).items()
        if isinstance(action, str) and any(word in action.upper() for word in ("DRAIN", "CORDON", "DELETE", "STOP"))
    ]


def spare(path: str, *, wanted: bool, fallback: object, hosts: object, used: object) -> list[Finding]:
    """Check that a repair finds a host: one that no work is planned for, or the project's reservations.

    `hosts` is the number of hosts that can be repaired, `used` the number that work of the program takes.
    """
    have, need = whole(hosts), whole(used)
    if not wanted or fallback is True or have is None or need is None or need < have:
        return []
    problem = f"repairs are on, but all {have} hosts are planned for work and reservations may not be used"
    return [Finding(path, problem, f"Plan with {max(0, have - 1)} hosts, or set fallbackToProjectReservations: true")]


def consent(path: str, vm_type_name: object, consent_mode: object) -> list[Finding]:
    """Refuse a consent to repairs on a pool (CMK v2) whose VM type is never repaired."""
    if text(consent_mode) not in {"auto", "propose"}:
        return []
    finding = _never_repaired(path, vm_type_name)
    kind = catalog.vm_type(vm_type_name)
    if finding is None and kind is not None and not kind.gpus:
        finding = Finding(
            path, f"AutoClusters repairs GPU nodes, and {kind.name} has no GPU", 'Write "off" or leave it out'
        )
    return [finding] if finding else []


def _never_repaired(path: str, name: object) -> Finding | None:
    kind = catalog.vm_type(name)
    if kind is None or not kind.gpus or kind.autoclusters:
        return None
    host = catalog.vm_type(catalog.whole_host_of(kind.name))
    if kind.is_slice:
        problem = f"{kind.name} is a slice of a host that others may share, and AutoClusters never replaces those"
    else:
        problem = f"AutoClusters does not support {kind.name}"
    if host is not None and host.autoclusters:
        return Finding(path, problem, f"Use the whole host, {host.name!r}")
    able = [each.name for each in catalog.vm_types().values() if each.autoclusters]
    return Finding(path, problem, f"Use one of {', '.join(able)}, or plan to replace its nodes by hand")


def reserve(
    path: str, fallback: object, actions_value: object, pools: Mapping[str, object] | None = None
) -> list[Finding]:
    """Check the use of reserved capacity for repairs: only with repairs, and only where there is a reservation to use.

    With `fallbackToProjectReservations` a repair may take capacity that an autoscaler or another cluster counts on.
    """
    if fallback is not True:
        return []
    if not repairs_wanted(actions_value):
        problem = "no issue is answered with REPLACE_NODE, so nothing would ever use the reservations"
        return [Finding(path, problem, "Leave it out, or set an action such as GPU_FELL_OFF_THE_BUS: REPLACE_NODE")]
    strategies = [table(table(pool).get("reservation")).get("selectionStrategy") for pool in table(pools).values()]
    if strategies and all(strategy == "on_demand" for strategy in strategies):
        problem = "every pool is on demand, so there is no reservation that a repair could use"
        return [Finding(path, problem, "Write false, or give a pool its reservation's id")]
    return []


def _numbers(name: str) -> list[str]:
    return re.findall(r"[0-9]+", name)


def _issue_form(name: str) -> bool:
    return bool(name) and name.isascii() and name.replace("_", "").isalnum() and name == name.upper()
