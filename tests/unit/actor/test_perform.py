"""The two clients and what is done with them, against a server that answers what the test says."""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from actor import web
from actor.actions import Action, Cordon, Drain, Release, Report, Requeue, Reserve, Terminate
from actor.kubernetes import Kubernetes, KubernetesError
from actor.perform import Performer, line
from actor.slurm import Slurm, SlurmError
from tests.unit.actor.support import job

Json = dict[str, Any]


class Stage:
    """A server: `answers` by method and path, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Json]] = {}
        self.asked: list[tuple[str, Json | None]] = []
        self.headers: list[dict[str, str]] = []
        stage = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                asked = f"{self.command} {self.path}"
                stage.asked.append((asked, body))
                stage.headers.append(dict(self.headers))
                status, answer = stage.answers.get(asked, (200, {}))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 (the server's names)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=5)

    @property
    def calls(self) -> list[str]:
        return [asked for asked, _ in self.asked if "/ping/" not in asked]


@pytest.fixture
def stage() -> Generator[Stage]:
    one = Stage()
    yield one
    one.server.shutdown()
    one.server.server_close()


def slurm(stage: Stage) -> Slurm:
    return Slurm(stage.connect, lambda: "token")


def perform(stage: Stage, *actions: Action) -> None:
    one = Performer(Kubernetes(stage.connect, lambda: "account", "slurm"), slurm(stage))
    one.perform([actions], lambda: True)


def error(number: int, text: str = "x") -> Json:
    return {"errors": [{"error_number": number, "error": text, "description": "d"}]}


def test_a_cordon_brings_its_reason_in_one_step(stage: Stage) -> None:
    # Slinky's operator reads the reason when it sees the cordon, and not again.
    perform(stage, Cordon("host-1", "XID 79"))
    ((asked, body),) = stage.asked
    assert asked == "PATCH /api/v1/nodes/host-1"
    assert body == {
        "metadata": {"annotations": {"nodeset.slinky.slurm.net/node-cordon-reason": "XID 79"}},
        "spec": {"unschedulable": True},
    }
    assert stage.headers[0]["Content-Type"] == "application/merge-patch+json"
    assert stage.headers[0]["Authorization"] == "Bearer account"


def test_slurm_is_asked_with_the_token_and_never_for_down(stage: Stage) -> None:
    perform(stage, Drain("train-1", "slurm-operator: x"))
    assert stage.asked[-1] == (
        "POST /slurm/v0.0.45/node/train-1",
        {"state": ["DRAIN"], "reason": "slurm-operator: x"},
    )
    assert stage.headers[-1]["X-SLURM-USER-TOKEN"] == "token"


@pytest.mark.parametrize(("number", "fine"), [(2024, True), (2017, True), (2021, True), (2037, False)])
def test_a_job_that_is_requeued_or_gone_already_is_fine(stage: Stage, number: int, fine: bool) -> None:
    stage.answers["GET /slurm/v0.0.45/job/10_1/requeue"] = (422, error(number))
    perform(stage, Requeue(job(12, 1, step_id="10_1")), Drain("after", "x"))
    assert ("POST /slurm/v0.0.45/node/after" in stage.calls) is fine


def test_an_error_in_a_good_answer_is_one(stage: Stage) -> None:
    stage.answers["POST /slurm/v0.0.45/node/train-1"] = (200, error(2018, "Invalid node name"))
    with pytest.raises(SlurmError, match="Invalid node name"):
        slurm(stage).update_node("train-1", state=["DRAIN"])


def test_sigterm_goes_to_all_processes_of_the_job(stage: Stage) -> None:
    perform(stage, Terminate(job(7, 1)))
    assert stage.calls == ["DELETE /slurm/v0.0.45/job/7?signal=TERM&flags=FULL_JOB"]


def test_a_release_names_the_job_alone(stage: Stage) -> None:
    perform(stage, Release(job(12, step_id="10_1")))
    assert stage.asked[-1] == ("POST /slurm/v0.0.45/job/12", {"hold": False})


BIG = Reserve(job(7, 0, 1), "actor-7", ("train-0", "train-2"))


def test_nodes_are_kept_for_the_user_and_the_job_goes_in_while_it_runs(stage: Stage) -> None:
    perform(stage, BIG)
    (_, made), (last, entered) = stage.asked[-2:]
    assert made is not None
    assert (made["users"], made["node_list"]) == (["ada"], ["train-0", "train-2"])
    assert set(made["flags"]) == {"IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"}
    assert (last, entered) == ("POST /slurm/v0.0.45/job/7", {"reservation": "actor-7"})


def test_a_user_whom_slurmctld_does_not_know_is_served_by_account() -> None:
    class Account(Slurm):
        def __init__(self) -> None:
            super().__init__(lambda: http.client.HTTPConnection("127.0.0.1", 1), lambda: "")
            self.made: list[object] = []

        def reservations(self) -> dict[str, Any]:
            return {}

        def reserve(self, name: str, nodes: Any, **whose: Any) -> None:
            if "users" in whose:
                raise SlurmError("Unspecified error")
            self.made.append((name, nodes, whose))

        def update_job(self, job: Any, **fields: object) -> None:
            self.made.append((job.id, fields))

    fake = Account()
    kubernetes = Kubernetes(lambda: http.client.HTTPConnection("127.0.0.1", 1), lambda: "", "slurm")
    Performer(kubernetes, fake).perform([[BIG]], lambda: True)
    assert fake.made == [
        ("actor-7", ("train-0", "train-2"), {"accounts": ["vision"]}),
        (7, {"reservation": "actor-7"}),
    ]


def test_a_place_that_can_not_be_kept_does_not_keep_a_job_on_a_broken_node(stage: Stage) -> None:
    stage.answers["POST /slurm/v0.0.45/reservation"] = (500, error(-1))
    perform(stage, BIG, Requeue(BIG.job))
    assert stage.calls[-1] == "GET /slurm/v0.0.45/job/7/requeue"


def test_a_reservation_that_is_there_is_not_made_again(stage: Stage) -> None:
    stage.answers["GET /slurm/v0.0.45/reservations/"] = (
        200,
        {"reservations": [{"name": "actor-7", "node_list": "train-[0,2]"}]},
    )
    perform(stage, BIG)
    assert "POST /slurm/v0.0.45/reservation" not in stage.calls


def test_a_failed_step_ends_its_list_and_no_other(stage: Stage) -> None:
    stage.answers["PATCH /api/v1/nodes/a"] = (500, {"message": "etcd is away"})
    one = Performer(Kubernetes(stage.connect, lambda: "", "slurm"), slurm(stage))
    one.perform([[Cordon("a", "x"), Drain("a", "x")], [Drain("b", "x")]], lambda: True)
    assert stage.calls == ["PATCH /api/v1/nodes/a", "POST /slurm/v0.0.45/node/b"]


def test_without_the_lease_nothing_is_done(stage: Stage) -> None:
    one = Performer(Kubernetes(stage.connect, lambda: "", "slurm"), slurm(stage))
    one.perform([[Drain("a", "x")]], lambda: False)
    assert stage.calls == []


def test_newer_versions_of_slurms_api_are_tried_in_order(stage: Stage) -> None:
    stage.answers["GET /slurm/v0.0.45/ping/"] = (404, {})
    slurm(stage).update_node("a", extra="x")
    assert stage.calls == ["POST /slurm/v0.0.46/node/a"]


def test_an_old_slurm_and_a_token_that_is_not_taken_are_told(stage: Stage) -> None:
    stage.answers["GET /slurm/v0.0.45/ping/"] = (401, {})
    with pytest.raises(SlurmError, match="token"):
        slurm(stage).nodes()
    for version in ("45", "46", "47"):
        stage.answers[f"GET /slurm/v0.0.{version}/ping/"] = (404, {})
    with pytest.raises(SlurmError, match=r"26\.05 or later"):
        slurm(stage).nodes()


def test_long_lists_of_kubernetes_come_in_pages(stage: Stage) -> None:
    stage.answers["GET /api/v1/nodes?limit=500"] = (200, {"items": [{"a": 1}], "metadata": {"continue": "t"}})
    stage.answers["GET /api/v1/nodes?limit=500&continue=t"] = (200, {"items": [{"a": 2}], "metadata": {}})
    assert Kubernetes(stage.connect, lambda: "", "slurm").nodes() == [{"a": 1}, {"a": 2}]


def test_a_lease_that_somebody_else_took_is_not_ours(stage: Stage) -> None:
    one = Kubernetes(stage.connect, lambda: "", "slurm")
    path = "/apis/coordination.k8s.io/v1/namespaces/slurm/leases"
    stage.answers[f"PUT {path}/slurm-actor"] = (409, {})
    stage.answers[f"GET {path}/slurm-actor"] = (404, {})
    assert one.lease("slurm-actor") is None
    assert not one.write_lease("slurm-actor", {"metadata": {"name": "slurm-actor", "resourceVersion": "1"}})
    assert one.write_lease("slurm-actor", {"metadata": {"name": "slurm-actor"}})
    assert stage.calls[-1] == f"POST {path}"


def test_a_report_is_an_event_about_the_node(stage: Stage) -> None:
    perform(stage, Report("fault", "NodeFault", "text", "host-1"))
    asked, body = stage.asked[-1]
    assert asked == "POST /api/v1/namespaces/default/events"
    assert body is not None
    assert (body["reason"], body["type"], body["involvedObject"]["name"]) == ("NodeFault", "Warning", "host-1")


def test_each_step_is_one_line_of_json(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "actor"):
        perform(stage, Requeue(job(12, 1, step_id="10_1")))
    assert [json.loads(record.message) for record in caplog.records] == [{"action": "Requeue", "job": "10_1"}]
    assert json.loads(line(BIG, error="x")) == {
        **{"action": "Reserve", "error": "x", "job": "7", "name": "actor-7", "nodes": ["train-0", "train-2"]}
    }


def test_nobody_there() -> None:
    def connect() -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", 1, timeout=1)

    with pytest.raises(KubernetesError, match="does not answer"):
        Kubernetes(connect, lambda: "", "slurm").nodes()
    with pytest.raises(SlurmError, match="does not answer"):
        Slurm(connect, lambda: "").nodes()
    with pytest.raises(web.WebError):
        web.call(connect, "GET", "/", None, {})
