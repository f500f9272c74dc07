"""Tokens of service accounts for pods, as a kubelet gets them: by TokenRequest, bound to the pod, renewed in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcloud.kubernetes.api_server import SERVICE_ACCOUNTS, ApiError, ApiServer
from localcloud.slurm.volumes import MissingError

Object = Mapping[str, Any]

_SECONDS = 3600
"""How long a token is good for where the volume doesn't say."""

_USED_UP = 0.8
"""A kubelet renews a token when this share of its time is over."""


@dataclass(frozen=True)
class _Token:
    text: str
    renew_at: float


class Tokens:
    """The tokens of one cluster's pods. After a restart every pod gets new ones."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since 1970."""
        self._api = api
        self._clock = clock
        self._known: dict[tuple[str, str, str], _Token] = {}

    def token(self, pod: Object, source: Object) -> str:
        """The token for a `serviceAccountToken` of one of the pod's volumes (`volumes.Token`).

        Raises:
            MissingError: the API server gives none, such as when there is no such service account.
        """
        key = (pod["metadata"]["uid"], source.get("audience", ""), source["path"])
        now = self._clock()
        found = self._known.get(key)
        if found is None or now >= found.renew_at:
            found = self._known[key] = self._asked(pod, source, now)
        return found.text

    def forget(self, uid: str) -> None:
        """Drop the tokens of a pod that is gone."""
        self._known = {key: token for key, token in self._known.items() if key[0] != uid}

    def _asked(self, pod: Object, source: Object, now: float) -> _Token:
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName") or "default"
        path = f"{SERVICE_ACCOUNTS.path(metadata['namespace'], account)}/token"
        try:
            status = self._api.ask(path, request(pod, source))["status"]
        except ApiError as error:
            raise MissingError(f'failed to fetch token of service account "{account}": {error}') from error
        end = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
        return _Token(status["token"], now + _USED_UP * (end - now))


def request(pod: Object, source: Object) -> dict[str, Any]:
    """The TokenRequest for a pod; its token ends with the pod."""
    metadata = pod["metadata"]
    audience = source.get("audience")
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [audience] if audience else [],
            "expirationSeconds": source.get("expirationSeconds", _SECONDS),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]},
        },
    }
