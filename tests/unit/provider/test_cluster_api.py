"""Speaking to a cluster's own API: answers, silence, and a cancel while it is silent."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import pytest

from crusoe.client import Cancelled
from crusoe.provider import cluster_api
from crusoe.provider.cluster_api import ClusterApi
from crusoe.provider.faults import RefusalError
from tests.unit.provider.support import Bench
from tests.unit.provider.test_kubeconfig import certificate


@pytest.fixture
def silent() -> Generator[int]:
    """The port of a server that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def api(bench: Bench, port: int) -> ClusterApi:
    pair = certificate(datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(days=1))
    bench.api.answers["kubernetes/clusters/c/get-credentials"] = {
        "cluster_address": f"https://127.0.0.1:{port}",
        "cluster_ca_certificate": pair.certificate,
        "user_client_certificate": pair.certificate,
        "user_client_key": pair.key,
    }
    return ClusterApi(bench.session.client, "c")


def test_a_cancel_does_not_wait_for_a_silent_server(silent: int) -> None:
    bench = Bench()
    with api(bench, silent) as cluster:
        threading.Timer(0.3, bench.session.cancel.set).start()
        start = time.monotonic()
        with pytest.raises(Cancelled):
            cluster.ask("GET", "/readyz")
        assert time.monotonic() - start < 2


def test_silence_and_refusal_are_one_sentence(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_api, "ANSWER_SECONDS", 0.3)
    with api(Bench(), silent) as cluster, pytest.raises(RefusalError, match=r"can't be reached \(no answer\)"):
        cluster.ask("GET", "/readyz")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with api(Bench(), port) as cluster, pytest.raises(RefusalError, match=r"can't be reached \(no connection\)"):
        cluster.ask("GET", "/readyz")


@pytest.mark.parametrize(
    ("content", "told"), [(b'{"kind": "Pod"}', {"kind": "Pod"}), (b"[1]", {}), (b"not JSON", {}), (b"", {})]
)
def test_only_objects_are_answers(content: bytes, told: object, monkeypatch: pytest.MonkeyPatch) -> None:
    class Response:
        status = 418

        def read(self) -> bytes:
            return content

    def nothing(*_: object) -> None: ...

    def response(*_: object) -> Response:
        return Response()

    monkeypatch.setattr(http.client.HTTPSConnection, "request", nothing)
    monkeypatch.setattr(http.client.HTTPSConnection, "getresponse", response)
    with api(Bench(), 1) as cluster:
        assert cluster.ask("GET", "/x") == (418, told)
