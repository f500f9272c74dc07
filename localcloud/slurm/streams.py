"""The kubelet's own server, as far as `kubectl exec` and `kubectl logs` need it, for pods that run as processes.

The API server comes here through the egress proxy, by TLS, to the port that it takes for every kubelet's. For `exec` it
passes kubectl's WebSocket on (subprotocol `v5.channel.k8s.io`: the first byte of a message is its channel), because the
nodes declare that their kubelets understand it (Kubernetes KEP-4006).
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket
import ssl
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, urlsplit

from localcloud.kubernetes.pki import serving_certificate
from localcloud.slurm.websocket import WebSocket, accept_key, readable

FEATURE = "ExtendWebSocketsToKubelet"
PORT = 10250
_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_HEAD_BYTES = 65536
_CHUNK = 32768
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Target:
    """A container that runs: what brings a command into it, and its log."""

    enter: Sequence[str]
    log: Path


Find = Callable[[str, str, str], Target | None]
"""The running container of a namespace, a pod and a container's name."""


def server_context() -> ssl.SSLContext:
    """A TLS context with a certificate of its own; the API server doesn't check a kubelet's here."""
    made = serving_certificate(["kubelet.local"], timedelta(days=365))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        # The ssl module reads certificates from files only.
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_text(made.certificate)
        key.touch(mode=0o600)
        key.write_text(made.key)
        context.load_cert_chain(certificate, key)
    return context


def serve(client: socket.socket, context: ssl.SSLContext, find: Find) -> None:
    """Serve one connection of the API server: one request."""
    with context.wrap_socket(client, server_side=True) as connection:
        head, _, rest = _head(connection).partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        url = urlsplit(lines[0].split(" ")[1] if " " in lines[0] else "")
        parts, query = url.path.strip("/").split("/"), parse_qs(url.query)
        if len(parts) < 4 or parts[0] not in ("exec", "containerLogs"):
            _refuse(connection, HTTPStatus.NOT_FOUND, "the local cloud's kubelets know exec and logs only")
            return
        target = find(parts[1], parts[2], parts[-1])
        if target is None:
            _refuse(connection, HTTPStatus.NOT_FOUND, f"container {parts[-1]} of pod {parts[2]} doesn't run")
        elif parts[0] == "containerLogs":
            _logs(connection, target.log, query)
        elif "sec-websocket-key" not in headers:
            _refuse(connection, HTTPStatus.BAD_REQUEST, "only WebSockets are understood here; use a newer kubectl")
        else:
            answer = (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {accept_key(headers['sec-websocket-key'])}\r\n"
                f"Sec-WebSocket-Protocol: {_PROTOCOL}\r\n\r\n"
            )
            connection.sendall(answer.encode())
            command = [*target.enter, *query.get("command", [])]
            _exec(WebSocket(connection, rest), command, tty=query.get("tty") in (["1"], ["true"]))


def _head(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _HEAD_BYTES:
        more = connection.recv(_CHUNK)
        if not more:
            break
        data += more
    return data


def _refuse(connection: socket.socket, status: HTTPStatus, message: str) -> None:
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Length: {len(message)}\r\nConnection: close\r\n\r\n"
    connection.sendall((head + message).encode())


def _logs(connection: socket.socket, log: Path, query: dict[str, list[str]]) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
    with log.open("rb") as file:
        tail = query.get("tailLines")
        lines = file.read().splitlines(keepends=True)
        connection.sendall(b"".join(lines[-int(tail[0]) :] if tail and int(tail[0]) else [] if tail else lines))
        while query.get("follow") == ["true"]:
            more = file.read(_CHUNK)
            if more:
                connection.sendall(more)
            elif readable(connection, [], _POLL_SECONDS)[0]:
                # It never says anything more: it is gone.
                return


def _exec(web: WebSocket, command: Sequence[str], *, tty: bool) -> None:
    """Run a program until it ends or nobody listens any more."""
    pipe = subprocess.PIPE
    channels: dict[int, int]
    if tty:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_take_terminal
        )
        os.close(theirs)
        said, channels = ours, {ours: _STDOUT}
    else:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0)
        said, *heard = (each.fileno() if each else -1 for each in (process.stdin, process.stdout, process.stderr))
        channels = dict(zip(heard, (_STDOUT, _STDERR), strict=True))
    with process:
        try:
            _pump(web, said, channels, process.stdin)
            if not web.ended:
                web.send(bytes([_ERROR]) + _outcome(process.wait()))
                web.close()
        finally:
            process.kill()
            if tty:
                os.close(said)


def _take_terminal() -> None:
    """Make standard input the terminal that signals (Ctrl-C) come from; run in the new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _pump(web: WebSocket, said: int, channels: dict[int, int], stdin: IO[bytes] | None) -> None:
    """Pass on what is said, both ways, until the program has closed its outputs or the connection is gone.

    `said` is the descriptor of what the program reads, `channels` has those of its outputs. `stdin` is the pipe that
    it reads from; None for a terminal.
    """
    listens, left = True, dict(channels)
    while left and not web.ended:
        ours, ready = readable(web.connection, list(left), _POLL_SECONDS)
        for descriptor in ready:
            if data := _read(descriptor):
                web.send(bytes([left[descriptor]]) + data)
            else:
                del left[descriptor]
        for message in web.receive() if ours else []:
            if message[:1] == bytes([_RESIZE]) and stdin is None:
                size = json.loads(message[1:])
                fcntl.ioctl(said, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
            elif message[:1] == bytes([_STDIN]) and listens:
                listens = _written(said, message[1:])
            elif message == bytes([_CLOSE, _STDIN]) and listens:
                listens = False
                if stdin is not None:
                    stdin.close()


def _read(descriptor: int) -> bytes:
    """What a program has said; empty at its end, which a terminal tells by an error."""
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:
        return b""


def _written(descriptor: int, data: bytes) -> bool:
    """Pass all of it on; False if the program reads no more."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        return False
    return True


def _outcome(status: int) -> bytes:
    """How a program ended, as the API server's `Status` object."""
    if status == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    code = status if status > 0 else 128 - status
    return json.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    ).encode()
