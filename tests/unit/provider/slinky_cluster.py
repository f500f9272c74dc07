"""A small Kubernetes API with Slinky's operator and webhook behind it, written from what was observed of 1.2.1.

Counts of zero are left out of a NodeSet's status, only a drained worker goes, a worker without a node stays pending,
and with slurmrestd down the operator does nothing but record an event.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]
DENIED = 'admission webhook "nodeset-v1beta1.kb.io" denied the request: controllerRef.name must not be empty'
DOWN = 'failed calling webhook "nodeset-v1beta1.kb.io": connect: connection refused'


@dataclass
class SlinkyCluster:
    """Node sets and what is made of them, in the namespace `slurm`; each step the operator moves one worker of each."""

    nodes: int = 99
    busy: set[str] = field(default_factory=set[str])
    unregistered: set[str] = field(default_factory=set[str])
    operator: bool = True
    slurmrestd: bool = True
    webhook: str = "answers"
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    objects: dict[str, Json] = field(default_factory=dict[str, Json])
    pods: dict[str, Json] = field(default_factory=dict[str, Json])
    events: list[Json] = field(default_factory=list[Json])
    asked: list[tuple[str, str, Json | None]] = field(default_factory=list[tuple[str, str, Json | None]])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    # Putting things there

    def put(self, plural: str, name: str, spec: Json | None = None, namespace: str = "slurm", **status: int) -> Json:
        """Put an object there."""
        made: Json = {
            "metadata": {"name": name, "namespace": namespace, "generation": 1},
            "spec": spec or {},
            "status": status,
        }
        self.objects[f"{namespace}/{plural}/{name}"] = made
        return made

    def ready(self, plural: str, name: str, replicas: int = 1, namespace: str = "slurm") -> Json:
        """Put a Deployment or StatefulSet there that is ready."""
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), replicas)
        return self.put(plural, name, {"replicas": replicas}, namespace, observedGeneration=1, **counts)

    def node_set(self, name: str = "train", replicas: int = 2, *, mode: str = "StatefulSet", running: int = 0) -> Json:
        """Put a NodeSet there, some of whose workers run already."""
        made = self.put("nodesets", name, {"replicas": replicas, "scalingMode": mode})
        for index in range(running):
            self.pods[f"{name}-{index}"] = self._pod(name, index)
        if running:
            self.step()
        return made

    def warn(self, kind: str, name: str, reason: str, message: str, second: int = 0, namespace: str = "slurm") -> None:
        """Record a warning."""
        event: Json = {
            "type": "Warning",
            "involvedObject": {"kind": kind, "name": name, "namespace": namespace},
            "reason": reason,
            "message": message,
            "lastTimestamp": f"2026-11-29T18:00:{second:02d}Z",
        }
        self.events.append(event)

    def _pod(self, node_set: str, index: int) -> Json:
        labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/instance": node_set}
        return {"metadata": {"name": f"{node_set}-{index}", "namespace": "slurm", "labels": labels}, "status": {}}

    # The operator

    def step(self) -> None:
        """Let the operator and the scheduler work a little."""
        if not self.operator:
            return
        for key, one in list(self.objects.items()):
            if "/nodesets/" in key:
                self._sync(one)

    def _sync(self, one: Json) -> None:
        name, spec = one["metadata"]["name"], one["spec"]
        if not self.slurmrestd:
            self.warn("NodeSet", name, "SyncFinalizerFailed", "Get http://slurm-restapi.slurm:6820: connection refused")
            return
        desired = self.nodes if spec["scalingMode"] == "DaemonSet" else spec["replicas"]
        mine = sorted(key for key in self.pods if re.fullmatch(rf"{name}-\d+", key))
        if len(mine) < desired:
            self.pods[f"{name}-{len(mine)}"] = self._pod(name, len(mine))
        elif len(mine) > desired:
            idle = [key for key in mine if key not in self.busy]
            for key in idle[-1:]:
                del self.pods[key]
        mine = sorted(key for key in self.pods if re.fullmatch(rf"{name}-\d+", key))
        counts: dict[str, int] = {"slurmIdle": 0, "slurmAllocated": 0, "readyReplicas": 0}
        for index, key in enumerate(mine):
            scheduled = index < self.nodes
            state = "Allocated" if key in self.busy else "Idle"
            conditions = [{"type": "PodScheduled", "status": str(scheduled)}]
            if scheduled:
                counts["readyReplicas"] += 1
                conditions.append({"type": "Ready", "status": "True"})
            if scheduled and key not in self.unregistered:
                counts[f"slurm{state}"] += 1
                conditions.append({"type": f"SlurmNodeState{state}", "status": "True"})
            self.pods[key]["status"]["conditions"] = conditions
        counts |= {"desired": desired, "replicas": len(mine), "observedGeneration": one["metadata"]["generation"]}
        one["status"] = {key: count for key, count in counts.items() if count}

    # The API

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "") -> tuple[int, Json]:
        """Answer a request."""
        self.asked.append((method, path, body))
        for part, (status, message) in self.refusals.items():
            if part in path:
                return status, {"message": message}
        url = urlsplit(path)
        query = {key: value[0] for key, value in parse_qs(url.query).items()}
        match = re.fullmatch(r"/apis?/[^/]+(?:/[^/]+)?/namespaces/([^/]+)/(\w+)(?:/([^/]+))?", unquote(url.path))
        assert match, path
        namespace, plural, name = match.groups()
        if name is None:
            return self._collection(method, namespace, plural, query, body)
        found = self.objects.get(f"{namespace}/{plural}/{name}")
        if found is None:
            return 404, {"message": f"{plural} {name} not found"}
        if method == "PATCH":
            assert kind == "application/merge-patch+json"
            assert body is not None
            changed = found["spec"] | body["spec"]
            found["metadata"]["generation"] += changed != found["spec"]
            found["spec"] = changed
        return 200, json.loads(json.dumps(found))

    def _collection(
        self, method: str, namespace: str, plural: str, query: dict[str, str], body: Json | None
    ) -> tuple[int, Json]:
        if method == "POST":
            assert query == {"dryRun": "All"}, "a probe must make nothing"
            assert body is not None
            assert body["spec"] == {"controllerRef": {}}
            return {"answers": (403, {"message": DENIED}), "absent": (201, body), "down": (500, {"message": DOWN})}[
                self.webhook
            ]
        if plural == "events":
            assert query == {"fieldSelector": "type=Warning"}
            here = [one for one in self.events if one["involvedObject"]["namespace"] == namespace]
            return 200, {"items": here}
        if plural == "deployments":
            return 200, {
                "items": [one for key, one in self.objects.items() if key.startswith(f"{namespace}/{plural}/")]
            }
        assert plural == "pods"
        wanted = dict(part.split("=") for part in query["labelSelector"].split(","))
        fitting = [one for one in self.pods.values() if wanted.items() <= one["metadata"]["labels"].items()]
        return 200, {"items": json.loads(json.dumps(fitting))}
