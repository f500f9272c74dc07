"""Scrapes the exporter of a stack on the local cloud, as Prometheus would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
from prometheus_client import parser

from tests.harness import Result

NAMES = "app.kubernetes.io/name=gpuplatform-exporter"
Series = dict[tuple[str, ...], float]


class Scrape:
    """What one scrape gave."""

    def __init__(self, text: str) -> None:
        families = parser.text_string_to_metric_families(text)  # pyright: ignore[reportUnknownMemberType]
        self._found = [sample for family in families for sample in family.samples]

    def __call__(self, name: str, *labels: str) -> Series:
        """The series of a metric, by the values of these labels."""
        return {
            tuple(sample.labels[label] for label in labels): sample.value
            for sample in self._found
            if sample.name == f"gpuplatform_{name}"
        }


class Watch:
    """The exporter's pod of a stack, by its `kubectl`."""

    def __init__(self, kubectl: Callable[..., Result], namespace: str = "slurm") -> None:
        self.kubectl, self.namespace = kubectl, namespace
        self._page = ""

    @property
    def pod(self) -> str:
        return self.kubectl("-n", self.namespace, "get", "pods", "-l", NAMES, "-o", "name").out.strip().split("/")[1]

    @property
    def page(self) -> str:
        """The path of its metrics at the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}:9108/proxy/metrics"

    def scrape(self) -> Scrape:
        """Ask as Prometheus does, through the API server; the pod may be another one than before."""
        told = self.kubectl("get", "--raw", self._page, check=False) if self._page else None
        if told is None or told.code:
            self._page = self.page
            told = self.kubectl("get", "--raw", self._page, check=False)
        return Scrape(told.out)

    def log(self) -> str:
        return self.kubectl("-n", self.namespace, "logs", self.pod).out

    def kill(self, state: Path) -> None:
        """`kill -9` of the program, which is a process of this machine; `state` is the local cloud's folder."""
        found = [each for each in psutil.process_iter() if _is_exporter(each, state)]
        found = [each for each in found if each.ppid() not in {other.pid for other in found}]
        assert len(found) == 1, found
        found[0].kill()


def _is_exporter(process: psutil.Process, state: Path) -> bool:
    """Whether it is the exporter in a pod of the cloud with this state: others may run beside it."""
    try:
        if process.cmdline()[-2:] != ["-m", "exporter"]:
            return False
        return any(str(state) in word for each in process.parents() for word in each.cmdline())
    except psutil.Error:
        return False
