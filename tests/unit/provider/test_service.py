"""The protocol: what the engine is told, in process, and what a fault looks like to it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, NoReturn, cast

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import plugin_pb2, provider_pb2, status_pb2

from crusoe.client import Cancelled, ConfigurationError
from crusoe.provider import configuration
from crusoe.provider.generated import GeneratedSecret
from crusoe.provider.networking import VpcNetwork
from crusoe.provider.registry import KINDS, LOOKUPS
from crusoe.provider.server import engine_address, watch
from crusoe.provider.service import DRIFT_CHECK, Service
from crusoe.provider.session import Configuration
from crusoe.provider.slurm_ready import SlurmReady
from crusoe.provider.storage import StorageDisk
from crusoe.provider.values import UNKNOWN, decode, encode
from tests.unit.provider.support import ENDPOINT, PROJECT, Bench, before, values

DISK = values(name="d", location="here", size="2TiB")


class AbortedError(Exception):
    """The RPC ended with a status."""


class Context:
    """Keeps the status of an RPC."""

    code: grpc.StatusCode | None = None
    message = ""
    metadata: tuple[tuple[str, bytes], ...] = ()

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self.metadata = metadata

    def abort(self, code: grpc.StatusCode, message: str) -> NoReturn:
        self.code, self.message = code, message
        raise AbortedError(message)


class Driver:
    """Calls a service as the engine would."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.service = Service()
        self.service.session = bench.session
        self.service.engine = bench.engine

    def call(self, method: str, request: Any) -> Any:
        return getattr(self.service, method)(request, self.context)

    @property
    def context(self) -> grpc.ServicerContext:
        self.last = Context()
        return cast("grpc.ServicerContext", self.last)

    def urn(self, kind: str) -> str:
        return f"urn:pulumi:s::p::crusoe:index:{kind}::it"

    def check(self, kind: str, news: Mapping[str, Any], olds: Mapping[str, Any] | None = None) -> Any:
        request = provider_pb2.CheckRequest(urn=self.urn(kind), news=encode(dict(news)), olds=encode(dict(olds or {})))
        return self.call("Check", request)

    def diff(self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        request = provider_pb2.DiffRequest(
            id="x", urn=self.urn(kind), old_inputs=encode(dict(old)), news=encode(dict(new)), olds=encode(dict(state))
        )
        return self.call("Diff", request)


@pytest.fixture
def driver() -> Driver:
    return Driver(Bench())


class TestPlugin:
    def test_capabilities(self, driver: Driver) -> None:
        shaken = driver.call("Handshake", provider_pb2.ProviderHandshakeRequest(engine_address="127.0.0.1:1"))
        assert shaken.accept_secrets
        assert not shaken.accept_resources
        assert not shaken.accept_outputs
        assert driver.service.engine.address == "127.0.0.1:1"
        configured = driver.call("Configure", provider_pb2.ConfigureRequest(args=encode(values(project="p"))))
        assert configured.supportsPreview
        assert configured.acceptSecrets
        assert not configured.acceptResources
        assert not configured.acceptOutputs
        assert driver.service.session.configuration == Configuration(configuration.DEFAULT_ENDPOINT, "p")

    def test_attach_and_version(self, driver: Driver) -> None:
        driver.call("Attach", plugin_pb2.PluginAttach(address="127.0.0.1:2"))
        assert driver.service.engine.address == "127.0.0.1:2"
        assert driver.call("GetPluginInfo", Empty()).version == "0.1.0"

    def test_cancel_ends_every_wait(self, driver: Driver) -> None:
        driver.call("Cancel", Empty())
        with pytest.raises(AbortedError):
            driver.call("Read", provider_pb2.ReadRequest(urn=driver.urn("VpcNetwork"), id="x"))
        assert driver.last.code is grpc.StatusCode.CANCELLED

    def test_an_address_among_the_arguments(self) -> None:
        assert engine_address(["--tracing=x", "-v=9", "127.0.0.1:9"]) == "127.0.0.1:9"
        assert engine_address(["-v=9"]) is None

    def test_a_dead_engine_is_noticed(self) -> None:
        gone = threading.Event()
        watch("127.0.0.1:1", gone, seconds=0.01)
        assert gone.is_set()

    def test_starting_loads_neither_the_sdk_nor_a_http_library(self) -> None:
        code = (
            "import sys, crusoe.provider.server;"
            "print([name for name in ('pulumi', 'httpx', 'tenacity', 'yaml', 'pydantic', 'crusoe.rules.network',"
            " 'crusoe.catalog') if name in sys.modules])"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"


class TestConfig:
    def check(self, driver: Driver, **inputs: Any) -> tuple[dict[str, Any], dict[str, str]]:
        answer = driver.call("CheckConfig", provider_pb2.CheckRequest(news=encode(values(**inputs))))
        return decode(answer.inputs).values, {one.property: one.reason for one in answer.failures}

    def test_the_endpoint_is_recorded_even_when_it_is_the_default(self, driver: Driver) -> None:
        inputs, faults = self.check(driver, project="p", version="1.0.0")
        assert inputs == {"project": "p", "endpoint": configuration.DEFAULT_ENDPOINT, "version": "1.0.0"}
        assert not faults
        assert self.check(driver, project="p", endpoint="https://api.crusoecloud.com/v1/")[0]["endpoint"] == (
            configuration.DEFAULT_ENDPOINT
        )

    def test_faults_are_told_together(self, driver: Driver) -> None:
        _, faults = self.check(driver, endpoint="ftp://x", projekt="p", accessKey="k")
        assert set(faults) == {"endpoint", "project", "projekt", "accessKey"}
        assert "Did you mean 'project'?" in faults["projekt"]

    def test_a_stack_stays_with_its_cloud(self, driver: Driver) -> None:
        def diff(old: str, new: str, project: str = "p") -> Any:
            request = provider_pb2.DiffRequest(
                old_inputs=encode(values(endpoint=old, project="p")), news=encode(values(endpoint=new, project=project))
            )
            return driver.call("DiffConfig", request)

        same = diff(ENDPOINT, ENDPOINT)
        assert same.changes == provider_pb2.DiffResponse.DIFF_NONE
        moved = diff("http://127.0.0.1:1/v1", "http://localhost:2/v1")
        assert (list(moved.diffs), list(moved.replaces)) == (["endpoint"], [])
        other = diff(ENDPOINT, ENDPOINT, "q")
        assert list(other.replaces) == ["project"]
        with pytest.raises(AbortedError, match=r"live at https://api\.example\.test/v1, and its endpoint is now http"):
            diff(ENDPOINT, "http://127.0.0.1:1/v1")


class TestResources:
    def test_every_fault_comes_as_a_check_failure(self, driver: Driver) -> None:
        answer = driver.check("VpcNetwork", values(nmae="n", cidr=3))
        assert {one.property for one in answer.failures} == {"name", "nmae", "cidr"}

    def test_unknown_inputs_come_back_unknown(self, driver: Driver) -> None:
        answer = driver.check("VpcNetwork", values(name="n", cidr=UNKNOWN))
        assert decode(answer.inputs).values == {"name": "n", "cidr": UNKNOWN}

    def test_secrets_stay_marked(self, driver: Driver) -> None:
        request = provider_pb2.CheckRequest(
            urn=driver.urn("VpcNetwork"), news=encode(values(name="n", cidr="10.0.0.0/16"), {"name"})
        )
        assert decode(driver.call("Check", request).inputs).secret == {"name"}

    def test_a_wish_is_refused_and_a_refresh_is_not(self, driver: Driver) -> None:
        small = {**DISK, "size": "1TiB"}
        shown = driver.diff("StorageDisk", DISK, small, DISK)
        assert list(shown.detailedDiff) == ["size"]
        driver.check("StorageDisk", small, DISK)
        with pytest.raises(AbortedError, match="can't shrink"):
            driver.diff("StorageDisk", DISK, small, DISK)
        assert driver.last.code is grpc.StatusCode.FAILED_PRECONDITION
        replaced = driver.diff("StorageDisk", DISK, {**small, "location": "there"}, DISK)
        assert list(replaced.replaces) == ["location"]
        assert replaced.deleteBeforeReplace

    def test_a_drift_check_warns_of_what_an_update_would_refuse_and_updates_nothing(self, driver: Driver) -> None:
        watching = Driver(driver.bench)
        watching.service = Service(environ={DRIFT_CHECK: "true"})
        watching.service.session, watching.service.engine = driver.bench.session, driver.bench.engine
        small = {**DISK, "size": "1TiB"}
        watching.check("StorageDisk", small, DISK)
        assert list(watching.diff("StorageDisk", DISK, small, DISK).detailedDiff) == ["size"]
        [warned] = driver.bench.engine.warnings
        assert "can't shrink" in warned
        request = provider_pb2.UpdateRequest(
            id="x",
            urn=watching.urn("StorageDisk"),
            old_inputs=encode(dict(DISK)),
            olds=encode(dict(DISK)),
            news=encode(dict(DISK)),
        )
        with pytest.raises(AbortedError, match=f"{DRIFT_CHECK} is set, which is for previews only"):
            watching.call("Update", request)

    def test_differences_are_detailed(self, driver: Driver) -> None:
        shown = driver.diff("StorageDisk", DISK, {**DISK, "size": "3TiB"}, DISK)
        assert MessageToDict(shown) == {
            "changes": "DIFF_SOME",
            "diffs": ["size"],
            "detailedDiff": {"size": {"kind": "UPDATE", "inputDiff": True}},
            "hasDetailedDiff": True,
        }
        assert driver.diff("StorageDisk", DISK, DISK, DISK).changes == provider_pb2.DiffResponse.DIFF_NONE

    def test_a_half_made_object_is_reported_with_id_and_state(self, driver: Driver) -> None:
        driver.bench.api.pending = True
        inputs = encode(DISK, {"size"})
        request = provider_pb2.CreateRequest(urn=driver.urn("StorageDisk"), properties=inputs, timeout=5)
        with pytest.raises(AbortedError):
            driver.call("Create", request)
        ((key, data),) = driver.last.metadata
        status = status_pb2.Status.FromString(data)
        found = provider_pb2.ErrorResourceInitFailed()
        assert status.details[0].Unpack(found)
        assert key == "grpc-status-details-bin"
        assert (status.code, status.message) == (grpc.StatusCode.FAILED_PRECONDITION.value[0], driver.last.message)
        assert found.id in driver.bench.api.objects["storage/disks"]
        assert decode(found.properties).secret == {"size"}
        assert found.reasons == [driver.last.message]

    def test_a_fault_of_the_plugin_is_a_sentence_too(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        secret = "hunter2"

        def broken(*_: Any) -> None:
            try:
                dict[str, str]().pop(secret)
            except KeyError as error:
                raise KeyError(f"again {secret}") from error

        traces: list[str] = []
        monkeypatch.setattr(driver.service.engine, "debug", traces.append)
        monkeypatch.setattr(VpcNetwork, "check", broken)
        with pytest.raises(AbortedError) as error:
            driver.check("VpcNetwork", values(name="n"))
        assert str(error.value).startswith("The crusoe provider has a fault (KeyError);")
        assert secret not in str(error.value)
        assert "Traceback" not in str(error.value)
        assert driver.last.code is grpc.StatusCode.INTERNAL
        # Whoever looks for the fault gets its place, and no value that an error's text may hold.
        [trace] = traces
        assert trace.count("in broken") == trace.count("KeyError\n") == 2
        assert secret not in trace

    def test_an_unknown_kind_or_function_is_named(self, driver: Driver) -> None:
        with pytest.raises(AbortedError, match=r"has no resource crusoe:index:VpcNetwerk\. Did you mean"):
            driver.check("VpcNetwerk", {})
        with pytest.raises(AbortedError, match=r"has no function crusoe:index:getQotas\. Did you mean"):
            driver.call("Invoke", provider_pb2.InvokeRequest(tok="crusoe:index:getQotas"))

    def test_an_asset_is_refused(self, driver: Driver) -> None:
        asset = encode({"name": {"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17"}})
        with pytest.raises(AbortedError, match="name is an asset"):
            driver.call("Check", provider_pb2.CheckRequest(urn=driver.urn("VpcNetwork"), news=asset))

    def test_a_connection_that_fails_stops_check_diff_read_and_delete_with_one_sentence(self, driver: Driver) -> None:
        def refuse(*_: Any) -> NoReturn:
            raise ConfigurationError("The key is for another cloud.")

        cast("Any", driver.service.session)._connect = refuse
        urn = driver.urn("VpcNetwork")
        calls = {
            "Check": provider_pb2.CheckRequest(urn=urn),
            "Diff": provider_pb2.DiffRequest(urn=urn, id="x"),
            "Read": provider_pb2.ReadRequest(urn=urn, id="x"),
            "Delete": provider_pb2.DeleteRequest(urn=urn, id="x"),
            "Create": provider_pb2.CreateRequest(urn=urn, preview=True),
            "Update": provider_pb2.UpdateRequest(urn=urn, id="x", preview=True),
        }
        for method, request in calls.items():
            with pytest.raises(AbortedError, match=r"^The key is for another cloud\.$"):
                driver.call(method, request)

    def test_a_replaced_pool_is_not_counted_against_the_quota_again(
        self, driver: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []

        def ask(*_: object) -> None:
            asked.append(1)

        monkeypatch.setattr(driver.service.session.ledger, "ask", ask)
        old = values(name="p", clusterId="c", type="t", count=2)
        new = {**old, "type": "u"}
        driver.bench.api.answers["compute/vms/types"] = {"items": []}
        driver.bench.api.objects["kubernetes/clusters"] = {"c": {"id": "c", "version": "1.33.4-cmk.43"}}
        urn = driver.urn("KubernetesNodePool")
        create = provider_pb2.CreateRequest(urn=urn, properties=encode(new), preview=True)
        driver.call("Create", create)
        assert asked == [1]
        assert driver.diff("KubernetesNodePool", old, new, old).replaces
        driver.call("Create", create)
        assert asked == [1]


class TestLookups:
    def test_arguments_are_checked(self, driver: Driver) -> None:
        request = provider_pb2.InvokeRequest(tok="crusoe:index:getCapacities", args=encode(values(locaton="x")))
        assert [one.property for one in driver.call("Invoke", request).failures] == ["locaton"]

    def test_an_answer(self, driver: Driver) -> None:
        driver.bench.api.answers["quotas"] = {"items": [{"name": "h100", "max": 8, "used": 1, "available": 7}]}
        answer = driver.call("Invoke", provider_pb2.InvokeRequest(tok="crusoe:index:getQuotas"))
        assert decode(getattr(answer, "return")).values == {
            "quotas": [{"name": "h100", "max": 8, "used": 1, "available": 7}]
        }

    def test_an_error_is_a_sentence(self, driver: Driver) -> None:
        driver.bench.api.fault("GET", "quotas", before(403, "not yours"))
        with pytest.raises(AbortedError, match="not yours"):
            driver.call("Invoke", provider_pb2.InvokeRequest(tok="crusoe:index:getQuotas"))


def test_the_registry_holds_every_kind_once() -> None:
    assert set(KINDS) == {
        f"crusoe:index:{name}"
        for name in (
            "VpcNetwork",
            "VpcSubnet",
            "VpcFirewallRule",
            "IbPartition",
            "StorageDisk",
            "KubernetesCluster",
            "KubernetesNodePool",
            "AutoClustersConfig",
            "SlurmCluster",
            "SlurmNodeSet",
            "SlurmReady",
            "SlurmWorkers",
            "GeneratedSecret",
        )
    }
    assert set(LOOKUPS) == {
        f"crusoe:index:get{name}" for name in ("KubernetesVersions", "VmTypes", "Capacities", "Quotas", "IbNetworks")
    }
    assert [kind.name for kind in KINDS.values() if not kind.delete_before_replace] == [
        SlurmReady.name,
        GeneratedSecret.name,
    ]
    assert PROJECT
    assert StorageDisk().token in KINDS


def test_a_cancelled_connection_is_not_remembered(driver: Driver) -> None:
    def cancelled(*_: Any) -> NoReturn:
        raise Cancelled("The run was cancelled.")

    session = cast("Any", driver.service.session)
    session._connect, connect = cancelled, session._connect
    with pytest.raises(Cancelled):
        _ = driver.service.session.client
    session._connect = connect
    assert driver.service.session.client.project_id == PROJECT
