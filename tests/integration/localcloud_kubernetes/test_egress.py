"""A real API server calls a webhook that nothing but the egress proxy knows."""

from __future__ import annotations

import json
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

import pytest

from localcloud.kubernetes import KwokControlPlane
from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.egress import Server, egress, service_at
from localcloud.kubernetes.pki import ServingCertificate, serving_certificate
from tests.integration.localcloud_kubernetes.support import Json, Live, processes_below, until
from tests.unit.localcloud_kubernetes.support import CLUSTER, h100
from tools.toolchain import binary

pytestmark = pytest.mark.integration


class Refusal(BaseHTTPRequestHandler):
    """Refuses every review."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "seen by the test"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def certificate() -> ServingCertificate:
    return serving_certificate(["hook.default.svc"], timedelta(days=1))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, certificate: ServingCertificate) -> Iterator[Live]:
    root = tmp_path_factory.mktemp("egress") / "kubernetes"
    context = _context(root.parent, certificate)

    def resolve(place: Place, host: str, port: int) -> Server | None:
        service = service_at(place.api, host, port)
        if service is None or service.name != "hook":
            return None

        def serve(client: socket.socket) -> None:
            with context.wrap_socket(client, server_side=True) as secure:
                Refusal(secure, ("", 0), cast(Any, None))

        return serve

    plane = KwokControlPlane(root, binary=binary, actors={"egress": egress([resolve])})
    plane.create(CLUSTER)
    plane.apply_nodes(CLUSTER.id, [h100(1)])
    yield Live(plane, CLUSTER, root)
    plane.delete_all()
    assert processes_below(root) == []


def _context(folder: Path, certificate: ServingCertificate) -> ssl.SSLContext:
    (folder / "tls.crt").write_text(certificate.certificate)
    (folder / "tls.key").write_text(certificate.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def hook(certificate: ServingCertificate) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [
            {
                "name": "hook.example.test",
                "clientConfig": {
                    "service": {"namespace": "default", "name": "hook", "port": 443},
                    "caBundle": b64encode(certificate.authority.encode()).decode(),
                },
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ],
                "objectSelector": {"matchLabels": {"hooked": "yes"}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
            }
        ],
    }


def test_a_webhook_is_called_through_the_proxy_and_one_without_ready_pods_blocks(
    live: Live, certificate: ServingCertificate
) -> None:
    live.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hook"},
            "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": 9443}]},
        }
    )
    live.create(hook(certificate))
    wanted = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"hooked": "yes"}}}
    )

    def answer() -> str:
        return live.kubectl("create", "--dry-run=server", "-f", "-", stdin=wanted, ok=False)

    # Until the webhook is registered everywhere in the API server, an answer may be that of a cluster without it.
    until(lambda: "failed calling webhook" in answer())
    live.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hook", "labels": {"app": "hook"}},
            "spec": {"containers": [{"name": "hook", "image": "registry.example/hook:1"}]},
        }
    )
    until(lambda: "denied the request: seen by the test" in answer())


def test_the_proxys_socket_is_the_users_own(live: Live) -> None:
    assert live.home.egress_socket.stat().st_mode & 0o777 == 0o600
    assert len(str(live.home.egress_socket)) <= 107


def test_a_request_other_than_connect_is_refused(live: Live) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(live.home.egress_socket))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_local_cloud_that_starts_again_takes_the_socket_over(live: Live) -> None:
    """As after a kill: the socket's file is left behind, and nobody listens."""
    live.plane.close()
    live.home.egress_socket.touch()
    again = KwokControlPlane(live.root, binary=binary, actors={"egress": egress([])})
    try:
        again.ensure_running(CLUSTER)
        until(live.home.egress_socket.is_socket)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(live.home.egress_socket))
            client.sendall(b"CONNECT 10.96.0.1:443 HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 502 ")
    finally:
        again.close()
