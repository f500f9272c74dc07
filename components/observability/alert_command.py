"""`make test-alert`: sends one alert through the stack's Alertmanager and says for each route what became of it.

Ends with 0 where every route took it, else with 1. The stack's outputs come by standard input, since the kubeconfig is
a secret; it lies in a file that only this user can read for as long as the command runs. Alertmanager is reached by
`kubectl port-forward`, or where that can't be had through the API server (`kubectl proxy`).
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from components.observability.delivery import DeliveryError, Outcome, deliver, reach

SECONDS = 60.0
"""How long all routes may take together. The second Alertmanager of a pair waits 15 s for the first."""
_FORWARD_SECONDS = 30.0
_LISTENING = re.compile(r"(?:Forwarding from|Starting to serve on) 127\.0\.0\.1:(\d+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the alert; return the exit status."""
    parser = argparse.ArgumentParser(prog="make test-alert", description="Tries the way that alerts take.")
    parser.add_argument("--kubectl", required=True, help="the kubectl to use")
    parser.add_argument("--alertmanager", help="address of an Alertmanager, where it can be reached as it is")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to wait (default: %(default)s)")
    options = parser.parse_args(arguments)
    outputs: Mapping[str, Any] = json.load(sys.stdin)
    expected: Mapping[str, Any] = outputs.get("observability") or {}
    if refusal := _refusal(expected, options.alertmanager):
        return _refused(refusal)
    try:
        if options.alertmanager:
            found = deliver(options.alertmanager.rstrip("/"), expected["routes"], options.seconds)
        else:
            with _forwarded(options.kubectl, outputs["kubeconfig"], expected) as url:
                found = deliver(url, expected["routes"], options.seconds)
    except DeliveryError as error:
        return _refused(f"No alert was tried: {error}.")
    show(found, expected["routes"])
    return 0 if all(each.accepted for each in found) else 1


def _refusal(expected: Mapping[str, Any], address: str | None) -> str:
    """Why there is nothing to try, or nothing."""
    if not expected:
        return "The stack does not say yet what monitoring it has: run `make up`, then this again."
    if expected["stack"] == "none":
        return "This stack has no monitoring. `platform.observability` adds it (docs/observability.md)."
    if not expected["service"] and not address:
        return "This stack's Alertmanager is somebody else's. ARGS='--alertmanager=http://…' tries it."
    if not expected["routes"]:
        return "This stack tells nobody. `platform.observability.routes` adds who is told (docs/observability.md)."
    return ""


@contextmanager
def _forwarded(kubectl: str, kubeconfig: str, expected: Mapping[str, Any]) -> Generator[str]:
    """A way to the stack's Alertmanager for as long as it is needed. Raises DeliveryError."""
    with tempfile.TemporaryDirectory(prefix="test-alert-") as folder:
        path = Path(folder) / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(kubeconfig, encoding="utf-8")
        space, service, port = expected["namespace"], expected["service"], expected["port"]
        # One pod of the pair, whichever way: the other has counts of its own.
        pod = f"alertmanager-{service}-0"
        ways = {
            "": ("port-forward", f"--namespace={space}", f"pod/{pod}", f":{port}"),
            f"/api/v1/namespaces/{space}/pods/{pod}:{port}/proxy": ("proxy", "--port=0"),
        }
        refusals: list[str] = []
        for suffix, words in ways.items():
            with _running([kubectl, f"--kubeconfig={path}", *words]) as way:
                try:
                    address = f"http://127.0.0.1:{_port(way)}{suffix}"
                    reach(address)
                except DeliveryError as error:
                    refusals.append(f"kubectl {words[0]}: {error}")
                    continue
                yield address
                return
        raise DeliveryError("; ".join(refusals))


@contextmanager
def _running(command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """A program that runs for as long as it is needed, with all that it says on its standard output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _port(forward: subprocess.Popen[str]) -> str:
    """The port that kubectl listens on, as it says. Raises DeliveryError with what it says instead."""
    lines: Queue[str] = Queue()
    stream = forward.stdout or ()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    said = ""
    try:
        while line := lines.get(timeout=_FORWARD_SECONDS):
            if found := _LISTENING.match(line):
                return found.group(1)
            said = line.strip()
    except Empty:
        said = f"nothing within {_FORWARD_SECONDS:.0f} s"
    raise DeliveryError(said)


def _refused(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


def show(found: Sequence[Outcome], kinds: Mapping[str, str]) -> None:
    """Print a line for each route, and the verdict."""
    width = max(len(each.route) for each in found)
    for each in found:
        print(f"{'ok ' if each.accepted else 'NOT'}  {each.route:<{width}}  {kinds[each.route]:<9}  {each.words}")
    missing = [each.route for each in found if not each.accepted]
    print(f"Not delivered: {', '.join(missing)}." if missing else "Every route took the alert.")


if __name__ == "__main__":
    sys.exit(main())
