"""The whole way to the text that a scraper gets, and Crusoe's API over a real connection."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics import parser

from exporter import metrics
from exporter.crusoe_api import CrusoeApi, CrusoeApiError, KeyRefusedError
from exporter.docs import PAGE, page
from exporter.poll import Poller, Source
from exporter.serve import Exporter, serve
from tests.unit.exporter.world import NOW, SETTINGS, WHOLE

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_docs_are_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m exporter.docs`"


def scraped(exporter: Exporter) -> str:
    server, thread = serve(exporter, "127.0.0.1", 0)
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}/metrics")
        request.add_header("Accept", OPENMETRICS)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            return answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def exporter() -> Exporter:
    said: dict[str, Any] = {name: getattr(WHOLE, name) for name in ("autoclusters", "crusoe", "slurm", "kubernetes")}
    sources = tuple(Source(name, lambda name=name: said[name], 10) for name in said)  # pyright: ignore[reportArgumentType]
    poller = Poller(sources, lambda: NOW)
    for source in sources:
        poller.poll(source)
    return Exporter(poller, SETTINGS, lambda: NOW)


def test_a_scraper_gets_openmetrics_with_exactly_what_the_table_says() -> None:
    text = scraped(exporter())
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}  # pyright: ignore[reportUnknownMemberType]
    for metric in metrics.METRICS:
        family = families.pop(metric.name.removesuffix("_total"), None)
        if family is None:
            continue
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)
    assert families == {}, "nothing that the table lacks"


def test_a_histogram_s_buckets_add_up() -> None:
    lines = [line for line in scraped(exporter()).splitlines() if line.startswith("gpuplatform_recovery_seconds")]
    of_total = [line for line in lines if 'stage="total"' in line]
    counts = {line.partition('le="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in of_total}
    assert counts["30.0"] == 0
    assert counts["60.0"] == counts["+Inf"] == 1
    assert any(line.endswith(" 33.0") and "_sum" in line for line in of_total)


PROJECT = "00000000-0000-4000-8000-000000000001"


class Handler(BaseHTTPRequestHandler):
    """Crusoe's API for one key: two pages of a list, a project by its name."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if "1.0:good:" not in self.headers["Authorization"]:
            self._answer(401, {"code": "unauthenticated", "message": "expired"})
        elif parts.path == "/v1/organizations/projects":
            self._answer(200, {"items": [{"id": PROJECT, "name": "research"}]})
        elif parts.path.endswith("/quotas"):
            second = "next_token=2" in parts.query
            self._answer(200, {"items": [{"name": "b" if second else "a"}], **({} if second else {"next_token": "2"})})
        elif parts.path.endswith("/autoclusters/config"):
            self._answer(400, {"message": "no AutoClusters"})
        else:
            self._answer(500, {"message": "broken"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def cloud() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def test_crusoe_s_api_is_read_page_by_page_in_the_project_of_the_settings() -> None:
    with cloud() as endpoint:
        api = CrusoeApi(endpoint, "research", "good", lambda: "c2VjcmV0\n")
        assert [each["name"] for each in api.quotas()] == ["a", "b"]
        assert api.actions("cluster") == {}
        with pytest.raises(CrusoeApiError, match="broken"):
            api.pools("cluster")


def test_a_key_that_has_expired_is_told_with_what_to_do_and_without_the_secret() -> None:
    with cloud() as endpoint:
        api = CrusoeApi(endpoint, PROJECT, "old", lambda: "c2VjcmV0")
        with pytest.raises(KeyRefusedError, match=r"expired.*Make a new one") as told:
            api.quotas()
    assert "c2VjcmV0" not in str(told.value)


@pytest.mark.parametrize("secret", ["", "!!", "c2VjcmV0 c2VjcmV0"])
def test_a_secret_that_is_none_is_told_and_not_shown(secret: str) -> None:
    api = CrusoeApi("http://127.0.0.1:9/v1", PROJECT, "id", lambda: secret)
    with pytest.raises(CrusoeApiError, match="can't be used") as told:
        api.quotas()
    assert not secret or secret not in str(told.value)


def test_an_api_that_is_away_is_told() -> None:
    api = CrusoeApi("http://127.0.0.1:9/v1", PROJECT, "id", lambda: "c2VjcmV0")
    with pytest.raises(CrusoeApiError, match="does not answer"):
        api.quotas()
