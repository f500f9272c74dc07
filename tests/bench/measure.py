"""The measurements: wall-clock seconds on this machine, promised as ratios wherever they can be.

The Pulumi backend is a folder (`file://`) throughout: it rewrites the whole state at every step of an `up`.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import yaml

from gitops import diagram, events, markdown, plan, report_json
from tests import previews, processes
from tests.bench.report import Measurement
from tests.browsing import chromium, page
from tests.harness import ROOT, Cloud, Json, Project, execute, free_port, running_cloud
from tests.policy.analyzer import running
from tools.front_door.checks import WORKERS
from tools.toolchain import binary

MEGABYTE = 1e6

LARGE = 2000
"""Resources of a large plan."""

NODES = 1000
"""Nodes that the console shows."""

_FIRST_PAINT = """() => new Promise((resolve) => new PerformanceObserver((seen) => {
  const [painted] = seen.getEntriesByName("first-contentful-paint");
  if (painted) resolve(painted.startTime);
}).observe({ type: "paint", buffered: true }))"""

FEW, MANY = 50, 500
"""Numbers of node pools to compare."""


def seconds(action: Callable[[], object], repeats: int) -> float:
    """The median wall-clock time of `action`."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def preview_ratio(project: Project, empty: Project) -> Measurement:
    """A preview without changes of the dev stack, against an empty program's, taken in turns."""
    pairs: list[tuple[float, float]] = []
    for _ in range(5):
        pairs.append((seconds(project.preview, 1), seconds(empty.preview, 1)))
    dev, floor = (statistics.median(times) for times in zip(*pairs, strict=True))
    detail = f"{dev:.2f} s against {floor:.2f} s, 5 turns"
    return Measurement("preview without changes / empty program", dev / floor, 3, "times", detail)


