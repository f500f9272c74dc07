"""Fixtures of the client's tests."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx
import pytest

from crusoe.client import Client, Credentials, Secret
from tests.unit.crusoe.client.support import ENDPOINT, KEY_TEXT, PROJECT, FakeClock, MakeClient, answer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def credentials() -> Credentials:
    return Credentials("KEY-ID", Secret(KEY_TEXT), "profile 'test'")


@pytest.fixture
def cancel() -> threading.Event:
    return threading.Event()


@pytest.fixture
def make_client(clock: FakeClock, credentials: Credentials, cancel: threading.Event) -> MakeClient:
    """A client of one project whose network is a function; the project look-up is answered beside it."""

    def make(api: Callable[[httpx.Request], httpx.Response]) -> Client:
        def handler(request: httpx.Request) -> httpx.Response:
            if request.url.path == f"/v1/organizations/projects/{PROJECT}":
                return answer(200, {"id": PROJECT, "name": "local"})
            return api(request)

        return Client(
            ENDPOINT, credentials, PROJECT, cancel=cancel, http_transport=httpx.MockTransport(handler), clock=clock
        )

    return make
