"""What only real sockets show: limits, cancels, broken answers. Everything on the loopback address."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx
import pytest

from crusoe.client import Cancelled, Client, Credentials, MalformedAnswer, NeverSent, TransportError
from crusoe.client import retries as policies
from crusoe.client import transport as transport_module
from tests.unit.crusoe.client.support import PROJECT, FakeClock, answer

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"


@contextmanager
def server(serve: Callable[[socket.socket, threading.Event], None]) -> Generator[str]:
    """Give the address of a server that hands each connection, its request read, to `serve`."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(5)
            try:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                serve(connection, over)
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        over.set()
        listener.close()


def never_answers(_connection: socket.socket, over: threading.Event) -> None:
    over.wait(10)


def trickles(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(OK)
    while not over.wait(0.05):
        connection.sendall(b" ")


def one_try(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for method in policies.POLICIES:
        limited = policies.Policy(1, seconds, 30, policies.may_repeat)
        monkeypatch.setitem(policies.POLICIES, method, limited)


def test_a_closed_port_is_told_at_once(credentials: Credentials) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}/v1", credentials, clock=FakeClock())
    with pytest.raises(NeverSent, match=rf"127\.0\.0\.1:{port}/v1 can't be reached \(connection refused\)"):
        client.get("/capacities")


@pytest.mark.parametrize("serve", [never_answers, trickles])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_server_holds_a_call_beyond_its_limit(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., None], method: str
) -> None:
    one_try(monkeypatch, 0.4)
    with server(serve) as endpoint:
        client = Client(endpoint, credentials)
        start = time.monotonic()
        with pytest.raises(TransportError, match=r"no answer|broke") as caught:
            client.get("/capacities") if method == "GET" else client.post("/organizations/projects", {})
    assert time.monotonic() - start < 3
    assert caught.value.answer_lost is (method == "POST")


@pytest.mark.parametrize(("method", "least", "most"), [("GET", 0.0, 2.0), ("POST", 0.3, 2.0)])
def test_a_cancel_ends_a_call_under_way(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch, method: str, least: float, most: float
) -> None:
    monkeypatch.setattr(transport_module, "CANCEL_GRACE", 0.4)
    cancel = threading.Event()
    with server(never_answers) as endpoint:
        client = Client(endpoint, credentials, cancel=cancel)
        threading.Timer(0.1, cancel.set).start()
        start = time.monotonic()
        with pytest.raises(Cancelled) as caught:
            client.get("/capacities") if method == "GET" else client.post("/organizations/projects", {})
    assert least <= time.monotonic() - start - 0.1 < most
    assert caught.value.answer_lost is (method == "POST")


def test_the_answer_to_a_create_is_still_taken_right_after_a_cancel(credentials: Credentials) -> None:
    assert transport_module.CANCEL_GRACE < 2.0, "a cancel ends every wait within two seconds"
    cancel = threading.Event()

    def late(connection: socket.socket, _over: threading.Event) -> None:
        cancel.set()
        time.sleep(0.2)
        connection.sendall(OK + b'{"id":"x"}')

    with server(late) as endpoint:
        client = Client(endpoint, credentials, cancel=cancel)
        assert client.post("/organizations/projects", {}) == {"id": "x"}
        with pytest.raises(Cancelled):
            client.post("/organizations/projects", {})


def test_nothing_is_sent_after_a_cancel(credentials: Credentials) -> None:
    cancel = threading.Event()
    cancel.set()
    sent: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer()

    client = Client(
        "https://api.example.test/v1", credentials, PROJECT, cancel=cancel, http_transport=httpx.MockTransport(handler)
    )
    with pytest.raises(Cancelled):
        client.post("storage/disks", {})
    assert sent == []


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b'{"id":"x"}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\nnot gzip!!",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_a_broken_answer_to_a_create_counts_as_lost(credentials: Credentials, said: bytes) -> None:
    with server(lambda connection, _over: connection.sendall(said)) as endpoint:
        client = Client(endpoint, credentials)
        with pytest.raises(TransportError) as caught:
            client.post("/organizations/projects", {})
    assert caught.value.answer_lost is True
    assert not isinstance(caught.value, NeverSent)


def test_an_answer_without_end_is_cut(credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "LARGEST_ANSWER", 1 << 20)

    def flood(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while not over.is_set():
            connection.sendall(b"x" * 65536)

    with server(flood) as endpoint, pytest.raises(MalformedAnswer, match="larger than 1 MiB"):
        Client(endpoint, credentials).get("/capacities")


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with server(lambda connection, _over: connection.sendall(OK + b'{"id":"x"}')) as endpoint:
        assert Client(endpoint, credentials).get("/capacities") == {"id": "x"}


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_client_loads_no_http_library() -> None:
    heavy = ["httpx", "httpcore", "tenacity", "asyncio", "yaml", "pydantic", "pulumi", "ssl"]
    code = f"import sys, crusoe.client, crusoe.catalog; print([m for m in {heavy} if m in sys.modules])"
    assert python(code) == "[]"


def test_httpx_comes_without_its_command_line() -> None:
    code = (
        "import sys; from crusoe.client.transport import load_httpx; httpx = load_httpx(); import httpx as again;"
        "print(httpx is again, hasattr(httpx, 'Client'), [m for m in ('click', 'rich', 'pygments', 'httpx._main')"
        " if m in sys.modules])"
    )
    assert python(code) == "True True []"
