"""Certificates' dates, and kubeconfigs: building them, when they are renewed, and whether an API server answers."""

from __future__ import annotations

import base64
import http.server
import ssl
import threading
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crusoe.provider import kubeconfig
from crusoe.provider.certificates import Validity, validity
from crusoe.provider.faults import RefusalError
from tests.unit.provider.support import Bench

NOW = datetime(2026, 11, 29, tzinfo=UTC)
NEVER = threading.Event()


@dataclass
class Pair:
    """A self-signed certificate with its key, as PEM."""

    certificate: str
    key: str


def certificate(start: datetime, end: datetime) -> Pair:
    """A certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(built.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def config(pair: Pair, server: str = "https://127.0.0.1:1") -> str:
    """A kubeconfig in YAML, as the API writes it."""

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    return (
        "apiVersion: v1\nclusters:\n- cluster:\n"
        f"    certificate-authority-data: {encoded(pair.certificate)}\n    server: {server}\n  name: c\n"
        "users:\n- name: u\n  user:\n"
        f"    client-certificate-data: {encoded(pair.certificate)}\n    client-key-data: {encoded(pair.key)}\n"
    )


class TestValidity:
    @pytest.mark.parametrize("year", [2026, 2049, 2050, 2100])
    def test_both_forms_of_time(self, year: int) -> None:
        start, end = datetime(year, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(year + 1, 6, 7, 8, 9, 10, tzinfo=UTC)
        assert validity(certificate(start, end).certificate) == Validity(start, end)

    @pytest.mark.parametrize("text", ["", "x", "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n"])
    def test_what_is_none(self, text: str) -> None:
        assert validity(text) is None

    def test_every_cut_certificate_is_none(self) -> None:
        body = ssl.PEM_cert_to_DER_cert(certificate(NOW, NOW + timedelta(days=1)).certificate)
        for length in range(0, len(body) - 1, 7):
            assert validity(ssl.DER_cert_to_PEM_cert(body[:length])) is None

    @pytest.mark.parametrize(
        ("days", "left", "due"), [(365, 31, False), (365, 29, True), (3, 1.1, False), (3, 0.9, True), (365, -1, True)]
    )
    def test_renewed_in_the_last_third_and_at_most_a_month_before(self, days: float, left: float, due: bool) -> None:
        end = NOW + timedelta(days=left)
        assert Validity(end - timedelta(days=days), end).due(NOW) is due


class TestKubeconfig:
    def test_due_by_the_client_certificate(self) -> None:
        fresh = config(certificate(NOW, NOW + timedelta(days=365)))
        assert not kubeconfig.due(fresh, NOW)
        assert kubeconfig.due(fresh, NOW + timedelta(days=340))

    def test_without_a_client_certificate_it_is_never_due(self) -> None:
        assert not kubeconfig.due("users:\n- user:\n    exec: {}\n", NOW)
        assert not kubeconfig.due("client-certificate-data: !!!", NOW)

    def test_the_apis_own_text_is_taken(self) -> None:
        bench = Bench()
        bench.api.answers["kubernetes/clusters/c/get-credentials"] = {"kube_config": "text"}
        assert kubeconfig.fetch(bench.session.client, "c") == "text"

    def test_it_is_built_from_its_parts(self) -> None:
        pair = certificate(NOW, NOW + timedelta(days=365))
        bench = Bench()
        bench.api.answers["kubernetes/clusters/c/get-credentials"] = {
            "cluster_name": "c",
            "cluster_address": "127.0.0.1:6443",
            "cluster_ca_certificate": pair.certificate,
            "user_name": "admin",
            "user_client_certificate": pair.certificate,
            "user_client_key": pair.key,
        }
        built = kubeconfig.fetch(bench.session.client, "c")
        assert kubeconfig.server(built) == "https://127.0.0.1:6443"
        assert kubeconfig.due(built, NOW + timedelta(days=360))

    def test_an_answer_without_any_is_told(self) -> None:
        bench = Bench()
        bench.api.answers["kubernetes/clusters/c/get-credentials"] = {"cluster_name": "c"}
        with pytest.raises(RefusalError, match="without a kubeconfig"):
            kubeconfig.fetch(bench.session.client, "c")


@dataclass
class ApiServer:
    """A TLS server whose /readyz answers with `status`."""

    pair: Pair
    port: int = 0
    status: int = 200
    seen: list[str] | None = None


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ApiServer]:
    now = datetime.now(UTC)
    server = ApiServer(certificate(now - timedelta(days=1), now + timedelta(days=1)))
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(server.status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    folder = tmp_path_factory.mktemp("tls")
    chain = folder / "chain.pem"
    chain.write_text(server.pair.certificate + server.pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    server.port, server.seen = listener.server_port, seen
    threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    listener.shutdown()


class TestAnswers:
    @pytest.mark.parametrize("status", [200, 401, 403])
    def test_an_answer_is_an_answer(self, api_server: ApiServer, status: int) -> None:
        api_server.status = status
        assert kubeconfig.answers(config(api_server.pair, f"https://127.0.0.1:{api_server.port}"), 5, NEVER) is None
        assert (api_server.seen or [])[-1] == "/readyz"

    def test_a_server_that_is_not_ready_says_so(self, api_server: ApiServer) -> None:
        api_server.status = 500
        text = config(api_server.pair, f"https://127.0.0.1:{api_server.port}")
        assert kubeconfig.answers(text, 5, NEVER) == "it answers HTTP 500"

    def test_another_authority_is_not_trusted(self, api_server: ApiServer) -> None:
        other = certificate(NOW, NOW + timedelta(days=3650))
        told = kubeconfig.answers(config(other, f"https://127.0.0.1:{api_server.port}"), 5, NEVER)
        assert told == "its certificate is not from the cluster's authority"

    def test_nobody_there(self) -> None:
        pair = certificate(NOW, NOW + timedelta(days=365))
        assert kubeconfig.answers(config(pair, "https://127.0.0.1:1"), 5, NEVER) == "connection refused"
        assert kubeconfig.answers("nothing", 5, NEVER) == "its kubeconfig names no server"

    def test_silence_is_bounded_and_ends_with_a_cancel(self) -> None:
        import socket
        import time

        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            text = config(certificate(NOW, NOW + timedelta(days=365)), f"https://127.0.0.1:{silent.getsockname()[1]}")
            start = time.monotonic()
            assert kubeconfig.answers(text, 0.4, NEVER) == "no answer"
            cancelled = threading.Event()
            cancelled.set()
            assert kubeconfig.answers(text, 30, cancelled) == "no answer"
            assert time.monotonic() - start < 2
