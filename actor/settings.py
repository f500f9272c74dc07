"""What the platform tells the actor, as one JSON object in the variable ACTOR_SETTINGS."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, cast


@dataclass(frozen=True)
class Settings:
    """Choices of the platform.

    Attributes:
        conditions: types of node conditions that count as a fault.
        pools: physical names of the node pools that Slurm uses.
        cred_expire: life of a job's credential in seconds, which a requeued job waits for.
        repair_budget: machines that may fail under one job before the job is thought to be the cause.
        opt_out_label: label of pods whose node AutoClusters does not replace; empty for none.
        topology_kind: `none`, `tree` or `block`; `default_leaf` and `leaves` are what topology.yaml knows.
        topology_name: of the topology in topology.yaml.
        slurm_url: of slurmrestd.
        namespace: of Slurm, and of the lease.
        notify: states of jobs that are told to the webhook (`notices.STATES`); empty where there is no webhook.
        cluster: Slurm's name of itself, for notices.
    """

    conditions: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    cred_expire: int = 30
    repair_budget: int = 3
    opt_out_label: str = ""
    topology_kind: str = "none"
    topology_name: str = "fabric"
    default_leaf: str = "unknown"
    leaves: tuple[str, ...] = ()
    slurm_url: str = "http://slurm-restapi.slurm:6820"
    namespace: str = "slurm"
    notify: tuple[str, ...] = ()
    cluster: str = ""


def read(text: str, variable: str, known: Iterable[str]) -> dict[str, Any]:
    """The settings that a variable holds, from JSON.

    Raises:
        ValueError: it is no object, or has a key that is not `known`.
    """
    given: object = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"{variable} is no JSON object")  # noqa: TRY004 (whatever is wrong with it is one error)
    found, all_known = cast("dict[str, Any]", given), sorted(known)
    if unknown := sorted(found.keys() - set(all_known)):
        raise ValueError(f"{variable} has {', '.join(unknown)}; known: {', '.join(all_known)}")
    return found


def load(text: str) -> Settings:
    """Settings from JSON; raises ValueError."""
    found = read(text, "ACTOR_SETTINGS", (each.name for each in fields(Settings)))
    for key, value in found.items():
        if isinstance(value, list):
            found[key] = tuple(cast("list[str]", value))
    return Settings(**found)
