"""A small engine: speaks to the plugin over gRPC in the order in which Pulumi's own engine does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, provider_pb2_grpc, status_pb2

from crusoe.provider.values import UNKNOWN, Values, decode, encode
from tests.harness import ROOT, Cloud

SECONDS = 120.0


class Log(engine_pb2_grpc.EngineServicer):
    """The engine's side of the `Log` RPC; keeps what the plugin says."""

    def __init__(self) -> None:
        self.messages: list[engine_pb2.LogRequest] = []

    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> Empty:  # noqa: N802 - the protocol's
        """Keep a message."""
        del context
        self.messages.append(request)
        return Empty()

    @property
    def warnings(self) -> list[str]:
        """Warnings, in order."""
        return [one.message for one in self.messages if one.severity == engine_pb2.WARNING]


class FailedError(Exception):
    """An RPC that ended with a status; `partial` holds what an init failure reports."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(error.details())
        self.code = error.code()
        self.message = str(error.details())
        self.partial: provider_pb2.ErrorResourceInitFailed | None = None
        for key, value in cast("tuple[tuple[str, bytes], ...]", error.trailing_metadata() or ()):
            if key == "grpc-status-details-bin":
                status = status_pb2.Status.FromString(value)
                assert status.code == self.code.value[0]
                found = provider_pb2.ErrorResourceInitFailed()
                assert status.details[0].Unpack(found)
                self.partial = found


class CheckFailedError(Exception):
    """Check found faults: property to reason."""

    def __init__(self, failures: list[provider_pb2.CheckFailure]) -> None:
        self.failures = {failure.property: failure.reason for failure in failures}
        super().__init__(str(self.failures))


class Plugin:
    """The plugin process, configured for one cloud."""

    def __init__(self, port: int, log: Log) -> None:
        self.log = log
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub = provider_pb2_grpc.ResourceProviderStub(self.channel)

    def call(self, method: str, request: Any) -> Any:
        """Send one RPC; raises FailedError with the status."""
        try:
            return getattr(self.stub, method)(request, timeout=SECONDS)
        except grpc.RpcError as error:
            raise FailedError(error) from None

    def configure(self, endpoint: str, project: str = "local") -> None:
        """Configure as the engine does."""
        arguments = encode({"endpoint": endpoint, "project": project})
        self.call("Configure", provider_pb2.ConfigureRequest(args=arguments, acceptSecrets=True, acceptResources=True))

    def resource(self, kind: str, name: str = "it") -> Resource:
        """A resource of the program."""
        return Resource(self, kind, name)


@contextmanager
def running_plugin(environment: Mapping[str, str]) -> Generator[tuple[Plugin, subprocess.Popen[str]]]:
    """Start the plugin as the language host does, with an engine to talk to; ended afterwards."""
    log = Log()
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    engine_pb2_grpc.add_EngineServicer_to_server(log, server)
    engine_port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    base = {name: value for name, value in os.environ.items() if not name.startswith("CRUSOE_")}
    process = subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "crusoe" / "provider"), f"127.0.0.1:{engine_port}"],
        env={**base, **environment},
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    assert process.stdout is not None
    plugin = Plugin(int(process.stdout.readline()), log)
    try:
        yield plugin, process
    finally:
        plugin.channel.close()
        process.terminate()
        try:
            process.wait(10)
        finally:
            process.kill()
            server.stop(None)


@contextmanager
def plugin_for(cloud: Cloud, environment: Mapping[str, str] | None = None) -> Generator[Plugin]:
    """The plugin, configured for a local cloud and with its key."""
    with running_plugin({**cloud.credentials(), **(environment or {})}) as (plugin, _):
        plugin.configure(cloud.endpoint)
        yield plugin


@dataclass
class Resource:
    """One resource of a program, with its recorded state; `seconds` bounds an operation as `customTimeouts` do."""

    plugin: Plugin
    kind: str
    name: str
    id: str = ""
    inputs: Struct = field(default_factory=Struct)
    state: Struct = field(default_factory=Struct)
    failed: bool = False
    seconds: float = 0.0

    @property
    def token(self) -> str:
        """The kind's token."""
        return f"crusoe:index:{self.kind}"

    @property
    def urn(self) -> str:
        """The resource's URN."""
        return f"urn:pulumi:test::project::{self.token}::{self.name}"

    @property
    def outputs(self) -> Values:
        """The recorded state as plain values."""
        return decode(self.state).values

    @property
    def secrets(self) -> frozenset[str]:
        """Names of the secret properties in the recorded state."""
        return decode(self.state).secret

    def check(self, inputs: Mapping[str, Any], olds: Struct | None = None) -> Struct:
        """Check; raises CheckFailedError."""
        answer = self.plugin.call(
            "Check",
            provider_pb2.CheckRequest(urn=self.urn, type=self.token, olds=olds or Struct(), news=encode(dict(inputs))),
        )
        if answer.failures:
            raise CheckFailedError(list(answer.failures))
        return answer.inputs

    def diff(self, news: Struct) -> provider_pb2.DiffResponse:
        """Diff the recorded state against checked inputs."""
        request = provider_pb2.DiffRequest(
            id=self.id, urn=self.urn, type=self.token, olds=self.state, news=news, old_inputs=self.inputs
        )
        return self.plugin.call("Diff", request)

    def preview(self, inputs: Mapping[str, Any]) -> tuple[str, dict[str, str], Values]:
        """What a preview shows: the operation, the detailed diff by path, and the outputs."""
        checked = self.check(inputs, self.inputs)
        if not self.id:
            return "create", {}, self._planned(checked)
        answer = self.diff(checked)
        shown = {path: _kind(one) for path, one in answer.detailedDiff.items()}
        assert answer.hasDetailedDiff
        assert bool(shown) == (answer.changes == provider_pb2.DiffResponse.DIFF_SOME)
        if answer.replaces:
            checked = self.check(inputs)
            return "replace" + (" (delete first)" if answer.deleteBeforeReplace else ""), shown, self._planned(checked)
        if not shown and not self.failed:
            return "same", {}, self.outputs
        update = self._update_request(checked, preview=True)
        return "update", shown, decode(self.plugin.call("Update", update).properties).values

    def up(self, inputs: Mapping[str, Any]) -> str:
        """Bring the resource to these inputs; returns what was done."""
        checked = self.check(inputs, self.inputs)
        if not self.id:
            self._create(checked)
            return "create"
        answer = self.diff(checked)
        if answer.replaces:
            assert answer.deleteBeforeReplace or self.kind == "GeneratedSecret"
            self.destroy()
            self._create(self.check(inputs))
            return "replace"
        if answer.changes == provider_pb2.DiffResponse.DIFF_NONE and not self.failed:
            self.inputs = checked
            return "same"
        try:
            self.state = self.plugin.call("Update", self._update_request(checked)).properties
        except FailedError as error:
            if error.partial is not None:
                self.inputs, self.state, self.failed = checked, error.partial.properties, True
            raise
        self.inputs, self.failed = checked, False
        return "update"

    def refresh(self) -> dict[str, str]:
        """Read the resource and record what was found; returns what the engine would show as drift."""
        request = provider_pb2.ReadRequest(
            id=self.id, urn=self.urn, type=self.token, properties=self.state, inputs=self.inputs
        )
        answer = self.plugin.call("Read", request)
        if not answer.id:
            self.id = ""
            return {"": "delete"}
        before = self.inputs
        self.id, self.inputs, self.state = answer.id, answer.inputs, answer.properties
        return {path: _kind(one) for path, one in self.diff(before).detailedDiff.items()}

    def import_(self, object_id: str) -> bool:
        """Import an object; False when there is none."""
        answer = self.plugin.call("Read", provider_pb2.ReadRequest(id=object_id, urn=self.urn, type=self.token))
        if not answer.id:
            return False
        self.id, self.inputs, self.state = answer.id, answer.inputs, answer.properties
        self.check(decode(self.inputs).values, self.inputs)
        return True

    def destroy(self) -> None:
        """Delete the resource."""
        self.plugin.call(
            "Delete",
            provider_pb2.DeleteRequest(
                id=self.id,
                urn=self.urn,
                type=self.token,
                properties=self.state,
                old_inputs=self.inputs,
                timeout=self.seconds,
            ),
        )
        self.id, self.inputs, self.state = "", Struct(), Struct()

    def _create(self, checked: Struct) -> None:
        request = provider_pb2.CreateRequest(urn=self.urn, type=self.token, properties=checked, timeout=self.seconds)
        try:
            answer = self.plugin.call("Create", request)
        except FailedError as error:
            if error.partial is not None:
                self.id, self.inputs, self.state = error.partial.id, checked, error.partial.properties
                self.failed = True
            raise
        assert UNKNOWN not in decode(answer.properties).values.values()
        self.id, self.inputs, self.state, self.failed = answer.id, checked, answer.properties, False

    def _planned(self, checked: Struct) -> Values:
        request = provider_pb2.CreateRequest(urn=self.urn, type=self.token, properties=checked, preview=True)
        return decode(self.plugin.call("Create", request).properties).values

    def _update_request(self, news: Struct, *, preview: bool = False) -> provider_pb2.UpdateRequest:
        return provider_pb2.UpdateRequest(
            id=self.id,
            urn=self.urn,
            type=self.token,
            olds=self.state,
            news=news,
            old_inputs=self.inputs,
            preview=preview,
            timeout=self.seconds,
        )


def _kind(one: provider_pb2.PropertyDiff) -> str:
    return str(provider_pb2.PropertyDiff.Kind.Name(one.kind)).lower()


def plain(message: Struct) -> Any:
    """A struct as JSON values, signatures included."""
    return MessageToDict(message)
