"""Paths, lists, projects and the check that stack and key belong together."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest

from crusoe.client import Client, ConfigurationError, Credentials, CrusoeError, MalformedAnswer, Unauthorized, connect
from crusoe.client import client as client_module
from crusoe.client.client import encode
from tests.unit.crusoe.client.support import ENDPOINT, KEY_TEXT, PROJECT, Api, FakeClock, MakeClient, answer, refusal

OTHER = "00000000-0000-4000-8000-000000000002"
KEYS = {"CRUSOE_ACCESS_KEY_ID": "KEY-ID", "CRUSOE_SECRET_KEY": KEY_TEXT}


def projects_api(*items: Mapping[str, object]) -> Api:
    """The project look-ups of the API, by id and by name."""

    def look_up(request: httpx.Request) -> httpx.Response:
        last = request.url.path.rsplit("/", 1)[-1]
        if last != "projects":
            found = [item for item in items if item.get("id") == last]
            return answer(200, found[0]) if found else refusal(404, "project not found", "not_found")
        wanted = parse_qs(request.url.query.decode()).get("project_name")
        return answer(200, {"items": [item for item in items if not wanted or item.get("name") == wanted[0]]})

    return Api(look_up)


def project(api: Api, wanted: str | None, credentials: Credentials) -> str:
    client = Client(ENDPOINT, credentials, wanted, http_transport=httpx.MockTransport(api), clock=FakeClock())
    assert client.project_id == client.project_id
    return client.project_id


class TestProject:
    both = ({"id": PROJECT, "name": "local"}, {"id": OTHER, "name": "other"})

    def test_by_name(self, credentials: Credentials) -> None:
        api = projects_api(*self.both)
        assert project(api, "other", credentials) == OTHER
        assert api.requests[0].url.query == b"project_name=other"
        assert len(api.requests) == 1, "it is looked up once"

    def test_by_id(self, credentials: Credentials) -> None:
        assert project(projects_api(*self.both), OTHER.upper(), credentials) == OTHER

    def test_the_only_one(self, credentials: Credentials) -> None:
        assert project(projects_api(self.both[0]), None, credentials) == PROJECT

    @pytest.mark.parametrize(
        ("items", "wanted", "said"),
        [
            (both, "prod", "sees no project named 'prod'; it sees local, other"),
            ((), "prod", "it sees no project at all"),
            (both, None, "Name the project: the access key sees local, other"),
            (both, "11111111-1111-4111-8111-111111111111", "no access to project 11111111"),
            (({"id": PROJECT, "name": "twin"}, {"id": OTHER, "name": "twin"}), "twin", f"one of {PROJECT}, {OTHER}"),
        ],
    )
    def test_what_is_wrong_is_one_sentence(
        self, credentials: Credentials, items: tuple[Mapping[str, object], ...], wanted: str | None, said: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=said):
            project(projects_api(*items), wanted, credentials)

    def test_a_search_by_part_of_the_name_is_not_taken_for_a_match(self, credentials: Credentials) -> None:
        api = Api(answer(200, {"items": [{"id": OTHER, "name": "production"}]}))
        with pytest.raises(ConfigurationError, match="sees no project named 'prod'; it sees production"):
            project(api, "prod", credentials)

    def test_a_project_of_another_key(self, credentials: Credentials) -> None:
        with pytest.raises(ConfigurationError, match="use a key of that project"):
            project(Api(refusal(403, "no", "unauthorized")), PROJECT, credentials)

    def test_a_listing_without_ids(self, credentials: Credentials) -> None:
        with pytest.raises(MalformedAnswer, match="without an id"):
            project(Api(answer(200, {"items": [{"name": "local"}]})), "local", credentials)

    def test_parallel_first_calls_look_it_up_once(self, credentials: Credentials) -> None:
        api = projects_api(*self.both)
        client = Client(ENDPOINT, credentials, "local", http_transport=httpx.MockTransport(api), clock=FakeClock())
        threads = [threading.Thread(target=lambda: client.project_id) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(api.requests) == 1


class TestConnect:
    def connect(self, home: Path, endpoint: str = ENDPOINT, wanted: str | None = "local", **environ: str) -> Client:
        return connect(
            endpoint,
            wanted,
            environ={**KEYS, **environ},
            home=home,
            http_transport=httpx.MockTransport(projects_api({"id": PROJECT, "name": "local"})),
            clock=FakeClock(),
        )

    def test_all_in_order(self, tmp_path: Path) -> None:
        client = self.connect(tmp_path, f"{ENDPOINT}/", CRUSOE_API_ENDPOINT=ENDPOINT, CRUSOE_DEFAULT_PROJECT="local")
        assert client.project_id == PROJECT
        assert self.connect(tmp_path, CRUSOE_DEFAULT_PROJECT=PROJECT.upper()).project.name == "local"
        assert self.connect(tmp_path, wanted=None, CRUSOE_DEFAULT_PROJECT="local").project_id == PROJECT

    def test_the_environment_is_for_another_endpoint(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:8787/v1: use the stack's own key"):
            self.connect(tmp_path, CRUSOE_API_ENDPOINT="http://127.0.0.1:8787/v1")

    def test_the_environment_is_for_another_project(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="project is local, but CRUSOE_DEFAULT_PROJECT names prod"):
            self.connect(tmp_path, CRUSOE_DEFAULT_PROJECT="prod")

    def test_a_paid_account_s_profile_never_meets_the_local_cloud(self, tmp_path: Path) -> None:
        folder = tmp_path / ".crusoe"
        folder.mkdir()
        (folder / "config").write_text(f"[default]\naccess_key_id = 'K'\nsecret_key = '{KEY_TEXT}'\n")
        api = Api(answer())
        with pytest.raises(ConfigurationError, match=r"is for https://api\.cloud\.crusoe\.ai/v1"):
            connect(
                "http://127.0.0.1:8787/v1", "local", environ={}, home=tmp_path, http_transport=httpx.MockTransport(api)
            )
        assert api.requests == []

    def test_a_wrong_key_is_told(self, tmp_path: Path) -> None:
        transport = httpx.MockTransport(Api(refusal(401, "bad credential", "bad_credential")))
        with pytest.raises(Unauthorized, match="CRUSOE_ACCESS_KEY_ID in the environment"):
            connect(ENDPOINT, "local", environ=KEYS, home=tmp_path, http_transport=transport, clock=FakeClock())

    @pytest.mark.parametrize(
        ("fault", "seconds"),
        [
            (httpx.ReadTimeout("timed out"), 6),
            (httpx.ConnectTimeout("timed out"), 3),
            (refusal(429, "busy", retry_after="60"), 0),
        ],
    )
    def test_a_service_that_does_not_answer_is_told_within_fifteen_seconds(
        self, tmp_path: Path, fault: Exception | httpx.Response, seconds: float
    ) -> None:
        clock = FakeClock()
        transport = httpx.MockTransport(Api(fault, clock=clock, seconds=seconds))
        start = clock.monotonic()
        with pytest.raises(CrusoeError):
            connect(ENDPOINT, "local", environ=KEYS, home=tmp_path, http_transport=transport, clock=clock)
        assert clock.monotonic() - start < 7.5, "there are two look-ups"


class TestList:
    def test_all_pages(self, make_client: MakeClient) -> None:
        api = Api(
            answer(200, {"items": [{"id": "a"}], "next_token": "t/1"}),
            answer(200, {"items": [{"id": "b"}], "next_token": "t2"}),
            answer(200, {"items": [{"id": "c"}], "next_token": ""}),
        )
        found = make_client(api).list("kubernetes/clusters", cluster_name="x")
        assert [item["id"] for item in found] == ["a", "b", "c"]
        assert [request.url.query.decode() for request in api.requests] == [
            "cluster_name=x",
            "cluster_name=x&next_token=t%2F1",
            "cluster_name=x&next_token=t2",
        ]

    def test_the_add_on_pages(self, make_client: MakeClient) -> None:
        api = Api(answer(200, {"addons": [{"a": 1}], "next_page_token": "n"}), answer(200, {"addons": []}))
        assert make_client(api).list("kubernetes/addons/available", key="addons") == [{"a": 1}]
        assert api.requests[1].url.query == b"page_token=n"

    def test_a_token_that_comes_again_ends_the_list(self, make_client: MakeClient) -> None:
        api = Api(answer(200, {"items": [{"id": "a"}], "next_token": "t"}))
        assert len(make_client(api).list("kubernetes/clusters")) == 2
        assert len(api.requests) == 2

    @pytest.mark.parametrize("body", [{}, {"items": None}, {"items": []}, {"items": [1, "x", None]}])
    def test_nothing_in_it(self, make_client: MakeClient, body: dict[str, object]) -> None:
        assert make_client(Api(answer(200, body))).list("networking/ib-networks") == []

    def test_no_list(self, make_client: MakeClient) -> None:
        with pytest.raises(MalformedAnswer, match="'items' is not a list"):
            make_client(Api(answer(200, {"items": {"id": "x"}}))).list("networking/ib-networks")

    def test_a_list_without_end(self, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client_module, "MOST_PAGES", 20)
        count = iter(range(10**6))
        api = Api(lambda _request: answer(200, {"items": [], "next_token": f"t{next(count)}"}))
        with pytest.raises(MalformedAnswer, match="does not end"):
            make_client(api).list("networking/ib-networks")


def test_paths_are_relative_to_project_or_endpoint(make_client: MakeClient) -> None:
    api = Api(answer())
    client = make_client(api)
    client.get("storage/disks/d", show="1")
    client.get("/capacities", location="us-east1-a")
    assert [str(request.url) for request in api.requests] == [
        f"{ENDPOINT}/projects/{PROJECT}/storage/disks/d?show=1",
        f"{ENDPOINT}/capacities?location=us-east1-a",
    ]


@pytest.mark.parametrize("path", ["", "storage/disks/", "a//b", "storage/disks/..", "a/./b", "a/b\nc", "/", "//evil/x"])
def test_an_empty_or_odd_id_never_reaches_another_object(make_client: MakeClient, path: str) -> None:
    api = Api(answer())
    with pytest.raises(ConfigurationError, match="malformed"):
        make_client(api).delete(path)
    assert api.requests == []


def test_question_marks_and_hashes_in_an_id_stay_in_the_path(make_client: MakeClient) -> None:
    api = Api(answer())
    make_client(api).get("storage/disks/a?b#c;d")
    assert api.requests[0].url.raw_path.endswith(b"/storage/disks/a%3Fb%23c%3Bd")


def test_whole_floats_leave_as_integers() -> None:
    body = {"count": 2.0, "big": 1e15, "half": 0.5, "yes": True, "list": [1.0, {"x": 3.0}], "tuple": (4.0,)}
    assert encode(body) == b'{"big":1000000000000000,"count":2,"half":0.5,"list":[1,{"x":3}],"tuple":[4],"yes":true}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}, object()])
def test_what_json_has_not_is_never_sent(make_client: MakeClient, value: object) -> None:
    api = Api(answer())
    with pytest.raises(ConfigurationError, match="JSON does not have"):
        make_client(api).post("storage/disks", {"size": value})
    assert api.requests == []


def test_a_query_that_is_no_text_is_never_sent(make_client: MakeClient) -> None:
    api = Api(answer())
    with pytest.raises(ConfigurationError, match="not valid text"):
        make_client(api).list("kubernetes/clusters", cluster_name="\ud800")
    assert api.requests == []


def test_the_client_closes_its_connections(make_client: MakeClient) -> None:
    with make_client(Api(answer())) as client:
        client.get("storage/disks/d")
    assert client.get("storage/disks/d") == {}, "a closed client opens new ones"
