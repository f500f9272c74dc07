"""What a pod's first process reports, as the status of a Kubernetes pod: pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.slinky.values import at, items

Object = Mapping[str, Any]

_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def pod_status(pod: Object, report: Object, address: str, host: str, lives: int) -> dict[str, Any]:
    """The `status` of a pod whose processes run.

    `lives` counts how often all of the pod had ended before, as with a node that was rebooted; every container counts
    them as restarts. Conditions that aren't a kubelet's are left to whoever set them (strategic merge).
    """
    spec, containers = pod["spec"], report["containers"]
    sidecars = [each for each in items(spec, "initContainers") if each.get("restartPolicy") == "Always"]
    ready = [name for name in _names([*spec["containers"], *sidecars]) if containers[name]["ready"]]
    waiting = [name for name in _names([*spec["containers"], *sidecars]) if name not in ready]
    gates = all(_true(pod, gate["conditionType"]) for gate in items(spec, "readinessGates"))
    truths = {
        "PodReadyToStartContainers": (True, ""),
        "Initialized": (report["initialised"], "ContainersNotInitialized"),
        "ContainersReady": (not waiting, f"containers with unready status: [{' '.join(waiting)}]"),
        "Ready": (not waiting and gates and not report["ending"], f"containers not ready: [{' '.join(waiting)}]"),
    }
    running = any("running" in containers[name]["state"] or containers[name]["restarts"] for name in containers)
    return {
        "phase": "Running" if report["initialised"] and running else "Pending",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": at(pod, "status", "startTime") or stamp(datetime.now(UTC).timestamp()),
        "conditions": [_condition(pod, kind, *truths[kind]) for kind in _CONDITIONS],
        "containerStatuses": [_container(each, containers[each["name"]], lives) for each in spec["containers"]],
        "initContainerStatuses": [
            _container(each, containers[each["name"]], lives) for each in items(spec, "initContainers")
        ],
        "reason": None,
        "message": None,
    }


def waiting_status(pod: Object, reason: str, message: str) -> dict[str, Any]:
    """The `status` of a pod that can't be started for now, in a kubelet's terms."""
    waiting = {"state": {"waiting": {"reason": reason, "message": message}}, "ready": False, "restartCount": 0}
    spec = pod["spec"]

    def statuses(key: str) -> list[dict[str, Any]]:
        return [
            {"name": each["name"], "image": each.get("image", ""), "imageID": "", **waiting}
            for each in items(spec, key)
        ]

    return {
        "phase": "Pending",
        "conditions": [_condition(pod, kind, False, message) for kind in _CONDITIONS],
        "containerStatuses": statuses("containers"),
        "initContainerStatuses": statuses("initContainers"),
    }


def stamp(seconds: float) -> str:
    """A moment in seconds since 1970 as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _names(containers: list[Any]) -> list[str]:
    return [each["name"] for each in containers]


def _true(pod: Object, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in _conditions(pod))


def _conditions(pod: Object) -> list[Any]:
    return items(pod, "status", "conditions")


def _condition(pod: Object, kind: str, holds: bool, message: str) -> dict[str, Any]:
    status = "True" if holds else "False"
    before = next((each for each in _conditions(pod) if each["type"] == kind and each["status"] == status), None)
    since = at(before, "lastTransitionTime") or stamp(datetime.now(UTC).timestamp())
    reason = None if holds else "ContainersNotReady"
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": None if holds else message,
    }


def _container(container: Object, report: Object, lives: int) -> dict[str, Any]:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"local.crusoe.ai/{image}",
        "ready": report["ready"],
        "started": report["started"],
        "restartCount": report["restarts"] + lives,
        "state": _state(report["state"]),
        "lastState": _state(report["last"]),
    }


def _state(state: Object) -> dict[str, Any]:
    """A container's state with its moments as Kubernetes writes them; kinds that don't hold are taken away."""
    told: dict[str, Any] = {"waiting": None, "running": None, "terminated": None}
    for kind, about in state.items():
        told[kind] = {key: stamp(value) if key.endswith("At") else value for key, value in about.items()}
    return told
