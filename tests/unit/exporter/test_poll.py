"""Sources that fail, hang, talk nonsense or fall silent: nothing old is kept, and the others go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from actor.kubernetes import KubernetesError
from actor.slurm import SlurmError, TokenRefusedError
from exporter.crusoe_api import CrusoeApiError, KeyRefusedError
from exporter.poll import KEPT_POLLS, History, Poller, Source
from exporter.sources import AutoClusters, Kubernetes, Slurm


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def failing(error: Exception) -> Callable[[], object]:
    def ask() -> object:
        raise error

    return ask


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (SlurmError("slurmrestd does not answer"), False),
        (KubernetesError("the API server refused"), False),
        (CrusoeApiError("away"), False),
        (KeyRefusedError("expired"), True),
        (TokenRefusedError(), True),
        (KeyError("nodes"), False),
        (TypeError("None has no len()"), False),
    ],
)
def test_what_a_source_said_counts_for_three_polls_and_the_others_go_on(error: Exception, refused: bool) -> None:
    clock = Clock()
    good = Source("slurm", lambda: Slurm((), ()), 10, "slurm-token")
    other = Source("kubernetes", lambda: Kubernetes(()), 10)
    poller = Poller((good, other), clock)
    poller.poll(good)
    poller.poll(other)
    bad = Source("slurm", failing(error), 10, "slurm-token")
    for polls in range(1, KEPT_POLLS + 2):
        clock.now += 10
        poller.poll(bad)
        poller.poll(other)
        seen = poller.view()
        assert (seen.slurm is not None) is (polls <= KEPT_POLLS)
        assert seen.kubernetes is not None
        assert seen.succeeded == {"slurm": 1000.0, "kubernetes": clock.now}
        assert seen.refused == (frozenset({"slurm-token"}) if refused else frozenset())
    poller.poll(good)
    seen = poller.view()
    assert seen.slurm is not None
    assert seen.refused == frozenset()


def test_before_the_first_answer_there_is_nothing() -> None:
    poller = Poller((Source("slurm", failing(SlurmError("away")), 10),), Clock())
    poller.poll(poller.sources[0])
    seen = poller.view()
    assert (seen.slurm, seen.succeeded, seen.configured) == (None, {}, frozenset({"slurm"}))


def test_trouble_is_said_once_while_it_stays_the_same_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bad = Source("crusoe", failing(KeyRefusedError("does not take the access key")), 10, "crusoe-api-key")
    poller = Poller((bad,), Clock())
    for _ in range(3):
        poller.poll(bad)
    poller.poll(Source("crusoe", lambda: None, 10))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "access key" in caplog.records[0].message


def test_a_source_that_hangs_does_not_hold_up_another() -> None:
    hang, answered = threading.Event(), threading.Event()

    def slow() -> object:
        hang.wait(30)
        return None

    def quick() -> Kubernetes:
        answered.set()
        return Kubernetes(())

    poller = Poller((Source("slurm", slow, 1), Source("kubernetes", quick, 1)))
    poller.start()
    try:
        assert answered.wait(10)
        assert poller.view().slurm is None
    finally:
        poller.stop()
        hang.set()


@dataclass
class Api:
    """AutoClusters' history that remembers what it was asked."""

    rows: list[dict[str, Any]]
    asked: list[float] = field(default_factory=list[float])

    def operations(self, _cluster: str, since: float) -> list[dict[str, Any]]:
        self.asked.append(since)
        return self.rows

    def actions(self, _cluster: str) -> dict[str, str]:
        return {"XID_79": "OFF"}


def row(name: str, state: str, started: str) -> dict[str, Any]:
    return {"operation_id": name, "state": state, "started_at": started, "metadata": {"vm_id": "vm-1"}}


def test_the_history_is_read_whole_once_and_then_from_what_is_open() -> None:
    api = Api([row("a", "SUCCEEDED", "1970-01-02T00:00:00Z"), row("b", "IN_PROGRESS", "1970-01-02T12:00:00Z")])
    history = History(api, "cluster")  # pyright: ignore[reportArgumentType]
    assert [each.id for each in history.ask().operations] == ["a", "b"]
    api.rows = [row("b", "SUCCEEDED", "1970-01-02T12:00:00Z"), row("c", "IN_PROGRESS", "1970-01-05T00:00:00Z")]
    found = history.ask()
    assert isinstance(found, AutoClusters)
    assert {each.id: each.state for each in found.operations} == {
        "a": "SUCCEEDED",
        "b": "SUCCEEDED",
        "c": "IN_PROGRESS",
    }
    api.rows = []
    assert len(history.ask().operations) == 3
    day, hour = 86_400.0, 3600.0
    assert api.asked == [0, day + 11 * hour, 4 * day - hour]
