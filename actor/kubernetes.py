"""The API server, as far as the actor may speak to it: nodes, workers' pods, events, one lease, one ConfigMap."""

import http.client
import os
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from actor import facts, read, web

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""

_MERGE = "application/merge-patch+json"
EVENTS_NAMESPACE = "default"
"""Events about objects without a namespace, such as nodes, live here."""

MOST = 500
"""Items of one page of a list."""


class KubernetesError(Exception):
    """The API server did not answer, or refused; the text says what."""


class Kubernetes:
    """One cluster. Every method raises KubernetesError."""

    def __init__(self, connect: web.Connect, token: Callable[[], str], namespace: str) -> None:
        """`token` is asked at each call, since tokens are renewed; `namespace` has the workers and the lease."""
        self._connect = connect
        self._token = token
        self._namespace = namespace

    def nodes(self) -> list[dict[str, Any]]:
        """All Nodes."""
        return self.collection("/api/v1/nodes", {})

    def workers(self) -> list[dict[str, Any]]:
        """All pods of workers."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        return self.collection(path, {"labelSelector": facts.WORKER_SELECTOR})

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> None:
        """Merge a patch into a Node."""
        self._asked("PATCH", f"/api/v1/nodes/{quote(name)}", patch, _MERGE)

    def report(self, node: str, reason: str, text: str, *, warning: bool) -> None:
        """Make an Event about a Node."""
        # The uid of a node's events is its name: by that `kubectl describe node` finds them.
        about = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node}
        self._event(EVENTS_NAMESPACE, about, reason, text, warning=warning)

    def warn(self, config_map: str, reason: str, text: str) -> None:
        """Make a warning about a ConfigMap of the namespace."""
        about = {"kind": "ConfigMap", "apiVersion": "v1", "name": config_map, "namespace": self._namespace}
        self._event(self._namespace, about, reason, text, warning=True)

    def _event(self, namespace: str, about: Mapping[str, str], reason: str, text: str, *, warning: bool) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "metadata": {"generateName": "slurm-actor-", "namespace": namespace},
            "involvedObject": about,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": text[:1024],
            "source": {"component": "slurm-actor"},
            "reportingComponent": "slurm-actor",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._asked("POST", f"/api/v1/namespaces/{namespace}/events", event)

    def lease(self, name: str) -> dict[str, Any] | None:
        """A lease; None where there is none."""
        return self._found(self._lease_path(name))

    def write_lease(self, name: str, lease: Mapping[str, Any]) -> bool:
        """Create or replace a lease; False where somebody else was quicker."""
        return self._written(self._lease_path(name), lease) is not None

    def config_map(self, name: str) -> dict[str, Any] | None:
        """A ConfigMap; None where there is none."""
        return self._found(self._config_map_path(name))

    def write_config_map(self, name: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        """Create or replace a ConfigMap; it as written, or None where somebody else was quicker."""
        return self._written(self._config_map_path(name), wanted)

    def _lease_path(self, name: str) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{name}"

    def _config_map_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"

    def _found(self, path: str) -> dict[str, Any] | None:
        answer = self._call("GET", path, None)
        return None if answer.status == HTTPStatus.NOT_FOUND else self._good("GET", path, answer)

    def _written(self, path: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        new = "resourceVersion" not in wanted["metadata"]
        method, path = ("POST", path.rpartition("/")[0]) if new else ("PUT", path)
        answer = self._call(method, path, wanted)
        return None if answer.status == HTTPStatus.CONFLICT else self._good(method, path, answer)

    def collection(self, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """All objects of a collection, page by page."""
        found: list[dict[str, Any]] = []
        following = ""
        while True:
            page = {**query, "limit": str(MOST), **({"continue": following} if following else {})}
            body = self._asked("GET", f"{path}?{urlencode(page)}")
            found += read.items(body, "items")
            following = read.part(body, "metadata").get("continue", "")
            if not following:
                return found

    def _asked(self, method: str, path: str, body: object = None, kind: str = "application/json") -> dict[str, Any]:
        return self._good(method, path, self._call(method, path, body, kind))

    def _good(self, method: str, path: str, answer: web.Answer) -> dict[str, Any]:
        if answer.ok:
            return answer.body
        said = answer.body.get("message") or answer.text.strip()[:200] or answer.status
        raise KubernetesError(f"the API server refused {method} {path.partition('?')[0]}: {said}")

    def _call(self, method: str, path: str, body: object, kind: str = "application/json") -> web.Answer:
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": kind}
        try:
            return web.call(self._connect, method, path, body, headers)
        except web.WebError as error:
            raise KubernetesError(f"the API server does not answer: {error}") from error


def in_cluster(namespace: str) -> Kubernetes:
    """The cluster that this pod runs in, with the pod's service account.

    Raises:
        KeyError: this is no pod.
    """
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))

    def connect() -> http.client.HTTPConnection:
        return http.client.HTTPSConnection(host, port, timeout=web.SECONDS, context=trust)

    return Kubernetes(connect, lambda: (ACCOUNT / "token").read_text().strip(), namespace)
