"""Measures everything and prints the table; ends with 1 when a bound does not hold."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import yaml

from tests import previews
from tests.bench import drill, limits, measure, rules
from tests.bench.report import publish
from tests.harness import ROOT, Cloud, Project, running_cloud


def empty_project(folder: Path, cloud: Cloud) -> Project:
    """A program that declares nothing, with the same interpreter and backend."""
    project = Project(folder, cloud, "empty")
    content = yaml.safe_load((folder / "Pulumi.yaml").read_text())
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "empty", "runtime": content["runtime"]}))
    (folder / "__main__.py").write_text("")
    project.init()
    return project


def main(what: str = "") -> int:
    """Runs the measurements one after another, or those of the limits or of the drill alone."""
    if what:
        return {"limits": limits.main, "drill": drill.main}[what]()
    with tempfile.TemporaryDirectory(prefix="bench-") as name, running_cloud(Path(name)) as cloud:
        folder = Path(name)
        dev = Project(folder / "dev", cloud, "dev")
        dev.use_settings("dev")
        dev.init()
        dev.up()
        pools = Project(folder / "pools", cloud, "pools")
        pools.use_settings("dev")
        pools.init()
        kept = previews.prod(folder, cloud)
        prod = Project(folder / "prod", cloud, "prod")
        prod.use_settings("prod", {"protect": True}, slurm=True)
        measurements = [
            measure.report_ratio(prod),
            measure.large_report(kept),
            measure.preview_ratio(dev, empty_project(folder / "empty", cloud)),
            *measure.policy_pack(prod),
            measure.plugin_start(dev.environment()),
            measure.resident(cloud),
            *measure.console(folder / "console"),
            measure.pool_cost(pools),
            rules.evaluation(),
            measure.unit_tests(),
        ]
        dev.destroy()
        measurements += [measure.up_from_nothing(folder, slurm=slurm) for slurm in (False, True)]
    return 0 if publish(measurements, ROOT / ".local/bench.json") else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
