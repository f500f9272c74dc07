"""The pages over ASGI: who may ask, what a form has to have, and that names from anywhere are only text."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from localcloud import pools
from localcloud.autoclusters import incidents
from localcloud.console import app, gathering, guard
from localcloud.console.sights import ClusterSight, JobSight, NodeSight, PodSight, Sights, SlurmNodeSight
from localcloud.kubernetes import gpu_faults
from tests.unit.localcloud.conftest import FACTS, Api, running

HOME = "http://127.0.0.1:8787"
EVIL = "<script>alert('x')</script>\"'>"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture
async def api(keys: Path) -> AsyncGenerator[Api]:
    async with running(keys, kept=False) as api:
        yield api


@pytest.fixture
async def browser(api: Api) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser of this machine."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api.application), base_url=HOME) as client:
        yield client


async def node(api: Api, vm_type: str = "l40s-48gb.10x") -> str:
    """A cluster with one GPU node, as it is seen when it is well."""
    cluster_id = await api.cluster()
    await api.pool(cluster_id, count=1, product_name=vm_type)
    name = api.cloud.store.all(pools.VM)[0].name
    api.cloud.sights.update(cluster_id, lambda _: ClusterSight(api.cloud.clock.now(), {name: NodeSight(name)}))
    return name


class Page(HTMLParser):
    """What a page is made of: tags with their attributes, and the ids that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.mark.parametrize("path", ["/console/", "/console/nodes/NODE", "/console/nodes/NODE/confirm?deed=power-off"])
async def test_a_page_asks_nobody_else_and_has_no_style_or_script_inside(
    api: Api, browser: httpx.AsyncClient, path: str
) -> None:
    answer = await browser.get(path.replace("NODE", await node(api)))
    assert answer.status_code == 200, answer.text
    page = Page(answer.text)
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "/console").startswith(("/console", "#"))
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


async def test_what_a_page_names_is_there(browser: httpx.AsyncClient) -> None:
    page = Page((await browser.get("/console/")).text)
    files = [each["href"] for each in page.all("link")] + [each["src"] for each in page.all("script")]
    assert len(files) == 3
    for file in files:
        answer = await browser.get(file or "")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    for file in ("app.py", "..%2fapp.py", "nothing.css"):
        assert (await browser.get(f"/console/static/{file}")).status_code == 404


async def test_every_table_has_a_caption_and_heads_and_every_field_a_label(
    api: Api, browser: httpx.AsyncClient
) -> None:
    name = await node(api)
    api.cloud.journal.record("alert.firing", "GpuLost", message="A GPU is gone.")
    for path in ("/console/", f"/console/nodes/{name}"):
        page = Page((await browser.get(path)).text)
        assert len(page.all("caption")) == len(page.all("table"))
        assert all("scope" in each for each in page.all("th"))
        labels = {each["for"] for each in page.all("label")}
        assert {each["id"] for each in page.all("select")} <= labels
        assert all(each.get("aria-label") for each in page.all("svg"))


async def test_without_a_script_a_page_comes_again_by_itself(browser: httpx.AsyncClient) -> None:
    text = (await browser.get("/console/")).text
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in text


async def test_names_from_anywhere_are_only_text(api: Api, browser: httpx.AsyncClient) -> None:
    name = await node(api)
    cluster_id = api.cloud.store.all(pools.CLUSTER)[0].id
    api.cloud.journal.record("alert.firing", EVIL, message=EVIL, severity=EVIL)
    incidents.set_webhook(api.cloud, f"http://127.0.0.1:9/{EVIL}")
    seen = ClusterSight(
        api.cloud.clock.now(),
        {name: NodeSight(name, unhealthy=EVIL, place=EVIL, mark=EVIL)},
        [PodSight(EVIL, EVIL, name, 1, worker=EVIL, part=EVIL, share=EVIL)],
        EVIL,
        slurm=True,
        slurm_nodes={EVIL: SlurmNodeSight(EVIL, frozenset({"DRAIN", EVIL}), EVIL)},
        jobs=[JobSight(EVIL, EVIL, EVIL, "RUNNING", EVIL, EVIL, (EVIL,), 1)],
        slurm_trouble=EVIL,
    )
    api.cloud.sights.update(cluster_id, lambda _: seen)
    for path in ("/console/", f"/console/nodes/{name}"):
        text = (await browser.get(path)).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text
        assert len(Page(text).all("script")) == 1, "its own only"


