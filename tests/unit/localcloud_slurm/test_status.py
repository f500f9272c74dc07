"""What a pod's processes report, as Kubernetes sees it."""

from __future__ import annotations

from typing import Any

from localcloud.slurm.status import pod_status, waiting_status
from tests.unit.localcloud_slurm.support import container, pod

RUNNING = {"running": {"startedAt": 0.0}}


def told(*, ready: bool = True, ending: bool = False, restarts: int = 0, state: Any = None) -> dict[str, Any]:
    one = {"state": state or RUNNING, "last": {}, "restarts": restarts, "started": True, "ready": ready, "pid": 3}
    return {"ending": ending, "initialised": True, "containers": {"slurmd": one}}


def status(report: dict[str, Any], item: Any = None, lives: int = 0) -> dict[str, Any]:
    return pod_status(item or pod(container()), report, "10.1.0.9", "10.0.0.5", lives)


def conditions(said: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in said["conditions"]}


def test_a_ready_pod() -> None:
    said = status(told())
    assert (said["phase"], said["podIP"], said["hostIP"]) == ("Running", "10.1.0.9", "10.0.0.5")
    assert set(conditions(said).values()) == {"True"}
    assert said["containerStatuses"][0]["state"]["running"] == {"startedAt": "1970-01-01T00:00:00Z"}


def test_an_unready_container_makes_the_pod_unready_and_is_named() -> None:
    said = status(told(ready=False))
    assert conditions(said)["Ready"] == conditions(said)["ContainersReady"] == "False"
    assert any("[slurmd]" in (each["message"] or "") for each in said["conditions"])


def test_a_pod_that_ends_is_not_ready() -> None:
    assert conditions(status(told(ending=True)))["Ready"] == "False"


def test_restarts_count_the_lives_of_the_node_too() -> None:
    assert status(told(restarts=2), lives=1)["containerStatuses"][0]["restartCount"] == 3


def test_a_readiness_gate_waits_for_its_condition() -> None:
    gated = pod(container(), readinessGates=[{"conditionType": "gate"}])
    assert conditions(status(told(), gated))["Ready"] == "False"
    gated["status"] = {"conditions": [{"type": "gate", "status": "True"}]}
    assert conditions(status(told(), gated))["Ready"] == "True"


def test_a_condition_keeps_the_moment_since_which_it_holds() -> None:
    item = pod(container())
    item["status"] = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]}
    ready = next(each for each in status(told(), item)["conditions"] if each["type"] == "Ready")
    assert ready["lastTransitionTime"] == "then"


def test_a_crashed_container_shows_how_it_ended() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": 0.0, "finishedAt": 60.0}}
    state = status(told(ready=False, state=ended))["containerStatuses"][0]["state"]
    assert state["terminated"]["finishedAt"] == "1970-01-01T00:01:00Z"
    assert state["running"] is None


def test_a_pod_that_cannot_start_is_pending_and_says_why() -> None:
    said = waiting_status(pod(container()), "ContainerCreating", "no namespaces")
    assert said["phase"] == "Pending"
    assert said["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "ContainerCreating",
        "message": "no namespaces",
    }
