"""What Crusoe's Terraform provider 1.1.1 sends and reads, to the byte, without Terraform.

Requests: one signature for all tries, compact JSON with sorted keys and a final newline, three tries but for POST,
operations polled at once. Answers: for each kind, what the provider must find in an answer or the apply breaks, and
what the next plan makes of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

Json = dict[str, Any]
Plan = str | None  # None is an empty plan, else "update", "replace", "create" or "inconsistent"


class ProviderError(Exception):
    """What the provider would print."""


@dataclass
class Terraform:
    """The provider's client for one project."""

    port: int
    key_id: str
    secret: str
    project: str
    base: str = "/v1"
    user_agent: str = "CrusoeTerraform/"
    first_wait: float = 1.0
    poll_seconds: float = 0.2
    tries: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def signature(self, method: str, path: str, query: str, stamp: str) -> str:
        key = base64.urlsafe_b64decode(self.secret + "=" * (-len(self.secret) % 4))
        text = f"{path}\n{query}\n{method}\n{stamp}\n".encode()
        return base64.urlsafe_b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode().rstrip("=")

    def request(self, method: str, path: str, body: Json | None = None, **query: str) -> tuple[int, Any]:
        """One call with its tries: the status and the decoded JSON of the last answer."""
        full = self.base + path.replace("{p}", f"/projects/{self.project}")
        encoded = "&".join(f"{quote_plus(key)}={quote_plus(value)}" for key, value in sorted(query.items()))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        headers = {
            "Host": f"127.0.0.1:{self.port}",
            "User-Agent": self.user_agent,
            "Accept": "application/json",
            "Authorization": f"Bearer 1.0:{self.key_id}:{self.signature(method, full, encoded, stamp)}",
            "X-Crusoe-Timestamp": stamp,
            "Accept-Encoding": "gzip",
        }
        payload = None
        if body is not None:
            payload = (json.dumps(body, separators=(",", ":"), sort_keys=True) + "\n").encode()
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
        elif method == "POST":
            headers["Content-Length"] = "0"
        target = f"{full}?{encoded}" if encoded else full
        attempts = 1 if method == "POST" else 3
        for attempt in range(1, attempts + 1):
            self.tries.append((method, target, headers["Authorization"]))
            try:
                status, answer = self._send(method, target, payload, headers)
            except (http.client.HTTPException, OSError):
                if attempt == attempts:
                    raise
            else:
                retried = status == 429 or (status >= 500 and status != 501)
                if not retried or attempt == attempts:
                    return status, answer
            time.sleep(self.first_wait * 2 ** (attempt - 1))
        raise AssertionError

    def _send(self, method: str, target: str, payload: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(payload)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        # Without this header the provider decodes nothing and every field is zero.
        decoded: Any = json.loads(text) if text and answer.headers["Content-Type"] == "application/json" else {}
        return answer.status, decoded

    def call(self, method: str, path: str, body: Json | None = None, **query: str) -> Any:
        """One call that must succeed."""
        status, answer = self.request(method, path, body, **query)
        if not 200 <= status < 300:
            raise ProviderError(f"{status} {answer.get('message')}")
        return answer

    def wait(self, family: str, answer: Json) -> Any:
        """The result of an operation: the first poll at once, then one pause after each."""
        operation = answer["operation"]
        while operation["state"] == "IN_PROGRESS":
            operation = self.call("GET", f"{{p}}/{family}/operations/{operation['operation_id']}")
            time.sleep(self.poll_seconds)
        if operation["state"] == "FAILED":
            raise ProviderError(operation["result"]["message"])
        if operation["state"] != "SUCCEEDED":
            raise ProviderError("An unexpected error occurred. Please try again.")
        return operation["result"]

    def configure(self, project: str | None) -> None:
        """What the provider asks at its start: by id, by name, or for the only one."""
        try:
            self._find_project(project)
        except ProviderError as error:
            email = self.call("GET", "/users/identities")["identity"]["email"]
            raise ProviderError(f"{email}: {error}") from error

    def _find_project(self, project: str | None) -> None:
        if project is not None and _is_uuid(project):
            self.call("GET", f"/organizations/projects/{project}")
            return
        query = {} if project is None else {"project_name": project}
        items = self.call("GET", "/organizations/projects", None, **query)["items"]
        if len(items) != 1:
            raise ProviderError(f"{len(items)} projects")
        assert items[0]["id"] == self.project

    def update_pool(self, read: Json, **changes: Any) -> Json:
        """A pool's update: all eight keys, then a read by the result's id."""
        body: Json = {
            "action": "",
            "count": read["count"],
            "ephemeral_storage_for_containerd": read.get("ephemeral_storage_for_containerd", False),
            "node_labels": None,
            "node_pool_version": read.get("image_id", ""),
            "node_taints": None,
            "reservation_id": "",
            "ssh_public_key": "",
            **changes,
        }
        result = self.wait("kubernetes/nodepools", self.call("PATCH", f"{{p}}/kubernetes/nodepools/{read['id']}", body))
        identifier = (result.get("node_pool") or result).get("id", "")
        return self.call("GET", f"{{p}}/kubernetes/nodepools/{identifier}")


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Kind:
    """How the provider judges one kind. `applied` must be in the answer to an apply as asked for; `planned` says what
    the next plan does when a field is missing from what is read."""

    applied: tuple[str, ...]
    planned: dict[str, str]


# From the calls of the real provider; fields that it doesn't need aren't here.
KINDS = {
    "network": Kind(("name", "cidr"), {"id": "replace", "name": "update", "cidr": "replace"}),
    "subnet": Kind(
        ("name", "cidr", "location", "vpc_network_id"),
        {"id": "replace", "name": "update", "cidr": "replace", "location": "replace", "vpc_network_id": "replace"},
    ),
    "rule": Kind(
        (
            "name",
            "vpc_network_id",
            "action",
            "direction",
            "protocols",
            "sources",
            "destinations",
            "source_ports",
            "destination_ports",
        ),
        {"id": "replace", "name": "update", "action": "replace", "direction": "replace", "protocols": "update"},
    ),
    "partition": Kind(("name", "ib_network_id"), {"id": "replace", "name": "replace", "ib_network_id": "replace"}),
    "disk": Kind(
        ("name", "size", "location", "type"),
        {"id": "replace", "name": "replace", "size": "update", "location": "replace", "type": "replace"},
    ),
    "cluster": Kind(
        (
            "name",
            "location",
            "version",
            "add_ons",
            "subnet_id",
            "cluster_cidr",
            "node_cidr_mask_size",
            "service_cluster_ip_range",
            "private",
        ),
        {"id": "replace", "name": "replace", "location": "replace", "version": "error", "add_ons": "replace"},
    ),
    "pool": Kind(
        (
            "name",
            "type",
            "count",
            "cluster_id",
            "public_ip_type",
            "node_taints",
            "ephemeral_storage_for_containerd",
            "subnet_id",
            "image_id",
        ),
        {
            "id": "replace",
            "public_ip_type": "replace",
            "type": "replace",
            "name": "replace",
            "count": "update",
            "node_taints": "update",
        },
    ),
}


def inconsistent(kind: str, asked: Json, answer: Json) -> list[str]:
    """Fields for which core would stop with "Provider produced inconsistent result after apply"."""
    wrong = [key for key in KINDS[kind].applied if key in asked and not _same(asked[key], answer.get(key))]
    if not answer.get("id"):
        wrong.append("id")
    if kind == "pool" and answer.get("nvlink_domain_id") and not asked.get("nvlink_domain_id"):
        wrong.append("nvlink_domain_id")
    return wrong


def plan(kind: str, stored: Json, read: Json) -> Plan:
    """What the next plan would do after this read."""
    for key, action in KINDS[kind].planned.items():
        if key in stored and not _same(stored[key], read.get(key)):
            return action
    return None


def _same(one: Any, other: Any) -> bool:
    # An integer that comes as 2.0 is read as zero.
    if isinstance(one, int) and not isinstance(one, bool):
        return isinstance(other, int) and one == other
    return one == other
