"""A deployment without an engine that records what the engine would have been told: inputs, options and outputs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
from pulumi.runtime import resource as registration
from pulumi.runtime import rpc, set_all_config, set_mocks
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks
from pulumi.runtime.proto import source_pb2

from components.configuration import read
from components.platform import Platform, PlatformSettings
from components.settings import SettingsError

PROJECT = "crusoe-gpu-platform"
STACK = "test"
IB_NETWORK = "00000000-0000-4000-8000-000000000101"
NODE_PORT = 31234
"""What the API server drew for a Service."""

KUBECONFIG = "apiVersion: v1\nkind: Config\n"

Json = dict[str, Any]

# Where in the program a resource was declared is for error messages alone, and takes a sixth of a deployment's time.
registration._get_stack_trace = source_pb2.StackTrace  # pyright: ignore[reportPrivateUsage]

VM_TYPES: list[Json] = [
    {"name": name, "description": "", "cpuCores": cores, "memoryGb": memory, "diskGb": 0, "gpus": gpus, "gpuType": ""}
    for name, cores, memory, gpus in (("c1a.8x", 8, 32, 0), ("h100-80gb-sxm-ib.8x", 176, 960, 8))
]


def settings_document(**changes: object) -> Json:
    """Plain settings of a small platform; `changes` replace whole parts."""
    document: Json = {
        "cloud": {"endpoint": "http://127.0.0.1:8787/v1", "project": "local"},
        "location": "us-east1-a",
        "network": {"infiniband": {"networkId": IB_NETWORK}},
        "cluster": {"version": "1.33.4-cmk.43"},
        "nodePools": {
            "system": {"type": "c1a.8x", "count": 2},
            "train": {"type": "h100-80gb-sxm-ib.8x", "count": 2},
        },
    }
    return {**document, **changes}


def settings_of(document: Mapping[str, object], stack: str = STACK) -> PlatformSettings:
    return read(document, stack)


def faults(document: object, stack: str = STACK) -> dict[str, str]:
    """What is wrong with a document: each path with problem and fix. Empty when it is right."""
    try:
        read(document, stack)
    except SettingsError as error:
        told: dict[str, str] = {}
        for finding in error.findings:
            told[finding.path] = f"{told.get(finding.path, '')}{finding.problem}. {finding.fix}. "
        return told
    return {}


@dataclass(frozen=True)
class Recorded:
    """One resource as the engine is told about it."""

    urn: str
    type: str
    name: str
    parent: str
    custom: bool
    inputs: Mapping[str, Any]
    secrets: frozenset[str]
    provider: str
    providers: Mapping[str, str]
    protect: bool
    depends_on: frozenset[str]
    deleted_with: str
    delete_before_replace: bool
    replacement_trigger: str
    ignore_changes: tuple[str, ...]


@dataclass
class Deployment:
    """All that one run of a program registered."""

    resources: list[Recorded] = field(default_factory=list[Recorded])
    registered_outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    exports: Json = field(default_factory=dict[str, Any])
    secret_exports: set[str] = field(default_factory=set[str])
    log: list[str] = field(default_factory=list[str])

    def one(self, name: str) -> Recorded:
        """The resource of this name."""
        (found,) = [resource for resource in self.resources if resource.name == name]
        return found

    def of(self, kind: str) -> list[Recorded]:
        """All resources whose type ends in `kind`."""
        return [resource for resource in self.resources if resource.type.rpartition(":")[2] == kind]

    def cloud_resources(self) -> list[Recorded]:
        return [resource for resource in self.resources if resource.type.startswith("crusoe:")]

    def depends_on(self, resource: Recorded) -> set[str]:
        """Names of everything that must stand before `resource`, at any distance."""
        by_urn = {each.urn: each for each in self.resources}
        names: set[str] = set()
        waiting = list(resource.depends_on)
        while waiting:
            found = by_urn[waiting.pop()]
            if found.name not in names:
                names.add(found.name)
                waiting += found.depends_on
        return names


class _Answers(Mocks):
    """What the providers would answer: the inputs, an id, and what the kind computes."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, Json]:
        inputs: Json = cast("Any", args).inputs
        outputs = dict(inputs)
        match args.typ:
            case "crusoe:index:KubernetesCluster":
                outputs |= {"kubeconfig": KUBECONFIG, "dnsName": "cluster.example.com", "generation": "v1"}
            case "crusoe:index:AutoClustersConfig":
                wanted = cast("Json", inputs.get("remediationActions") or {})
                outputs |= {"actions": {"XID_79": "OFF", **wanted}, "overridesSet": sorted(wanted)}
            case "crusoe:index:StorageDisk":
                outputs |= {"serialNumber": f"serial-{args.name}"}
            case "crusoe:index:GeneratedSecret":
                outputs |= {"value": rpc.wrap_rpc_secret(f"drawn-{args.name}")}
            case "crusoe:index:SlurmCluster":
                outputs |= {"kubernetesClusterId": "cmk-behind", "loginHost": "192.0.2.7"}
                outputs |= {"kubeconfig": rpc.wrap_rpc_secret(KUBECONFIG)}
            case "kubernetes:core/v1:Service":
                outputs |= {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}}}
                ports = [{**port, "nodePort": NODE_PORT} for port in outputs["spec"]["ports"]]
                outputs |= {"spec": {**outputs["spec"], "ports": ports}}
            case _:
                pass
        return f"{args.name}-id", outputs

    def call(self, args: MockCallArgs) -> tuple[Json, list[tuple[str, str]]]:
        if args.token == "crusoe:index:getVmTypes":
            return {"vmTypes": VM_TYPES}, []
        raise AssertionError(f"the program asked {args.token}")


