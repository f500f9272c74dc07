"""Wrong settings, credentials and addresses: one message each, in bounded time, and nothing is made."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tests.harness import Cloud, Project, Result, free_port, leftovers
from tests.integration.conftest import NewProject

pytestmark = pytest.mark.integration

SECONDS = 15
# Starting the CLI, its language host and the program on a busy machine, which the promise does not cover.
START_SECONDS = 10


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    """A stack of which nothing is ever made."""
    project = new_project("bad")
    project.use_settings("dev")
    return project


def refused(project: Project, command: str = "preview", **variables: str) -> Result:
    """Runs a command that must fail in time, without a trace, and without asking the cloud for a change."""
    project.cloud.forget_requests()
    project.variables = variables
    try:
        start = time.monotonic()
        extra = [] if command == "preview" else ["--yes", "--skip-preview"]
        result = project.pulumi(command, "-s", project.stack, *extra, check=False)
        took = time.monotonic() - start
    finally:
        project.variables = {}
    assert result.code != 0, result.text
    assert took < SECONDS + START_SECONDS
    assert "Traceback" not in result.text
    assert "Unexpected" not in result.text
    assert {one["method"] for one in project.cloud.requests()} <= {"GET"}
    return result


def test_wrong_settings_are_told_all_at_once_with_path_and_fix(project: Project) -> None:
    kept = project.stack_file.read_text()
    wrong: Mapping[str, Any] = {
        "locaton": "us-east1-a",
        "network": {"subnetCidr": "10.99.0.0/20", "infiniband": None},
        "cluster": {"version": 1.33},
        "nodePools": {
            "train": {"type": "h100-80gb-sxm-ib-8x"},
            "chat": {"type": "h100-80gb-sxm-ib.8x", "count": -1},
        },
    }
    project.change_settings(wrong)
    result = refused(project)
    for path in (
        "platform.locaton",
        "platform.network.subnetCidr",
        "platform.cluster.version",
        "platform.nodePools.train.type",
        "platform.nodePools.chat.count",
    ):
        assert path in result.text, f"{path} is not named:\n{result.text}"
    assert "h100-80gb-sxm-ib.8x" in result.text
    assert result.text.count("platform.locaton") == 1
    project.stack_file.write_text(kept)


def made(project: Project) -> dict[str, str]:
    """What the stack holds of the cloud: ids by URN."""
    return {one["urn"]: one["id"] for one in project.resources() if one["type"].startswith("crusoe:")}


WRONG_NETWORK = "00000000-0000-4000-8000-000000000999"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"location": "us-east1-z"}, ("us-east1-z", "Did you mean 'us-east1-a'?")),
        (
            {"network": {"infiniband": {"networkId": WRONG_NETWORK}}},
            (WRONG_NETWORK, "00000000-0000-4000-8000-000000000101 (us-east1-a)"),
        ),
    ],
    ids=["location", "ib-network"],
)
@pytest.mark.parametrize("command", ["preview", "up"])
def test_a_place_that_is_not_there_is_told_before_anything_is_deleted(
    standing: Project, command: str, settings: Mapping[str, Any], said: tuple[str, ...]
) -> None:
    kept = standing.stack_file.read_text()
    before = made(standing)
    standing.change_settings(settings)
    text = refused(standing, command).text
    for part in said:
        assert part in text, text
    standing.stack_file.write_text(kept)
    assert made(standing) == before


@pytest.mark.parametrize("command", ["preview", "up", "refresh", "destroy"])
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CRUSOE_ACCESS_KEY_ID": "", "CRUSOE_SECRET_KEY": ""}, "CRUSOE_ACCESS_KEY_ID"),
        ({"CRUSOE_API_ENDPOINT": "http://127.0.0.1:9/v1"}, "CRUSOE_API_ENDPOINT"),
    ],
)
def test_missing_keys_and_another_environment_stop_every_command(
    project: Project, standing: Project, command: str, variables: dict[str, str], said: str
) -> None:
    stack = project if command in ("preview", "up") else standing
    assert said in refused(stack, command, **variables).text


@pytest.fixture(scope="module")
def standing(new_project: NewProject) -> Generator[Project]:
    """A stack whose `up` got as far as the network, so that refresh and destroy have something to ask for."""
    project = new_project("standing")
    project.use_settings("dev")
    project.cloud.fault("POST .../kubernetes/clusters", "http-500")
    assert project.up(check=False).code != 0
    project.cloud.admin("DELETE", "/faults")
    assert any(one["type"] == "crusoe:index:VpcNetwork" for one in project.resources())
    yield project
    project.destroy()
    assert leftovers(project.cloud) == {}


def test_a_wrong_key_is_one_sentence(project: Project) -> None:
    result = refused(project, CRUSOE_SECRET_KEY="d3Jvbmc")
    assert "d3Jvbmc" not in result.text
    assert "key" in result.text


def test_another_project_is_one_sentence(project: Project) -> None:
    kept = project.stack_file.read_text()
    project.change_settings({"cloud": {"project": "other"}})
    assert "other" in refused(project).text
    project.stack_file.write_text(kept)


def test_an_unreachable_endpoint_is_one_sentence(project: Project) -> None:
    kept = project.stack_file.read_text()
    endpoint = f"http://127.0.0.1:{free_port()}/v1"
    project.change_settings({"cloud": {"endpoint": endpoint}})
    assert endpoint in refused(project, CRUSOE_API_ENDPOINT=endpoint).text
    project.stack_file.write_text(kept)


def test_an_expired_clock_is_one_sentence(project: Project, cloud: Cloud) -> None:
    cloud.admin("PATCH", "/settings", {"clock_offset": 7200})
    try:
        assert "clock" in refused(project).text
    finally:
        cloud.admin("PATCH", "/settings", {"clock_offset": 0})


def test_a_secure_value_inside_the_settings_is_refused_with_the_command(project: Project) -> None:
    kept = project.stack_file.read_text()
    project.pulumi("config", "set", "--path", "platform.network.name", "canary-4711", "--secret", "-s", project.stack)
    result = refused(project)
    assert "canary-4711" not in result.text
    assert "pulumi config" in result.text
    project.stack_file.write_text(kept)
