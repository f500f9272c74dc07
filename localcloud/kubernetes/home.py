"""Where the files of one cluster's control plane lie, and the record kept about it.

```
<root>/clusters/<id>/       kwokctl's own folder: kwok.yaml, pki/, etcd/, logs/, pids/, bin/
<root>/records/<id>.json    ports and what was last applied; written before anything is started
<root>/records/<id>.yaml    the configuration given to kwokctl
<root>/records/<id>.log     what kwokctl said last
<root>/records/<id>.oidc-ca.pem
<root>/records/<id>.egress.yaml    where the API server sends what it asks of Services and nodes
```
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller")
"""In the order in which they need each other."""

_SOCKET_PATH_LENGTH = 100


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one control plane on 127.0.0.1. They never change, because kubeconfigs hold them."""

    etcd: int
    etcd_peer: int
    kube_apiserver: int
    kube_controller_manager: int
    kube_scheduler: int
    kwok_controller: int

    def of(self, component: str) -> tuple[int, ...]:
        """The ports that a component listens on."""
        own = (getattr(self, component.replace("-", "_")),)
        return (*own, self.etcd_peer) if component == "etcd" else own


@dataclass(frozen=True)
class Record:
    """What is known about a control plane across restarts.

    `created` turns true when it answered for the first time: before that there is no data worth keeping.
    """

    ports: Ports
    created: bool = False
    add_ons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Home:
    """The files of one cluster below the folder of all control planes."""

    root: Path
    cluster_id: str

    @property
    def folder(self) -> Path:
        """kwokctl's folder of the cluster."""
        return self.root / "clusters" / self.cluster_id

    @property
    def kwok_yaml(self) -> Path:
        """What kwokctl and the kwok controller read."""
        return self.folder / "kwok.yaml"

    @property
    def configuration(self) -> Path:
        """The configuration handed to `kwokctl create`."""
        return self.root / "records" / f"{self.cluster_id}.yaml"

    @property
    def kwokctl_log(self) -> Path:
        """What kwokctl said when it ran last."""
        return self.root / "records" / f"{self.cluster_id}.log"

    @property
    def oidc_ca(self) -> Path:
        """The CA certificate of the OIDC issuer, where one was given."""
        return self.root / "records" / f"{self.cluster_id}.oidc-ca.pem"

    @property
    def egress_configuration(self) -> Path:
        """How the API server reaches into the cluster."""
        return self.root / "records" / f"{self.cluster_id}.egress.yaml"

    @property
    def egress_socket(self) -> Path:
        """The unix socket through which the API server reaches into the cluster.

        A socket's path may have 107 characters only, so a deep folder has it below the folder of temporary files.
        """
        path = self.root / "records" / f"{self.cluster_id}.sock"
        if len(str(path)) <= _SOCKET_PATH_LENGTH:
            return path
        name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"crusoe-local-{name}" / "egress.sock"

    @property
    def _record_file(self) -> Path:
        return self.root / "records" / f"{self.cluster_id}.json"

    def binary(self, component: str) -> Path:
        """The link through which a component is started; its path is how its process is recognised."""
        return self.folder / "bin" / component

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self.folder / "logs" / f"{component}.log"

    def pid_file(self, component: str) -> Path:
        """kwokctl's pid file of a component."""
        return self.folder / "pids" / f"{component}.pid"

    def certificate(self, name: str) -> Path:
        """A file of the cluster's PKI, such as `ca.crt`."""
        return self.folder / "pki" / name

    def read(self) -> Record | None:
        """The record; None if the cluster was never begun."""
        if not self._record_file.exists():
            return None
        raw = json.loads(self._record_file.read_text())
        return Record(
            ports=Ports(**raw["ports"]),
            created=raw["created"],
            add_ons=tuple(raw["add_ons"]),
        )

    def write(self, record: Record) -> None:
        """Replace the record in one step."""
        write_private(self._record_file, json.dumps(asdict(record), indent=1))

    def discard_data(self) -> None:
        """Remove the control plane's data and keep the record, hence the ports."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def discard(self) -> None:
        """Remove everything."""
        self.discard_data()
        for path in (
            self._record_file,
            self.configuration,
            self.kwokctl_log,
            self.oidc_ca,
            self.egress_configuration,
            self.egress_socket,
        ):
            path.unlink(missing_ok=True)
        if self.egress_socket.parent != self._record_file.parent:
            shutil.rmtree(self.egress_socket.parent, ignore_errors=True)


def homes(root: Path) -> list[Home]:
    """Every cluster of which anything is left below `root`."""
    records = {path.stem for path in (root / "records").glob("*.json")}
    folders = {path.name for path in (root / "clusters").glob("*") if path.is_dir()}
    return [Home(root, cluster_id) for cluster_id in sorted(records | folders)]


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, in one step: after a kill there is the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
