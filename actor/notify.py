"""Delivers notices to a webhook, in a thread of its own: no wait here holds up the answer to a failed node.

The book of `notices` is kept in a ConfigMap: what is new is written there first, then sent, then taken out. An actor
that dies between the last two repeats that one notice, and no other; with two leaders the API server takes one's book
only. The URL is a secret, read anew for each try, and in no text that this writes.
"""

import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from actor import notices, read
from actor.kubernetes import Kubernetes, KubernetesError
from actor.notices import Book, Notice
from actor.state import Job

CONFIG_MAP = "slurm-actor-notices"
KEY = "book"
SECONDS = 5.0
"""How long one try may take."""
TRIES = 8
LONGEST_PAUSE = 60.0
"""Pauses between tries double from two seconds up to this, so a notice is given up after three minutes."""
INTERVAL_SECONDS = 1.0

_LOG = logging.getLogger("actor")


class DeliveryError(Exception):
    """The webhook did not take a notice; the text says why, without the URL."""


def post(url: str, notice: Notice) -> None:
    """Send a notice once; its certificate is verified and a redirect is not followed.

    Raises:
        DeliveryError: any answer but 2xx, or none within `SECONDS`.
    """
    connection: http.client.HTTPConnection | None = None
    late = threading.Event()

    def end() -> None:
        # Each read has its own timeout; a server that sends a byte now and then would never reach it.
        late.set()
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        connection, path = _connection(url)
        headers = {"Content-Type": "application/json", "User-Agent": "slurm-actor"}
        connection.request("POST", path, json.dumps(asdict(notice)).encode(), headers)
        status = connection.getresponse().status
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Never the error's own text, which may have the host or the URL.
        raise DeliveryError(_why(error, late=late.is_set())) from None
    finally:
        timer.cancel()
        if connection is not None:
            connection.close()
    if not http.client.OK <= status < http.client.MULTIPLE_CHOICES:
        raise DeliveryError(f"the webhook answered {status}")


def _connection(url: str) -> tuple[http.client.HTTPConnection, str]:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme == "https" and parts.hostname:
        trust = ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=SECONDS, context=trust), path
    if parts.scheme == "http" and parts.hostname:
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS), path
    raise ValueError("no URL")


def _why(error: Exception, *, late: bool) -> str:
    if late or isinstance(error, TimeoutError):
        return f"the webhook did not answer within {SECONDS:.0f} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the webhook's certificate is not trusted"
    if isinstance(error, socket.gaierror):
        return "the webhook's host has no address"
    if isinstance(error, OSError):
        return f"the webhook can't be reached ({type(error).__name__})"
    return "the secret of slurm.notify.webhookSecret is no URL, or no web server answers there"


@dataclass
class Notifier:
    """Sends what is new about jobs; `see` is called by whoever looks, `step` again and again by one thread.

    Attributes:
        url: gives the webhook's URL.
        states: that are told, of `notices.STATES`.
    """

    kubernetes: Kubernetes
    url: Callable[[], str]
    states: Sequence[str]
    cluster: str
    clock: Callable[[], float] = time.time
    _seen: tuple[Sequence[Job], float] = ((), 0.0)
    _book: Book | None = None
    _saved: Book | None = None
    _object: dict[str, Any] = field(default_factory=dict[str, Any])
    _failed: int = 0
    _not_before: float = 0.0
    _said: str = ""

    def see(self, jobs: Sequence[Job], until: float) -> None:
        """The jobs that Slurm lists now, from the leader, who surely is it `until` then (seconds since 1970)."""
        self._seen = (jobs, until)

    def run(self) -> None:
        """Work as long as the program does."""
        while True:
            try:
                self.step()
                self._trouble("")
            except KubernetesError as error:
                self._trouble(str(error))
            except Exception as error:  # noqa: BLE001 (the thread has to go on; the text might have the URL)
                self._trouble(type(error).__name__)
            time.sleep(INTERVAL_SECONDS)

    def step(self) -> None:
        """Enter what is new, and deliver while there is no failure.

        Raises:
            KubernetesError: the book can't be read or written.
        """
        while self.clock() < self._seen[1]:
            book = self._book or self._read()
            after = self._shortened(notices.enter(book, self._seen[0], self.states, self.cluster))
            if after != self._saved and not self._write(after):
                return
            if not after.waiting or self.clock() < self._not_before or not self._tried(after.waiting[0]):
                return
            # Kept here too: where it can't be written now, the next step writes it before anything else is sent.
            self._book = replace(after, waiting=after.waiting[1:])
            if not self._write(self._book):
                return
        # Another leader may write from now on.
        self._book = None

    def _trouble(self, text: str) -> None:
        """What goes wrong, once while it stays the same."""
        if text and text != self._said:
            _say({"error": text})
        self._said = text

    def _tried(self, notice: Notice) -> bool:
        """Try to deliver; returns whether the notice is done with."""
        try:
            post(self.url().strip(), notice)
        except (DeliveryError, OSError) as error:
            why = str(error) if isinstance(error, DeliveryError) else "the webhook's URL can't be read"
        else:
            self._failed, self._not_before = 0, 0.0
            _LOG.info(json.dumps({"action": "Notify", "job": notice.job, "state": notice.state}))
            return True
        self._failed += 1
        self._not_before = self.clock() + min(2.0 ** min(self._failed, TRIES), LONGEST_PAUSE)
        if self._failed % TRIES:
            if self._failed == 1:
                _say({"job": notice.job, "state": notice.state, "error": why})
            return False
        self._give_up([notice], f"{why}, in {TRIES} tries")
        return True

    def _shortened(self, book: Book) -> Book:
        many = len(book.waiting) - notices.MOST
        if many <= 0:
            return book
        self._give_up(book.waiting[:many], f"more than {notices.MOST} notices wait")
        return replace(book, waiting=book.waiting[many:])

    def _give_up(self, lost: Sequence[Notice], why: str) -> None:
        text = f"Not told: {', '.join(f'{each.job} {each.state}' for each in lost)[:700]}: {why}."
        _say({"error": text})
        with suppress(KubernetesError):
            self.kubernetes.warn(CONFIG_MAP, "NotifyFailed", text)

    def _read(self) -> Book:
        self._object = self.kubernetes.config_map(CONFIG_MAP) or {}
        text = read.part(self._object, "data").get(KEY)
        try:
            self._saved = notices.read(text) if text else None
        except ValueError as error:
            _say({"error": f"{error} in ConfigMap {CONFIG_MAP}; notices begin anew"})
            self._saved = None
        self._book = self._saved or Book(int(self.clock()))
        return self._book

    def _write(self, book: Book) -> bool:
        """Keep a book; False, and nothing known any more, where somebody else has written."""
        metadata = read.part(self._object, "metadata") or {"name": CONFIG_MAP}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: notices.write(book)}}
        written = self.kubernetes.write_config_map(CONFIG_MAP, wanted)
        self._book = self._saved = book if written else None
        self._object = written or {}
        return written is not None


def _say(what: dict[str, str]) -> None:
    _LOG.warning(json.dumps({"action": "Notify", **what}))
