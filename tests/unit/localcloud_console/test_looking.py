"""When the console looks, what it asks, and what it keeps when nobody answers."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from localcloud.autoclusters.incidents import Incident
from localcloud.cloud import Cloud
from localcloud.console import looking, sights
from localcloud.console.repairs import AFTERWARDS_SECONDS
from localcloud.console.sights import NodeSight, Sights
from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.api_server import NODES, ApiServer
from localcloud.kubernetes.home import Home
from tests.unit.localcloud_console.making import incident
from tests.unit.localcloud_kubernetes.support import CLUSTER

Json = dict[str, Any]


class Api:
    """An API server that keeps count."""

    def __init__(self) -> None:
        self.nodes = ["np-1-0"]
        self.pods: list[Json] = []
        self.at: int | None = 1
        self.lists = 0
        self.down = False

    def revision(self, path: str) -> int | None:
        assert path
        return self.at

    def list(self, path: str) -> list[Json]:
        if self.down:
            raise ControlPlaneError("connection refused")
        self.lists += 1
        if path != NODES.path():
            return self.pods
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return [{"metadata": {"name": name}, "status": ready} for name in self.nodes]

    def worker(self, node: str) -> Json:
        metadata = {"name": "train-0", "namespace": "slurm", "labels": {"app.kubernetes.io/name": "slurmd"}}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": metadata, "spec": {"nodeName": node, "hostname": "train-0"}, "status": ready}


class Repairs:
    """Whether a repair goes on, as the state file would say."""

    def __init__(self, known: Sights) -> None:
        self.sights = known
        self.going = False
        self.asked = 0

    def from_thread(self, step: object) -> bool:
        assert step
        self.asked += 1
        return self.going


def place(api: Api, folder: Path) -> Place:
    return Place(CLUSTER, Home(folder, CLUSTER.id), cast(ApiServer, api))


def eventually(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_is_asked_twice_of_a_cluster_in_which_nothing_happens(tmp_path: Path) -> None:
    api, known = Api(), Sights()
    look = looking._Kubernetes(known, place(api, tmp_path)).look  # pyright: ignore[reportPrivateUsage]
    look()
    version = known.version
    look()
    assert (api.lists, known.version) == (2, version)
    api.at = 2
    look()
    assert api.lists == 4
    api.at = None
    look()
    look()
    assert api.lists == 8, "what isn't watched is asked each time"


def test_what_was_seen_last_stays_when_nobody_answers_and_is_current_again_afterwards(tmp_path: Path) -> None:
    api, known = Api(), Sights()
    look = looking._Kubernetes(known, place(api, tmp_path)).look  # pyright: ignore[reportPrivateUsage]
    look()
    api.down, api.at = True, None
    look()
    seen = known.of(CLUSTER.id)
    assert seen is not None
    assert (seen.trouble, list(seen.nodes)) == ("connection refused", ["np-1-0"])
    api.down = False
    look()
    assert known.of(CLUSTER.id) == replace(seen, at=known.all()[CLUSTER.id].at, trouble="")


def test_what_changed_while_nobody_looked_is_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api, known = Api(), Sights()
    look = looking._Kubernetes(known, place(api, tmp_path)).look  # pyright: ignore[reportPrivateUsage]
    api.pods, api.at = [api.worker("np-1-0")], 2
    look()
    assert known.news() == ()
    api.pods, api.at = [], 3
    look()
    assert [each.text for each in known.news()] == ["Worker train-0 is gone from np-1-0."]
    monkeypatch.setattr(looking, "_GAP_SECONDS", 0)
    api.pods, api.at = [api.worker("np-1-9")], 4
    look()
    assert len(known.news()) == 1


def test_it_looks_while_a_page_is_open_or_a_repair_goes_on_and_else_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(looking, "_ASK_SECONDS", 0.01)
    monkeypatch.setattr(sights, "INTEREST_SECONDS", 0.3)
    api, known, stop = Api(), Sights(), threading.Event()
    api.at = None
    repairs = Repairs(known)
    actor = looking.kubernetes(cast(Cloud, repairs))
    thread = threading.Thread(target=actor, args=(place(api, tmp_path), stop), daemon=True)
    thread.start()
    try:
        eventually(lambda: repairs.asked > 3)
        assert api.lists == 0
        assert known.door(CLUSTER.id) is not None
        known.want()
        eventually(lambda: api.lists > 0)
        eventually(lambda: not known.wanted)
        time.sleep(0.1)
        before = api.lists
        time.sleep(0.1)
        assert api.lists == before
        repairs.going = True
        eventually(lambda: api.lists > before)
    finally:
        stop.set()
        thread.join(5)
    assert known.of(CLUSTER.id) is None, "a cluster that is gone is not shown as it was"
    assert known.door(CLUSTER.id) is None


def test_a_cluster_without_slurm_is_not_asked_for_it(tmp_path: Path) -> None:
    known = Sights()
    known.update(CLUSTER.id, lambda seen: replace(seen, nodes={"n": NodeSight("n")}))
    looking._Slurm(known, place(Api(), tmp_path)).look()  # pyright: ignore[reportPrivateUsage]
    seen = known.of(CLUSTER.id)
    assert seen is not None
    assert (seen.slurm, seen.slurm_trouble) == (False, "")
    known.update(CLUSTER.id, lambda seen: replace(seen, slurm=True))
    looking._Slurm(known, place(Api(), tmp_path)).look()  # pyright: ignore[reportPrivateUsage]
    seen = known.of(CLUSTER.id)
    assert seen is not None
    assert "slurmrestd" in seen.slurm_trouble


@pytest.mark.parametrize(
    ("phase", "ago", "looks"),
    [("isolated", 9000, True), ("replaced", 10, True), ("replaced", AFTERWARDS_SECONDS + 10, False), ("off", 10, True)],
)
def test_jobs_that_start_again_after_a_repair_are_still_seen(
    monkeypatch: pytest.MonkeyPatch, phase: str, ago: float, looks: bool
) -> None:
    def found(_cloud: object, _cluster: str) -> list[Incident]:
        return [incident(phase, since=time.time() - ago)]

    monkeypatch.setattr("localcloud.autoclusters.incidents.of_cluster", found)

    class Served(Repairs):
        def from_thread(self, step: Any) -> bool:
            return asyncio.run(step())

    pace = looking._Pace(cast(Cloud, Served(Sights())), "c")  # pyright: ignore[reportPrivateUsage]
    assert pace.due() is looks
