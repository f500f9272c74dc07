"""The loop of one cluster: whoever's Deployment has an available pod does its work, once a second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.actors import Actor, Place
from localcloud.kubernetes.api_server import ApiError
from localcloud.slinky import certificates, mariadb
from localcloud.slinky.kinds import DEPLOYMENTS
from localcloud.slinky.objects import Objects
from localcloud.slinky.operator import Operator
from localcloud.slinky.rest import SlurmRest
from localcloud.slinky.values import at, items, name_of

_LOG = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_PROGRAMS = ("cert-manager", "cert-manager-cainjector", "mariadb-operator", "slurm-operator")

Connect = Callable[[Place, Callable[[], str]], SlurmRest]
"""Slurm's REST API in a cluster, given a maker of tokens."""


def slinky(connect: Connect) -> Actor:
    """The actor that plays Slinky's operator, cert-manager and the MariaDB operator."""

    def act(place: Place, stop: threading.Event) -> None:
        operator = Operator(place.api, lambda token: connect(place, token))
        databases = Objects(place.api, "mariadb-operator")
        said = ""
        while not stop.is_set():
            try:
                _look(place, operator, databases)
                said = ""
            except ControlPlaneError as error:
                if str(error) != said and not stop.is_set():
                    _LOG.warning("Slinky in cluster %s: %s", place.cluster.name, error)
                said = str(error)
            stop.wait(_TICK_SECONDS)

    return act


def _look(place: Place, operator: Operator, databases: Objects) -> None:
    running = {
        name_of(item): item
        for item in place.api.list(DEPLOYMENTS.path())
        if name_of(item) in _PROGRAMS and at(item, "status", "availableReplicas")
    }
    works: Mapping[str, Callable[[], None]] = {
        "cert-manager": lambda: certificates.issue(place.api),
        "cert-manager-cainjector": lambda: certificates.inject(place.api),
        "mariadb-operator": lambda: mariadb.sync(place.api, databases),
        "slurm-operator": lambda: operator.look(*_arguments(running["slurm-operator"])),
    }
    for name, work in works.items():
        if name in running:
            try:
                work()
            except ApiError as error:
                # Its kinds are not defined yet, or not any more: a program waits for them.
                if error.status != HTTPStatus.NOT_FOUND:
                    raise


def _arguments(deployment: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The namespaces that the operator looks at, and the node conditions it passes on."""
    containers = items(deployment, "spec", "template", "spec", "containers")
    given: dict[str, str] = {}
    for container in containers:
        arguments: list[str] = at(container, "args") or []
        given |= {name.removeprefix("--"): value for name, _, value in (each.partition("=") for each in arguments)}
    return _list(given.get("namespaces", "")), _list(given.get("propagated-node-conditions", ""))


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