async def test_a_node_that_is_not_there_is_said_and_its_name_is_only_text(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/console/nodes/%3Cscript%3Ealert(1)")
    assert answer.status_code == 404
    assert "There is no node" in answer.text
    assert "<script>alert" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil", ""])
async def test_a_foreign_name_for_this_machine_gets_nothing(browser: httpx.AsyncClient, host: str) -> None:
    answer = await browser.get("/console/", headers={"Host": host})
    assert answer.status_code == 421
    assert "GPU" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8787", "localhost:9", "LOCALHOST", "[::1]:8787"])
async def test_this_machines_own_names_are_answered(browser: httpx.AsyncClient, host: str) -> None:
    assert (await browser.get("/console/", headers={"Host": host})).status_code == 200


def form(**changes: str) -> dict[str, str]:
    return {"token": guard.TOKEN, "deed": "gpu-fault", "xid": "79", "gpu": "3", **changes}


async def post(client: httpx.AsyncClient, name: str, origin: str | None = HOME, **changes: str) -> httpx.Response:
    headers = {} if origin is None else {"Origin": origin}
    return await client.post(f"/console/nodes/{name}/deeds", data=form(**changes), headers=headers)


async def test_an_agreed_form_breaks_the_gpu_as_the_command_does(api: Api, browser: httpx.AsyncClient) -> None:
    name = await node(api)
    answer = await post(browser, name)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/console/nodes/{name}")
    (found,) = incidents.every(api.cloud)
    assert (found.node, found.xid, found.gpu, found.phase) == (name, 79, 3, "injected")


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "https://127.0.0.1:8787", "http://127.0.0.1:9999", "http://localhost:8787"],
)
async def test_a_form_of_another_page_changes_nothing(api: Api, browser: httpx.AsyncClient, origin: str | None) -> None:
    answer = await post(browser, await node(api), origin)
    assert answer.status_code == 403
    assert incidents.every(api.cloud) == []


@pytest.mark.parametrize("token", ["", "x", "ü", "TOKENx"])
async def test_a_form_without_the_token_changes_nothing(api: Api, browser: httpx.AsyncClient, token: str) -> None:
    answer = await post(browser, await node(api), token=token.replace("TOKEN", guard.TOKEN))
    assert answer.status_code == 403
    assert "reload the page" in answer.text
    assert incidents.every(api.cloud) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"deed": "delete"}, "none of gpu-fault, power-off, power-on"),
        ({"xid": "1"}, "xid: 1 is none of"),
        ({"xid": "x"}, "numbers are needed"),
        ({"gpu": ""}, "numbers are needed"),
        ({"gpu": "10"}, "has 10 GPUs, which count from 0"),
        ({"gpu": "-1"}, "no GPU of"),
        ({"deed": "power-off"}, "no cluster that answers"),
    ],
)
async def test_what_can_not_be_done_is_said_in_a_sentence(
    api: Api, browser: httpx.AsyncClient, changes: dict[str, str], said: str
) -> None:
    answer = await post(browser, await node(api), **changes)
    assert answer.status_code == 400
    assert said in answer.text
    assert incidents.every(api.cloud) == []


