"""How long a real Prometheus takes to evaluate all rules, on made-up series of a large platform."""

from __future__ import annotations

import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.bench.report import Measurement
from tests.harness import until
from tests.prometheus import START_SECONDS, page, running

NODES, GPUS = 1000, 8
EVERY_SECONDS = 5
ROUNDS = 6


def series(nodes: int = NODES, gpus: int = GPUS) -> Iterator[str]:
    """What exporters of so many nodes would say, one sample a line."""
    now = time.time()
    for number in range(nodes):
        node = f'node="n{number}"'
        for gpu in range(gpus):
            labels = f'{node},gpu="{gpu}",UUID="GPU-{number}-{gpu}"'
            for name, value in (("DCGM_FI_DEV_XID_ERRORS", 79 * (number % 50 == 0)), ("DCGM_FI_DEV_GPU_TEMP", 40)):
                yield f"{name}{{{labels}}} {value}"
            yield f'DCGM_EXP_XID_ERRORS_COUNT{{{labels},xid="79"}} {number % 7}'
        place = f'{node},pool="p{number % 10}"'
        for view in ("expected", "kubernetes", "slurm"):
            yield f'gpuplatform_node_gpus{{{place},view="{view}"}} {gpus}'
        yield f'gpuplatform_node_info{{{place},leaf="l{number % 40}",vendor="nvidia"}} 1'
        yield f"kube_node_info{{{node}}} 1"
        if number % 20 == 0:
            repair = f'operation="o{number}",{place},leaf="l{number % 40}",issue="XID_79",action="REPLACE_NODE"'
            yield f'gpuplatform_repair_state{{{repair},state="done"}} 1'
            yield f"gpuplatform_repair_start_timestamp_seconds{{{repair}}} {now - 600:.0f}"
            yield f"gpuplatform_repair_end_timestamp_seconds{{{repair}}} {now - 300:.0f}"
            yield f'gpuplatform_job_checkpoint_timestamp_seconds{{job_id="{number}"}} {now - 60:.0f}'
            yield f'gpuplatform_job_running_nodes{{job_id="{number}",partition="all"}} 20'


def evaluation() -> Measurement:
    """The median time that the whole group of rules takes."""
    samples = [*series()]
    with (
        tempfile.TemporaryDirectory(prefix="bench-rules-") as name,
        page(samples) as made_up,
        running(Path(name) / "server", {"all": made_up}, EVERY_SECONDS) as server,
    ):
        until(lambda: _count(server.url) > 0, START_SECONDS, "Prometheus evaluates the rules")
        times = [*_times(server.url)]
    detail = f"{NODES} nodes, {GPUS} GPUs each, {len(samples)} series, {len(times)} rounds"
    return Measurement("evaluation of all alerts", statistics.median(times), 1, "s", detail)


def _times(url: str) -> Iterator[float]:
    """Seconds of each of some rounds; the first ones have no past to compare with, so they are left out."""
    seen = _count(url)
    for _ in range(ROUNDS):
        seen = _next(url, seen)
        yield _metric(url, "prometheus_rule_group_last_duration_seconds")


def _next(url: str, seen: float) -> float:
    """Wait for another round; return the number of rounds then."""
    until(lambda: _count(url) > seen, START_SECONDS, "Prometheus evaluates the rules again")
    return _count(url)


def _count(url: str) -> float:
    return _metric(url, "prometheus_rule_group_iterations_total")


def _metric(url: str, name: str) -> float:
    """A metric of Prometheus' own; 0 before there is one."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            lines: list[str] = answer.read().decode().splitlines()
    except OSError:
        return 0.0
    return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{")), 0.0)
