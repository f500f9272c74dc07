"""The pages. Each request brings the cloud that it is for in its state."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import APIRouter, FastAPI, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from localcloud.api.family import CloudDep
from localcloud.cloud import Cloud
from localcloud.console import deeds, gathering, guard, views
from localcloud.console.deeds import Deed
from localcloud.console.roles import ROLES, STATES
from localcloud.errors import ApiError
from localcloud.watch import running_clusters

PREFIX = "/console"

_FOLDER = Path(__file__).parent
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FORM_BYTES = 10_000
_FIRST_SIGHT_SECONDS = 0.6
"""How long a page waits for the first sight of a cluster; without it the page is there all the same, and says so."""
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.3
_TICKS_OF_SILENCE = 10
"""An open page is told the time about every three seconds, so that it knows that somebody is there."""

router = APIRouter(prefix=PREFIX)


@router.get("")
async def bare() -> Response:
    """The address as people type it."""
    return RedirectResponse(f"{PREFIX}/", HTTPStatus.PERMANENT_REDIRECT)


@router.get("/")
async def overview(cloud: CloudDep) -> Response:
    """Everything at a glance."""
    seen, picture = await _picture(cloud)
    # Off the event loop, which has an API to answer: with 1,000 nodes this takes a tenth of a second.
    return await asyncio.to_thread(
        lambda: _page("overview.html", page=views.overview(picture), version=seen, live=True)
    )


@router.get("/nodes/{name}")
async def node(name: str, cloud: CloudDep) -> Response:
    """One node."""
    seen, picture = await _picture(cloud)
    page = views.node_page(picture, name)
    if page is None:
        said = f"There is no node {name!r}, or no longer: a replaced machine has a new name."
        raise HTTPException(HTTPStatus.NOT_FOUND, said)
    return _page("node.html", page=page, version=seen, live=True, xids=deeds.XIDS)


@router.get("/nodes/{name}/confirm")
async def confirm(name: str, request: Request, cloud: CloudDep) -> Response:
    """Ask before something is broken."""
    deed = Deed.read(name, request.query_params)
    _, picture = await _picture(cloud)
    consequences = deeds.consequences(deed, picture)
    return _page("confirm.html", deed=deed, consequences=consequences, token=guard.TOKEN, live=False)


@router.post("/nodes/{name}/deeds")
async def do(name: str, request: Request, cloud: CloudDep) -> Response:
    """Break it, once somebody has agreed."""
    fields = await _form(request)
    if not guard.is_ours(fields.get("token", "")):
        said = "The form is older than the local cloud's last start. Go back, reload the page, and ask again."
        raise HTTPException(HTTPStatus.FORBIDDEN, said)
    await deeds.do(Deed.read(name, fields), cloud)
    return RedirectResponse(f"{PREFIX}/nodes/{name}", HTTPStatus.SEE_OTHER)


@router.get("/changes")
async def changes(cloud: CloudDep, seen: str = "") -> Response:
    """A stream (server-sent events) that says when a page of the version `seen` is out of date, again and again."""
    return StreamingResponse(
        _changes(cloud, seen), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Style, script and icon; their addresses in pages have their digest, so a browser may keep them."""
    found = _static().get(name)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"There is no file {name!r}.")
    content, _ = found
    media_type = _TYPES[Path(name).suffix]
    return Response(content, media_type=media_type, headers={"cache-control": "max-age=31536000, immutable"})


async def _picture(cloud: Cloud) -> tuple[str, gathering.Picture]:
    """Everything, and the version that it is."""
    cloud.sights.want()
    deadline = time.monotonic() + _FIRST_SIGHT_SECONDS
    while time.monotonic() < deadline and any(
        cloud.sights.of(each.id) is None and cloud.sights.door(each.id) for each in running_clusters(cloud)
    ):
        await asyncio.sleep(_POLL_SECONDS)
    # Nothing is awaited between the two, so neither is newer than the other but for what threads see meanwhile.
    return _version(cloud), gathering.picture(cloud, time.time())


def _version(cloud: Cloud) -> str:
    return hashlib.sha256(gathering.version(cloud).encode()).hexdigest()[:16]


async def _changes(cloud: Cloud, seen: str) -> AsyncGenerator[str]:
    # Sent at once, so that the page knows that it is connected.
    yield ": hello\n\n"
    silence = 0
    while not cloud.sights.closed:
        cloud.sights.want()
        now, silence = _version(cloud), silence + 1
        if now != seen:
            yield f"event: changed\ndata: {now}\n\n"
        elif silence >= _TICKS_OF_SILENCE:
            yield f"event: time\ndata: {views.clock(time.time())}\n\n"
            silence = 0
        seen = now
        await asyncio.sleep(_LOOK_SECONDS)


async def _form(request: Request) -> Mapping[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "No form of the console is that large.")
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _page(template: str, status: int = HTTPStatus.OK, **values: object) -> Response:
    text = _templates().get_template(template).render({**_shared(), **values})
    return HTMLResponse(text, status, headers={"cache-control": "no-store"})


@cache
def _static() -> Mapping[str, tuple[bytes, str]]:
    """The files by name, with their digests."""
    found = {path.name: path.read_bytes() for path in (_FOLDER / "static").iterdir() if path.suffix in _TYPES}
    return {name: (content, hashlib.sha256(content).hexdigest()[:12]) for name, content in found.items()}


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"span": views.span, "clock": views.clock}
    return templates


@cache
def _shared() -> Mapping[str, object]:
    """What every page has."""
    addresses = {name: f"{PREFIX}/static/{name}?{digest}" for name, (_, digest) in _static().items()}
    return {"prefix": PREFIX, "static": addresses, "roles": ROLES, "states": STATES}


async def _refused(_request: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        return _page("refused.html", error.status, said=error.message, live=False)
    assert isinstance(error, HTTPException)  # noqa: S101  registered for these two only
    return _page("refused.html", error.status_code, said=error.detail, live=False)


@cache
def console_app() -> guard.Guard:
    """The pages behind their guard."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(router)
    app.add_exception_handler(ApiError, _refused)
    app.add_exception_handler(HTTPException, _refused)
    return guard.Guard(app)
