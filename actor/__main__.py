"""`python -m actor`: looks, decides, acts, every few seconds, while it holds the lease."""

import http.client
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from actor import lease, read, settings, topology, web
from actor.kubernetes import Kubernetes, KubernetesError, in_cluster
from actor.look import Memory, look
from actor.notify import Notifier
from actor.perform import Performer
from actor.slurm import Slurm, SlurmError
from actor.state import Snapshot

INTERVAL_SECONDS = 1.0
STUCK_SECONDS = 120
"""A look that takes longer than this ends the program, and Kubernetes starts it again."""

TOKEN = Path("/opt/gpuplatform/token/SLURM_JWT")
"""Where the pod has the token of Slurm's own user, which Slinky's operator renews."""

WEBHOOK = Path("/opt/gpuplatform/notify/url")
"""Where the pod has the URL that ends of jobs are told to."""

_LOG = logging.getLogger("actor")


@dataclass
class Actor:
    """One of the two; `look` is called again and again."""

    kubernetes: Kubernetes
    slurm: Slurm
    settings: settings.Settings
    me: str
    clock: Callable[[], float] = time.time
    notifier: Notifier | None = None
    memory: Memory = field(default_factory=Memory)
    _until: float = 0.0
    _said: str = ""

    def look(self) -> bool:
        """Look once, and act if this is the leader; returns whether that went well."""
        try:
            if not self._leads():
                self.memory = Memory()
                return False
            self._act()
        except (KubernetesError, SlurmError) as error:
            self._say(str(error))
            return False
        self._say("")
        return True

    def _leads(self) -> bool:
        now = self.clock()
        wanted = lease.claim(self.kubernetes.lease(lease.NAME), self.me, now)
        if wanted is None or not self.kubernetes.write_lease(lease.NAME, wanted.lease):
            self._until = 0.0
            return False
        if wanted.taken:
            _LOG.info(json.dumps({"action": "Lead", "me": self.me}))
        # Well before anybody else may take it: a call that is made in the last moment may take its time.
        self._until = now + lease.SECONDS - web.SECONDS
        return True

    def _act(self) -> None:
        nodes = {each["metadata"]["name"]: read.kube_node(each) for each in self.kubernetes.nodes()}
        pods = [read.worker(each) for each in self.kubernetes.workers()]
        perform = Performer(self.kubernetes, self.slurm).perform
        now = int(self.clock())
        try:
            seen = Snapshot(
                now,
                nodes,
                [each for each in pods if each is not None],
                self.slurm.nodes(),
                self.slurm.jobs(),
                self.slurm.reservations(),
            )
        except SlurmError:
            # A node's place has to be known before its worker starts, also while Slurm is away.
            perform([topology.plan(Snapshot(now, nodes), self.settings)], self._holds)
            raise
        lists, self.memory = look(seen, self.memory, self.settings)
        perform(lists, self._holds)
        if self.notifier is not None:
            self.notifier.see(seen.jobs, self._until)

    def _holds(self) -> bool:
        return self.clock() < self._until or self._leads()

    def _say(self, text: str) -> None:
        """What goes wrong, once while it stays the same."""
        if text and text != self._said:
            _LOG.warning(json.dumps({"action": "Look", "error": text}))
        self._said = text


def connect_to(url: str) -> web.Connect:
    """Connections to an `http://host:port`."""
    parts = urlsplit(url)
    return lambda: http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=web.SECONDS)


def main() -> int:
    """Run until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    stop = False

    def end(*_: object) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGTERM, end)
    chosen = settings.load(os.environ["ACTOR_SETTINGS"])
    actor = Actor(
        in_cluster(chosen.namespace),
        Slurm(connect_to(chosen.slurm_url), lambda: TOKEN.read_text().strip()),
        chosen,
        me=os.environ.get("HOSTNAME") or socket.gethostname(),
    )
    if chosen.notify:
        actor.notifier = Notifier(actor.kubernetes, WEBHOOK.read_text, chosen.notify, chosen.cluster)
        threading.Thread(target=actor.notifier.run, name="notify", daemon=True).start()
    while not stop:
        signal.alarm(STUCK_SECONDS)
        actor.look()
        time.sleep(INTERVAL_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
