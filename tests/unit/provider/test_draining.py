"""Draining a node pool: who is asked to leave, who stays, and what is said when somebody won't."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from crusoe.client import Cancelled
from crusoe.provider import draining
from crusoe.provider.existing import JsonObject
from crusoe.provider.faults import RefusalError
from crusoe.provider.run import Run

POOL, CLUSTER = "pool-1", "cluster-1"
SELECTOR = "nodes?labelSelector=crusoe.ai/nodepool.id%3Dpool-1"


def pod(name: str, node: str = "n1", *, owner: str = "ReplicaSet", phase: str = "Running", mirror: bool = False) -> Any:
    annotations = {"kubernetes.io/config.mirror": "x"} if mirror else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "work",
            "uid": f"uid-{name}",
            "annotations": annotations,
            "ownerReferences": [{"kind": owner}],
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


@dataclass
class Cluster:
    """A cluster of two nodes as its API shows it; evicted pods are gone at the next look."""

    pods: list[Any] = field(default_factory=list[Any])
    held: set[str] = field(default_factory=set[str])
    refusals: dict[str, int] = field(default_factory=dict[str, int])
    comes_back: bool = False
    unschedulable: dict[str, object] = field(default_factory=dict[str, object])
    evicted: list[str] = field(default_factory=list[str])

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(
        self, method: str, path: str, body: JsonObject | None = None, kind: str = "application/json"
    ) -> tuple[int, JsonObject]:
        for part, status in self.refusals.items():
            if part in path:
                return status, {"message": "said the API"}
        match method, path.removeprefix("/api/v1/").split("/"):
            case "GET", ["nodes?labelSelector=crusoe.ai", _]:
                assert path.endswith(SELECTOR)
                return 200, {"items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]}
            case "GET", ["pods"]:
                return 200, {"items": json.loads(json.dumps(self.pods))}
            case "PATCH", ["nodes", node]:
                assert kind == "application/merge-patch+json"
                self.unschedulable[node] = cast("Any", body)["spec"]["unschedulable"]
                return 200, {}
            case "POST", ["namespaces", "work", "pods", name, "eviction"]:
                assert cast("Any", body)["metadata"] == {"name": name, "namespace": "work"}
                return self._evict(name)
            case _:
                raise AssertionError(f"{method} {path}")

    def _evict(self, name: str) -> tuple[int, JsonObject]:
        assert self.unschedulable == {"n1": True, "n2": True}, "pods are asked to leave before the nodes are cordoned"
        if name in self.held:
            return 429, {}
        self.evicted.append(name)
        self.pods = [each for each in self.pods if each["metadata"]["name"] != name]
        if self.comes_back:
            self.pods.append(pod(f"{name}-again"))
        return 201, {}


@dataclass
class Looks:
    """Stands in for a run: looks a few times instead of waiting."""

    client: object = None
    told: list[str] = field(default_factory=list[str])
    cancelled: bool = False

    def until(self, look: Any, seconds: float) -> Any:
        assert seconds == draining.DRAIN_SECONDS
        for _ in range(4):
            if (found := look()) is not None:
                return found
            if self.cancelled:
                raise Cancelled("The run was cancelled.")
        return None

    def progress(self, message: str) -> None:
        self.told.append(message)


def use(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def api(client: object, cluster_id: str) -> Cluster:
        assert (client, cluster_id) == (None, CLUSTER)
        return cluster

    monkeypatch.setattr(draining, "ClusterApi", api)


def drain(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, cancelled: bool = False) -> Looks:
    use(cluster, monkeypatch)
    run = Looks(cancelled=cancelled)
    draining.drain(cast("Run", run), CLUSTER, POOL, "train")
    return run


def test_pods_on_the_pools_nodes_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([pod("a"), pod("b", "n2"), pod("elsewhere", "n3")])
    run = drain(cluster, monkeypatch)
    assert cluster.evicted == ["a", "b"]
    assert run.told[0] == "draining node pool train: 2 pods left on 2 nodes"
    assert run.told[-1] == "draining node pool train: 0 pods left on 2 nodes"


def test_pods_that_go_with_their_node_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    stays = [pod("agent", owner="DaemonSet"), pod("static", mirror=True), pod("done", phase="Succeeded")]
    cluster = Cluster([*stays, pod("failed", phase="Failed")])
    drain(cluster, monkeypatch)
    assert cluster.evicted == []


def test_pods_that_come_later_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([pod("a")], comes_back=True)
    drain(cluster, monkeypatch)
    assert cluster.evicted == ["a"]


def test_pods_that_are_held_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([pod("free"), *(pod(f"held-{number}") for number in range(7))])
    cluster.held = {f"held-{number}" for number in range(7)}
    with pytest.raises(RefusalError) as caught:
        drain(cluster, monkeypatch)
    message = str(caught.value)
    assert message.startswith("Node pool train still runs work/held-0 (held by a disruption budget), ")
    assert "and 2 more" in message
    assert "take no new pods" in message
    assert cluster.evicted == ["free"]


def test_an_eviction_that_fails_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusalError, match=r"work/a \(said the API\)"):
        drain(Cluster([pod("a")], refusals={"eviction": 500}), monkeypatch)


def test_a_cancelled_run_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusalError, match=r"still runs work/a .* cancelled; the next one goes on"):
        drain(Cluster([pod("a")], held={"a"}), monkeypatch, cancelled=True)


@pytest.mark.parametrize(("path", "problem"), [("/api/v1/pods", "list pods"), ("labelSelector", "list nodes")])
def test_a_list_that_is_refused(path: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusalError, match=f"refused to {problem}: said the API"):
        drain(Cluster(refusals={path: 403}), monkeypatch)


def test_a_node_that_is_gone_needs_no_cordon_and_one_that_refuses_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    drain(Cluster(refusals={"nodes/n1": 404}), monkeypatch)
    with pytest.raises(RefusalError, match="Node n1 could not be cordoned: said the API"):
        drain(Cluster(refusals={"nodes/n1": 409}), monkeypatch)


def test_nodes_take_pods_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    use(cluster, monkeypatch)
    draining.resume(cast("Run", Looks()), CLUSTER, POOL)
    assert cluster.unschedulable == {"n1": None, "n2": None}