def pool_cost(project: Project) -> Measurement:
    """What one more node pool costs a first preview in processor time, at 500 pools against at 50.

    Processor time, of all processes together, since what else runs on the machine hardly shows in it; and of the turns
    the fastest, since it only ever adds. The engine's checkpoints
    are off: it copies and checks the whole state after each resource, in a preview for nothing, and that grows with the
    square of whatever a program declares. What they add is in the detail.
    """
    # Enough of everything: warnings about short supply are no part of a pool's cost.
    supply = {"vm_type": "c1a.8x", "location": "us-east1-a", "quantity": 10_000}
    project.cloud.admin("PUT", "/capacities", supply)

    def preview_with(count: int) -> tuple[float, float]:
        """Wall-clock seconds, and processor seconds of the engine and all that it started."""
        pools = {f"pool-{number:03}": {"type": "c1a.8x", "count": 1} for number in range(count)}
        project.use_settings("dev", {"nodePools": pools})
        before = getrusage(RUSAGE_CHILDREN)
        wall = seconds(project.preview, 1)
        after = getrusage(RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def costs(turns: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
        """Milliseconds a pool at FEW and at MANY: by the wall clock, then of the processors."""
        taken: dict[int, list[tuple[float, float]]] = {0: [], FEW: [], MANY: []}
        for count in chain.from_iterable(turns):
            taken[count].append(preview_with(count))
        best = {count: [min(times) for times in zip(*each, strict=True)] for count, each in taken.items()}
        return [
            ((best[FEW][kind] - best[0][kind]) / FEW * 1e3, (best[MANY][kind] - best[0][kind]) / MANY * 1e3)
            for kind in range(2)
        ]

    project.variables["PULUMI_SKIP_CHECKPOINTS"] = "true"
    wall, (small, large) = costs([*[[0, FEW]] * 4, *[[0, FEW, MANY]] * 4])
    del project.variables["PULUMI_SKIP_CHECKPOINTS"]
    kept, _ = costs([[0, FEW, MANY]])
    detail = (
        f"{large:.1f} against {small:.1f} ms of processor time a pool, as `make preview` runs it: without checkpoints "
        f"({wall[1]:.1f} against {wall[0]:.1f} ms of time; with the file backend's checkpoints {kept[1]:.1f} against "
        f"{kept[0]:.1f} ms)"
    )
    return Measurement(f"cost per node pool, {MANY} pools / {FEW} pools", large / small, 1.1, "times", detail)


def policy_pack(project: Project) -> list[Measurement]:
    """What the policies add to a first preview, by the wall clock and for each resource.

    Of the turns the fastest, since what else runs on the machine only ever adds.
    """
    project.variables["PULUMI_SKIP_CHECKPOINTS"] = "true"
    guarded = Project(project.folder, project.cloud, project.stack, {**project.variables})
    guarded.variables["PULUMI_OPTION_POLICY_PACK"] = str(ROOT / "policies")
    pairs = [(seconds(project.preview, 1), seconds(guarded.preview, 1)) for _ in range(6)]
    off, on = (min(times) for times in zip(*pairs, strict=True))
    steps: list[Json] = [one["newState"] for one in project.preview()["steps"]]
    resources = [
        {"type": one["type"], "name": one["urn"].rsplit("::", 1)[1], "properties": one.get("inputs", {})}
        for one in steps
    ]
    with running() as pack:
        pack.configure()
        each = seconds(lambda: pack.judge(*resources), 5) / len(resources) * 1e3
    share = f"{on:.2f} s with, {off:.2f} s without, best of 6 turns, as `make preview` runs it: without checkpoints"
    return [
        Measurement("preview of prod with the policies / without", on / off, 1.25, "times", share),
        Measurement(
            "policies on a resource", each, 2, "ms", f"{len(resources)} resources of prod, asked as by the engine"
        ),
    ]


def report_ratio(project: Project) -> Measurement:
    """A report on a stack's first preview, from its command to its files, against that preview, taken in turns."""
    project.variables["PULUMI_SKIP_CHECKPOINTS"] = "true"
    out = project.folder / "out"
    command = [sys.executable, "-m", "gitops", "report", "--stack", project.stack, "--out", str(out)]

    def report() -> None:
        result = execute(command, project.folder, {**project.environment(), "PYTHONPATH": str(ROOT)})
        assert result.code == 0, result.text

    pairs = [(seconds(report, 1), seconds(project.preview, 1)) for _ in range(5)]
    # The fastest, since what else runs on the machine only ever adds.
    told, floor = (min(times) for times in zip(*pairs, strict=True))
    detail = f"{told:.2f} s against {floor:.2f} s, the fastest of 5 turns; {len(changes_in(out))} resources"
    return Measurement("report on the first preview of prod / that preview", told / floor, 1.2, "times", detail)


def changes_in(out: Path) -> list[Json]:
    """The changes in a folder of reports."""
    return json.loads((out / "report.json").read_text())["changes"]


def large_report(kept: previews.Kept) -> Measurement:
    """Reading, judging and writing a plan of 2,000 resources: a real one's events, again and again, renamed."""
    *steps, summary = kept.text.splitlines()
    lines: list[str] = []
    while len(lines) < LARGE:
        lines += [
            line.replace("::platform", f"::platform{len(lines)}") for line in steps if '"resOutputsEvent"' in line
        ]
    lines = [*lines[:LARGE], summary]

    def write() -> None:
        reviewed = plan.review(events.read(lines), project="many", stack="prod")
        assert len(markdown.render(reviewed.report).encode()) <= markdown.LIMIT
        report_json.dump(reviewed.report)
        diagram.draw("many", "prod", reviewed.resources)

    return Measurement(
        f"report and picture of {LARGE:,} resources", seconds(write, 3), 2, "s", "in memory, median of 3"
    )


def plugin_start(environment: dict[str, str]) -> Measurement:
    """From starting the plugin's process until it says its port."""

    def start() -> None:
        command = [sys.executable, "-u", str(ROOT / "crusoe/provider"), "127.0.0.1:1"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout
            port = process.stdout.readline()
            process.kill()
        assert port.strip().isdigit()

    return Measurement("plugin ready", seconds(start, 7), 0.7, "s", "process start to port, median of 7")


def console(folder: Path) -> list[Measurement]:
    """The console with 1,000 real Nodes: its first paint, and a cordon until an open page shows it."""
    with running_cloud(folder) as cloud, chromium() as browser, page(browser) as shown:
        cluster_id = cloud.settle({"l40s-48gb.10x": NODES})
        kubectl = [str(binary("kubectl")), f"--kubeconfig={cloud.kubeconfig(cluster_id)}"]
        names = [vm["name"] for vm in cloud.items("/compute/vms/instances")]
        address = f"http://127.0.0.1:{cloud.port}/console/"
        paints: list[float] = []
        for _ in range(5):
            shown.goto(address)
            paints.append(shown.evaluate(_FIRST_PAINT) / 1e3)
        assert shown.locator(".cell").count() == NODES
        shown.locator("#live.on").wait_for()

        def cordon() -> None:
            name = names.pop()
            assert execute([*kubectl, "cordon", name], ROOT, os.environ).code == 0
            shown.locator(f"#n-{name}.s-closed").wait_for()

        followed = min(seconds(cordon, 1) for _ in range(5))
    # The fastest, since what else runs on the machine only ever adds.
    detail = f"{NODES:,} Nodes of kwok, headless Chromium, the fastest of 5"
    return [
        Measurement("console's first paint", min(paints), 1, "s", detail),
        Measurement("a cordon until an open console shows it", followed, 2, "s", f"{detail}, kubectl and all"),
    ]


def unit_tests() -> Measurement:
    """The whole unit tier."""

    def run() -> None:
        result = execute([sys.executable, "-m", "pytest", "-q", *WORKERS, "tests/unit"], ROOT, os.environ, 300)
        assert result.code == 0, result.text

    return Measurement("unit tests", seconds(run, 1), 30, "s", "one run, as `make test TIER=unit` does it")


def resident(cloud: Cloud) -> Measurement:
    """Memory of the local cloud and of everything that runs out of its state folder."""
    mine = processes.mentioning(cloud.state)
    total = processes.resident(mine)
    return Measurement("local cloud with one cluster", total / MEGABYTE, 1500, "MB", f"{len(mine)} processes, resident")


def up_from_nothing(folder: Path, *, slurm: bool) -> Measurement:
    """`make up` in a new clone with tools and packages cached, and an empty Pulumi home; with or without Slurm."""
    clone = folder / "clone"
    execute(["git", "clone", "--quiet", "--local", str(ROOT), str(clone)], folder, os.environ)
    file = clone / "Pulumi.dev.yaml"
    content: Json = yaml.safe_load(file.read_text())
    content["config"]["platform"]["cloud"]["endpoint"] = f"http://127.0.0.1:{free_port()}/v1"
    if not slurm:
        del content["config"]["platform"]["slurm"]
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "CRUSOE_", "VIRTUAL"))
    }

    def up() -> None:
        result = execute(["make", "up"], clone, clean, 600)
        assert result.code == 0, result.text

    try:
        what, bound = ("make up from nothing, with Slurm", 90) if slurm else ("make up from nothing", 60)
        return Measurement(what, seconds(up, 1), bound, "s", "new clone, tools cached, one run")
    finally:
        execute(["make", "clean"], clone, clean, 120)
        shutil.rmtree(clone)
