"""Every wait has a bound, a host is asked once, and proxies are honoured."""

import socket
import time
from pathlib import Path

import pytest

from tests.unit.tools.support import FileServer
from tools.errors import DownloadError
from tools.network import Network


def test_an_unreachable_host_is_found_out_once(closed_url: str, network: Network, monkeypatch: pytest.MonkeyPatch):
    first = network.trouble(f"{closed_url}/one")
    assert first is not None
    assert "refused" in first

    def never(*_: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(socket, "create_connection", never)
    assert network.trouble(f"{closed_url}/two") == first


def test_a_name_look_up_that_hangs_is_bounded(monkeypatch: pytest.MonkeyPatch):
    def hang(*_: object, **__: object) -> None:
        time.sleep(10)
        raise OSError("too late to be heard")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    started = time.monotonic()
    assert Network(connect_seconds=0.2).trouble("http://example.invalid/x") == "it did not answer in time"
    assert time.monotonic() - started < 5


def test_a_host_that_answers_with_an_error_is_there(server: FileServer, network: Network):
    assert network.trouble(f"{server.url}/anything") is None


def test_a_proxy_is_asked_instead(
    server: FileServer, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.files["http://releases.invalid/file"] = b"through the proxy"
    network.fetch("http://releases.invalid/file", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"through the proxy"


def test_a_transfer_has_a_bound_in_all(server: FileServer, tmp_path: Path):
    server.files["/large"] = b"x" * (1 << 20)
    with pytest.raises(DownloadError, match="took longer than"):
        Network(connect_seconds=2, transfer_seconds=0).fetch(f"{server.url}/large", tmp_path / "large")
