"""`make check`: reads the stack's outputs from standard input, asks both sources, prints table and verdict.

Where GPUs are shared with inference it also compares what is promised with what the nodes can give.

Ends with 0 where everything agrees, else with 1. The kubeconfig comes by standard input, and lies in a file that only
this user can read for as long as the check runs.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.slurm.check import compare
from components.slurm.check_report import Report
from components.slurm.check_sources import Kubectl, SourceError, read
from components.slurm.objects import POOL_LABEL

PLAIN_WIDTH = 140
"""Characters of a line where no terminal says how wide it is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make check", description="Compares Slurm's GPUs with Kubernetes' and the catalogue's."
    )
    parser.add_argument("--kubectl", required=True, help="the kubectl to use")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    outputs: Mapping[str, Any] = json.load(sys.stdin)
    expected = outputs.get("slurm")
    if not expected:
        return _refused("The stack does not say yet what its Slurm is to have: run `make up`, then this again.")
    if expected["mode"] == "none":
        return _refused("This stack has no Slurm. `platform.slurm` in its settings adds one (docs/slurm.md).")
    name = "slurmKubeconfig" if expected["mode"] == "managed" else "kubeconfig"
    try:
        with tempfile.TemporaryDirectory(prefix="check-") as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.touch(mode=0o600)
            kubeconfig.write_text(outputs[name], encoding="utf-8")
            kubectl = Kubectl(options.kubectl, kubeconfig)
            report = compare(expected, read(kubectl))
            report = replace(report, beyond=(*report.beyond, *_sharing(outputs.get("gpuSharing") or {}, kubectl)))
    except SourceError as error:
        return _refused(f"Kubernetes did not answer, so nothing was compared: {error}")
    if options.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        show(report)
    return 1 if report.findings else 0


def _sharing(promises: Mapping[str, Any], kubectl: Kubectl) -> Iterator[str]:
    """What the shared pools promise and can't give, and quotas below what runs."""
    if not promises:
        return
    from components.gpu_sharing import check  # it builds upon this room

    yield from check.short(promises, kubectl.get("nodes"), POOL_LABEL)
    yield from check.over(kubectl.get("resourcequotas", "--all-namespaces"))


def _refused(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


def show(report: Report) -> None:
    """Print table, findings and verdict."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    shown = Table(title=f"GPUs of the Slurm cluster {report.cluster_name}", title_justify="left")
    for heading in ("node set", "in Slurm", "in Kubernetes", "VM type"):
        shown.add_column(heading, overflow="fold")
    for heading in ("Slurm", "Kubernetes", "catalogue"):
        shown.add_column(heading, justify="right")
    shown.add_column("state", overflow="fold")
    for row in report.rows:
        counts = ("-" if count is None else str(count) for count in (row.slurm, row.kubernetes, row.catalog))
        cells = (row.node_set, row.name or "-", row.host or "-", row.type, *counts, row.state)
        shown.add_row(*map(Text, cells), style="red" if row.finding else None)
    console.print(shown)
    for finding in report.findings:
        console.print(f"* {finding}", markup=False, highlight=False, soft_wrap=True)
    console.print(Text(report.verdict, style="bold red" if report.findings else "bold green"), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
