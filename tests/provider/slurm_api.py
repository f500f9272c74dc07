"""Managed Slurm as Crusoe's API description of 2026-07-20 has it, over real HTTP, and the Kubernetes API behind it.

Clusters can be made, read and deleted; of a node set only `count` can be changed, and the `count` in an answer is that
of the nodes that are ready, which grows by one with each look. Nothing links a Slurm cluster to its CMK cluster but the
name. Requests beyond that are refused, as a stricter service would.
"""

from __future__ import annotations

import json
import ssl
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from tests.unit.provider.slinky_cluster import SlinkyCluster
from tests.unit.provider.test_kubeconfig import certificate

Json = dict[str, Any]
PROJECT = "00000000-0000-4000-8000-000000000001"
ENVIRONMENT = {
    "CRUSOE_ACCESS_KEY_ID": "key",
    "CRUSOE_SECRET_KEY": "YS1zZWNyZXQtb2YtdGhlLXRlc3RzLTAxMjM0NTY3ODk",
    "HOME": "/nonexistent",
}
CLUSTER_FIELDS = {
    "name",
    "location",
    "root_ssh_pub_keys",
    "subnet_id",
    "login_node_type",
    "login_replicas",
    "home_volume_size",
}
SET_FIELDS = {"name", "type", "count", "subnet_id", "transport_partition_id", "vm_ssh_public_key"}
DEFAULTS = {"login_node_type": "c1a.8x", "login_replicas": 1, "home_volume_size": "10Ti", "subnet_id": "default"}


class Answers(Protocol):
    """What a served API is: a request in, status and JSON out."""

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "") -> tuple[int, Json]: ...


