"""The API of a CMK cluster itself, as the administrator: only what draining and waiting inside of it need."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import tempfile
import threading
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import urlsplit

from crusoe.client import Cancelled
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError

if TYPE_CHECKING:
    from crusoe.client import Client

ANSWER_SECONDS = 15.0
"""How long one request may take."""

LOOK_SECONDS = 0.2
"""How often a request under way looks whether the run was cancelled."""

JSON, MERGE_PATCH = "application/json", "application/merge-patch+json"


class ClusterApi:
    """Speaks to one cluster over one connection; not for several threads.

    Raises:
        CrusoeError: the credentials can't be had.
        RefusalError: the API server does not answer, from `ask`.
    """

    def __init__(self, client: Client, cluster_id: str) -> None:
        answer = client.post(f"kubernetes/clusters/{cluster_id}/get-credentials", harmless=True)
        address = text(answer, "cluster_address") or ""
        parts = urlsplit(address if "://" in address else f"https://{address}")
        context = ssl.create_default_context(cadata=text(answer, "cluster_ca_certificate"))
        _identify(context, text(answer, "user_client_certificate") or "", text(answer, "user_client_key") or "")
        self.address = address
        self._cancel = client.cancel
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=ANSWER_SECONDS, context=context
        )

    def __enter__(self) -> Self:
        """Close the connection at the end of a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, method: str, path: str, body: JsonObject | None = None, kind: str = JSON) -> tuple[int, JsonObject]:
        """Send a request; return the status, and the answer where it is an object.

        Raises:
            Cancelled: at once when the run is cancelled; whether the request was carried out is not known then.
        """
        told: list[tuple[int, bytes] | OSError | http.client.HTTPException] = []

        def send() -> None:
            try:
                content = json.dumps(body) if body is not None else None
                self._connection.request(method, path, content, {"Content-Type": kind, "Accept": JSON})
                response = self._connection.getresponse()
                told.append((response.status, response.read()))
            except (OSError, http.client.HTTPException) as error:
                told.append(error)

        # A thread, as a silent server holds a request for long, and nothing else ends it.
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        while thread.is_alive() and not self._cancel.is_set():
            thread.join(LOOK_SECONDS)
        if not told:
            raise Cancelled("The run was cancelled while the cluster's API was asked.")
        if isinstance(told[0], Exception):
            self._connection.close()
            problem = "no answer" if isinstance(told[0], TimeoutError) else "no connection"
            raise RefusalError(
                f"The cluster's API at {self.address} can't be reached ({problem}); run this where it can."
            )
        status, content = told[0]
        try:
            answer = json.loads(content)
        except ValueError:
            answer = {}
        return status, cast("JsonObject", answer) if isinstance(answer, dict) else {}


def _identify(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Give the context the administrator's certificate, which Python can only read from a file."""
    chain = f"{certificate}\n{key}\n".encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client-certificate")  # In memory: the key never is on a disk.
        with os.fdopen(descriptor, "wb") as file:
            file.write(chain)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        return
    with tempfile.NamedTemporaryFile() as file:  # For its owner only, and gone with the block.
        file.write(chain)
        file.flush()
        context.load_cert_chain(file.name)
