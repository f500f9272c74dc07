"""Actors: begun once, begun again when they break, ended with their cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from localcloud.kubernetes import actors as module
from localcloud.kubernetes.actors import Actors, Place
from localcloud.kubernetes.api_server import ApiServer
from localcloud.kubernetes.home import Home
from tests.unit.localcloud_kubernetes.support import CLUSTER, cluster

SECONDS = 10.0


class Api:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def connect(api: Api) -> Callable[[], ApiServer]:
    return lambda: cast(ApiServer, api)


def test_an_actor_is_begun_once_per_cluster_and_ends_with_it(
    tmp_path: Path, api: Api, connect: Callable[[], ApiServer]
) -> None:
    began: list[str] = []
    ended = threading.Event()

    def act(place: Place, stop: threading.Event) -> None:
        began.append(place.cluster.name)
        stop.wait(SECONDS)
        ended.set()

    actors = Actors({"one": act})
    other = cluster(id="other", name="other")
    for _ in range(2):
        actors.start(CLUSTER, Home(tmp_path, CLUSTER.id), connect)
    actors.start(other, Home(tmp_path, other.id), connect)
    actors.stop(CLUSTER.id)
    assert ended.is_set()
    assert api.closed
    actors.stop(CLUSTER.id)
    actors.stop_all()
    assert sorted(began) == ["other", "train"]


def test_an_actor_that_breaks_begins_again(
    tmp_path: Path, connect: Callable[[], ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    again = threading.Event()
    tries: list[int] = []

    def act(_place: Place, _stop: threading.Event) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("breaks")
        again.set()

    actors = Actors({"one": act})
    actors.start(CLUSTER, Home(tmp_path, CLUSTER.id), connect)
    assert again.wait(SECONDS)
    actors.stop_all()


def test_without_actors_nothing_is_connected(tmp_path: Path) -> None:
    def connect() -> ApiServer:
        raise AssertionError("nobody needs a connection")

    Actors({}).start(CLUSTER, Home(tmp_path, CLUSTER.id), connect)