class _Monitor(MockMonitor):
    """Records each request before it is answered, and refuses a name that is taken, as the engine does."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(_Answers())
        self._deployment = deployment

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        answer = cast("Any", super()).RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            recorded = _recorded(request, answer.urn)
            taken = [each.urn for each in self._deployment.resources]
            assert recorded.urn not in taken, f"{recorded.urn} is declared twice"
            self._deployment.resources.append(recorded)
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        outputs = _plain(rpc.deserialize_properties(request.outputs))
        assert request.urn not in self._deployment.registered_outputs, f"{request.urn} registers its outputs twice"
        self._deployment.registered_outputs[request.urn] = outputs
        return cast("Any", super()).RegisterResourceOutputs(request)


def _recorded(request: Any, urn: str) -> Recorded:
    inputs = rpc.deserialize_properties(request.object)
    return Recorded(
        urn=urn,
        type=request.type,
        name=request.name,
        parent=request.parent,
        custom=request.custom,
        inputs=_plain(inputs),
        secrets=frozenset(key for key, value in inputs.items() if rpc.is_rpc_secret(value)),
        provider=request.provider.rpartition("::")[0],
        providers={key: value.rpartition("::")[0] for key, value in request.providers.items()},
        protect=request.protect,
        depends_on=frozenset(request.dependencies),
        deleted_with=request.deletedWith,
        delete_before_replace=request.deleteBeforeReplace,
        replacement_trigger=request.replacement_trigger.string_value,
        ignore_changes=tuple(request.ignoreChanges),
    )


def _plain(value: Any) -> Any:
    """Values without the marks of secrets; whole numbers as such, since the protocol knows floats only."""
    value = rpc.unwrap_rpc_secret(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in cast("Json", value).items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Log(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname}: {record.getMessage()}")


def deploy(
    program: Callable[[], Mapping[str, pulumi.Input[Any]]],
    *,
    stack: str = STACK,
    config: Mapping[str, str] | None = None,
    secret_keys: Sequence[str] = (),
    into: Deployment | None = None,
) -> Deployment:
    """Run a program that returns its exports, and wait until all that it declared is registered.

    With `into` the record survives a program that fails.
    """
    deployment = into or Deployment()
    logger = logging.Logger("deployment", logging.INFO)
    logger.addHandler(_Log(deployment.log))
    set_mocks(_Answers(), PROJECT, stack, preview=False, logger=logger, monitor=_Monitor(deployment))
    set_all_config(dict(config or {}), list(secret_keys))

    async def collect(exports: Mapping[str, pulumi.Input[Any]]) -> None:
        for name, value in exports.items():
            output: pulumi.Output[Any] = pulumi.Output.from_input(value)
            deployment.exports[name] = await output.future()
            if await output.is_secret():
                deployment.secret_exports.add(name)

    # Pulumi's own helper waits for every registration; it is the one part of the SDK that has no types.
    run = cast("Any", pulumi.runtime).test(lambda: collect(program()))
    try:
        run()
    finally:
        set_all_config({}, [])
    return deployment


def deploy_platform(
    document: Mapping[str, object], stack: str = STACK, config: Mapping[str, str] | None = None
) -> Deployment:
    """Run the platform of these settings; `config` are secrets of the stack, by their full key."""
    settings = settings_of(document, stack)

    def program() -> Mapping[str, pulumi.Input[Any]]:
        return Platform("platform", settings, stack=stack, secrets=pulumi.Config().require_secret).outputs

    return deploy(program, stack=stack, config=config, secret_keys=[*(config or {})])
