"""How pods find each other."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from localcloud.slurm.names import free_address, hosts


def pod(name: str, address: str, *, ready: bool = True, namespace: str = "slurm", **spec: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "ctld"}},
        "spec": spec,
        "status": {"podIP": address, "conditions": [condition]},
    }


def service(name: str, app: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "slurm"}, "spec": {"selector": {"app": app}}}


def names(text: str) -> dict[str, str]:
    """Address by name."""
    return {name: line.split()[0] for line in text.splitlines() for name in line.split()[1:]}


def test_a_service_leads_to_a_ready_pod() -> None:
    pods = [pod("a", "10.0.0.1", ready=False), pod("b", "10.0.0.2")]
    found = names(hosts("slurm", pods, [service("slurm-controller", "ctld")], "10.0.0.254"))
    for name in ("slurm-controller", "slurm-controller.slurm", "slurm-controller.slurm.svc.cluster.local"):
        assert found[name] == "10.0.0.2"
    assert (found["a"], found["b"]) == ("10.0.0.1", "10.0.0.2")


def test_a_service_without_pods_is_known_but_answers_nowhere() -> None:
    assert names(hosts("slurm", [], [service("mariadb", "db")], "10.0.0.254"))["mariadb.slurm"] == "10.0.0.254"


def test_the_api_server_is_known_by_the_address_of_its_service() -> None:
    kubernetes = {"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1"}}
    assert names(hosts("slurm", [], [kubernetes], "10.0.0.254"))["kubernetes.default.svc"] == "10.96.0.1"


def test_a_worker_has_its_hostname_and_its_name_in_the_subdomain() -> None:
    worker = pod("set-a-0", "10.0.0.3", hostname="gpu-0", subdomain="slurm-workers-slurm")
    found = names(hosts("slurm", [worker], [], "10.0.0.254"))
    assert {"gpu-0", "set-a-0", "gpu-0.slurm-workers-slurm", "gpu-0.slurm-workers-slurm.slurm.svc"} <= set(found)


def test_short_names_hold_in_their_own_namespace_only() -> None:
    pods = [pod("a", "10.0.0.1", namespace="other")]
    found = names(hosts("other", pods, [service("slurm-controller", "ctld")], "10.0.0.254"))
    assert "slurm-controller" not in found
    assert found["slurm-controller.slurm"] == "10.0.0.254"
    assert "a" not in names(hosts("slurm", pods, [], "10.0.0.254"))


def test_addresses_come_from_the_end_of_the_nodes_range() -> None:
    node = ipaddress.IPv4Network("10.0.1.0/29")
    taken: list[str] = []
    for expected in ("10.0.1.5", "10.0.1.4", "10.0.1.3", "10.0.1.2", "10.0.1.1"):
        taken.append(free_address(node, taken))
        assert taken[-1] == expected
    with pytest.raises(ValueError, match="taken"):
        free_address(node, taken)
