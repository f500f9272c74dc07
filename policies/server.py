"""The Analyzer service of pulumi/analyzer.proto: what the engine asks a policy pack.

Spoken directly and not through pulumi_policy, which decodes a resource once for each policy (docs/decisions/0012).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

from policies import exemptions, pack, values
from policies.policy import DOCS, NotKnownError, Policy, Resource, ResourcePolicy, Stack, StackPolicy
from policies.settings import Settings, SettingsError, load, schema_of

if TYPE_CHECKING:
    from crusoe.rules.finding import Finding

_MESSAGE_BYTES = 400 << 20
_GRACE_SECONDS = 5.0
_LEVELS = {
    "advisory": analyzer_pb2.ADVISORY,
    "mandatory": analyzer_pb2.MANDATORY,
    "disabled": analyzer_pb2.DISABLED,
}
_LEVEL_NAMES = {number: name for name, number in _LEVELS.items()}


class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
    """Serves one engine."""

    def __init__(self, settings: Settings) -> None:
        self._initial = settings
        self._settings = settings
        self._by_type: dict[str, list[ResourcePolicy]] = {}
        # What the program has declared, which a stack's outputs repeat only as far as they are known.
        self._declared: dict[str, Mapping[str, object]] = {}
        self._done = threading.Event()

    def wait(self) -> None:
        """Wait until the engine says that it is done."""
        self._done.wait()

    def Handshake(
        self, request: analyzer_pb2.AnalyzerHandshakeRequest, context: grpc.ServicerContext
    ) -> analyzer_pb2.AnalyzerHandshakeResponse:
        """Accept the engine."""
        return analyzer_pb2.AnalyzerHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """Name the pack's version."""
        return plugin_pb2.PluginInfo(version=pack.VERSION)

    def GetAnalyzerInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> analyzer_pb2.AnalyzerInfo:
        """Describe the pack, its policies with their parameters, and what the pack's own file configures."""
        info = analyzer_pb2.AnalyzerInfo(
            name=pack.NAME,
            displayName=pack.TITLE,
            version=pack.VERSION,
            description=pack.DESCRIPTION,
            supportsConfig=True,
            policies=[_described(policy) for policy in pack.POLICIES],
        )
        for name, entry in self._initial.entries.items():
            config = info.initialConfig[name]
            config.enforcementLevel = _LEVELS[self._initial.level(pack.BY_NAME[name])]
            given = {key: cast("Any", value) for key, value in entry.items() if key != "enforcementLevel"}
            config.properties.update(given)
        return info

    def Configure(
        self, request: analyzer_pb2.ConfigureAnalyzerRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Take the configuration that the engine has put together; a malformed one ends the run."""
        entries: dict[str, object] = {
            name: {
                "enforcementLevel": _LEVEL_NAMES.get(config.enforcementLevel, "remediate"),
                **values.plain(config.properties),
            }
            for name, config in request.policyConfig.items()
        }
        try:
            self._settings = Settings.of(entries)
        except SettingsError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return empty_pb2.Empty()

    def ConfigureStack(
        self, request: analyzer_pb2.AnalyzerStackConfigureRequest, context: grpc.ServicerContext
    ) -> analyzer_pb2.AnalyzerStackConfigureResponse:
        """Take note of nothing: a resource's URN names its stack."""
        return analyzer_pb2.AnalyzerStackConfigureResponse()

    def Analyze(
        self, request: analyzer_pb2.AnalyzeRequest, context: grpc.ServicerContext
    ) -> analyzer_pb2.AnalyzeResponse:
        """Judge one resource by its inputs."""
        policies = self._by_type.get(request.type)
        if policies is None:
            policies = [each for each in pack.RESOURCE_POLICIES if each.applies(request.type)]
            self._by_type[request.type] = policies
        resource = _resource(request, values.plain(request.properties))
        self._declared[resource.urn] = resource.inputs
        return analyzer_pb2.AnalyzeResponse(
            diagnostics=[one for policy in policies for one in self._judged(policy, [resource])]
        )

    def AnalyzeStack(
        self, request: analyzer_pb2.AnalyzeStackRequest, context: grpc.ServicerContext
    ) -> analyzer_pb2.AnalyzeResponse:
        """Judge all resources against each other."""
        resources = [
            _resource(each, self._declared[each.urn] if each.urn in self._declared else values.plain(each.properties))
            for each in request.resources
        ]
        judged = [one for policy in pack.STACK_POLICIES for one in self._judged(policy, resources)]
        exempted = [one for policy in exemptions.POLICIES for one in self._judged(policy, resources)]
        return analyzer_pb2.AnalyzeResponse(diagnostics=[*judged, *exempted])

    def Remediate(
        self, request: analyzer_pb2.AnalyzeRequest, context: grpc.ServicerContext
    ) -> analyzer_pb2.RemediateResponse:
        """Change nothing: this pack says what to write, and leaves it to the program."""
        return analyzer_pb2.RemediateResponse()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """End."""
        self._done.set()
        return empty_pb2.Empty()

    def _judged(self, policy: Policy, resources: Sequence[Resource]) -> Iterator[analyzer_pb2.AnalyzeDiagnostic]:
        settings = self._settings
        level = settings.level(policy)
        if level == "disabled":
            return
        # Each policy notes for itself what it could not know.
        for each in resources:
            each.unknown.clear()
        found = 0
        unknown: str | None = None
        try:
            for resource, finding in self._findings(policy, resources):
                found += 1
                exemption = settings.exemption(policy, resource)
                if exemption is None or not exemption.is_live(settings.today):
                    late = f"\nIts exemption ended on {exemption.expires}: {exemption.reason}" if exemption else ""
                    yield _diagnostic(policy, f"{finding}{late}", _LEVELS[level], resource.urn)
        except NotKnownError as error:
            unknown = error.path
        if not found or unknown:
            unknown = unknown or next((each for resource in resources for each in resource.unknown), None)
            if unknown:
                text = f"can't be checked until up: {unknown} is not known in a preview."
                urn = resources[0].urn if isinstance(policy, ResourcePolicy) else ""
                yield _diagnostic(policy, text, analyzer_pb2.ADVISORY, urn)

    def _findings(self, policy: Policy, resources: Sequence[Resource]) -> Iterator[tuple[Resource, Finding]]:
        parameters = self._settings.parameters(policy)
        if isinstance(policy, StackPolicy):
            yield from policy.check(Stack(resources), parameters)
        elif isinstance(policy, ResourcePolicy):
            for resource in resources:
                yield from ((resource, finding) for finding in policy.check(resource, parameters))
        else:
            yield from exemptions.findings(policy, self._settings, resources)


def _resource(
    sent: analyzer_pb2.AnalyzeRequest | analyzer_pb2.AnalyzerResource, inputs: Mapping[str, object]
) -> Resource:
    options = sent.options
    return Resource(
        type=sent.type,
        name=sent.name,
        urn=sent.urn,
        inputs=inputs,
        protect=options.protect,
        delete_before_replace=options.deleteBeforeReplace if options.deleteBeforeReplaceDefined else None,
        dependencies={key: list(each.urns) for key, each in sent.propertyDependencies.items()}
        if isinstance(sent, analyzer_pb2.AnalyzerResource)
        else {},
        sent=sent.properties,
    )


def _diagnostic(
    policy: Policy, text: str, level: analyzer_pb2.EnforcementLevel.ValueType, urn: str
) -> analyzer_pb2.AnalyzeDiagnostic:
    return analyzer_pb2.AnalyzeDiagnostic(
        policyName=policy.name,
        policyPackName=pack.NAME,
        policyPackVersion=pack.VERSION,
        description=policy.refuses,
        message=f"{policy.refuses}\n{text}\nWhy: {policy.why}\nMore: {policy.url}",
        enforcementLevel=level,
        urn=urn,
    )


def _described(policy: Policy) -> analyzer_pb2.PolicyInfo:
    info = analyzer_pb2.PolicyInfo(
        name=policy.name,
        displayName=policy.name.replace("-", " "),
        description=policy.refuses,
        message=policy.refuses,
        enforcementLevel=_LEVELS[policy.level],
        policy_type=analyzer_pb2.POLICY_TYPE_RESOURCE
        if isinstance(policy, ResourcePolicy)
        else analyzer_pb2.POLICY_TYPE_STACK,
        remediation_steps=policy.fix,
        url=policy.url,
    )
    info.configSchema.properties.update(cast("Any", schema_of(policy)))
    return info


def serve(settings: Settings) -> tuple[Analyzer, grpc.Server, int]:
    """Start serving on a port of the loopback address; return it with what serves."""
    analyzer = Analyzer(settings)
    server = grpc.server(
        ThreadPoolExecutor(max_workers=4),
        options=[("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)],
    )
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(analyzer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return analyzer, server, port


def main() -> None:
    """Serve until the engine ends it; the first line of standard output is the port. A malformed file ends with 1."""
    try:
        analyzer, server, port = serve(load())
    except SettingsError as error:
        print(f"{error}\nSee {DOCS}.", file=sys.stderr)
        sys.exit(1)
    print(port, flush=True)
    try:
        analyzer.wait()
    except KeyboardInterrupt:
        pass
    finally:
        # What is under way is answered, the engine's word that it is done too.
        server.stop(_GRACE_SECONDS).wait(2 * _GRACE_SECONDS)
