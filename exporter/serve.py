"""The metrics over HTTP: OpenMetrics where the scraper asks for it, else Prometheus' older text."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from exporter import metrics, series
from exporter.poll import Poller
from exporter.series import Distribution, Memory, Sample
from exporter.settings import Settings

PORT = 9108


class Exporter(Collector):
    """Makes the metrics anew for each scrape, from what the sources said last."""

    def __init__(self, poller: Poller, settings: Settings, clock: Callable[[], float]) -> None:
        """`clock` gives seconds since 1970."""
        self._poller, self._settings, self._clock = poller, settings, clock
        self._memory = Memory()
        self._lock = threading.Lock()

    def look(self) -> None:
        """Keep what recoveries and places show now, also while nobody scrapes."""
        self._remembered()

    def collect(self) -> Iterator[Metric]:
        """All metrics that have a value."""
        seen, memory = self._poller.view(), self._remembered()
        found = series.by_name(series.samples(seen, memory, self._settings, self._clock()))
        spread = [*series.distributions(memory)]
        for metric in metrics.METRICS:
            if metric.kind == "histogram":
                yield _histogram(metric, [each for each in spread if series.whole(each.name) == metric.name])
            elif metric.name in found:
                yield _family(metric, found[metric.name])

    def _remembered(self) -> Memory:
        with self._lock:
            self._memory = series.remember(self._memory, self._poller.view(), self._settings)
            return self._memory


def serve(exporter: Exporter, address: str, port: int = PORT) -> tuple[WSGIServer, threading.Thread]:
    """Serve until the server that is returned is shut down. Raises OSError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    return start_http_server(port, address, registry)


def _family(metric: metrics.Metric, found: list[Sample]) -> Metric:
    if metric.kind == "counter":
        family: CounterMetricFamily | GaugeMetricFamily = CounterMetricFamily(
            metric.name.removesuffix("_total"), metric.meaning, labels=metric.labels
        )
    else:
        family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for each in found:
        family.add_metric(each.labels, each.value)
    return family


def _histogram(metric: metrics.Metric, found: list[Distribution]) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for each in found:
        counts = [0] * (len(metric.buckets) + 1)
        for value in each.values:
            counts[bisect_left(metric.buckets, value)] += 1
        names = [*(f"{float(bound)}" for bound in metric.buckets), "+Inf"]
        buckets = [(name, float(sum(counts[: at + 1]))) for at, name in enumerate(names)]
        family.add_metric(each.labels, buckets, sum(each.values))
    return family
