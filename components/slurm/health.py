"""Health checks of the workers: scripts in `health/`, mounted into every worker, and run by Slurm itself.

HealthCheckProgram looks at every node every few minutes, Prolog before and Epilog after each job. All three drain with
the owner `health:` and what they found, such as `health: gpu-count 7 of 8`, and none of them lifts a drain.

What breaks if violated: the ConfigMap with the checks has one name for ever, since another name would be another pod,
and drain all workers; a change of the checks reaches the pods by itself. Prolog and Epilog are files of slurmctld,
which hands them to the workers, so their ConfigMaps are named by their content.

Not run here, since they take minutes on idle GPUs of a real machine: `dcgmi diag -r 2` and a two-node all-reduce on new
nodes (docs/node-failure.md).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG_MAP = "slurm-health"
FOLDER = "/opt/gpuplatform/health"
PROGRAM = f"{FOLDER}/health-check.sh"
PROLOG, EPILOG = "prolog-health.sh", "epilog-health.sh"

_SOURCE = Path(__file__).with_name("health")


def files() -> dict[str, str]:
    """The checks and what they share, by name."""
    return {each.name: each.read_text() for each in sorted(_SOURCE.glob("*.sh")) if each.name not in (PROLOG, EPILOG)}


def scripts() -> Mapping[str, Mapping[str, str]]:
    """Files of slurmctld: the prolog and the epilog."""
    return {kind: {name: (_SOURCE / name).read_text()} for kind, name in (("prolog", PROLOG), ("epilog", EPILOG))}


def volume() -> dict[str, Any]:
    """The pod's volume. Optional: workers start whether or not the checks are there already."""
    return {"name": "health", "configMap": {"name": CONFIG_MAP, "defaultMode": 0o755, "optional": True}}


def mount() -> dict[str, Any]:
    """The container's mount."""
    return {"name": "health", "mountPath": FOLDER, "readOnly": True}
