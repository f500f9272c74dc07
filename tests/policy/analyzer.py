"""The pack's real process, started as a language host starts it, and asked over gRPC as the engine asks it.

A resource here is `{type, name?, properties?, protect?, deleteBeforeReplace?, from?}`, as in the policies' examples;
`UNKNOWN` stands for a value that is not known in a preview, `secret(...)` for a secret one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from policies.values import SECRET, SIGNATURE
from tests.harness import ROOT

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""An unknown text, as the engine sends it."""

LEVELS = {0: "advisory", 1: "mandatory", 2: "disabled"}
NUMBERS = {name: number for number, name in LEVELS.items()}

Json = Mapping[str, Any]


def secret(value: object) -> dict[str, object]:
    """A secret value, as the engine sends it."""
    return {SIGNATURE: SECRET, "value": value}


@dataclass(frozen=True)
class Said:
    """One thing that the pack has said."""

    policy: str
    level: str
    resource: str
    text: str

    @property
    def is_unknown(self) -> bool:
        """Whether it says that something is not known yet."""
        return "can't be checked until up" in self.text


class Pack:
    """A running pack."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._stub: Any = analyzer_pb2_grpc.AnalyzerStub(self._channel)
        self.info: analyzer_pb2.AnalyzerInfo = self._stub.GetAnalyzerInfo(empty_pb2.Empty())

    def configure(self, config: Json | None = None) -> None:
        """Lay a configuration over the pack's own, as the engine does. Raises grpc.RpcError."""
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        given = dict(config or {})
        for policy in self.info.policies:
            entry = given.pop(policy.name, {})
            entry = {"enforcementLevel": entry} if isinstance(entry, str) else dict(entry)
            sent = request.policyConfig[policy.name]
            level = entry.pop("enforcementLevel", None)
            sent.enforcementLevel = policy.enforcementLevel if level is None else NUMBERS[level]  # type: ignore[assignment]
            sent.properties.update(entry)
        for name in given:
            request.policyConfig[name].enforcementLevel = analyzer_pb2.MANDATORY
        self._stub.Configure(request)

    def judge(self, *resources: Json, stack: str = "prod") -> list[Said]:
        """Everything that the pack says of a program: of each resource, then of the stack."""
        said: list[Said] = []
        sent = [_sent(each, stack) for each in resources]
        by_urn = {each.urn: each.name for each in sent}
        for each in sent:
            request = analyzer_pb2.AnalyzeRequest(
                type=each.type, urn=each.urn, name=each.name, properties=each.properties, options=each.options
            )
            answer = self._stub.Analyze(request)
            said += [_said(one, each.name) for one in answer.diagnostics]
        answer = self._stub.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=sent))
        return said + [_said(one, by_urn.get(one.urn, "")) for one in answer.diagnostics]

    def refused_by(self, *resources: Json, stack: str = "prod") -> set[str]:
        """Names of the policies that refuse a program, advice left out."""
        return {each.policy for each in self.judge(*resources, stack=stack) if each.level == "mandatory"}

    def cancel_during(self, *resources: Json) -> int:
        """Tell it to end while it judges a stack; return how much it still says of that. Raises grpc.RpcError."""
        sent = [_sent(each, "prod") for each in resources]
        answer = self._stub.AnalyzeStack.future(analyzer_pb2.AnalyzeStackRequest(resources=sent))
        self._stub.Cancel(empty_pb2.Empty())
        return len(answer.result().diagnostics)

    def close(self) -> None:
        """Tell it to end."""
        self._stub.Cancel(empty_pb2.Empty())
        self._channel.close()


@contextmanager
def running(folder: Path = ROOT / "policies", python: str = sys.executable) -> Generator[Pack]:
    """The pack in a folder, in a process of its own; it ends with the test."""
    with started(folder, python) as (process, pack):
        yield pack
        pack.close()
        assert process.wait(10) == 0


@contextmanager
def started(
    folder: Path = ROOT / "policies", python: str = sys.executable
) -> Generator[tuple[subprocess.Popen[str], Pack]]:
    """The process of a pack, and what speaks to it."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    environ.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        [python, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(folder)],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        port = process.stdout.readline().strip()
        assert port.isdigit(), process.communicate()[1]
        yield process, Pack(int(port))
    finally:
        process.kill()
        process.communicate()


def urn(resource: Json, stack: str = "prod") -> str:
    """The URN of a resource."""
    return f"urn:pulumi:{stack}::platform::{resource['type']}::{_name(resource)}"


def _name(resource: Json) -> str:
    return str(resource.get("name", resource["type"].rsplit(":", 1)[-1].lower()))


def _sent(resource: Json, stack: str) -> analyzer_pb2.AnalyzerResource:
    properties = struct_pb2.Struct()
    properties.update(cast("dict[str, Any]", resource.get("properties", {})))
    sent = analyzer_pb2.AnalyzerResource(
        type=resource["type"], urn=urn(resource, stack), name=_name(resource), properties=properties
    )
    sent.options.protect = bool(resource.get("protect"))
    # The provider's own classes set it, unless a test says otherwise.
    first = resource.get("deleteBeforeReplace", True)
    if first is not None:
        sent.options.deleteBeforeReplaceDefined = True
        sent.options.deleteBeforeReplace = bool(first)
    for key, name in resource.get("from", {}).items():
        kind = "crusoe:index:KubernetesCluster" if key == "clusterId" else "crusoe:index:IbPartition"
        if key not in properties.fields:
            properties.fields[key].string_value = UNKNOWN
            sent.properties.fields[key].string_value = UNKNOWN
        sent.propertyDependencies[key].urns.append(urn({"type": kind, "name": name}, stack))
    return sent


def _said(sent: analyzer_pb2.AnalyzeDiagnostic, resource: str) -> Said:
    return Said(sent.policyName, LEVELS[sent.enforcementLevel], resource, sent.message)
