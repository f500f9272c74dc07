"""Kubeconfigs of clusters: fetching one, how long it holds, and whether the API server behind it answers."""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import re
import socket
import ssl
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crusoe.provider.certificates import validity
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError
from crusoe.provider.properties import Difference
from crusoe.provider.shapes import Change
from crusoe.provider.values import Values

if TYPE_CHECKING:
    from crusoe.client import Client

ANSWER_SECONDS = 5.0
"""How long one try to reach an API server may take."""

_DATA = r"""\b{key}["']?:\s*["']?([A-Za-z0-9+/=]+)"""
_SERVER = re.compile(r"""\bserver["']?:\s*["']?(https://[^\s"',]+)""")
# YAML or JSON; a YAML parser costs 0.1 s to import, on every preview.


def fetch(client: Client, cluster_id: str) -> str:
    """Return a new admin kubeconfig; the API hands out another client certificate on every call.

    Raises:
        CrusoeError: the API refused.
        RefusalError: the answer holds no kubeconfig.
    """
    answer = client.post(f"kubernetes/clusters/{cluster_id}/get-credentials", harmless=True)
    found = text(answer, "kube_config") or _build(answer)
    if found is None:
        raise RefusalError(f"The API answered without a kubeconfig for cluster {cluster_id}; run the command again.")
    return found


def due(config: str, now: datetime) -> bool:
    """Say whether the client certificate in a kubeconfig is near its end; False where there is none to read."""
    pem = _embedded(config, "client-certificate-data")
    held = validity(pem) if pem else None
    return held is not None and held.due(now)


def renewal(state: Values) -> list[Difference]:
    """Return what an `up` has to do about the recorded output `kubeconfig`: get a new one near its end."""
    config = state.get("kubeconfig")
    if isinstance(config, str) and not due(config, datetime.now(UTC)):
        return []
    return [Difference("kubeconfig", "kubeconfig", Change.UPDATE, replaces=False, of_inputs=False)]


def answers(config: str, seconds: float, cancel: threading.Event) -> str | None:
    """Ask the API server of a kubeconfig whether it is ready; None when it is, else why not.

    Sent without the client certificate: `/readyz` is open to everybody by default, and where it isn't, being refused is
    an answer too. So no private key has to touch the disk for it. A thread bounds it, as a name look-up has no limit of
    its own; returns within `seconds`, or at once after a cancel.
    """
    match = _SERVER.search(config)
    if match is None:
        return "its kubeconfig names no server"
    told: list[str | None] = []
    address, authority = match[1], _embedded(config, "certificate-authority-data")
    thread = threading.Thread(target=lambda: told.append(_ask(address, authority, seconds)), daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while thread.is_alive() and not cancel.is_set() and time.monotonic() < end:
        thread.join(0.1)
    return told[0] if told else "no answer"


def _ask(address: str, authority: str | None, seconds: float) -> str | None:
    url = urlsplit(address)
    try:
        context = ssl.create_default_context(cadata=authority)
        connection = http.client.HTTPSConnection(url.hostname or "", url.port or 443, timeout=seconds, context=context)
        try:
            connection.request("GET", f"{url.path.rstrip('/')}/readyz")
            status = connection.getresponse().status
        finally:
            connection.close()
    except ssl.SSLCertVerificationError:
        return "its certificate is not from the cluster's authority"
    except TimeoutError:
        return "no answer"
    except socket.gaierror:
        return f"the name {url.hostname} can't be resolved"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return "connection refused" if isinstance(error, ConnectionRefusedError) else "no connection"
    ready = status < http.client.BAD_REQUEST or status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}
    return None if ready else f"it answers HTTP {status}"


def server(config: str) -> str:
    """Return the API server's address, for messages."""
    match = _SERVER.search(config)
    return match[1] if match else "an unknown address"


def _embedded(config: str, key: str) -> str | None:
    match = re.search(_DATA.format(key=re.escape(key)), config)
    if match is None:
        return None
    try:
        return base64.b64decode(match[1]).decode()
    except (binascii.Error, ValueError):
        return None


def _build(answer: JsonObject) -> str | None:
    """Write a kubeconfig from its parts, which are PEM text; needed when the answer has no `kube_config`."""
    parts = {
        name: text(answer, name)
        for name in (
            "cluster_name",
            "cluster_address",
            "cluster_ca_certificate",
            "user_name",
            "user_client_certificate",
            "user_client_key",
        )
    }
    if not all(parts.values()):
        return None

    def data(name: str) -> str:
        return base64.b64encode((parts[name] or "").encode()).decode()

    address, cluster, user = str(parts["cluster_address"]), parts["cluster_name"], parts["user_name"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {
                    "server": address if "://" in address else f"https://{address}",
                    "certificate-authority-data": data("cluster_ca_certificate"),
                },
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": data("user_client_certificate"),
                    "client-key-data": data("user_client_key"),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return json.dumps(config, indent=2)