async def test_a_huge_form_is_not_read(api: Api, browser: httpx.AsyncClient) -> None:
    assert (await post(browser, await node(api), more="x" * 20_000)).status_code == 413


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/console/", "/console/nodes/x", "/console/nodes/x/confirm", "/console/changes"])
async def test_nothing_else_takes_a_form(browser: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await browser.request(method, path, headers={"Origin": HOME}, data=form())
    assert answer.status_code == 405


async def test_asking_changes_nothing(api: Api, browser: httpx.AsyncClient) -> None:
    name = await node(api)
    for path in (f"{name}/confirm?deed=gpu-fault&xid=79&gpu=3", f"{name}/deeds?deed=gpu-fault&xid=79&gpu=3&token=x"):
        await browser.get(f"/console/nodes/{path}")
    assert incidents.every(api.cloud) == []


@pytest.mark.parametrize(
    ("action", "said"),
    [("REPLACE_NODE", "replace the machine"), ("OFF", "the action of XID_79 is OFF")],
)
async def test_the_question_says_what_will_follow(api: Api, browser: httpx.AsyncClient, action: str, said: str) -> None:
    name = await node(api)
    cluster_id = api.cloud.store.all(pools.CLUSTER)[0].id
    rows = [{"issue_name": "XID_79", "action": action}]
    await api.patch(f"{{p}}/kubernetes/clusters/{cluster_id}/autoclusters/config", {"set_remediation_overrides": rows})
    text = (await browser.get(f"/console/nodes/{name}/confirm?deed=gpu-fault&xid=79&gpu=3")).text
    assert f"Break GPU 3 of {name}?" in text
    assert said in text
    assert guard.TOKEN in text


async def test_the_api_and_its_description_know_nothing_of_the_pages(api: Api, browser: httpx.AsyncClient) -> None:
    described = (await browser.get("/_local/openapi.json")).json()["paths"]
    assert not [path for path in described if "console" in path]
    assert (await api.call("GET", "/console/")).status_code == 404
    assert (await browser.get("/consoles")).status_code == 401


async def test_another_start_is_another_version_though_all_counts_are_the_same() -> None:
    first, second = Sights(), Sights()
    assert first.version != second.version


async def test_a_change_gives_the_page_another_version(api: Api) -> None:
    name = await node(api)
    cluster_id = api.cloud.store.all(pools.CLUSTER)[0].id
    seen = {gathering.version(api.cloud)}

    def another() -> bool:
        now = gathering.version(api.cloud)
        new = now not in seen
        seen.add(now)
        return new

    assert not another()
    pool = api.cloud.store.all(pools.POOL)[0]
    incident = incidents.report(api.cloud, api.cloud.store.all(pools.VM)[0], pool, 79, 0)
    assert another(), "a fault"
    incident = incidents.advance(api.cloud, incident, "isolated")
    assert another(), "a phase that nobody is told of"
    operation = incidents.replace_vm(api.cloud, incident)
    assert another(), "an operation"
    await api.cloud.operations.launch(operation)
    assert another(), "its end"
    api.cloud.sights.update(cluster_id, lambda before: before)
    assert not another(), "a look that found nothing new"
    api.cloud.sights.update(cluster_id, lambda _: ClusterSight(0.0, {name: NodeSight(name, cordoned=True)}))
    assert another(), "a look that did"
    path = f"{{p}}/kubernetes/clusters/{cluster_id}/autoclusters/config"
    api.cloud.move_clock(60)
    await api.patch(path, {"set_remediation_overrides": [{"issue_name": "XID_48", "action": "OFF"}]})
    assert another(), "a setting of AutoClusters"


async def test_the_stream_tells_of_a_change_once_and_of_the_time_in_between(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_LOOK_SECONDS", 0)
    stream = app._changes(api.cloud, "old")  # pyright: ignore[reportPrivateUsage]  ASGITransport reads answers whole
    assert await anext(stream) == ": hello\n\n"
    assert (await anext(stream)).startswith("event: changed\n")
    assert re.fullmatch(r"event: time\ndata: \d\d:\d\d:\d\d\n\n", await anext(stream))
    api.cloud.journal.record("alert.firing", "GpuLost")
    assert (await anext(stream)).startswith("event: changed\n")
    assert api.cloud.sights.wanted
    await stream.aclose()


def test_the_errors_on_offer_are_those_that_the_machines_driver_has_words_for() -> None:
    from localcloud.console.deeds import XIDS

    for xid in XIDS:
        (line,) = gpu_faults.kernel_lines([gpu_faults.GpuFault(xid, 0)])
        assert not line.endswith(", error")
        assert f"XID_{xid}" in FACTS.autoclusters_issues
