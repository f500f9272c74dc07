"""The ASGI application: the API under `/v1` behind its gate, the admin surface under `/_local`, the console's pages."""

import asyncio
import logging
from email.utils import formatdate
from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localcloud import pools
from localcloud.admin import ADMIN_PREFIX, admin_app
from localcloud.api import vpc_networks, vpc_subnets
from localcloud.api.families import FAMILIES
from localcloud.api.wire import ErrorView
from localcloud.cloud import Cloud
from localcloud.gate import Gate
from localcloud.handlers import add_error_handlers
from localcloud.managed_slurm.operator import SlurmOperator
from localcloud.watch import Watch, nodes_of, running_clusters

_LOG = logging.getLogger(__name__)
BASE_PATH = "/v1"
CONSOLE_PREFIX = "/console"


@cache
def api_app() -> FastAPI:
    """The API without its gate. It holds no cloud: each request brings the one that it is for in its state."""
    app = FastAPI(
        title="Crusoe Cloud on this machine",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses={status: {"model": ErrorView} for status in (400, 401, 403, 404, 409, 429, 500)},
    )
    for family in FAMILIES:
        for router in family.routers():
            app.include_router(router, prefix=BASE_PATH, responses={})
    add_error_handlers(app)
    return app


class Application:
    """The whole server as one ASGI app."""

    def __init__(self, cloud: Cloud, about: dict[str, Any] | None = None) -> None:
        """Serve `cloud`; `about` is what the open health page tells."""
        self.cloud = cloud
        self.watch = Watch(cloud)
        self._slurm = SlurmOperator(cloud)
        self._about = about or {}
        self._gate = Gate(api_app(), cloud)
        self._admin = admin_app()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the server's start and end."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            scope["state"] = {
                **scope.get("state", {}),
                "cloud": self.cloud,
                "about": self._about,
                "watch": self.watch,
                "description": api_app().openapi,
            }
            await self._part(scope["path"])(scope, receive, self._dated(send))

    def _part(self, path: str) -> ASGIApp:
        if path.startswith(f"{ADMIN_PREFIX}/"):
            return self._admin
        if path == CONSOLE_PREFIX or path.startswith(f"{CONSOLE_PREFIX}/"):
            # Imported here: a start does without templates.
            from localcloud.console.app import console_app

            return console_app()
        return self._gate

    def _dated(self, send: Send) -> Send:
        """Have answers tell the time of the cloud's clock, so that a client sees by how much its own is off."""

        async def dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = formatdate(self.cloud.clock.now(), usegmt=True).encode()
                message = {**message, "headers": [*message.get("headers", ()), (b"date", date)]}
            await send(message)

        return dated

    def start(self) -> None:
        """Make the default networks if they are missing, bring the clusters back and continue what was interrupted."""
        self.cloud.loop = asyncio.get_running_loop()
        seed(self.cloud)
        self.cloud.planes.recover(
            [(pools.cluster_spec(cluster), nodes_of(self.cloud, cluster)) for cluster in running_clusters(self.cloud)]
        )
        if resumed := self.cloud.operations.resume():
            _LOG.info("continuing %d operations", resumed)
        self.watch.start()
        self._slurm.start()

    async def stop(self) -> None:
        """End the background work."""
        await self.watch.stop()
        await self._slurm.stop()
        await self.cloud.planes.stop()
        await self.cloud.operations.stop()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})


def seed(cloud: Cloud) -> None:
    """Give every project its default network with one subnet per location."""
    with cloud.store.transaction():
        for project_id in cloud.facts.projects.values():
            if cloud.store.named(vpc_networks.KIND, project_id, vpc_networks.DEFAULT_NAME):
                continue
            network = vpc_networks.new_network(
                project_id, vpc_networks.DEFAULT_NAME, vpc_networks.DEFAULT_CIDR, default=True
            )
            cloud.store.insert(network)
            for place in cloud.facts.locations.values():
                cloud.store.insert(
                    vpc_subnets.new_subnet(
                        project_id,
                        f"default-{place.name}",
                        place.default_subnet,
                        place.name,
                        network.id,
                        nat=True,
                        default=True,
                    )
                )
