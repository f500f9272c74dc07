"""The server process: one state folder, one socket on the loopback address, one event loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import logging.handlers
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from localcloud.admin_client import AdminClient
from localcloud.api.families import WORKS
from localcloud.app import Application
from localcloud.cloud import Cloud, Offered
from localcloud.control_plane import ControlPlane, ControlPlaneError
from localcloud.facts import Facts
from localcloud.keys import Keys, load_or_make
from localcloud.port_holder import holder
from localcloud.state import HOST, Configuration, LocalCloudError, ServerProcess, StateFolder
from localcloud.store import Store

if TYPE_CHECKING:
    from localcloud.kubernetes.actors import Actor

_LOG = logging.getLogger(__name__)
_LOG_BYTES, _LOG_FILES = 5_000_000, 3
_GRACE_SECONDS = 2


@dataclass(frozen=True)
class Options:
    """What a start may set; None keeps what the folder has."""

    generation: Offered | None = None
    operation_seconds: float | None = None


class CuttableProtocol(H11Protocol):
    """HTTP/1.1 whose requests know their connection, so that a fault can cut it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - uvicorn narrows it too
        """Put the connection into the state of each of its requests."""
        super().connection_made(transport)
        self.app_state: dict[str, Any] = {**self.app_state, "transport": transport}


class EndingServer(uvicorn.Server):
    """A server whose open streams end when it does; it would wait for them."""

    def __init__(self, config: uvicorn.Config, cloud: Cloud) -> None:
        """Serve `cloud`."""
        super().__init__(config)
        self._cloud = cloud

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._cloud.sights.close()
        await super().shutdown(sockets)


def serve(
    folder: StateFolder,
    configuration: Configuration,
    options: Options,
    *,
    foreground: bool,
    control_plane: ControlPlane | None = None,
) -> None:
    """Serve the folder until told to end, with real control planes unless given another implementation.

    Raises LocalCloudError when it can't begin.
    """
    folder.make()
    folder.hold()
    _set_up_log(folder, foreground=foreground)
    listener = listen(configuration.port)
    port = int(listener.getsockname()[1])
    folder.configure(Configuration(port, configuration.outside_vpc))
    facts = Facts()
    keys = load_or_make(folder.path, facts.projects)
    process = ServerProcess(os.getpid(), "", port)
    cloud = Cloud(
        Store(folder.database),
        keys,
        lambda: control_plane or real_control_plane(folder, keys, process.endpoint, actors_of(cloud, port)),
        WORKS,
        facts,
    )
    if options.generation is not None:
        cloud.store.set_setting("generation", options.generation)
    if options.operation_seconds is not None:
        cloud.store.set_setting("operation_seconds", options.operation_seconds)
    folder.announce(port)
    _LOG.info("serving %s for %s", process.endpoint, folder.path)
    asyncio.run(_run(cloud, listener, {"pid": os.getpid(), "state": str(folder.path), "endpoint": process.endpoint}))
    cloud.store.close()
    _LOG.info("ended")
    logging.shutdown()
    sys.stdout.flush()
    # Not sys.exit: it would wait for worker threads that are still busy with a control plane, and what they do is
    # continued at the next start anyway.
    os._exit(0)


def listen(port: int) -> socket.socket:
    """A socket on the loopback address; raises LocalCloudError that names who has the port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise LocalCloudError(f"port {port} on {HOST} can't be used: {error.strerror}") from error
        by = _another_cloud(port) or holder(port)
        held = f" by {by}" if by else ""
        raise LocalCloudError(
            f"port {port} on {HOST} is in use{held}; end that, or choose another with --port"
        ) from None
    return listener


def _another_cloud(port: int) -> str | None:
    found = AdminClient.health(ServerProcess(0, "", port))
    return f"the local cloud of {found['state']}" if found else None


def actors_of(cloud: Cloud, port: int) -> Mapping[str, Actor]:
    """What works in every cluster while the server runs, by name; `port` is that of the API."""
    # Imported here: a start without clusters needs none of it.
    from localcloud.autoclusters.engine import autoclusters
    from localcloud.console import looking
    from localcloud.in_cluster.load_balancers import balancers
    from localcloud.in_cluster.volumes import volumes
    from localcloud.kubernetes.egress import egress
    from localcloud.slinky import webhook
    from localcloud.slinky.actor import slinky
    from localcloud.slinky.rest import UnixRest
    from localcloud.slurm.kubelet import Kubelets
    from localcloud.slurm.reach import rest_socket

    kubelets = Kubelets(slurm_image, cloud.facts.vm_types, pod_tool, worker_image, (HOST, port))
    cloud.dialer = kubelets.connect
    return {
        "egress": egress([webhook.resolve, kubelets.resolve]),
        "volumes": volumes(cloud),
        "balancers": balancers(cloud),
        "autoclusters": autoclusters(cloud),
        "slurm-pods": kubelets.act,
        "console": looking.kubernetes(cloud),
        "console-slurm": looking.slurm(cloud),
        "slinky": slinky(lambda place, token: UnixRest(rest_socket(place.home), token)),
    }


def slurm_image() -> Path:
    """The folder with Slurm's programs; raises LabError where there is none."""
    from tools.slurm_root.root import folder

    return _for_pods(folder)


def worker_image() -> Path:
    """The folder of workers and login pods, with PyTorch where it was made; raises LabError where there is none."""
    from tools.slurm_root.root import worker_folder

    return _for_pods(worker_folder)


def pod_tool(name: str) -> Path:
    """A pinned tool that a pod runs; raises LabError where it is not there."""
    from tools.toolchain import binary

    return _for_pods(lambda: binary(name).resolve())


def _for_pods(find: Callable[[], Path]) -> Path:
    from localcloud.slurm.lab import LabError
    from tools.errors import ToolError

    try:
        return find()
    except ToolError as error:
        raise LabError(str(error)) from error


def real_control_plane(
    folder: StateFolder, keys: Keys, endpoint: str, actors: Mapping[str, Actor] | None = None
) -> ControlPlane:
    """The control planes of a folder, on the pinned toolchain, with these actors in every cluster."""
    # Imported here: a start without clusters needs none of it.
    from localcloud.kubernetes import CloudAccess, KwokControlPlane
    from tools.errors import ToolError
    from tools.toolchain import binary

    def tool(name: str) -> Path:
        try:
            return binary(name)
        except ToolError as error:
            raise ControlPlaneError(str(error)) from error

    key = keys.of_project("local")
    return KwokControlPlane(
        folder.clusters,
        binary=tool,
        access=CloudAccess(endpoint, key.id, key.secret),
        outside_vpc=folder.configuration().outside_vpc,
        actors=actors,
    )


async def _run(cloud: Cloud, listener: socket.socket, about: dict[str, Any]) -> None:
    config = uvicorn.Config(
        Application(cloud, about),
        http=CuttableProtocol,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # The application's own tells the cloud's time.
        date_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    await EndingServer(config, cloud).serve(sockets=[listener])


def _set_up_log(folder: StateFolder, *, foreground: bool) -> None:
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(folder.log, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8")
    ]
    if foreground:
        handlers.append(logging.StreamHandler())
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", handlers=handlers, force=True
    )
    # One line per call to a control plane would drown the rest.
    logging.getLogger("httpx").setLevel(logging.WARNING)
