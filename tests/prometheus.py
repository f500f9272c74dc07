"""The real Prometheus beside a stack of the local cloud, with this project's rules."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from components.observability.alerts import all_rules
from components.observability.metrics import METRICS, Metric
from components.observability.rules import RUNBOOKS, Limits, group
from tests.harness import free_port, until
from tools.toolchain import binary

Values = list[tuple[float, float]]
START_SECONDS = 60.0


@dataclass(frozen=True)
class Prometheus:
    """A server that runs."""

    url: str

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def over(self, query: str, since: float, until: float) -> list[Values]:
        """Every series of a query between two moments (seconds since 1970), second by second; NaN is no value."""
        asked = urllib.parse.urlencode({"query": query, "start": since, "end": until, "step": 1})
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{asked}", timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        series = [[(at, float(value)) for at, value in each["values"] if value != "NaN"] for each in found]
        return [each for each in series if each]


@contextmanager
def running(folder: Path, jobs: Mapping[str, Mapping[str, Any]], every: int = 1) -> Generator[Prometheus]:
    """Prometheus with these scrape configurations, by the name of the job. Raises ToolMissingError.

    It looks `every` so many seconds, far more often than in production: a drill is over in a minute.
    """
    program = binary("prometheus")
    folder.mkdir()
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"groups": [{**group(all_rules(Limits()), RUNBOOKS), "interval": f"{every}s"}]}))
    made = {
        "global": {"scrape_interval": f"{every}s", "scrape_timeout": f"{every}s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": name, **job} for name, job in jobs.items()],
    }
    (folder / "prometheus.json").write_text(json.dumps(made))
    port = free_port()
    here = Prometheus(f"http://127.0.0.1:{port}")
    command = [str(program), f"--config.file={folder / 'prometheus.json'}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            until(here.ready, START_SECONDS, "the start of Prometheus")
            yield here
        finally:
            process.terminate()
            process.wait()


def through_the_api_server(kubeconfig: str, path: str, folder: Path) -> dict[str, Any]:
    """How a pod's page is scraped by way of the API server; its files are for this user only."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    server: str = cluster["server"]
    folder.mkdir(mode=0o700)
    files = {
        "ca_file": cluster["certificate-authority-data"],
        "cert_file": user["client-certificate-data"],
        "key_file": user["client-key-data"],
    }
    for name, data in files.items():
        (folder / name).write_bytes(base64.b64decode(data))
    return {
        "scheme": "https",
        "metrics_path": path,
        "tls_config": {name: str(folder / name) for name in files},
        "static_configs": [{"targets": [urllib.parse.urlsplit(server).netloc]}],
        "honor_labels": True,
    }


@contextmanager
def page(lines: Iterable[str]) -> Generator[dict[str, Any]]:
    """A page of samples, one a line; how it is scraped."""
    text = "".join(f"{line}\n" for line in lines).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}], "honor_labels": True}
    finally:
        server.shutdown()
        server.server_close()


def standing_in(names: frozenset[str]) -> Iterator[str]:
    """A sample of each of these metrics, for exporters that need machines."""
    return (line for name in sorted(names) for line in _lines(name, METRICS[name]))


def _lines(name: str, metric: Metric) -> list[str]:
    labels = ",".join(f'{label}="eth0"' if label == "device" else f'{label}="one"' for label in metric.labels)
    return [f"# TYPE {name} {metric.kind}", f"{name}{{{labels}}} 1"]
