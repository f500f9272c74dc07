"""`python -m exporter`: asks, and serves metrics, until SIGTERM."""

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from actor.__main__ import connect_to
from actor.kubernetes import in_cluster
from actor.slurm import Slurm
from exporter import settings as told
from exporter.crusoe_api import CrusoeApi
from exporter.poll import Poller, configured
from exporter.serve import Exporter, serve

TOKEN = Path("/opt/gpuplatform/token/SLURM_JWT")
"""Where the pod has its token of Slurm, which Slinky's operator renews."""

KEY = Path("/opt/gpuplatform/key/secret")
"""Where the pod has the secret of the access key of Crusoe's API."""

_LOG = logging.getLogger("exporter")


def main() -> int:
    """Run until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    settings = told.load(os.environ["EXPORTER_SETTINGS"])

    def token() -> str:
        return TOKEN.read_text().strip()

    api = CrusoeApi(settings.endpoint, settings.project, settings.key_id, KEY.read_text) if settings.key_id else None
    rest = Slurm(connect_to(settings.slurm_url), token) if settings.slurm_url else None
    poller = Poller(configured(settings, api, rest, token, in_cluster("slurm")))
    exporter = Exporter(poller, settings, time.time)
    # All of the pod's addresses: Prometheus is in another pod. Who may reach it a NetworkPolicy says.
    server, _ = serve(exporter, "0.0.0.0")  # noqa: S104 (see above)
    for name in ("autoclusters", "crusoe", "slurm"):
        if name not in poller.view().configured:
            why = "there is no access key (platform.exporter.apiKey)" if name != "slurm" else "there is no Slurm here"
            _LOG.info(json.dumps({"source": name, "off": why}))
    poller.start()
    while not stop.wait(settings.poll_seconds):
        exporter.look()
    poller.stop()
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
