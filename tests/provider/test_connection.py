"""Wrong or missing credentials, endpoint, project and clock: one sentence each, within 15 s, from every call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from crusoe.provider.values import encode
from tests.harness import Cloud, free_port
from tests.provider.engine import FailedError, Plugin, running_plugin

NETWORK = {"name": "n", "cidr": "10.0.0.0/16"}


def told(environment: Mapping[str, str], endpoint: str, project: str = "local") -> str:
    """What check, diff, read and delete say, which is the same."""
    with running_plugin(environment) as (plugin, _):
        plugin.configure(endpoint, project)
        started = time.monotonic()
        said = {call: refusal(plugin, call) for call in ("check", "diff", "read", "delete")}
        assert time.monotonic() - started < 15
    # Where something is done to an object, its name comes first.
    message = said["check"]
    assert said["diff"] == message
    for call, doing in (("read", "Reading"), ("delete", "Deleting")):
        assert said[call] in (message, f"{doing} VPC network n: {message}")
    assert "Traceback" not in message
    assert "Unexpected" not in message
    assert message.count("\n") == 0
    assert len(message) < 400
    return message


def refusal(plugin: Plugin, call: str) -> str:
    """How one call is refused."""
    resource = plugin.resource("VpcNetwork")
    resource.id = "00000000-0000-4000-8000-00000000abcd"
    resource.inputs = resource.state = encode(dict(NETWORK))
    calls = {
        "check": lambda: resource.check(NETWORK),
        "diff": lambda: resource.diff(resource.inputs),
        "read": resource.refresh,
        "delete": resource.destroy,
    }
    with pytest.raises(FailedError) as error:
        calls[call]()
    assert error.value.partial is None
    return error.value.message


def test_missing_credentials(cloud: Cloud, tmp_path: Path) -> None:
    message = told({"HOME": str(tmp_path)}, cloud.endpoint)
    assert "No Crusoe access key was found: set CRUSOE_ACCESS_KEY_ID and CRUSOE_SECRET_KEY" in message


def test_a_wrong_key(cloud: Cloud) -> None:
    keys = {**cloud.credentials(), "CRUSOE_SECRET_KEY": "d3Jvbmctc2VjcmV0LW9mLXRoZS10ZXN0cw"}
    message = told(keys, cloud.endpoint)
    assert "Check the access key (CRUSOE_ACCESS_KEY_ID in the environment)" in message
    assert keys["CRUSOE_SECRET_KEY"] not in message


def test_an_environment_for_another_endpoint(cloud: Cloud) -> None:
    other = f"http://127.0.0.1:{free_port()}/v1"
    message = told(cloud.credentials(), other)
    assert message.startswith(f"This stack's endpoint is {other}, but the access key")
    assert cloud.endpoint in message
    production = told(cloud.credentials(), "https://api.cloud.crusoe.ai/v1")
    assert "This stack's endpoint is https://api.cloud.crusoe.ai/v1" in production


def test_a_project_that_the_key_does_not_see(cloud: Cloud) -> None:
    assert "sees no project named 'other'; it sees local" in told(cloud.credentials(), cloud.endpoint, "other")
    other = "00000000-0000-4000-8000-000000000002"
    assert f"no access to project {other}" in told(cloud.credentials(), cloud.endpoint, other)


def test_nobody_at_the_endpoint(cloud: Cloud) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}/v1"
    keys = {**cloud.credentials(), "CRUSOE_API_ENDPOINT": endpoint}
    message = told(keys, endpoint)
    assert f"Crusoe's API at {endpoint} can't be reached (connection refused); start the local cloud" in message


def test_a_wrong_base_path(cloud: Cloud) -> None:
    endpoint = cloud.endpoint.replace("/v1", "/v9")
    message = told({**cloud.credentials(), "CRUSOE_API_ENDPOINT": endpoint}, endpoint)
    assert "/v9/organizations/projects" in message
    assert message.endswith("Check the endpoint, its base path included.")


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_is_off(cloud: Cloud, hours: int) -> None:
    cloud.admin("PATCH", "/settings", {"clock_offset": hours * 3600})
    assert "clock" in told(cloud.credentials(), cloud.endpoint)


def test_keys_never_come_into_requests_or_state(cloud: Cloud, plugin: Plugin) -> None:
    network = plugin.resource("VpcNetwork")
    network.up({"name": "keys", "cidr": "10.0.0.0/16"})
    secret = cloud.credentials()["CRUSOE_SECRET_KEY"]
    assert secret not in str(network.state) + str(network.inputs)
    assert secret not in json.dumps(cloud.requests())
    assert not [one for one in plugin.log.messages if secret in one.message]
    network.destroy()
