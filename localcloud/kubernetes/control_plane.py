"""The `ControlPlane` implementation: what happens in which order.

Every step looks at what is there and does what is missing, so each can be repeated after a kill at any moment. The
record of a cluster is written before its first process starts; it says `created` only when the API has answered, and
until then a half-made control plane is thrown away and made anew.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import yaml

from localcloud.control_plane import (
    AuthType,
    ClusterCredentials,
    ClusterSpec,
    ControlPlaneError,
    NodeSpec,
    NodeStatus,
)
from localcloud.kubernetes import node_objects, processes
from localcloud.kubernetes.actors import Actor, Actors
from localcloud.kubernetes.add_ons import CORE, CloudAccess, add_on_labels, add_on_objects, wanted_add_ons
from localcloud.kubernetes.api_server import NODES, PODS, SERVICE_ACCOUNTS, ApiError, ApiServer, Object, path_of
from localcloud.kubernetes.black_hole import BlackHole
from localcloud.kubernetes.configuration import (
    TOOLS,
    Binary,
    command_arguments,
    component_arguments,
    egress_configuration,
    kwokctl_configuration,
    with_arguments,
)
from localcloud.kubernetes.credentials import issue_credentials
from localcloud.kubernetes.home import COMPONENTS, Home, Ports, Record, homes, write_private
from localcloud.kubernetes.pki import make_pki
from localcloud.kubernetes.ports import LOOPBACK, answers, choose_ports
from localcloud.kubernetes.watching import WatchingApi
from localcloud.managed_slurm.records import SlurmSpec, SlurmStatus

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
_STARTS_BEFORE_GIVING_UP = 5
_SETTLE_SECONDS = 30.0
_RELEASE_SECONDS = 3.0
# Each pod costs 0.2 MB and five writes: eight DaemonSets on 1,000 nodes would take 1.6 GB and minutes.
_NODES_WITH_SYSTEM_PODS = 100
_Client = TypeVar("_Client", bound=ApiServer)


class KwokControlPlane:
    """One real control plane per CMK cluster, made with kwokctl, below one folder."""

    instant = False

    def __init__(
        self,
        root: Path,
        *,
        binary: Binary,
        access: CloudAccess | None = None,
        outside_vpc: bool = False,
        certificate_lifetime: timedelta = timedelta(days=365),
        start_seconds: float = 120.0,
        drain_seconds: float = 120.0,
        actors: Mapping[str, Actor] | None = None,
    ) -> None:
        """Prepare; nothing is started.

        `root` is the folder of all control planes. `binary` finds a tool of the toolchain by name. `access` becomes the
        Secret `crusoe-secrets` in every cluster. `outside_vpc`: whoever asks for credentials is outside the VPCs, so
        private clusters don't answer. `start_seconds` bounds a start, `drain_seconds` the eviction of a node's pods.
        `actors` work in every cluster while this process runs and the cluster is there.
        """
        self.root = root.resolve()
        self._binary: Binary = lambda name: binary(name).resolve()
        self._access = access
        self._outside_vpc = outside_vpc
        self._certificate_lifetime = certificate_lifetime
        self._start_seconds = start_seconds
        self._drain_seconds = drain_seconds
        self._black_hole: BlackHole | None = None
        self._actors = Actors(actors or {})
        self._lock = threading.Lock()
        self._slurm_passes: dict[str, threading.Lock] = {}

    def create(self, cluster: ClusterSpec) -> None:
        """Bring the control plane up and return when its API answers, add-on objects included."""
        home = self._home(cluster.id)
        record = home.read()
        if record is None or not record.created or not home.kwok_yaml.exists():
            record = self._make(cluster, home, record)
        self._converge(cluster, home, record)

    def ensure_running(self, cluster: ClusterSpec) -> None:
        """Start what doesn't run of the control plane, with its data; finish one whose creation was interrupted.

        One that was stopped altogether starts with the cluster's present extra arguments.
        """
        home = self._home(cluster.id)
        record = home.read()
        if record is None or not record.created:
            self.create(cluster)
            return
        if not home.kwok_yaml.exists():
            raise ControlPlaneError(
                f"The data of cluster {cluster.name} is gone from {home.folder}. "
                "Delete the cluster and create it again."
            )
        if not processes.components(home):
            self._rotate(cluster, home, record)
        self._converge(cluster, home, record)

    def ended(self, cluster_id: str) -> Sequence[str]:
        """Names of the components that don't run; one look at the process table."""
        running = processes.components(self._home(cluster_id))
        return [name for name in COMPONENTS if name not in running]

    def update(self, cluster: ClusterSpec) -> None:
        """Make changed add-ons true on a running control plane. Extra arguments wait for a rotation or a restart."""
        home = self._home(cluster.id)
        self._converge(cluster, home, self._created(home))

    def rotate(self, cluster: ClusterSpec) -> None:
        """Restart the components whose extra arguments changed.

        If one doesn't come up with them, the old ones are put back and the error says why.
        """
        home = self._home(cluster.id)
        self._rotate(cluster, home, self._created(home))

    def delete(self, cluster_id: str) -> None:
        """End the control plane's processes and remove its data."""
        home = self._home(cluster_id)
        self._actors.stop(cluster_id)
        processes.end(home)
        home.discard()

    def credentials(self, cluster: ClusterSpec, auth_type: AuthType) -> ClusterCredentials:
        """A kubeconfig with a client certificate of its own, new on every call; without one for `oidc`."""
        home = self._home(cluster.id)
        address = _address(self._created(home))
        if cluster.private and self._outside_vpc:
            address = self._outside().address
        return issue_credentials(cluster, home, address, auth_type, self._certificate_lifetime)

    def apply_nodes(self, cluster_id: str, nodes: Sequence[NodeSpec]) -> None:
        """Create or correct these nodes and return when they are Ready. Other nodes are left alone."""
        if not nodes:
            return
        add_ons = self._created(self._home(cluster_id)).add_ons
        nodes = [replace(node, labels={**node.labels, **add_on_labels(add_ons, node)}) for node in nodes]
        with self._api(cluster_id) as api:
            existing = {item["metadata"]["name"]: item for item in api.list(NODES.path())}
            missing = [node.name for node in nodes if node.name not in existing]
            free = _NODES_WITH_SYSTEM_PODS - sum(map(node_objects.has_system_pods, existing.values()))
            with_system_pods = set(missing[: max(free, 0)])

            def correct(node: NodeSpec) -> None:
                found = existing.get(node.name)
                if found is None:
                    shown = node.name in with_system_pods
                    api.create(NODES.path(), node_objects.node_object(node, datetime.now(UTC), system_pods=shown))
                elif not node_objects.is_current(found, node):
                    # Status first: the metadata holds the digest that says that all is done.
                    api.merge(f"{NODES.path(name=node.name)}/status", node_objects.status_patch(found, node))
                    api.merge(NODES.path(name=node.name), node_objects.metadata_patch(found, node))

            api.each(correct, nodes)
            self._await_ready(api, {node.name for node in nodes})

    def remove_nodes(self, cluster_id: str, names: Collection[str], *, drain: bool) -> None:
        """Delete these nodes; with `drain`, cordon them and evict their pods first, within a bound."""
        if not names:
            return
        with self._api(cluster_id) as api:
            if drain:
                self._drain(api, names)
            api.each(lambda name: api.delete(NODES.path(name=name)), names)
            # A VM that is gone takes its pods with it; left alone they would linger until the garbage collector comes.
            api.each(
                lambda pod: api.delete(PODS.path(*_name(pod)), grace_seconds=0),
                [pod for pods in _pods_by_node(api, names).values() for pod in pods],
            )

    def nodes(self, cluster_id: str) -> list[NodeStatus]:
        """Every node of the cluster."""
        with self._api(cluster_id) as api:
            return [
                NodeStatus(
                    item["metadata"]["name"],
                    ready=node_objects.is_ready(item),
                    schedulable=not item["spec"].get("unschedulable", False),
                )
                for item in api.list(NODES.path())
            ]

    def slurm(self, cluster_id: str, wanted: SlurmSpec) -> SlurmStatus:
        """Make a managed Slurm cluster true in the cluster, wait for nothing, and answer what runs of it."""
        # Imported here: few clusters need it, and it needs this package.
        from localcloud.managed_slurm.reconcile import reconcile

        self._created(self._home(cluster_id))
        # One pass at a time: two could give one id to two users.
        with self._slurm_passes.setdefault(cluster_id, threading.Lock()), self._api(cluster_id) as api:
            return reconcile(api, wanted)

    def stop_all(self) -> None:
        """End all processes of all clusters of the folder, and keep the data."""
        self._actors.stop_all()
        for home in homes(self.root):
            processes.end(home)

    def delete_all(self) -> None:
        """End all processes and remove the data of all clusters of the folder."""
        for home in homes(self.root):
            self.delete(home.cluster_id)

    def close(self) -> None:
        """Let go of what this process itself holds; the control planes go on."""
        self._actors.stop_all()
        with self._lock:
            if self._black_hole is not None:
                self._black_hole.close()
                self._black_hole = None

    # Bringing a control plane up ------------------------------------------------------------------------------------

    def _make(self, cluster: ClusterSpec, home: Home, record: Record | None) -> Record:
        """Lay a control plane out and start it, in place of whatever was left of one."""
        ports = record.ports if record else self._choose_ports()
        try:
            return self._lay_out(cluster, home, ports)
        except ControlPlaneError:
            taken = any(answers(port) for component in COMPONENTS for port in ports.of(component))
            if not taken or (record is not None and record.created):
                raise
            # Another local cloud has chosen one of them in the same second, and nobody knows of them yet.
            return self._lay_out(cluster, home, self._choose_ports())

    def _lay_out(self, cluster: ClusterSpec, home: Home, ports: Ports) -> Record:
        address = cluster.api_address
        record = Record(ports=ports)
        documents = kwokctl_configuration(cluster, home, record.ports, self._binary)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        processes.end(home)
        home.discard_data()
        home.write(record)
        write_private(home.configuration, yaml.safe_dump_all(documents, sort_keys=False))
        if cluster.oidc and cluster.oidc.ca_cert:
            write_private(home.oidc_ca, cluster.oidc.ca_cert)
        self._refuse_taken_ports(cluster, record.ports, COMPONENTS)
        make_pki(home, cluster.name, [cluster.dns_name], [address])
        _write_egress(home)
        try:
            # An empty --kubeconfig keeps kwokctl from writing into the user's own.
            self._kwokctl(home, "create", f"--config={home.configuration}", "--kubeconfig=")
            self._bring_up(cluster, home, record)
        except ControlPlaneError:
            processes.end(home)
            home.discard_data()
            raise
        record = replace(record, created=True)
        home.write(record)
        return record

    def _converge(self, cluster: ClusterSpec, home: Home, record: Record) -> None:
        """Bring up what doesn't run, then the actors, then the add-ons that are missing or too many."""
        if cluster.private and self._outside_vpc:
            self._outside()
        self._bring_up(cluster, home, record)
        self._actors.start(cluster, home, lambda: self._watching(cluster.id))
        wanted = wanted_add_ons(cluster)
        with self._api(home.cluster_id) as api:
            for add_on in [name for name in wanted if name not in record.add_ons]:
                for item in add_on_objects(add_on, cluster, self._access):
                    _apply(api, item)
                record = replace(record, add_ons=(*record.add_ons, add_on))
                home.write(record)
            for add_on in [name for name in record.add_ons if name not in wanted]:
                for item in _removable(add_on, cluster, record):
                    api.delete(path_of(item))
                record = replace(record, add_ons=tuple(name for name in record.add_ons if name != add_on))
                home.write(record)

    def _bring_up(self, cluster: ClusterSpec, home: Home, record: Record) -> None:
        """Start components until all run and the API is usable; raise with the reason if they don't stay up."""
        deadline = time.monotonic() + self._start_seconds
        starts: Counter[str] = Counter()
        while True:
            running = processes.components(home)
            missing = [name for name in COMPONENTS if name not in running]
            if not missing and self._usable(home, record):
                return
            given_up = [name for name in missing if starts[name] >= _STARTS_BEFORE_GIVING_UP]
            if given_up or time.monotonic() > deadline:
                raise self._not_ready(cluster, home, (given_up or missing or ["kube-apiserver"])[0])
            if missing:
                self._start(cluster, home, record, missing)
                starts.update(missing)
            time.sleep(_POLL_SECONDS)

    def _start(self, cluster: ClusterSpec, home: Home, record: Record, missing: Sequence[str]) -> None:
        _write_egress(home)
        self._refuse_taken_ports(cluster, record.ports, missing)
        self._relink(home)
        processes.forget_dead_pids(home)
        self._kwokctl(home, "start")

    def _usable(self, home: Home, record: Record) -> bool:
        """The API is ready, the other components serve, and the controllers have done their first work."""
        others = [name for name in COMPONENTS if name not in ("etcd", "kube-apiserver")]
        if not all(answers(port) for name in others for port in record.ports.of(name)):
            return False
        with self._api(home.cluster_id) as api:
            if not api.ready():
                return False
            try:
                # Without it the first pod of a program that is quick would be refused.
                return api.get(SERVICE_ACCOUNTS.path("default", "default")) is not None
            except ApiError:
                return False

    def _rotate(self, cluster: ClusterSpec, home: Home, record: Record) -> None:
        """Restart the components that don't run with the arguments they should have."""
        before = list(yaml.safe_load_all(home.kwok_yaml.read_text()))
        after = with_arguments(before, component_arguments(cluster, home))
        try:
            self._restart_with(cluster, home, record, after)
        except ControlPlaneError as error:
            self._restart_with(cluster, home, record, before)
            raise ControlPlaneError(f"{error}\nThe extra arguments were put back to what they were.") from None

    def _restart_with(self, cluster: ClusterSpec, home: Home, record: Record, documents: list[Object]) -> None:
        write_private(home.kwok_yaml, yaml.safe_dump_all(documents, sort_keys=False))
        wanted = command_arguments(documents)
        outdated = [name for name, arguments in processes.components(home).items() if arguments != wanted[name]]
        processes.end_components(home, outdated)
        self._bring_up(cluster, home, record)

    def _relink(self, home: Home) -> None:
        """Point the components at the tools where they are now; the tool cache may have moved or been renewed."""
        for component, tool in TOOLS.items():
            link, target = home.binary(component), self._binary(tool)
            if not link.is_symlink() or link.readlink() != target:
                draft = link.with_name(f".{link.name}")
                draft.unlink(missing_ok=True)
                draft.symlink_to(target)
                draft.replace(link)

    def _kwokctl(self, home: Home, action: str, *arguments: str) -> None:
        """Have kwokctl start the components.

        It is not needed any more once every component has been started: whether they are ready is judged by the start
        loop, which notices a component that ended again where kwokctl would wait for two minutes.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KWOK_")}
        environment[processes.WORKDIR] = str(self.root)
        command = [str(self._binary("kwokctl")), action, "cluster", f"--name={home.cluster_id}", *arguments]
        with home.kwokctl_log.open("w") as log:
            kwokctl = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + self._start_seconds
        while kwokctl.poll() is None and not processes.all_started(home) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS / 2)
        if kwokctl.poll() is None:
            processes.end_group(kwokctl.pid)
        kwokctl.wait()
        if not processes.all_started(home):
            raise ControlPlaneError(
                f"kwokctl {action} did not start the control plane in {home.folder}. "
                f"The last lines of {home.kwokctl_log}:\n{processes.last_lines(home.kwokctl_log)}"
            )

    def _not_ready(self, cluster: ClusterSpec, home: Home, component: str) -> ControlPlaneError:
        log = home.log(component)
        return ControlPlaneError(
            f"The control plane of cluster {cluster.name} did not come up: {component} isn't ready. "
            f"The last lines of {log}:\n{processes.last_lines(log)}"
        )

    # Ports ----------------------------------------------------------------------------------------------------------

    def _choose_ports(self) -> Ports:
        taken: set[int] = set()
        for home in homes(self.root):
            if record := home.read():
                taken |= {port for component in COMPONENTS for port in record.ports.of(component)}
        return Ports(*choose_ports(6, taken))

    def _refuse_taken_ports(self, cluster: ClusterSpec, ports: Ports, not_running: Sequence[str]) -> None:
        # A process that was killed holds its sockets a little longer than it is seen to run.
        deadline = time.monotonic() + _RELEASE_SECONDS
        for port in [port for component in not_running for port in ports.of(component)]:
            while answers(port) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if answers(port):
                raise ControlPlaneError(
                    f"Port {port} on {LOOPBACK}, which belongs to cluster {cluster.name}, is taken by another program. "
                    "End that program and try again."
                )

    def _outside(self) -> BlackHole:
        """The address of private clusters for a caller outside their VPC; the same after every restart."""
        with self._lock:
            if self._black_hole is None:
                file = self.root / "outside-vpc.port"
                if not file.exists():
                    write_private(file, str(choose_ports(1, ())[0]))
                self._black_hole = BlackHole(int(file.read_text()))
            return self._black_hole

    # Talking to the API server --------------------------------------------------------------------------------------

    def _home(self, cluster_id: str) -> Home:
        return Home(self.root, cluster_id)

    def _created(self, home: Home) -> Record:
        record = home.read()
        if record is None or not home.certificate("admin.key").exists():
            raise ControlPlaneError(
                f"Cluster {home.cluster_id} has no control plane in {home.folder}. Create it first."
            )
        return record

    def _api(self, cluster_id: str) -> ApiServer:
        return self._connected(ApiServer, cluster_id)

    def _watching(self, cluster_id: str) -> WatchingApi:
        return self._connected(WatchingApi, cluster_id)

    def _connected(self, client: type[_Client], cluster_id: str) -> _Client:
        home = self._home(cluster_id)
        return client(
            _address(self._created(home)),
            ca_file=str(home.certificate("ca.crt")),
            certificate_file=str(home.certificate("admin.crt")),
            key_file=str(home.certificate("admin.key")),
        )

    def _await_ready(self, api: ApiServer, names: Collection[str]) -> None:
        deadline = time.monotonic() + _SETTLE_SECONDS + 0.1 * len(names)
        pause = _POLL_SECONDS
        while True:
            ready = {item["metadata"]["name"] for item in api.list(NODES.path()) if node_objects.is_ready(item)}
            waiting = sorted(set(names) - ready)
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"{len(waiting)} of {len(names)} nodes did not turn Ready, {waiting[0]} among them. "
                    "Look at the kwok controller's log."
                )
            time.sleep(pause)
            # Reading many nodes is work for the API server too.
            pause = min(pause * 1.5, 0.5 + len(names) / 500)

    def _drain(self, api: ApiServer, names: Collection[str]) -> None:
        """Cordon the nodes and evict their pods; what a disruption budget holds back for too long stays."""
        api.each(lambda name: api.merge(NODES.path(name=name), {"spec": {"unschedulable": True}}), names)
        deadline = time.monotonic() + self._drain_seconds
        while time.monotonic() < deadline:
            pods = [pod for pods in _pods_by_node(api, names).values() for pod in pods if not _of_daemon_set(pod)]
            if not pods:
                return
            api.each(lambda pod: api.evict(*_name(pod)), [pod for pod in pods if not _terminating(pod)])
            time.sleep(_POLL_SECONDS * 4)


def _write_egress(home: Home) -> None:
    write_private(home.egress_configuration, yaml.safe_dump(egress_configuration(home), sort_keys=False))


def _address(record: Record) -> str:
    return f"https://{LOOPBACK}:{record.ports.kube_apiserver}"


def _apply(api: ApiServer, item: Object) -> None:
    """Apply an object; one of a kind that was defined a moment ago is tried again until the API serves the kind."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            api.apply(item)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


def _removable(add_on: str, cluster: ClusterSpec, record: Record) -> list[Object]:
    """An add-on's objects in reverse order, less those that another one shares."""
    shared = {
        path_of(item) for other in {CORE, *record.add_ons} - {add_on} for item in add_on_objects(other, cluster, None)
    }
    return [item for item in reversed(add_on_objects(add_on, cluster, None)) if path_of(item) not in shared]


def _pods_by_node(api: ApiServer, names: Collection[str]) -> Mapping[str, list[Object]]:
    found: dict[str, list[Object]] = defaultdict(list)
    for pod in api.list(PODS.path()):
        node = pod["spec"].get("nodeName")
        if node in names:
            found[node].append(pod)
    return found


def _name(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _of_daemon_set(pod: Mapping[str, Any]) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", []))


def _terminating(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]
