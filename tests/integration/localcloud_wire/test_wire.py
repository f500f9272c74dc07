"""The connection itself: retries with one signature, cut connections, trailing slashes, headers."""

from __future__ import annotations

import http.client
import time

import pytest

from tests.integration.localcloud_wire.conftest import client
from tests.integration.localcloud_wire.server import Server
from tests.integration.localcloud_wire.terraform import ProviderError, Terraform

pytestmark = pytest.mark.integration

NETWORKS = "{p}/networking/vpc-networks"
DISKS = "{p}/storage/disks"
DISK = {"location": "us-east1-a", "name": "d", "size": "1GiB", "type": "persistent-ssd"}


@pytest.fixture(autouse=True)
def no_faults(server: Server) -> None:
    server.admin("DELETE", "faults")
    server.admin("DELETE", "requests")


@pytest.mark.parametrize("kind", ["http-429", "http-500", "http-503", "drop-before"])
def test_three_tries_carry_one_signature(server: Server, terraform: Terraform, kind: str) -> None:
    """With the provider's own waits of 1 s and 2 s, so the last try's time stamp is 3 s old."""
    server.fault("GET .../locations", kind, times=2)
    started = time.monotonic()
    assert terraform.call("GET", "/locations")["items"]
    assert time.monotonic() - started >= 3.0
    assert len(terraform.tries) == 3
    assert len({authorization for _, _, authorization in terraform.tries}) == 1
    met = None if kind == "drop-before" else int(kind.removeprefix("http-"))
    assert [row["status"] for row in server.requests()] == [met, met, 200]


def test_third_failure_is_final(server: Server) -> None:
    terraform = client(server, first_wait=0.01)
    server.fault("GET .../locations", "http-500")
    with pytest.raises(ProviderError, match="500"):
        terraform.call("GET", "/locations")
    assert len(terraform.tries) == 3


def test_a_post_is_tried_once_and_its_lost_answer_leaves_an_orphan(server: Server) -> None:
    terraform = client(server)
    server.fault("POST .../vpc-networks", "drop-after", times=1)
    body = {"cidr": "10.0.0.0/16", "name": "orphan"}
    with pytest.raises(http.client.RemoteDisconnected):
        terraform.call("POST", NETWORKS, body)
    assert len(terraform.tries) == 1
    assert "orphan" in [item["name"] for item in terraform.call("GET", NETWORKS)["items"]]
    with pytest.raises(ProviderError, match="409"):
        terraform.call("POST", NETWORKS, body)


def test_connection_cut_before_the_work_leaves_nothing(server: Server) -> None:
    terraform = client(server)
    server.fault("POST .../vpc-networks", "drop-before", times=1)
    with pytest.raises(http.client.RemoteDisconnected):
        terraform.call("POST", NETWORKS, {"cidr": "10.0.0.0/16", "name": "never"})
    assert "never" not in [item["name"] for item in terraform.call("GET", NETWORKS)["items"]]


def test_error_after_the_work(server: Server) -> None:
    terraform = client(server)
    server.fault("POST .../vpc-networks", "http-500-after", times=1)
    with pytest.raises(ProviderError, match="500"):
        terraform.call("POST", NETWORKS, {"cidr": "10.0.0.0/16", "name": "late"})
    assert "late" in [item["name"] for item in terraform.call("GET", NETWORKS)["items"]]


def test_a_repeated_delete_after_a_lost_answer(server: Server) -> None:
    terraform = client(server, first_wait=0.01)
    disk = terraform.wait("storage/disks", terraform.call("POST", DISKS, DISK))
    server.fault("DELETE .../disks/*", "drop-after", times=1)
    terraform.wait("storage/disks", terraform.call("DELETE", f"{DISKS}/{disk['id']}"))
    assert terraform.request("GET", f"{DISKS}/{disk['id']}")[0] == 404


def test_slow_answer_is_used(server: Server, terraform: Terraform) -> None:
    server.fault("GET .../locations", "slow", seconds=1.0, times=1)
    started = time.monotonic()
    assert terraform.call("GET", "/locations")["items"]
    assert 1.0 <= time.monotonic() - started < 5.0
    # Others aren't held up meanwhile: the log has the slow one's own time.
    assert server.requests()[-1]["milliseconds"] >= 1000


def test_failing_operation_leaves_no_object(server: Server, terraform: Terraform) -> None:
    server.fault("POST .../disks", "fail-operation", times=1, message="rpc error: code = Internal desc = no luck")
    with pytest.raises(ProviderError, match="rpc error: code = Internal desc = no luck"):
        terraform.wait("storage/disks", terraform.call("POST", DISKS, {**DISK, "name": "unlucky"}))
    assert "unlucky" not in [item["name"] for item in terraform.call("GET", DISKS)["items"]]


def test_stalled_operation(server: Server, terraform: Terraform) -> None:
    server.fault("POST .../disks", "stall-operation", seconds=1.0, times=1)
    started = time.monotonic()
    terraform.wait("storage/disks", terraform.call("POST", DISKS, {**DISK, "name": "stalled"}))
    assert time.monotonic() - started >= 1.0


def test_capacity_error_then_throttling(server: Server) -> None:
    terraform = client(server, first_wait=0.01)
    server.fault("POST .../nodepools", "capacity-500", times=1)
    server.fault("POST .../nodepools", "http-429")
    first = terraform.request("POST", "{p}/kubernetes/nodepools", {})
    second = terraform.request("POST", "{p}/kubernetes/nodepools", {})
    assert (first[0], second[0]) == (500, 429)
    assert "capacity" in first[1]["message"]


def test_trailing_slash_in_the_endpoint(server: Server) -> None:
    terraform = client(server)
    terraform.base = "/v1/"
    status, answer = terraform.request("GET", "/organizations/projects")
    assert (status, answer["code"]) == (404, "not_found")


def test_empty_id_is_not_the_list(terraform: Terraform) -> None:
    assert terraform.request("GET", "{p}/kubernetes/nodepools/")[0] == 404


def test_query_with_everything_in_it(terraform: Terraform) -> None:
    assert terraform.call("GET", "/organizations/projects", project_name="no such; one/ü+")["items"] == []


def test_first_poll_comes_at_once(server: Server, terraform: Terraform) -> None:
    started = terraform.call("POST", DISKS, {**DISK, "name": "polled"})
    assert started["operation"]["state"] == "IN_PROGRESS"
    terraform.wait("storage/disks", started)
    post, poll = [row for row in server.requests() if row["method"] == "POST" or "operations" in row["path"]][:2]
    assert poll["at"] - post["at"] < 0.25


def test_headers_and_unsigned_answers(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/v1/locations")
    answer = connection.getresponse()
    assert (answer.status, answer.reason) == (401, "Unauthorized")
    assert answer.headers["Content-Type"] == "application/json"
    assert b"bad_credential" in answer.read()
    connection.close()


def test_expired_clock(server: Server, terraform: Terraform) -> None:
    server.run("set", "clock", "--offset", "3600")
    try:
        status, answer = terraform.request("GET", "/locations")
        assert (status, answer["code"]) == (401, "bad_credential")
    finally:
        server.run("set", "clock", "--offset", "0")
    assert terraform.request("GET", "/locations")[0] == 200


def test_other_project_s_key(server: Server) -> None:
    key_id, secret = server.keys("other")
    terraform = Terraform(server.port, key_id, secret, client(server).project)
    status, answer = terraform.request("GET", NETWORKS)
    assert (status, answer["code"]) == (403, "unauthorized")
