"""A client for a stack: its endpoint and project with the environment's key, refused when they do not belong together.

Production state must never meet the local cloud, nor a development stack a paid account; so before the first request
the stack's endpoint is compared with the one that the environment, or the profile that holds the key, names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crusoe.client import credentials as sources
from crusoe.client.client import Client
from crusoe.client.endpoint import normalise
from crusoe.client.errors import ConfigurationError

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping
    from pathlib import Path

    import httpx

    from crusoe.client.clock import Clock
    from crusoe.client.projects import Project


def connect(
    endpoint: str,
    project: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    cancel: threading.Event | None = None,
    http_transport: httpx.BaseTransport | None = None,
    clock: Clock | None = None,
) -> Client:
    """Return a client whose endpoint, key and project are known to belong together and to work.

    Args:
        endpoint: the stack's endpoint.
        project: the stack's project, id or name; default: the one that the key's source names.
        environ: default: the process's environment.
        home: folder of `.crusoe/config`; default: `environ["HOME"]`.
        cancel: see `Client`.
        http_transport: see `Client`.
        clock: see `Client`.

    Raises:
        CrusoeError: one sentence, within 15 s; nothing was changed.
    """
    environment = os.environ if environ is None else environ
    credentials = sources.load(environment, home)
    wanted = normalise(endpoint)
    if credentials.endpoint and credentials.endpoint != wanted:
        raise ConfigurationError(
            f"This stack's endpoint is {wanted}, but the access key ({credentials.source}) is for"
            f" {credentials.endpoint}: use the stack's own key and set {sources.ENDPOINT} to match, or unset it."
        )
    client = Client(
        wanted, credentials, project or credentials.project, cancel=cancel, http_transport=http_transport, clock=clock
    )
    found = client.project
    named = environment.get(sources.PROJECT, "").strip()
    if named and not _same(named, found):
        raise ConfigurationError(
            f"This stack's project is {found.name or found.id}, but {sources.PROJECT} names {named}: set it to match,"
            " or unset it."
        )
    return client


def _same(named: str, project: Project) -> bool:
    return named == project.name or named.lower() == project.id.lower()
