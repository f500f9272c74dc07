"""The plugin process: ready at once, on this machine only, gone with its engine; and the look-ups over the wire."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import provider_pb2

from crusoe.provider.values import Values, decode, encode
from tests.harness import ROOT, Cloud, free_port
from tests.processes import family, listening, status_after_a_thread_got
from tests.provider.engine import FailedError, Plugin, running_plugin

COMMAND = [sys.executable, "-u", str(ROOT / "crusoe" / "provider")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_without_a_word(number: signal.Signals) -> None:
    process = subprocess.Popen([*COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert time.monotonic() - started < 5
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_another_thread_gets_the_signal(number: signal.Signals) -> None:
    assert status_after_a_thread_got(number, ROOT / "crusoe" / "provider") == 0


def test_it_ends_when_its_engine_was_killed() -> None:
    process = subprocess.Popen([*COMMAND, f"127.0.0.1:{free_port()}"], stdout=subprocess.PIPE, text=True)
    assert process.wait(40) == 0


def test_it_listens_on_the_loopback_address_only() -> None:
    with running_plugin({}) as (_, process):
        found = listening(family(process.pid))
        assert found
        assert {address.removeprefix("::ffff:") for _, address, _ in found} == {"127.0.0.1"}


def test_a_crash_leaves_no_image_of_its_memory() -> None:
    """It holds the key that signs every request."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    if most == 0:
        pytest.skip("nobody here may have a core file, so nothing could be seen")

    def many() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True, preexec_fn=many)
    assert process.stdout is not None
    process.stdout.readline()
    assert psutil.Process(process.pid).rlimit(psutil.RLIMIT_CORE) == (1, 1)
    process.kill()
    process.communicate()


def test_modules_of_the_folder_do_not_stand_in_for_others() -> None:
    with running_plugin({}) as (plugin, _):
        # The schema needs most of the folder's modules; a name clash would have ended the process.
        assert plugin.call("GetPluginInfo", Empty()).version == "0.1.0"
        schema = json.loads(plugin.call("GetSchema", provider_pb2.GetSchemaRequest()).schema)
        assert len(schema["resources"]) == 13


def test_what_the_engine_treats_as_unimplemented_is() -> None:
    with running_plugin({}) as (plugin, _):
        for method, request in (
            ("Parameterize", provider_pb2.ParameterizeRequest()),
            ("Construct", provider_pb2.ConstructRequest()),
            ("Call", provider_pb2.CallRequest()),
            ("GetMapping", provider_pb2.GetMappingRequest()),
        ):
            with pytest.raises(FailedError) as error:
                plugin.call(method, request)
            assert error.value.code is grpc.StatusCode.UNIMPLEMENTED


def look_up(plugin: Plugin, name: str, **arguments: Any) -> Values:
    """Invoke a function."""
    request = provider_pb2.InvokeRequest(tok=f"crusoe:index:{name}", args=encode(dict(arguments)))
    answer = plugin.call("Invoke", request)
    assert not answer.failures
    return decode(getattr(answer, "return")).values


def test_look_ups(cloud: Cloud, plugin: Plugin) -> None:
    versions: Any = look_up(plugin, "getKubernetesVersions")
    assert {one["generation"] for one in versions["clusterVersions"]} == {"v1", "v2"}
    deprecated: Any = look_up(plugin, "getKubernetesVersions", showDeprecated=True)
    assert len(deprecated["clusterVersions"]) > len(versions["clusterVersions"])
    types: Any = look_up(plugin, "getVmTypes")
    assert next(one for one in types["vmTypes"] if one["name"] == "h100-80gb-sxm-ib.8x")["gpus"] == 8
    capacities: Any = look_up(plugin, "getCapacities", productName="c1a.8x", location="us-east1-a")
    assert [(one["type"], one["location"]) for one in capacities["capacities"]] == [("c1a.8x", "us-east1-a")]
    quotas: Any = look_up(plugin, "getQuotas")
    assert {one["name"] for one in quotas["quotas"]} == {one["name"] for one in cloud.api("GET", "/quotas")["items"]}
    networks: Any = look_up(plugin, "getIbNetworks")
    assert networks["ibNetworks"][0]["capacities"][0]["quantity"] > 0
