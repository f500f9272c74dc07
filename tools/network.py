"""Downloads with a bound on every wait.

Whether a host can be reached is asked once and remembered for the run, so that on a machine without network ten tools
do not each wait for the same answer. Proxies (HTTPS_PROXY, NO_PROXY) and SSL_CERT_FILE are honoured, as urllib does.
"""

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from tools.errors import DownloadError

CONNECT_SECONDS = 5.0
"""How long a host may take to answer at all, name look-up included."""

STALL_SECONDS = 20.0
"""How long a transfer may stand still."""

TRANSFER_SECONDS = 900.0
"""How long one file may take in all."""

PAUSES = (0.5, 3.0)
"""How long to wait, in seconds, before a transfer that broke off is begun again; one try more than there are pauses."""

_CHUNK = 1 << 18
_SMALL = 16 << 20


def _reason(error: BaseException) -> str:
    cause: object = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "it did not answer in time"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__


def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.build_opener()
    # GitHub's API demands a User-Agent, and some hosts refuse urllib's own.
    opener.addheaders = [("User-Agent", "crusoe-gpu-platform")]
    return opener


class _BrokenOffError(DownloadError):
    """A transfer ended before the file did; another try may get all of it."""


class Network:
    """The network as one run sees it."""

    def __init__(
        self,
        connect_seconds: float = CONNECT_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        transfer_seconds: float = TRANSFER_SECONDS,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._connect_seconds = connect_seconds
        self._stall_seconds = stall_seconds
        self._transfer_seconds = transfer_seconds
        self._pauses = pauses
        self._verdicts: dict[str, str | None] = {}

    def trouble(self, url: str) -> str | None:
        """Return why the host of a URL can't be reached, None when it answers (with any HTTP status)."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}/"
        if origin not in self._verdicts:
            self._verdicts[origin] = self._probe(origin)
        return self._verdicts[origin]

    def _probe(self, origin: str) -> str | None:
        verdict: list[str | None] = []

        def ask() -> None:
            try:
                _opener().open(origin, timeout=self._connect_seconds).close()
            except (urllib.error.HTTPError, HTTPException):
                # Somebody is there, even one that hangs up: what is fetched is asked for again.
                verdict.append(None)
            except OSError as error:
                verdict.append(_reason(error))
            else:
                verdict.append(None)

        # A thread, because a name look-up knows no timeout of its own.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self._connect_seconds)
        return verdict[0] if verdict else "it did not answer in time"

    def fetch(self, url: str, target: Path, tick: Callable[[int, int | None], None] | None = None) -> None:
        """Write what a URL gives into a file.

        A transfer that breaks off is begun again. `tick` gets the bytes done and, where the server says it, the bytes
        in all.

        Raises:
            DownloadError: the host can't be reached, answers with an error, stalls, or ends early each time.
        """
        for pause in (*self._pauses, None):
            try:
                self._fetch(url, target, tick)
            except _BrokenOffError:
                if pause is None:
                    raise
                time.sleep(pause)
            else:
                return

    def _fetch(self, url: str, target: Path, tick: Callable[[int, int | None], None] | None) -> None:
        host = urlsplit(url).netloc
        if (trouble := self.trouble(url)) is not None:
            raise DownloadError(f"{host} can't be reached: {trouble}")
        deadline = time.monotonic() + self._transfer_seconds
        done = 0
        try:
            with (
                _opener().open(url, timeout=self._stall_seconds) as answer,
                target.open("wb") as file,
            ):
                length = answer.headers.get("Content-Length")
                total = int(length) if length else None
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    if tick:
                        tick(done, total)
                    if time.monotonic() > deadline:
                        raise DownloadError(f"{url} took longer than {self._transfer_seconds:.0f} s")
        except urllib.error.HTTPError as error:
            raise DownloadError(f"{url} answered {error.code} {error.reason}") from error
        except (OSError, HTTPException) as error:
            # Who stood still for so long will do so again.
            kind = DownloadError if isinstance(error, TimeoutError) else _BrokenOffError
            raise kind(f"{url} broke off after {done} bytes: {_reason(error)}") from error
        if total is not None and done != total:
            raise _BrokenOffError(f"{url} broke off after {done} of {total} bytes")

    def text(self, url: str, scratch: Path) -> str:
        """Return a small text file, such as a list of checksums. Raises DownloadError."""
        self.fetch(url, scratch)
        if scratch.stat().st_size > _SMALL:
            raise DownloadError(f"{url} is far larger than a list of checksums")
        return scratch.read_text(encoding="utf-8", errors="replace")
