"""What `make check` found, as rows, sentences, a verdict, and JSON: pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One node in three places. A number is None where the place doesn't know the node.

    Attributes:
        node_set: its key in the stack's output.
        name: in Slurm; empty for a host without a worker.
        host: in Kubernetes; empty for a worker without a host.
        state: in words.
        finding: what is wrong and what to do, in plain sentences; empty where nothing is.
    """

    node_set: str
    name: str
    host: str
    type: str
    slurm: int | None
    kubernetes: int | None
    catalog: int | None
    state: str
    finding: str = ""


@dataclass(frozen=True)
class Report:
    """The comparison: all rows, and what is wrong beyond single nodes."""

    mode: str
    cluster_name: str
    rows: tuple[Row, ...]
    beyond: tuple[str, ...]
    wanted: int

    @property
    def findings(self) -> tuple[str, ...]:
        """Everything that is wrong; with none the check is passed."""
        return (*self.beyond, *(row.finding for row in self.rows if row.finding))

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of all workers in each place; spare hosts don't count."""
        workers = [row for row in self.rows if row.name]
        return {
            "slurm": sum(row.slurm or 0 for row in workers),
            "kubernetes": sum(row.kubernetes or 0 for row in workers),
            "catalog": self.wanted,
        }

    @property
    def verdict(self) -> str:
        """The whole in one sentence."""
        gpus = self.gpus
        if not self.findings:
            nodes = sum(1 for row in self.rows if row.name and row.host)
            word = "node" if nodes == 1 else "nodes"
            return f"Slurm, Kubernetes and the catalogue agree: {gpus['slurm']} GPUs on {nodes} {word}, all in service."
        return (
            f"Not as it should be: {gpus['slurm']} GPUs in Slurm, {gpus['kubernetes']} in Kubernetes, "
            f"{gpus['catalog']} by settings and catalogue."
        )

    def as_json(self) -> dict[str, Any]:
        """The report for machines; its shape is in docs/slurm.md."""
        return {
            "agrees": not self.findings,
            "mode": self.mode,
            "clusterName": self.cluster_name,
            "gpus": self.gpus,
            "nodes": [
                {
                    "nodeSet": row.node_set,
                    "slurmNode": row.name,
                    "node": row.host,
                    "type": row.type,
                    "gpus": {"slurm": row.slurm, "kubernetes": row.kubernetes, "catalog": row.catalog},
                    "state": row.state,
                    "finding": row.finding,
                }
                for row in self.rows
            ],
            "findings": list(self.findings),
        }
