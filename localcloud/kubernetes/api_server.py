"""A small client for a cluster's API server: JSON in and out, server-side apply, bounded retries.

It speaks plain HTTP through httpx, because importing the Kubernetes SDK takes longer than all the rest of the start.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from localcloud.control_plane import ControlPlaneError

Object = dict[str, Any]
T = TypeVar("T")

FIELD_MANAGER = "crusoe-cloud"
_REQUEST_SECONDS = 30.0
_RETRY_SECONDS = 15.0
_PARALLEL = 16
_PAGE = 500
_BUSY = (429, 500, 503, 504)


class ApiError(ControlPlaneError):
    """The API server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the HTTP status beside the text."""
        super().__init__(message)
        self.status = status


class _BusyError(ApiError):
    """Worth another try."""


@dataclass(frozen=True)
class Kind:
    """Where objects of a kind live: `/apis/apps/v1/namespaces/<namespace>/deployments/<name>`."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of one object, or of all objects of the kind (in one namespace)."""
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        return "/".join(parts)


@dataclass(frozen=True)
class Snapshot:
    """Objects of a kind, each with its kind and version, and the resourceVersion that a watch goes on from."""

    items: list[Object]
    revision: str


NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods", namespaced=True)
SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts", namespaced=True)

_KINDS = {
    ("v1", "Namespace"): Kind("v1", "namespaces", namespaced=False),
    ("v1", "Secret"): Kind("v1", "secrets", namespaced=True),
    ("v1", "Service"): Kind("v1", "services", namespaced=True),
    ("v1", "ServiceAccount"): SERVICE_ACCOUNTS,
    ("apps/v1", "Deployment"): Kind("apps/v1", "deployments", namespaced=True),
    ("apps/v1", "DaemonSet"): Kind("apps/v1", "daemonsets", namespaced=True),
    ("storage.k8s.io/v1", "CSIDriver"): Kind("storage.k8s.io/v1", "csidrivers", namespaced=False),
    ("node.k8s.io/v1", "RuntimeClass"): Kind("node.k8s.io/v1", "runtimeclasses", namespaced=False),
    ("scheduling.k8s.io/v1", "PriorityClass"): Kind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): Kind(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
    ),
    ("nvidia.com/v1", "ClusterPolicy"): Kind("nvidia.com/v1", "clusterpolicies", namespaced=False),
    ("mellanox.com/v1alpha1", "NicClusterPolicy"): Kind(
        "mellanox.com/v1alpha1", "nicclusterpolicies", namespaced=False
    ),
}


def path_of(item: Object) -> str:
    """The path of an object of one of the kinds that add-ons use."""
    kind = _KINDS[item["apiVersion"], item["kind"]]
    return kind.path(item["metadata"].get("namespace"), item["metadata"]["name"])


class ApiServer:
    """Calls to one API server, made with its administrator's certificate. Safe to share between threads."""

    def __init__(self, address: str, *, ca_file: str, certificate_file: str, key_file: str) -> None:
        """Prepare calls; nothing is sent yet."""
        self.address = address
        self._context = ssl.create_default_context(cafile=ca_file)
        self._context.load_cert_chain(certificate_file, key_file)
        limits = httpx.Limits(max_connections=_PARALLEL, max_keepalive_connections=_PARALLEL)
        # No proxy of the user's environment may come between: the address is on this machine.
        self._client = httpx.Client(
            base_url=address, verify=self._context, timeout=_REQUEST_SECONDS, limits=limits, trust_env=False
        )

    def __enter__(self) -> Self:
        """Use the client in a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; calls after this fail."""
        self._client.close()

    def ready(self) -> bool:
        """Whether the API server says it is ready, asked once."""
        try:
            return self._client.get("/readyz", timeout=2.0).status_code == HTTPStatus.OK
        except httpx.HTTPError:
            return False

    def get(self, path: str, **query: str | int) -> Object | None:
        """One object; None if it doesn't exist."""
        try:
            return self._call("GET", path, query=query)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def list(self, path: str, **query: str | int) -> list[Object]:
        """All objects below a path."""
        return self.snapshot(path, **query).items

    def revision(self, path: str) -> int | None:  # noqa: ARG002  one that keeps nothing knows of no path
        """The resourceVersion up to which `list` would know all objects below a path without asking; None for none."""
        return None

    def snapshot(self, path: str, **query: str | int) -> Snapshot:
        """All objects below a path, read in pages, and the moment that they are of."""
        items: list[Object] = []
        following = ""
        while True:
            page = self._call("GET", path, query={"limit": _PAGE, "continue": following, **query})
            # The items of a list come without these.
            kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            items += [{**kind, **item} for item in page["items"]]
            following = page["metadata"].get("continue", "")
            if not following:
                return Snapshot(items, page["metadata"]["resourceVersion"])

    def create(self, path: str, item: Object) -> bool:
        """Create an object; False if there is one of that name."""
        try:
            self._call("POST", path, body=item, query={"fieldManager": FIELD_MANAGER})
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT:
                return False
            raise
        return True

    def ask(self, path: str, item: Object) -> Object:
        """What the API server makes of an object that it doesn't keep, such as a TokenRequest."""
        return self._call("POST", path, body=item)

    def apply(self, item: Object, path: str | None = None, *, manager: str = FIELD_MANAGER) -> Object:
        """Server-side apply: create the object, or set the fields named here and leave all others.

        `path` is needed for kinds that add-ons don't use. Answers the object as stored.
        """
        query: dict[str, str | int] = {"fieldManager": manager, "force": "true"}
        content_type = "application/apply-patch+yaml"
        return self._call("PATCH", path or path_of(item), body=item, query=query, content_type=content_type)

    def merge(self, path: str, patch: Object, *, strategic: bool = False) -> bool:
        """JSON merge patch, or Kubernetes' strategic one; False if the object is gone."""
        kind = "strategic-merge-patch" if strategic else "merge-patch"
        try:
            self._call("PATCH", path, body=patch, content_type=f"application/{kind}+json")
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def delete(self, path: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object; fine if there is none. With `grace_seconds=0` a pod is gone at once."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._call("DELETE", path, body=options)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def evict(self, namespace: str, name: str) -> bool:
        """Ask for a pod's eviction; False if a disruption budget forbids it for now."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        try:
            # Once: a refusal is an answer here.
            self._once("POST", f"{PODS.path(namespace, name)}/eviction", body, None, "application/json")
        except ApiError as error:
            if error.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_FOUND):
                raise
            return error.status == HTTPStatus.NOT_FOUND
        return True

    def each(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Do `work` for every item, several at a time; the first failure is raised after the running ones ended."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for future in futures:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str | int] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        retrying = Retrying(
            retry=retry_if_exception_type(_BusyError),
            stop=stop_after_delay(_RETRY_SECONDS),
            wait=wait_exponential_jitter(multiplier=0.05, max=1.0, jitter=0.05),
            reraise=True,
        )
        return retrying(self._once, method, path, body, query, content_type)

    def _once(
        self,
        method: str,
        path: str,
        body: Object | None,
        query: Mapping[str, str | int] | None,
        content_type: str,
    ) -> Object:
        try:
            response = self._client.request(
                method, path, json=body, params=dict(query or {}), headers={"Content-Type": content_type}
            )
        except httpx.TransportError as error:
            raise _BusyError(
                0, f"The API server at {self.address} did not answer {method} {path}: {type(error).__name__}."
            ) from error
        if response.is_success:
            return cast(Object, response.json())
        problem = _BusyError if response.status_code in _BUSY else ApiError
        raise problem(response.status_code, f"The API server refused {method} {path}: {_message(response)}")


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}."
