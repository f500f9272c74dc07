"""Ports, and the address that never answers."""

from __future__ import annotations

import socket
import time

import httpx
import pytest

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes import ports
from localcloud.kubernetes.black_hole import BlackHole
from localcloud.kubernetes.ports import answers, choose_ports


def test_chosen_ports_are_different_free_and_outside_the_ranges_of_outgoing_connections() -> None:
    chosen = choose_ports(6, ())
    assert len(set(chosen)) == 6
    assert all(20000 <= port < 30000 for port in chosen)
    assert not any(answers(port) for port in chosen)


def test_a_port_of_another_cluster_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_FIRST", 29000)
    monkeypatch.setattr(ports, "_LAST", 29003)
    taken = {29000, 29001}
    assert choose_ports(1, taken) == [29002]
    with pytest.raises(ControlPlaneError, match="No 2 free TCP ports were found"):
        choose_ports(2, taken)


def test_a_port_somebody_listens_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "_FIRST", port)
        monkeypatch.setattr(ports, "_LAST", port + 1)
        with pytest.raises(ControlPlaneError):
            choose_ports(1, ())


def test_a_black_hole_ends_in_the_clients_own_time_limit() -> None:
    hole = BlackHole(choose_ports(1, ())[0])
    try:
        started = time.monotonic()
        for _ in range(4):
            with pytest.raises(httpx.TimeoutException):
                httpx.get(f"{hole.address}/readyz", timeout=0.3, trust_env=False)
        assert time.monotonic() - started < 5
    finally:
        hole.close()


def test_a_taken_black_hole_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ControlPlaneError, match=f"Port {port} on 127.0.0.1"):
            BlackHole(port)
