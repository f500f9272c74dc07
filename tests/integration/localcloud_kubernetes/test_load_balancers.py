"""Services of type LoadBalancer on a real control plane: an address that answers, behind the network's firewall."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from localcloud.in_cluster.load_balancers import balancers
from localcloud.kubernetes import KwokControlPlane
from tests.integration.localcloud_kubernetes.inhabited import Inhabited, cluster_with_nodes, inhabited
from tests.integration.localcloud_kubernetes.support import Live, pod, processes_below, until
from tools.toolchain import binary

pytestmark = pytest.mark.integration
Json = dict[str, Any]
MANAGED = {"crusoe.ai/manage-firewall-rule": "true"}
RULES, BALANCERS = "networking/vpc-firewall-rules", "networking/load-balancers"


class Echo(socketserver.BaseRequestHandler):
    """Says whom it is asked as, then repeats what it hears."""

    def handle(self) -> None:
        self.request.sendall(b"hello ")
        while data := self.request.recv(1024):
            self.request.sendall(data)


class Town:
    """A cloud with one cluster and one pod that runs as an echo server on this machine."""

    def __init__(self, cloud: Inhabited, cluster_id: str, echo: tuple[str, int]) -> None:
        self.cloud = cloud
        self.cluster_id = cluster_id
        self.live: Live = cloud.live(cluster_id)
        self.dialled: list[tuple[str, str, int]] = []
        self._echo = echo
        cloud.cloud.dialer = self.dial

    def dial(self, cluster_id: str, address: str, port: int) -> socket.socket:
        self.dialled.append((cluster_id, address, port))
        return socket.create_connection(self._echo, timeout=5)

    def service(self, name: str, port: int, *, annotations: Json | None = None, **spec: Any) -> None:
        self.live.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "annotations": annotations or {}},
                "spec": {
                    "type": "LoadBalancer",
                    "selector": {"app": "echo"},
                    "ports": [{"port": port, "targetPort": 7777}],
                    **spec,
                },
            }
        )

    def address(self, name: str) -> str:
        def shown() -> list[Json]:
            return self.live.get("service", name)["status"]["loadBalancer"].get("ingress", [])

        until(shown)
        return shown()[0]["ip"]

    def node_port(self, name: str) -> int:
        return self.live.get("service", name)["spec"]["ports"][0]["nodePort"]

    def rule(self, name: str, port: int | str, source: str = "127.0.0.0/8", **more: Any) -> Json:
        network = self.network()
        body = {
            "name": name,
            "vpc_network_id": network,
            "action": "allow",
            "direction": "ingress",
            "protocols": ["tcp"],
            "sources": [{"cidr": source}],
            "destinations": [{"resource_id": network}],
            "destination_ports": [str(port)],
            **more,
        }
        return self.cloud.done("POST", RULES, body)

    def network(self) -> str:
        return self.cloud.items("networking/vpc-networks")[0]["id"]

    def remove(self, name: str) -> None:
        self.live.kubectl("delete", "service", name, "--timeout=20s")


def says(address: str, port: int, source: str = "127.0.0.1") -> bytes:
    """What a client hears when it says "there"; nothing when it is turned away."""
    heard = b""
    with (
        suppress(OSError),
        socket.create_connection((address, port), timeout=5, source_address=(source, 0)) as client,
    ):
        client.sendall(b"there")
        client.shutdown(socket.SHUT_WR)
        while data := client.recv(1024):
            heard += data
    return heard


@pytest.fixture(scope="module")
def echo() -> Generator[tuple[str, int]]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ("127.0.0.1", server.server_address[1])
        server.shutdown()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory, echo: tuple[str, int]) -> Generator[Town]:
    folder = tmp_path_factory.mktemp("balancers")
    with inhabited(folder, lambda cloud: {"balancers": balancers(cloud)}) as cloud:
        town = Town(cloud, cluster_with_nodes(cloud, {"c1a.8x": 1}, add_ons=()), echo)
        run_echo(town)
        yield town
    KwokControlPlane(folder / "clusters", binary=binary).delete_all()
    assert processes_below(folder) == []


def run_echo(town: Town) -> None:
    server = pod("echo")
    server["metadata"]["labels"] = {"app": "echo"}
    town.live.create(server)
    until(lambda: town.live.get("pod", "echo")["status"].get("podIP"))


def test_a_service_gets_an_address_that_answers_and_takes_everything_with_it(town: Town) -> None:
    town.service("front", 8081, annotations=MANAGED, loadBalancerSourceRanges=["127.0.0.0/8"])
    address = town.address("front")
    until(lambda: says(address, 8081) == b"hello there")
    pod_address = town.live.get("pod", "echo")["status"]["podIP"]
    assert set(town.dialled) == {(town.cluster_id, pod_address, 7777)}
    [balancer] = town.cloud.items(BALANCERS)
    assert balancer["vip"] == address
    node = town.live.get("nodes")["items"][0]["status"]["addresses"][0]["address"]
    [port] = balancer["listen_ports_and_backends"]
    assert port == {"listen_port": 8081, "backends": [{"ip": node, "port": town.node_port("front")}]}
    [rule] = town.cloud.items(RULES)
    assert rule["destination_ports"] == [str(town.node_port("front"))]
    assert rule["sources"] == [{"cidr": "127.0.0.0/8"}]
    notes = town.live.get("service", "front")["metadata"]["annotations"]
    assert notes["crusoe.ai/load-balancer-id"] == balancer["id"]
    assert notes["crusoe.ai/firewall-rule-id"] == rule["id"]
    assert "local.crusoe.ai/listens" not in notes
    town.remove("front")
    assert town.cloud.items(BALANCERS) == []
    assert town.cloud.items(RULES) == []
    until(lambda: says(address, 8081) == b"")


def test_without_a_rule_for_the_node_port_nobody_gets_in(town: Town) -> None:
    town.service("shut", 8082)
    address = town.address("shut")
    assert town.cloud.items(RULES) == []
    assert says(address, 8082) == b""
    by_service_port = town.rule("service-port", 8082)
    assert says(address, 8082) == b""
    by_node_port = town.rule("node-port", town.node_port("shut"), source="127.0.0.0/30")
    until(lambda: says(address, 8082) == b"hello there")
    assert says(address, 8082, source="127.0.0.9") == b""
    denied = town.rule("denied", "1-65535", action="deny")
    assert says(address, 8082) == b""
    for rule in (by_service_port, by_node_port, denied):
        town.cloud.done("DELETE", f"{RULES}/{rule['id']}")
    town.remove("shut")


def test_only_the_source_ranges_get_in_whatever_the_firewall_says(town: Town) -> None:
    rule = town.rule("all", "30000-32767")
    town.service("few", 8083, loadBalancerSourceRanges=["127.0.0.8/29", "203.0.113.0/24"])
    address = town.address("few")
    until(lambda: says(address, 8083, source="127.0.0.9") == b"hello there")
    assert says(address, 8083) == b""
    town.remove("few")
    town.cloud.done("DELETE", f"{RULES}/{rule['id']}")


def test_a_managed_rule_is_made_once_and_again_if_it_was_deleted(town: Town) -> None:
    town.service("wider", 8084, annotations=MANAGED, loadBalancerSourceRanges=["127.0.0.8/29"])
    address = town.address("wider")
    town.live.kubectl("patch", "service", "wider", "-p", '{"spec":{"loadBalancerSourceRanges":["127.0.0.0/8"]}}')
    [rule] = town.cloud.items(RULES)
    assert rule["sources"] == [{"cidr": "127.0.0.8/29"}]
    assert says(address, 8084) == b""
    town.cloud.done("DELETE", f"{RULES}/{rule['id']}")
    until(lambda: [item["sources"] for item in town.cloud.items(RULES)] == [[{"cidr": "127.0.0.0/8"}]])
    until(lambda: says(address, 8084) == b"hello there")
    town.remove("wider")
    assert town.cloud.items(RULES) == []


def test_without_a_ready_pod_or_a_way_to_it_the_connection_is_closed(town: Town) -> None:
    town.service("empty", 8085, annotations=MANAGED, selector={"app": "nobody"})
    assert says(town.address("empty"), 8085) == b""
    town.service("lost", 8086, annotations=MANAGED)
    address = town.address("lost")
    until(lambda: says(address, 8086) == b"hello there")

    def lost(cluster_id: str, address: str, port: int) -> socket.socket:
        raise ConnectionRefusedError(f"{cluster_id} {address}:{port}")

    town.cloud.cloud.dialer = lost
    assert says(address, 8086) == b""
    town.cloud.cloud.dialer = town.dial
    assert says(address, 8086) == b"hello there"
    town.remove("empty")
    town.remove("lost")


def test_only_tcp_has_a_load_balancer(town: Town) -> None:
    town.service("dns", 53, ports=[{"port": 53, "protocol": "UDP"}])
    until(lambda: "only TCP is supported" in town.live.kubectl("get", "events", "-o", "wide"))
    assert town.cloud.items(BALANCERS) == []
    town.remove("dns")


def test_a_service_of_another_class_is_left_alone_and_another_type_lets_go(town: Town) -> None:
    town.service("other", 8087, loadBalancerClass="example.com/other")
    town.service("turned", 8088, annotations=MANAGED)
    address = town.address("turned")
    assert [item["vip"] for item in town.cloud.items(BALANCERS)] == [address]
    town.live.kubectl("patch", "service", "turned", "-p", '{"spec":{"type":"ClusterIP"}}')
    until(lambda: town.cloud.items(BALANCERS) == [])
    until(lambda: "finalizers" not in town.live.get("service", "turned")["metadata"])
    assert town.cloud.items(RULES) == []
    town.remove("other")
    town.remove("turned")


def test_after_a_kill_the_same_address_answers_and_a_deleted_cluster_leaves_its_balancer(
    tmp_path: Path, echo: tuple[str, int]
) -> None:
    def actors(cloud: Any) -> Any:
        return {"balancers": balancers(cloud)}

    try:
        with inhabited(tmp_path, actors) as cloud:
            town = Town(cloud, cluster_with_nodes(cloud, {"c1a.8x": 1}, add_ons=()), echo)
            run_echo(town)
            town.service("stays", 8091, annotations=MANAGED)
            address = town.address("stays")
            town.service("goes", 8092)
            town.address("goes")
        assert says(address, 8091) == b""
        town.live.kubectl("delete", "service", "goes", "--wait=false")
        assert town.live.get("service", "goes")["metadata"]["deletionTimestamp"]
        with inhabited(tmp_path, actors) as cloud:
            town = Town(cloud, town.cluster_id, echo)
            until(lambda: says(address, 8091) == b"hello there", seconds=60)
            until(lambda: len(cloud.items(BALANCERS)) == 1)
            assert town.address("stays") == address
            until(lambda: len(town.live.get("services")["items"]) == 2)
            for pool in cloud.items("kubernetes/nodepools"):
                cloud.done("DELETE", f"kubernetes/nodepools/{pool['id']}")
            cloud.done("DELETE", f"kubernetes/clusters/{town.cluster_id}")
            assert says(address, 8091) == b""
            [balancer], [rule] = cloud.items(BALANCERS), cloud.items(RULES)
            assert [event["subject"] for event in cloud.journal("load-balancer.left_behind")] == [balancer["id"]]
            assert [event["subject"] for event in cloud.journal("firewall-rule.left_behind")] == [rule["id"]]
            cloud.done("DELETE", f"{BALANCERS}/{balancer['id']}")
    finally:
        KwokControlPlane(tmp_path / "clusters", binary=binary).delete_all()
    assert processes_below(tmp_path / "clusters") == []
