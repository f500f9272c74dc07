"""What Slinky 1.2's objects may look like (`slinky.slurm.net/v1beta1`), and what the smallest working ones need.

Stricter than the API server, which lets pass what the operator then trips over: fields inside containers and pod
templates, images and volumes that nothing defaults, items of `extraConf` without `=`, which make the operator panic for
ever, and names too long for the pods. Measured with the operator and webhook of 1.2.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from crusoe.rules import manifest, pods
from crusoe.rules.finding import Finding
from crusoe.rules.manifest import FLAG, LABELS, TEXT, TEXTS, Fields, ListOf, Text, Whole, WholeOrText
from crusoe.rules.values import items, table, text, whole

GROUP = "slinky.slurm.net"
API_VERSION = f"{GROUP}/v1beta1"

LONGEST_CLUSTER_NAME = 40
LONGEST_CONTROLLER = 41
"""Of a Controller or Accounting: a longer one makes a label of its pod too long, and the pod never appears."""
LONGEST_NODE_SET = 58
"""Of a NodeSet, so that `<name>-<number>` fits a label up to 9,999 nodes."""

_KEY = Fields({"name": TEXT, "key": TEXT, "optional": FLAG}, ("name", "key"))
_NAME = Fields({"name": TEXT}, ("name",))
_NAMES = ListOf(_NAME)
_EXTERNAL = Fields({"host": TEXT, "port": Whole(1, 65535)}, ("host",))
_METADATA = Fields({"labels": LABELS, "annotations": LABELS})
_SERVICE = Fields(
    {
        "metadata": _METADATA,
        "spec": pods.SERVICE_SPEC,
        "port": Whole(1, 65535),
        "nodePort": Whole(0, 65535),
    }
)
_RETENTION = Fields({"whenDeleted": Text(("Retain", "Delete")), "whenScaled": Text(("Retain", "Delete"))})

SPECS: Mapping[str, Fields] = MappingProxyType(
    {
        "Controller": Fields(
            {
                "accountingRef": _NAME,
                "clusterName": TEXT,
                "configFileRefs": _NAMES,
                "epilogScriptRefs": _NAMES,
                "epilogSlurmctldScriptRefs": _NAMES,
                "external": FLAG,
                "externalConfig": _EXTERNAL,
                "extraConf": TEXT,
                "inplaceReconfigure": FLAG,
                "jwksKeyRef": _KEY,
                "jwtKeyRef": _KEY,
                "logfile": pods.CONTAINER,
                "metrics": Fields(
                    {
                        "enabled": FLAG,
                        "serviceMonitor": Fields(
                            {
                                "enabled": FLAG,
                                "labels": LABELS,
                                "annotations": LABELS,
                                "interval": TEXT,
                                "scrapeTimeout": TEXT,
                                "endpoints": ListOf(Fields({"path": TEXT, "interval": TEXT, "scrapeTimeout": TEXT})),
                            }
                        ),
                    }
                ),
                "persistence": Fields({**pods.CLAIM.known, "enabled": FLAG, "existingClaim": TEXT}),
                "prologScriptRefs": _NAMES,
                "prologSlurmctldScriptRefs": _NAMES,
                "reconfigure": pods.CONTAINER,
                "service": _SERVICE,
                "slurmKeyRef": _KEY,
                "slurmctld": pods.CONTAINER,
                "template": pods.POD_TEMPLATE,
            },
            # The CRD calls none of the last three required, yet without them no pod ever runs.
            ("slurmKeyRef", "jwtKeyRef", "clusterName", "slurmctld", "logfile", "persistence"),
        ),
        "Accounting": Fields(
            {
                "external": FLAG,
                "externalConfig": _EXTERNAL,
                "extraConf": TEXT,
                "jwksKeyRef": _KEY,
                "jwtKeyRef": _KEY,
                "service": _SERVICE,
                "slurmKeyRef": _KEY,
                "slurmdbd": pods.CONTAINER,
                "storageConfig": Fields(
                    {
                        "database": TEXT,
                        "host": TEXT,
                        "passwordKeyRef": _KEY,
                        "port": Whole(1, 65535),
                        "username": TEXT,
                    },
                    ("host", "passwordKeyRef"),
                ),
                "template": pods.POD_TEMPLATE,
            },
            ("slurmKeyRef", "jwtKeyRef", "slurmdbd", "storageConfig"),
        ),
        "RestApi": Fields(
            {
                "controllerRef": _NAME,
                "replicas": Whole(0),
                "service": _SERVICE,
                "slurmrestd": pods.CONTAINER,
                "template": pods.POD_TEMPLATE,
            },
            ("controllerRef", "slurmrestd"),
        ),
        "LoginSet": Fields(
            {
                "controllerRef": _NAME,
                "extraSshdConfig": TEXT,
                "initconf": pods.CONTAINER,
                "login": pods.CONTAINER,
                "replicas": Whole(0),
                "rootSshAuthorizedKeys": TEXT,
                "service": _SERVICE,
                "sssdConfRef": _KEY,
                "strategy": Fields(
                    {
                        "type": Text(("RollingUpdate", "Recreate")),
                        "rollingUpdate": Fields({"maxSurge": WholeOrText(), "maxUnavailable": WholeOrText()}),
                    }
                ),
                "template": pods.POD_TEMPLATE,
            },
            ("controllerRef", "sssdConfRef", "login", "initconf"),
        ),
        "NodeSet": Fields(
            {
                "controllerRef": _NAME,
                "extraConf": TEXT,
                "logfile": pods.CONTAINER,
                "minReadySeconds": Whole(0),
                "ordinalPadding": Whole(0),
                "oversubscribeNode": FLAG,
                "partition": Fields({"enabled": FLAG, "config": TEXT}),
                "persistentVolumeClaimRetentionPolicy": _RETENTION,
                "pinToNode": FLAG,
                "pruneSlurmNodeRecords": Text(("Never", "NodeNotFound")),
                "replicas": Whole(0),
                "revisionHistoryLimit": Whole(0),
                "scalingMode": Text(("StatefulSet", "DaemonSet")),
                "slurmd": pods.CONTAINER,
                "ssh": Fields({"enabled": FLAG, "extraSshdConfig": TEXT, "sssdConfRef": _KEY}),
                "template": pods.POD_TEMPLATE,
                "updateStrategy": Fields(
                    {
                        "type": Text(("RollingUpdate", "OnDelete", "ScheduledUpdate")),
                        "rollingUpdate": Fields({"maxUnavailable": WholeOrText()}),
                        "scheduledUpdate": Fields({"startTime": TEXT, "duration": TEXT, "flags": TEXTS}),
                    }
                ),
                "volumeClaimTemplates": ListOf(Fields({"metadata": pods.METADATA, "spec": pods.CLAIM}, ("spec",))),
                "workloadDisruptionProtection": FLAG,
            },
            ("controllerRef", "slurmd", "logfile"),
        ),
        "Token": Fields(
            {
                "jwtKeyRef": _KEY,
                "lifetime": TEXT,
                "refresh": FLAG,
                "secretRef": Fields({"name": TEXT, "key": TEXT}),
                "username": TEXT,
            },
            ("jwtKeyRef", "username"),
        ),
    }
)
"""The spec of each kind."""

_DAEMONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Controller": ("slurmctld", "logfile"),
        "Accounting": ("slurmdbd",),
        "RestApi": ("slurmrestd",),
        "LoginSet": ("login", "initconf"),
        "NodeSet": ("slurmd", "logfile"),
    }
)
_LONGEST: Mapping[str, int] = MappingProxyType(
    {"Controller": LONGEST_CONTROLLER, "Accounting": LONGEST_CONTROLLER, "NodeSet": LONGEST_NODE_SET}
)
_DURATION = re.compile(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")

# Changing one of them is refused by the webhook, or, worse, accepted and without effect.
IMMUTABLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Controller": (
            "clusterName",
            "slurmKeyRef.name",
            "jwtKeyRef",
            "persistence.enabled",
            "persistence.storageClassName",
            "persistence.resources",
        ),
        "Accounting": ("jwtKeyRef",),
        "LoginSet": ("controllerRef",),
        "NodeSet": ("controllerRef", "volumeClaimTemplates"),
        "Token": ("jwtKeyRef",),
    }
)
"""Fields of each kind's spec that can't change in place."""


def spec(kind: str, path: str, value: object) -> Iterator[Finding]:
    """Check the spec of an object of `kind`: its shape, and what it needs beyond it to work."""
    yield from manifest.check(path, value, SPECS[kind])
    fields = table(value)
    for daemon in _DAEMONS.get(kind, ()):
        container = table(fields.get(daemon))
        if container and text(container.get("image")) is None:
            yield Finding(
                f"{path}.{daemon}.image",
                "missing, and nothing defaults it",
                "Name an image, such as ghcr.io/slinkyproject/slurmd:26.05.1-ubuntu26.04",
            )
    match kind:
        case "Controller":
            yield from _controller(path, fields)
        case "NodeSet":
            yield from _node_set(path, fields)
        case "Token":
            yield from _token(path, fields)
        case _:
            return


def _controller(path: str, fields: Mapping[str, object]) -> Iterator[Finding]:
    name = text(fields.get("clusterName"))
    if name and len(name) > LONGEST_CLUSTER_NAME:
        yield Finding(
            f"{path}.clusterName",
            f"{len(name)} characters long; {LONGEST_CLUSTER_NAME} are allowed",
            f"Write {name[:LONGEST_CLUSTER_NAME]!r}",
        )
    if fields.get("inplaceReconfigure") is True and not table(fields.get("reconfigure")).get("image"):
        yield Finding(f"{path}.reconfigure.image", "missing, and nothing defaults it", "Name the image of slurmctld")
    persistence = table(fields.get("persistence"))
    kept = persistence.get("enabled") is not False and text(persistence.get("existingClaim")) is None
    if persistence and kept:
        requested = table(table(persistence.get("resources")).get("requests")).get("storage")
        if not items(persistence.get("accessModes")) or requested is None:
            yield Finding(
                f"{path}.persistence",
                "without access modes and a requested size the controller gets no volume, and this can't be put right "
                "in place",
                "Set existingClaim, or accessModes and resources.requests.storage",
            )


def _node_set(path: str, fields: Mapping[str, object]) -> Iterator[Finding]:
    yield from extra_conf(f"{path}.extraConf", fields.get("extraConf"))
    partition = text(table(fields.get("partition")).get("config"))
    if partition and "\n" in partition:
        yield Finding(f"{path}.partition.config", "more than one line", "Write all options in one line")
    unavailable = table(table(fields.get("updateStrategy")).get("rollingUpdate")).get("maxUnavailable")
    if whole(unavailable) == 0 or unavailable == "0%":
        yield Finding(
            f"{path}.updateStrategy.rollingUpdate.maxUnavailable",
            "with none, nothing is ever updated",
            "Write 1 or 25%",
        )
    hostname = text(table(table(fields.get("template")).get("spec")).get("hostname"))
    if hostname and not re.fullmatch(r"[a-z]([-a-z0-9]*)", hostname):
        yield Finding(
            f"{path}.template.spec.hostname",
            f"{hostname!r} is no host name",
            "Write lower-case letters, such as 'gpu-'",
        )


def _token(path: str, fields: Mapping[str, object]) -> Iterator[Finding]:
    lifetime = text(fields.get("lifetime"))
    if lifetime and not _DURATION.fullmatch(lifetime):
        yield Finding(f"{path}.lifetime", f"{lifetime!r} is no duration that Go reads", "Write one such as 1h or 30m")


def extra_conf(path: str, value: object) -> Iterator[Finding]:
    """Check a NodeSet's `extraConf`: items `Key=Value`, parted by spaces, in one line."""
    conf = text(value)
    if conf is None:
        return
    if "\n" in conf:
        yield Finding(path, "more than one line", "Part the items by spaces")
    for item in conf.split():
        if not re.fullmatch(r"[A-Za-z]\w*=.+", item):
            yield Finding(path, f"item {item!r} has no '=', on which the operator panics", "Write Key=Value")


