"""The admission webhook's server: TLS and HTTP on a connection that the API server opened through the egress proxy.

It answers while a pod of the Deployment `slurm-operator-webhook` is ready and the Secret with its certificate exists.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import tempfile
import threading
from base64 import b64decode, b64encode
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.api_server import NODES, PODS, ApiServer
from localcloud.kubernetes.egress import Server, service_at
from localcloud.slinky.admission import judge
from localcloud.slinky.kinds import CONFIG_MAPS, DEPLOYMENTS, SECRETS
from localcloud.slinky.values import Object, at, items, part
from localcloud.slinky.worker import TOPOLOGY

_LOG = logging.getLogger(__name__)
WEBHOOK = "slurm-operator-webhook"
_VALIDATE = "/validate-slinky-slurm-net-v1beta1-"
_BIND = "/mutate--v1-binding"
_REQUEST_SECONDS = 30.0


def resolve(place: Place, host: str, port: int) -> Server | None:
    """The webhook, where this is its Service and it runs; a resolver for the egress proxy."""
    service = service_at(place.api, host, port)
    if service is None or service.name != WEBHOOK:
        return None
    context = _CONTEXTS.of(place.api, service.namespace)
    if context is None:
        return None

    def serve(client: socket.socket) -> None:
        client.settimeout(_REQUEST_SECONDS)
        with context.wrap_socket(client, server_side=True) as secure:
            _handler(place.api)(secure, ("", 0), cast(Any, None))  # the handler uses no server

    return serve


def answer(api: ApiServer, path: str, review: Object) -> Object:
    """The response to an AdmissionReview."""
    request = part(review, "request")
    response: Object = {"uid": at(request, "uid"), "allowed": True}
    if path.startswith(_VALIDATE):
        _validate(api, request, response)
    elif path.startswith(_BIND):
        _bind(api, request, response)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _validate(api: ApiServer, request: Object, response: Object) -> None:
    new = part(request, "object")
    namespace: str = request["namespace"]
    new.setdefault("metadata", {}).setdefault("namespace", namespace)

    def files(name: str) -> list[str] | None:
        found = api.get(CONFIG_MAPS.path(namespace, name)) if name else None
        return None if found is None else [*part(found, "data"), *part(found, "binaryData")]

    verdict = judge(request["operation"], new, at(request, "oldObject"), files)
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    if verdict.errors:
        _deny(response, verdict.errors[0] if len(verdict.errors) == 1 else f"[{', '.join(verdict.errors)}]")


def _bind(api: ApiServer, request: Object, response: Object) -> None:
    """Have a worker's pod carry the topology of the node it is bound to; a pod that isn't there is refused."""
    namespace, name = request["namespace"], request["name"]
    pod = api.get(PODS.path(namespace, name))
    if pod is None:
        _deny(response, f'Pod "{name}" not found')
        return
    node = api.get(NODES.path(name=at(request, "object", "target", "name") or "-")) or {}
    topology = at(node, "metadata", "annotations", TOPOLOGY)
    if topology is None or at(pod, "metadata", "labels", "app.kubernetes.io/name") != "slurmd":
        return
    # Kubernetes copies a Binding's annotations to the pod.
    annotations = {**part(request, "object", "metadata", "annotations"), TOPOLOGY: topology}
    patch = [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
    response.update(patchType="JSONPatch", patch=b64encode(json.dumps(patch).encode()).decode())


def _deny(response: Object, message: str) -> None:
    response.update(allowed=False, status={"code": HTTPStatus.FORBIDDEN.value, "message": message})


def _handler(api: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # HTTP/1.0: a connection ends with its request, so that each request finds out anew whether the webhook runs.
        def do_POST(self) -> None:
            try:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = HTTPStatus.OK, json.dumps(answer(api, self.path, review)).encode()
            except Exception:  # noqa: BLE001  a webhook that breaks answers 500, and goes on
                _LOG.exception("the webhook could not answer %s", self.path)
                status, body = HTTPStatus.INTERNAL_SERVER_ERROR, b""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_arguments: object) -> None:
            """Nothing: the API server reports what it asked."""

    return Handler


class _Contexts:
    """TLS contexts by the version of the Secret that they were made from."""

    def __init__(self) -> None:
        self._made: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def of(self, api: ApiServer, namespace: str) -> ssl.SSLContext | None:
        deployment = api.get(DEPLOYMENTS.path(namespace, WEBHOOK)) or {}
        volumes = items(deployment, "spec", "template", "spec", "volumes")
        name = next((at(volume, "secret", "secretName") for volume in volumes if at(volume, "secret")), None)
        secret = api.get(SECRETS.path(namespace, name)) if name else None
        if secret is None or not {"tls.crt", "tls.key"} <= set(part(secret, "data")):
            return None
        version = f"{secret['metadata']['uid']} {secret['metadata']['resourceVersion']}"
        with self._lock:
            if version not in self._made:
                self._made[version] = _context(part(secret, "data"))
            return self._made[version]


def _context(data: Object) -> ssl.SSLContext:
    # The ssl module reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="crusoe-local-") as folder:
        for name in ("tls.crt", "tls.key"):
            (Path(folder) / name).write_bytes(b64decode(data[name]))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(Path(folder) / "tls.crt", Path(folder) / "tls.key")
    return context


_CONTEXTS = _Contexts()
