"""The text of slurm.conf, cgroup.conf and slurmdbd.conf as Slinky's operator writes it: pure functions.

Source: Slinky 1.2.1. The user's `extraConf` comes after the operator's own lines, so it wins; the three options of
which both may have a say are then merged into one last line each, since Slurm uses the latest value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.slinky.values import at, name_of, part

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819
SLURMRESTD_PORT = 6820
FOLDER = "/etc/slurm"
_MAX_NODE_COUNT = 1024
_MERGED: Mapping[str, tuple[str, ...]] = {
    "SlurmctldParameters": ("enable_configless", "reconfig_on_restart"),
    "AuthInfo": ("use_client_ids",),
    "AuthAltParameters": (f"jwt_key={FOLDER}/jwt.key",),
}

CGROUP_CONF = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"
"""Written only where the user's files have no cgroup.conf."""

_JWKS = f"jwks={FOLDER}/jwks.json"


@dataclass(frozen=True)
class Scripts:
    """The names of the script files of one cluster."""

    prolog: Sequence[str] = ()
    epilog: Sequence[str] = ()
    prolog_slurmctld: Sequence[str] = ()
    epilog_slurmctld: Sequence[str] = ()


@dataclass(frozen=True)
class Surroundings:
    """What slurm.conf says beside the Controller's own fields.

    `accounting` is the host and port of slurmdbd, None for no accounting; `node_sets` are the Controller's NodeSets.
    """

    accounting: tuple[str, int] | None = None
    node_sets: Sequence[Mapping[str, Any]] = ()
    scripts: Scripts = field(default_factory=Scripts)


def cluster_name(controller: Mapping[str, Any]) -> str:
    """The Slurm cluster's name."""
    return at(controller, "spec", "clusterName") or f"{controller['metadata']['namespace']}_{name_of(controller)}"


def node_set_name(node_set: Mapping[str, Any]) -> str:
    """What Slurm calls a NodeSet: its nodes' host name prefix without the dash, else the object's name."""
    return (at(node_set, "spec", "template", "spec", "hostname") or name_of(node_set)).rstrip("-")


def slurm_conf(controller: Mapping[str, Any], surroundings: Surroundings) -> str:
    """slurm.conf of a Controller."""
    name = f"{name_of(controller)}-controller"
    own = {key: list(values) for key, values in _MERGED.items()}
    if at(controller, "spec", "jwksKeyRef"):
        own["AuthAltParameters"].append(_JWKS)
    scripts = surroundings.scripts
    sections: Sequence[tuple[str, list[str]]] = (
        (
            "GENERAL",
            [
                f"ClusterName={cluster_name(controller)}",
                "SlurmUser=slurm",
                f"SlurmctldHost={name}-0({name}.{controller['metadata']['namespace']})",
                f"SlurmctldPort={SLURMCTLD_PORT}",
                "StateSaveLocation=/var/spool/slurmctld",
                "SlurmdUser=root",
                f"SlurmdPort={SLURMD_PORT}",
                "SlurmdSpoolDir=/var/spool/slurmd",
                f"MaxNodeCount={_MAX_NODE_COUNT}",
            ],
        ),
        ("LOGGING", ["SlurmctldLogFile=/var/log/slurm/slurmctld.log", "SlurmdLogFile=/var/log/slurm/slurmd.log"]),
        (
            "PLUGINS & PARAMETERS",
            [
                "AuthType=auth/slurm",
                "CredType=auth/slurm",
                "AuthAltTypes=auth/jwt",
                *(f"{key}={','.join(values)}" for key, values in own.items()),
                *(["MetricsType=metrics/openmetrics"] if at(controller, "spec", "metrics", "enabled") else []),
            ],
        ),
        ("ACCOUNTING", _accounting(surroundings.accounting)),
        (
            "PROLOG & EPILOG",
            [
                *(f"Prolog={file}" for file in scripts.prolog),
                *(f"Epilog={file}" for file in scripts.epilog),
                *(f"PrologSlurmctld={FOLDER}/{file}" for file in scripts.prolog_slurmctld),
                *(f"EpilogSlurmctld={FOLDER}/{file}" for file in scripts.epilog_slurmctld),
            ],
        ),
        ("COMPUTE & PARTITION", list(_node_sets(surroundings.node_sets))),
        ("EXTRA CONFIG", _lines(controller)),
        ("MERGED", [f"{key}={','.join(values)}" for key, values in _merged(own, _lines(controller)).items()]),
    )
    return _text(sections)


def slurmdbd_conf(accounting: Mapping[str, Any], password: str) -> str:
    """slurmdbd.conf of an Accounting."""
    name = f"{name_of(accounting)}-accounting"
    storage = part(accounting, "spec", "storageConfig")
    own = [*_MERGED["AuthAltParameters"], *([_JWKS] if at(accounting, "spec", "jwksKeyRef") else [])]
    return _text(
        (
            (
                "GENERAL",
                [
                    f"DbdHost={name}-0",
                    f"DbdPort={SLURMDBD_PORT}",
                    "SlurmUser=slurm",
                    "LogFile=/var/log/slurm/slurmdbd.log",
                    "PidFile=/run/slurmdbd/slurmdbd.pid",
                ],
            ),
            (
                "PLUGINS & PARAMETERS",
                [
                    "AuthType=auth/slurm",
                    "AuthAltTypes=auth/jwt",
                    f"AuthAltParameters={','.join(own)}",
                    "AuthInfo=use_client_ids",
                ],
            ),
            (
                "STORAGE",
                [
                    "StorageType=accounting_storage/mysql",
                    f"StorageHost={storage.get('host', '')}",
                    f"StoragePort={storage.get('port', 3306)}",
                    f"StorageUser={storage.get('username', '')}",
                    f"StorageLoc={storage.get('database', 'slurm_acct_db')}",
                    f"StoragePass={password}",
                ],
            ),
            ("EXTRA CONFIG", _lines(accounting)),
        )
    )


def _lines(item: Mapping[str, Any]) -> list[str]:
    """The user's own lines."""
    text: str = at(item, "spec", "extraConf") or ""
    return text.strip("\n").splitlines()


def _accounting(accounting: tuple[str, int] | None) -> list[str]:
    if accounting is None:
        return ["AccountingStorageType=accounting_storage/none"]
    host, port = accounting
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={host}",
        f"AccountingStoragePort={port}",
    ]


def _node_sets(node_sets: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for node_set in sorted(node_sets, key=name_of):
        name = node_set_name(node_set)
        yield f"NodeSet={name} Feature={name}"
        if at(node_set, "spec", "partition", "enabled"):
            config = at(node_set, "spec", "partition", "config") or ""
            yield f"PartitionName={name} Nodes={name} {config}".rstrip()


def _merged(own: Mapping[str, Sequence[str]], lines: Iterable[str]) -> dict[str, list[str]]:
    """The operator's values and the user's of each option that both may set."""
    names = {name.lower(): name for name in own}
    found = {name: list(values) for name, values in own.items()}
    for line in lines:
        key, equals, value = line.partition("=")
        name = names.get(key.strip().lower())
        if equals and name:
            given = value.split("#")[0].strip().split(",")
            found[name] += [item for item in given if item and item not in found[name]]
    return found


def _text(sections: Iterable[tuple[str, list[str]]]) -> str:
    parts = [f"### {title} ###\n" + "".join(f"{line}\n" for line in lines) for title, lines in sections if lines]
    return "#\n".join(parts)
