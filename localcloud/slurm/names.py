"""The names that pods find each other by, as one /etc/hosts per namespace: pure functions.

There is no DNS server, and of all Services' addresses only the API server's answers. A Service's name is the address of
one of its pods, so a Service's port has to be its pods' own, and one pod gets all connections, the first one that is
ready.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.slinky.values import at, items, words

Object = Mapping[str, Any]
_DOMAIN = "svc.cluster.local"


def hosts(namespace: str, pods: Iterable[Object], services: Iterable[Object], nowhere: str) -> str:
    """The text of /etc/hosts for a namespace's pods.

    `pods` and `services` are those of all namespaces. A Service without pods leads to `nowhere`, an address at which no
    port answers: its name is known all the same.
    """
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    known = sorted((pod for pod in pods if _address(pod)), key=_order)
    for pod in known:
        metadata, spec = pod["metadata"], pod["spec"]
        hostname, at = spec.get("hostname") or metadata["name"], metadata["namespace"]
        names = {hostname, metadata["name"]} if at == namespace else set[str]()
        if spec.get("subdomain"):
            full = f"{hostname}.{spec['subdomain']}.{at}"
            names |= {full, f"{full}.svc", f"{full}.{_DOMAIN}"}
            names |= {f"{hostname}.{spec['subdomain']}"} if at == namespace else set[str]()
        if names:
            lines.append(f"{_address(pod)} {' '.join(sorted(names))}")
    for service in services:
        name, at = service["metadata"]["name"], service["metadata"]["namespace"]
        behind = [_address(pod) for pod in known if _selected(service, pod)]
        names = [f"{name}.{at}.{_DOMAIN}", f"{name}.{at}.svc", f"{name}.{at}", *([name] if at == namespace else [])]
        # The API server is no pod, and the only thing that answers at its Service's own address.
        own = [service["spec"]["clusterIP"]] if (at, name) == ("default", "kubernetes") else []
        lines.append(f"{(own or behind or [nowhere])[0]} {' '.join(names)}")
    return "".join(f"{line}\n" for line in lines)


def _address(pod: Object) -> str:
    return at(pod, "status", "podIP") or ""


def _order(pod: Object) -> tuple[bool, str, str]:
    """Ready pods first, and always in the same order."""
    conditions = items(pod, "status", "conditions")
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return (not ready, pod["metadata"]["namespace"], pod["metadata"]["name"])


def _selected(service: Object, pod: Object) -> bool:
    selector = words(service, "spec", "selector")
    labels = words(pod, "metadata", "labels")
    return (
        bool(selector)
        and service["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and all(labels.get(key) == value for key, value in selector.items())
    )


def free_address(node: ipaddress.IPv4Network, taken: Iterable[str]) -> str:
    """An address of a node's range that no pod has, from its end: kwok gives its own pods those at the beginning.

    Raises ValueError when there is none.
    """
    used = set(taken)
    for number in range(node.num_addresses - 3, 0, -1):
        address = str(node[number])
        if address not in used:
            return address
    raise ValueError(f"all addresses of {node} are taken")