def name(kind: str, path: str, value: object) -> Iterator[Finding]:
    """Check the name of an object against what its children's names and labels leave room for."""
    given = text(value)
    longest = _LONGEST.get(kind)
    if given and longest and len(given) > longest:
        yield Finding(
            path,
            f"{given!r} is {len(given)} characters long; {longest} are allowed, or its pods never appear",
            f"Write {given[:longest].rstrip('-')!r}",
        )


def host_names(path: str, prefixes: Mapping[str, str]) -> Iterator[Finding]:
    """Check that no two NodeSets share a host name prefix: their nodes would be one another's in Slurm."""
    owners: dict[str, str] = {}
    for key, prefix in prefixes.items():
        bare = prefix.rstrip("-")
        if bare in owners:
            yield Finding(
                f"{path}.{key}", f"its nodes would be called as those of {owners[bare]}", f"Call it {f'{key}-2'!r}"
            )
        owners.setdefault(bare, key)


def changes(kind: str, path: str, before: object, after: object) -> Iterator[Finding]:
    """Check that no field changes that can't change in place."""
    for field in IMMUTABLE.get(kind, ()):
        old, new = _at(before, field.split(".")), _at(after, field.split("."))
        if old is not None and old != new:
            yield Finding(
                f"{path}.{field}",
                "can't change once the object is there",
                f"Put it back to {old!r}, or make an object of another name beside it and retire this one",
            )


def _at(value: object, keys: Sequence[str]) -> object:
    for key in keys:
        value = table(value).get(key)
    return value
