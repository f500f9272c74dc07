"""What the operator asks of slurmrestd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, cast

import httpx

from localcloud.slinky.values import Object, at, items

API = "v0.0.44"
"""The version of Slurm's REST API that Slinky 1.2 speaks."""

REASON_PREFIX = "slurm-operator:"
"""The drains that are the operator's own; all others belong to somebody else and are left alone."""

_SECONDS = 10.0


class RestError(Exception):
    """slurmrestd did not answer, or refused; the text says what."""


@dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm sees it: its states in upper case (`IDLE`, `DRAIN` …), its reason and its features."""

    name: str
    states: frozenset[str]
    reason: str = ""
    features: frozenset[str] = frozenset()

    @property
    def busy(self) -> bool:
        """Whether jobs run or end on it."""
        return bool(self.states & {"ALLOCATED", "MIXED", "COMPLETING"})

    @property
    def draining(self) -> bool:
        """Whether it takes no new jobs because somebody drained it."""
        return "DRAIN" in self.states and "UNDRAIN" not in self.states

    @property
    def drained(self) -> bool:
        """Whether it was drained and nothing runs there any more."""
        return self.draining and not self.busy

    @property
    def ours(self) -> bool:
        """Whether its reason is the operator's."""
        return self.reason.startswith(REASON_PREFIX)


class SlurmRest(Protocol):
    """One Slurm cluster's REST API. Every method raises RestError."""

    def nodes(self) -> Mapping[str, SlurmNode]:
        """Every node by name."""
        ...

    def update_node(self, name: str, state: str, reason: str | None = None) -> None:
        """Set a node's state (`DRAIN`, `UNDRAIN`); the reason is required for DRAIN."""
        ...

    def move_node(self, name: str, topology: str) -> None:
        """Set a node's place, such as `topo-switch:s1`."""
        ...

    def delete_node(self, name: str) -> None:
        """Forget a dynamic node; fine if there is none."""
        ...


class UnixRest:
    """slurmrestd behind a unix socket of this machine."""

    def __init__(self, socket: Path, token: Callable[[], str]) -> None:
        """`token` makes a JWT of Slurm's administrator for each call."""
        self._socket = socket
        self._token = token

    def nodes(self) -> Mapping[str, SlurmNode]:
        """Every node by name."""
        found = items(self._call("GET", "nodes/"), "nodes")
        return {str(item["name"]): _node(item) for item in found}

    def jobs(self) -> list[Object]:
        """Every job that Slurm knows, as it tells them; raises RestError."""
        return items(self._call("GET", "jobs/"), "jobs")

    def update_node(self, name: str, state: str, reason: str | None = None) -> None:
        """Set a node's state."""
        self._call("POST", f"node/{name}", {"state": [state], **({"reason": reason} if reason else {})})

    def move_node(self, name: str, topology: str) -> None:
        """Set a node's place."""
        self._call("POST", f"node/{name}", {"topology_str": topology})

    def delete_node(self, name: str) -> None:
        """Forget a dynamic node."""
        self._call("DELETE", f"node/{name}", absent_is_fine=True)

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, absent_is_fine: bool = False
    ) -> object:
        url = f"http://slurmrestd/slurm/{API}/{path}"
        headers = {"X-SLURM-USER-NAME": "slurm", "X-SLURM-USER-TOKEN": self._token()}
        try:
            # There is no TLS on this socket, and to read the machine's authorities costs more than all the rest.
            transport = httpx.HTTPTransport(uds=str(self._socket), verify=False)
            with httpx.Client(transport=transport, timeout=_SECONDS, trust_env=False) as client:
                response = client.request(method, url, json=body, headers=headers)
        except (httpx.HTTPError, OSError) as error:
            raise RestError(f"{method} {url}: {error or type(error).__name__}") from error
        if absent_is_fine and response.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.NO_CONTENT):
            return {}
        answer = _json(response)
        if not response.is_success:
            raise RestError(f"{method} {url}: HTTP {response.status_code}: {_errors(answer)}")
        return answer


def _node(item: Mapping[str, Any]) -> SlurmNode:
    states = cast(Sequence[str], at(item, "state") or [])
    features = cast(Sequence[str], at(item, "features") or [])
    return SlurmNode(
        str(item["name"]),
        frozenset(state.upper() for state in states),
        str(at(item, "reason") or ""),
        frozenset(features),
    )


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except ValueError:
        return {}


def _errors(answer: object) -> str:
    texts = [str(error.get("description") or error.get("error") or "") for error in items(answer, "errors")]
    return "; ".join(text for text in texts if text) or "no reason given"
