"""Tokens of service accounts for pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from localcloud.kubernetes.api_server import ApiError, ApiServer
from localcloud.slurm.tokens import Tokens, request
from localcloud.slurm.volumes import MissingError
from tests.unit.localcloud_slurm.support import Json, pod

SOURCE = {"path": "token", "expirationSeconds": 3600}
POD = pod(serviceAccountName="actor")


class Api:
    """Gives numbered tokens that end at `end`, or says that there is no such account."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.end = 3600.0
        self.absent = False

    def ask(self, path: str, item: Json) -> Json:
        if self.absent:
            raise ApiError(404, "not found")
        self.asked.append((path, item["kind"]))
        ends = datetime.fromtimestamp(self.end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"status": {"token": f"t{len(self.asked)}", "expirationTimestamp": ends}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(api: Api, clock: Clock) -> Tokens:
    return Tokens(cast(ApiServer, api), clock)


def test_a_token_is_bound_to_its_pod() -> None:
    wanted: Any = request(POD, {**SOURCE, "audience": "vault"})["spec"]
    assert (wanted["boundObjectRef"]["name"], wanted["boundObjectRef"]["uid"]) == ("gpu-0", POD["metadata"]["uid"])
    assert (wanted["audiences"], wanted["expirationSeconds"]) == (["vault"], 3600)
    assert request(POD, SOURCE)["spec"]["audiences"] == [], "the API server's own"


def test_a_token_is_asked_for_once_and_renewed_before_its_end(api: Api, clock: Clock, tokens: Tokens) -> None:
    assert tokens.token(POD, SOURCE) == "t1"
    assert api.asked == [("/api/v1/namespaces/slurm/serviceaccounts/actor/token", "TokenRequest")]
    clock.now = 2879
    assert tokens.token(POD, SOURCE) == "t1"
    clock.now, api.end = 2881, 7200
    assert tokens.token(POD, SOURCE) == "t2"


def test_the_tokens_of_a_pod_go_with_it(tokens: Tokens) -> None:
    tokens.token(POD, SOURCE)
    tokens.forget(POD["metadata"]["uid"])
    assert tokens.token(POD, SOURCE) == "t2"


def test_without_its_account_a_pod_waits(api: Api, tokens: Tokens) -> None:
    api.absent = True
    with pytest.raises(MissingError, match='service account "actor"'):
        tokens.token(POD, SOURCE)
