"""Crusoe's API, read only: signed GETs by Python's own HTTP client, since the pod runs from a stock image."""

import http.client
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from actor import read, web
from crusoe.client import projects, signing
from crusoe.client.credentials import Credentials
from crusoe.client.errors import ConfigurationError, CrusoeError, NotFound
from crusoe.client.secret import Secret

MOST_PAGES = 100


class CrusoeApiError(Exception):
    """The API did not answer, or refused; the text says what."""


class KeyRefusedError(CrusoeApiError):
    """The access key is not taken (any more)."""


class CrusoeApi:
    """One project. Every method raises CrusoeApiError."""

    def __init__(
        self,
        endpoint: str,
        project: str,
        key_id: str,
        secret: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`project` is a name or an id; `secret` is asked at each call, since keys are rotated."""
        parts = urlsplit(endpoint.rstrip("/"))
        self._host, self._port, self._base = parts.hostname or "", parts.port, parts.path
        self._secure = parts.scheme == "https"
        self._wanted, self._project = project, ""
        self._key_id, self._secret, self._clock = key_id, secret, clock

    def operations(self, cluster_id: str, since: float) -> list[dict[str, Any]]:
        """AutoClusters' operations of a cluster that began at a moment or later."""
        bound = signing.timestamp(datetime.fromtimestamp(max(since, 0.0), UTC))
        return self.items("kubernetes/autocluster-operations", cluster_id=cluster_id, lower_bound=bound)

    def actions(self, cluster_id: str) -> dict[str, str]:
        """What AutoClusters does about each issue, by its name; nothing where the cluster has no AutoClusters."""
        path = self._in_project(f"kubernetes/clusters/{cluster_id}/autoclusters/config")
        answer = self._ask(path, {})
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
            return {}
        rows = read.items(self._good(path, answer), "remediation_configs")
        return {str(row["issue_name"]): str(row.get("effective_action", "")) for row in rows}

    def pools(self, cluster_id: str) -> list[dict[str, Any]]:
        """The cluster's node pools."""
        return [each for each in self.items("kubernetes/nodepools") if each.get("cluster_id") == cluster_id]

    def vms(self, pool_id: str) -> list[dict[str, Any]]:
        """A pool's VMs."""
        return self.items(f"kubernetes/nodepools/{pool_id}/vms")

    def quotas(self) -> list[dict[str, Any]]:
        """The project's quotas."""
        return self.items("quotas")

    def capacities(self, location: str) -> list[dict[str, Any]]:
        """What could be started now in a location."""
        return self.items("/capacities", location=location)

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """A list, all its pages."""
        found: list[dict[str, Any]] = []
        page = query
        for _ in range(MOST_PAGES):
            body = self._get(path, page)
            found += read.items(body, "items")
            name = next((name for name in ("next_token", "next_page_token") if body.get(name)), "")
            if not name:
                return found
            page = {**query, name.replace("next_page", "page"): str(body[name])}
        raise CrusoeApiError(f"GET {path}: the list does not end after {MOST_PAGES} pages.")

    def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        path = path if path.startswith("/") else self._in_project(path)
        return self._good(path, self._ask(path, query))

    def _in_project(self, path: str) -> str:
        if not self._project:
            try:
                found = projects.resolve(
                    self._wanted,
                    self._project_by_id,
                    lambda query: self.items("/organizations/projects", **query),
                )
            except CrusoeError as error:
                raise CrusoeApiError(str(error)) from error
            self._project = found.id
        return f"/projects/{self._project}/{path}"

    def _project_by_id(self, path: str) -> dict[str, Any]:
        answer = self._ask(path, {})
        if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            raise NotFound(answer.status, "not_found", f"GET {path}: there is none.")
        return self._good(path, answer)

    def _good(self, path: str, answer: web.Answer) -> dict[str, Any]:
        if answer.ok:
            return answer.body
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise KeyRefusedError(
                f"Crusoe's API does not take the access key {self._key_id} for {path} ({answer.status}): it has "
                "expired, was revoked or may not read this. Make a new one that can only read, and set it as the "
                "stack's secret."
            )
        said = answer.body.get("message") or answer.text.strip()[:200] or answer.status
        raise CrusoeApiError(f"Crusoe's API refused GET {path}: {said}")

    def _ask(self, path: str, query: Mapping[str, str]) -> web.Answer:
        text, whole = signing.canonical_query(query.items()), f"{self._base}{path}"
        now = datetime.fromtimestamp(self._clock(), UTC)
        try:
            key = Credentials(self._key_id, Secret(self._secret().strip()))
            headers = signing.headers(key, "GET", whole, text, now)
        except (ConfigurationError, OSError) as error:
            raise CrusoeApiError(f"The access key can't be used: {error}") from error
        try:
            return web.call(self._connect, "GET", f"{whole}?{text}" if text else whole, None, headers)
        except web.WebError as error:
            raise CrusoeApiError(f"Crusoe's API does not answer: {error}") from error

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=web.SECONDS)
