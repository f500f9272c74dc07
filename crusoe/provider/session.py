"""The connection to Crusoe's API that all resources of one provider share, made at the first need.

Whatever is wrong with endpoint, key, clock or project is found then, told in one sentence, and told again to every
later call without asking the API again, so that check, diff, refresh and destroy all stop at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from crusoe.client import (
    BadRequest,
    Cancelled,
    Client,
    ConfigurationError,
    CrusoeError,
    Forbidden,
    MalformedAnswer,
    NotFound,
)
from crusoe.client.clock import Clock, SystemClock
from crusoe.provider.existing import Existing, JsonObject, text, texts
from crusoe.provider.supply import Ledger

Connect = Callable[["Configuration", threading.Event], Client]
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Configuration:
    """Where the stack's resources live; keys are never part of it."""

    endpoint: str
    project: str


def connect_from_environment(configuration: Configuration, cancel: threading.Event) -> Client:
    """Return a client with the environment's or the profile's key.

    Raises:
        CrusoeError: they don't belong together or don't work; one sentence, within 15 s.
    """
    from crusoe.client import connect

    return connect(configuration.endpoint, configuration.project, environ=os.environ, cancel=cancel)


class Session:
    """A provider's client and what it has learned during this run; safe to use from many threads."""

    def __init__(
        self,
        configuration: Configuration | None = None,
        connect: Connect = connect_from_environment,
        clock: Clock | None = None,
    ) -> None:
        self.configuration = configuration
        self.cancel = threading.Event()
        self.clock: Clock = clock or SystemClock()
        self._connect = connect
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._existing: Existing | None = None
        self._failure: CrusoeError | None = None
        self._clusters: dict[str, JsonObject] = {}
        self._vm_types: list[str] | None = None
        self._locations: list[str] | None = None
        self._ib_networks: list[JsonObject] | None = None
        self._asking = threading.Lock()
        self.ledger = Ledger()

    @property
    def client(self) -> Client:
        """The client.

        Raises:
            CrusoeError: there is no working connection; the same error each time.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._client is None:
                if self.configuration is None:
                    raise ConfigurationError("The crusoe provider is not configured: give it endpoint and project.")
                try:
                    self._client = self._connect(self.configuration, self.cancel)
                except Cancelled:
                    raise
                except CrusoeError as error:
                    self._failure = error
                    raise
                self._existing = Existing(self._client, self.clock)
            return self._client

    def uncancelled(self) -> Client:
        """Return a client that a cancel of the run does not stop, for one last look."""
        if self.configuration is None:
            raise ConfigurationError("The crusoe provider is not configured.")
        return self._connect(self.configuration, threading.Event())

    @property
    def existing(self) -> Existing:
        """The objects that exist, by kind and name."""
        client = self.client
        with self._lock:
            if self._existing is None:
                self._existing = Existing(client, self.clock)
            return self._existing

    def cluster(self, cluster_id: str) -> JsonObject | None:
        """Return a cluster, read once per run; None when there is none."""
        with self._lock:
            known = self._clusters.get(cluster_id)
        if known is not None:
            return known
        try:
            found = self.client.get(f"kubernetes/clusters/{cluster_id}")
        except NotFound:
            return None
        with self._lock:
            return self._clusters.setdefault(cluster_id, found)

    def vm_types(self) -> list[str]:
        """Return the names of the VM types, read once per run."""
        client = self.client
        with self._asking:
            if self._vm_types is None:
                rows = client.list("compute/vms/types")
                self._vm_types = [name for row in rows if (name := text(row, "product_name"))]
            return self._vm_types

    def locations(self) -> list[str]:
        """Return the names of the locations, read once per run; empty where the API does not list them."""
        client = self.client
        with self._asking:
            if self._locations is None:
                self._locations = _offered(lambda: texts(client.get("/locations"), "items"))
            return self._locations

    def ib_networks(self) -> list[JsonObject]:
        """Return the project's InfiniBand networks, read once per run; empty where the API does not list them."""
        client = self.client
        with self._asking:
            if self._ib_networks is None:
                self._ib_networks = _offered(lambda: client.list("networking/ib-networks"))
            return self._ib_networks

    def forget_cluster(self, cluster_id: str) -> None:
        """Read the cluster anew at the next question."""
        with self._lock:
            self._clusters.pop(cluster_id, None)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()


def _offered(ask: Callable[[], list[_Row]]) -> list[_Row]:
    """Return a list of what there is, empty when the API does not have or show it.

    An API in trouble is no such case: to let an unchecked value pass could cost the object that it replaces.
    """
    try:
        return ask()
    except (BadRequest, Forbidden, NotFound, MalformedAnswer):
        return []