@contextmanager
def served(api: Answers, context: ssl.SSLContext | None = None) -> Generator[str]:
    """Serve an API on the loopback address; yields `host:port`."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            body = json.loads(content) if content else None
            with lock:
                status, told = api.ask(self.command, self.path, body, self.headers.get("Content-Type") or "")
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class WorkingCluster(SlinkyCluster):
    """A cluster whose operator works a little with each request."""

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "") -> tuple[int, Json]:
        if path == "/readyz":
            return 200, {}
        self.step()
        return super().ask(method, path, body, kind)


@dataclass
class SlurmApi:
    """The API of one project; `requests` keeps method and path of all that is no GET."""

    credentials: Json = field(default_factory=dict[str, Any])
    slurm: dict[str, Json] = field(default_factory=dict[str, Json])
    kubernetes: dict[str, Json] = field(default_factory=dict[str, Json])
    sets: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    wanted: dict[str, int] = field(default_factory=dict[str, int])
    fails: list[Json] = field(default_factory=list[Json])
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "") -> tuple[int, Json]:
        """Answer a request."""
        del kind
        where = urlsplit(path).path.removeprefix("/v1")
        if where.startswith("/organizations/projects"):
            return 200, {"id": PROJECT, "name": "local"}
        parts = where.removeprefix(f"/projects/{PROJECT}/").strip("/").split("/")
        if method != "GET":
            self.requests.append((method, "/".join(parts)))
        match method, parts:
            case "GET", ["locations"]:
                return 200, {"items": ["us-east1-a", "us-east2-a"]}
            case "GET", ["compute", "vms", "types"]:
                return 200, {"items": [{"product_name": name} for name in ("c1a.8x", "a100-80gb.8x", "a100.8x")]}
            case "GET", ["capacities" | "quotas"]:
                return 200, {"items": []}
            case "GET", ["kubernetes", "clusters"]:
                return 200, {"items": list(self.kubernetes.values())}
            case "GET", ["kubernetes", "clusters", object_id]:
                return _one(self.kubernetes, object_id)
            case "POST", ["kubernetes", "clusters", object_id, "get-credentials"]:
                return (200, self.credentials) if object_id in self.kubernetes else _one({}, object_id)
            case "POST", ["slurm", "clusters"]:
                return self._make_cluster(body or {})
            case "GET", ["slurm", "clusters"]:
                return 200, {"items": list(self.slurm.values())}
            case "GET", ["slurm", "clusters", "operations"]:
                return 200, {"items": []}
            case "GET", ["slurm", "clusters", object_id]:
                return self._show_cluster(object_id)
            case "DELETE", ["slurm", "clusters", object_id]:
                return self._delete_cluster(object_id)
            case _, ["slurm", cluster_id, "nodesets", *rest] if cluster_id != "clusters":
                return self._node_sets(method, cluster_id, rest, body or {})
            case _:
                return 405, {"code": "not_allowed", "message": f"{method} {where} is not allowed"}

    def _make_cluster(self, body: Json) -> tuple[int, Json]:
        if body.keys() - CLUSTER_FIELDS or not body["root_ssh_pub_keys"]:
            return _refused(f"unknown or missing fields in {sorted(body)}")
        if any(one["name"] == body["name"] for one in self.slurm.values()):
            return 409, {"code": "already_exists", "message": f"{body['name']} exists"}
        object_id = str(uuid.uuid4())
        fields: Json = {"id": object_id, "state": "PROVISIONING", "issues": [], "nodesets": [], **DEFAULTS, **body}
        self.slurm[object_id], self.sets[object_id] = fields, {}
        behind = {"id": str(uuid.uuid4()), "name": body["name"], "location": body["location"], "state": "RUNNING"}
        self.kubernetes[str(behind["id"])] = behind
        return _done(fields)

    def _show_cluster(self, object_id: str) -> tuple[int, Json]:
        status, told = _one(self.slurm, object_id)
        if status == 200 and told["state"] == "PROVISIONING":
            now = {"state": "CREATE_FAILED", "issues": self.fails} if self.fails else {"state": "RUNNING"}
            self.slurm[object_id] |= {**now, "version": "26.05.1-cmk.2", "login_node_endpoint": "203.0.113.7"}
        return status, told

    def _delete_cluster(self, object_id: str) -> tuple[int, Json]:
        if self.sets.get(object_id):
            return _refused("the cluster has node sets")
        fields = self.slurm.pop(object_id, None)
        if fields is None:
            return _one({}, object_id)
        self.kubernetes = {key: one for key, one in self.kubernetes.items() if one["name"] != fields["name"]}
        return _done(None)

    def _node_sets(self, method: str, cluster_id: str, rest: list[str], body: Json) -> tuple[int, Json]:
        if cluster_id not in self.slurm:
            return _one({}, cluster_id)
        sets = self.sets[cluster_id]
        match method, rest:
            case "GET", []:
                return 200, {"items": list(sets.values())}
            case "GET", ["operations"]:
                return 200, {"items": []}
            case "POST", []:
                if body.keys() - SET_FIELDS or not {"name", "type", "count"} <= body.keys():
                    return _refused(f"unknown or missing fields in {sorted(body)}")
                object_id = str(uuid.uuid4())
                sets[object_id] = {"id": object_id, "state": "PROVISIONING", "issues": [], **body, "count": 0}
                self.wanted[object_id] = body["count"]
                return _done(sets[object_id])
            case "GET", [object_id]:
                return self._show_set(sets, object_id)
            case "PATCH", [object_id]:
                if body.keys() != {"count"}:
                    return _refused("only count can be changed")
                self.wanted[object_id] = body["count"]
                sets[object_id]["state"] = "UPDATING"
                return _done(sets[object_id])
            case "DELETE", [object_id]:
                return _done(None) if sets.pop(object_id, None) else _one({}, object_id)
            case _:
                return 405, {"code": "not_allowed", "message": "not allowed"}

    def _show_set(self, sets: dict[str, Json], object_id: str) -> tuple[int, Json]:
        status, told = _one(sets, object_id)
        if status == 200 and told["state"] != "UNHEALTHY":
            fields, wanted = sets[object_id], self.wanted[object_id]
            fields["count"] += (wanted > fields["count"]) - (wanted < fields["count"])
            fields["state"] = "RUNNING" if fields["count"] == wanted else "UPDATING"
        return status, told


def _one(objects: dict[str, Json], object_id: str) -> tuple[int, Json]:
    found = objects.get(object_id)
    return (200, dict(found)) if found else (404, {"code": "not_found", "message": f"{object_id} not found"})


def _refused(message: str) -> tuple[int, Json]:
    return 400, {"code": "bad_request", "message": message}


def _done(result: Json | None) -> tuple[int, Json]:
    told = dict(result) if result is not None else None
    return 200, {"operation": {"operation_id": str(uuid.uuid4()), "state": "SUCCEEDED", "result": told}}


@dataclass
class SlurmCloud:
    """A served API, and the Kubernetes API of every CMK cluster in it."""

    endpoint: str
    api: SlurmApi
    cluster: WorkingCluster


@contextmanager
def slurm_cloud(folder: Path) -> Generator[SlurmCloud]:
    """Serve Managed Slurm on the loopback address."""
    now = datetime.now(UTC)
    pair = certificate(now - timedelta(hours=1), now + timedelta(days=365))
    chain = folder / "server.pem"
    chain.write_text(pair.certificate + pair.key, encoding="utf-8")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    context.load_verify_locations(cadata=pair.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    api, cluster = SlurmApi(), WorkingCluster()
    with served(cluster, context) as kubernetes, served(api) as address:
        api.credentials = {
            "cluster_name": "lab",
            "cluster_address": f"https://{kubernetes}",
            "cluster_ca_certificate": pair.certificate,
            "user_name": "admin",
            "user_client_certificate": pair.certificate,
            "user_client_key": pair.key,
        }
        yield SlurmCloud(f"http://{address}/v1", api, cluster)
