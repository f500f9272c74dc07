"""What Slinky's validating webhook refuses and warns about: pure functions, from its observed answers.

None of this is in the resources' schemas, so with the webhook absent all of it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from localcloud.slinky.shapes import open_field_error
from localcloud.slinky.values import Object, at, items, names, part

Operation = Literal["CREATE", "UPDATE"]
Files = Callable[[str], Collection[str] | None]
"""The file names in a ConfigMap of the object's namespace; None if there is no such ConfigMap."""

_CLUSTER_NAME_LENGTH = 40
_RESERVED = ("slurm.conf", "slurmdbd.conf")
_KNOWN_FILES = frozenset(
    {
        "acct_gather.conf",
        "burst_buffer.conf",
        "cgroup.conf",
        "cli_filter.lua",
        "gres.conf",
        "helpers.conf",
        "job_container.conf",
        "job_submit.lua",
        "mpi.conf",
        "namespace.yaml",
        "oci.conf",
        "plugstack.conf",
        "resources.yaml",
        "scrun.lua",
        "topology.conf",
        "topology.yaml",
    }
)
# A trailing dash is fine: the pod's number follows.
_HOSTNAME = re.compile(r"[a-z0-9]([-a-z0-9]*)?")
_DURATION = re.compile(r"([+-])?((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+|0")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)([^\d.]*)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SHORTEST_UPDATE_SECONDS = 60

# The fields that may not change once the object is there, by kind.
_FIXED: Mapping[str, tuple[str, ...]] = {
    "Controller": ("clusterName", "slurmKeyRef.name", "persistence.enabled"),
    "Accounting": (),
    "RestApi": (),
    "LoginSet": ("controllerRef",),
    "NodeSet": ("controllerRef", "volumeClaimTemplates"),
    "Token": (),
}
_WITH_JWT_KEY = ("Controller", "Accounting", "Token")


@dataclass
class Verdict:
    """What the webhook answers."""

    errors: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


def judge(operation: Operation, new: Object, old: Object | None, files: Files) -> Verdict:
    """Judge a custom resource that is about to be stored; `old` is what it replaces.

    An object that can't be read into the webhook's types is refused before any rule sees it.
    """
    kind: str = new["kind"]
    spec = part(new, "spec")
    verdict = Verdict()
    if unreadable := (open_field_error(kind, spec) or _lifetime_error(kind, spec)):
        verdict.errors.append(unreadable)
        return verdict
    if new["metadata"].get("deletionTimestamp"):
        return verdict
    if at(spec, "service", "spec", "externalIPs"):
        verdict.warnings.append("service.spec.externalIPs is not supported and left out")
    if rule := _RULES.get(kind):
        verdict.errors += rule(operation, new, files, verdict.warnings)
    if old is not None:
        verdict.errors += _changed(kind, spec, part(old, "spec"))
    return verdict


def seconds_of(duration: str) -> float | None:
    """A duration such as `1h30m` in seconds; None if Go could not read it."""
    if not _DURATION.fullmatch(duration):
        return None
    total = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(duration))
    return -total if duration.startswith("-") else total


def _lifetime_error(kind: str, spec: Object) -> str | None:
    texts = [at(spec, "lifetime")] if kind == "Token" else []
    if kind == "NodeSet":
        texts.append(at(spec, "updateStrategy", "scheduledUpdate", "duration"))
    for text in texts:
        if isinstance(text, str) and seconds_of(text) is None:
            unit = _UNIT.match(text)
            if unit is None:
                return f'time: invalid duration "{text}"'
            what = f"unknown unit {_quoted(unit[1])}" if unit[1] else "missing unit"
            return f"time: {what} in duration {_quoted(text)}"
    return None


def _quoted(text: str) -> str:
    return f'"{text}"'


def _controller(operation: Operation, new: Object, files: Files, warnings: list[str]) -> Iterator[str]:
    spec, metadata = part(new, "spec"), part(new, "metadata")
    if operation == "CREATE":
        name = spec.get("clusterName") or f"{metadata['namespace']}_{metadata['name']}"
        if len(name) > _CLUSTER_NAME_LENGTH:
            yield f"clusterName {_quoted(name)} must have at most {_CLUSTER_NAME_LENGTH} characters, not {len(name)}"
    for name in names(items(spec, "configFileRefs")):
        found = files(name)
        if found is None:
            yield f'ConfigMap "{name}" not found'
            continue
        for file in sorted(found):
            if file in _RESERVED:
                yield f'ConfigMap "{name}": file "{file}" is reserved for slurm-operator use'
            elif file not in _KNOWN_FILES:
                warnings.append(f'ConfigMap "{name}": file "{file}" is not a known Slurm file')


def _node_set(_operation: Operation, new: Object, _files: Files, _warnings: list[str]) -> Iterator[str]:
    if not at(new, "spec", "controllerRef", "name"):
        yield "controllerRef.name must not be empty"
    hostname = at(new, "spec", "template", "spec", "hostname")
    if hostname and not _HOSTNAME.fullmatch(hostname):
        yield f'template.spec.hostname "{hostname}" is not a valid prefix of a DNS label'
    strategy = part(new, "spec", "updateStrategy")
    most = at(strategy, "rollingUpdate", "maxUnavailable")
    if most in (0, "0%"):
        yield f"updateStrategy.rollingUpdate.maxUnavailable must not be {most}"
    duration = seconds_of(at(strategy, "scheduledUpdate", "duration") or "30m")
    if duration is not None and duration < _SHORTEST_UPDATE_SECONDS:
        yield "updateStrategy.scheduledUpdate.duration must be at least 1m"


def _login_set(_operation: Operation, new: Object, _files: Files, _warnings: list[str]) -> Iterator[str]:
    if not at(new, "spec", "sssdConfRef", "name"):
        yield "sssdConfRef.name must not be empty"


_RULES: Mapping[str, Callable[[Operation, Object, Files, list[str]], Iterator[str]]] = {
    "Controller": _controller,
    "NodeSet": _node_set,
    "LoginSet": _login_set,
}


def _changed(kind: str, new: Object, old: Object) -> Iterator[str]:
    for path in _FIXED[kind]:
        before, after = at(old, *path.split(".")), at(new, *path.split("."))
        if path == "persistence.enabled":
            # Absent means enabled, but a field that appears later counts as a change, as observed.
            if ("persistence" in old) == ("persistence" in new) and before == after:
                continue
            yield "cannot change persistence.enabled after deployment"
        elif before != after:
            yield f"cannot change {path} after deployment"
    if kind in _WITH_JWT_KEY and jwt_key_of(new) != jwt_key_of(old):
        yield "cannot change jwtKeyRef after deployment"


def jwt_key_of(spec: Mapping[str, Any]) -> Object | None:
    """The reference to the JWT key, under its present or its old name."""
    return at(spec, "jwtKeyRef") or at(spec, "jwtHs256KeyRef")
