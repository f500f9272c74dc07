"""The kubelets of Slurm's pods in one cluster: one loop over pods and nodes.

It keeps nothing that disk and API don't have: pods go on when the local cloud is killed, and the next loop finds their
processes again by their folders. A pod whose node is gone, or switched off by the annotation
`local.crusoe.ai/power: "off"`, dies at once, as with a machine that lost its power; one that is deleted gets its
preStop hook, SIGTERM and its grace period.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from localcloud.control_plane import ControlPlaneError
from localcloud.facts import VmType
from localcloud.in_cluster.objects import CLAIMS, SERVICES, VOLUMES, annotation, deleting, quantity, tell
from localcloud.kubernetes import gpu_faults
from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.api_server import NODES, PODS, ApiServer, Kind
from localcloud.kubernetes.egress import Server, endpoints_at, forward, forward_to
from localcloud.slinky.values import at, items, words
from localcloud.slurm import etc, machine, names, reach, streams
from localcloud.slurm.api_door import ApiDoor
from localcloud.slurm.lab import Lab, LabError, no_tool
from localcloud.slurm.plan import API_PORT, ASKS_THE_CLOUD, DAEMONS, NAME_LABEL, Surroundings, specification
from localcloud.slurm.status import pod_status, waiting_status
from localcloud.slurm.tokens import Tokens
from localcloud.slurm.volumes import MissingError, Sources, materialise

_LOG = logging.getLogger(__name__)
Object = dict[str, Any]

POWER = "local.crusoe.ai/power"
"""Annotation of a Node: with the value `off` its pods of Slurm are dead and stay so, and nobody reports on them."""

_ROUND_SECONDS = 0.3
_BREAK_SECONDS = 10.0
_REFRESH_SECONDS = 2.0
_SELECTOR = f"{NAME_LABEL} in ({','.join(DAEMONS)})"
_CONFIG_MAPS = Kind("v1", "configmaps", namespaced=True)
_SECRETS = Kind("v1", "secrets", namespaced=True)


@dataclass
class _Known:
    """A pod that was started: where its files are, its first process, and what was last said of it."""

    folder: Path
    address: str
    lives: int
    process: psutil.Process | None = None
    looked_for: float = 0.0
    ending: bool = False
    lost: frozenset[int] = frozenset()
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Kubelet:
    """The kubelets of one cluster."""

    def __init__(
        self, place: Place, lab: Lab, vm_types: Mapping[str, VmType], cloud: tuple[str, int] | None = None
    ) -> None:
        """Work in the cluster of `place`; what still runs there is adopted. `cloud` is the address of the API."""
        self._api: ApiServer = place.api
        self._place = place
        self._lab = lab
        self._vm_types = vm_types
        self._pods = lab.folder / "pods"
        self._known: dict[str, _Known] = {}
        self._tokens = Tokens(place.api)
        self._sources: dict[str, Sources] = {}
        self._refreshed = 0.0
        self._cloud = cloud
        self._doors: dict[str, ApiDoor] = {}

    @property
    def busy(self) -> bool:
        """Whether there are pods here."""
        return bool(self._known)

    def round(self) -> None:
        """Look once and do what can be done now."""
        nodes = {item["metadata"]["name"]: item for item in self._api.list(NODES.path())}
        pods: list[Object] = [
            pod for pod in self._api.list(PODS.path(), labelSelector=_SELECTOR) if at(pod, "spec", "nodeName")
        ]
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        if pods:
            self._name(pods)
        self._refresh(pods)
        for uid, pod in by_uid.items():
            node = nodes.get(pod["spec"]["nodeName"])
            if node is None or words(node, "metadata", "annotations").get(POWER) == "off":
                self._kill(uid)
            else:
                self._declare(node)
                self._see(uid, pod, node)
                if words(pod, "metadata", "labels").get(NAME_LABEL) in ASKS_THE_CLOUD:
                    self._open(uid)
        for folder in self._pods.glob("*"):
            if folder.name not in by_uid:
                self._kill(folder.name)
                self._forget(folder.name)
        reach.link_rest(self._place.home, self._rest_sockets(pods))

    def _declare(self, node: Object) -> None:
        """Have the node say what its kubelet's server understands."""
        declared: list[str] = at(node, "status", "declaredFeatures") or []
        if streams.FEATURE not in declared:
            node["status"]["declaredFeatures"] = sorted([*declared, streams.FEATURE])
            patch = {"status": {"declaredFeatures": node["status"]["declaredFeatures"]}}
            self._api.merge(f"{NODES.path(name=node['metadata']['name'])}/status", patch)

    def target(self, namespace: str, name: str, container: str) -> streams.Target | None:
        """A container that runs."""
        pod = self._api.get(PODS.path(namespace, name))
        known = self._known.get(pod["metadata"]["uid"]) if pod else None
        if known is None or known.process is None:
            return None
        try:
            first = json.loads((known.folder / "status.json").read_text())["containers"][container]["pid"]
            wanted = json.loads((known.folder / "pod.json").read_text())
        except (OSError, ValueError, KeyError):
            return None
        pid = self._lab.pid(known.process, first) if first else None
        if pid is None:
            return None
        each = next(each for each in [*wanted["init"], *wanted["containers"]] if each["name"] == container)
        enter = [*self._lab.inside(pid), "env", "-i", *(f"{key}={value}" for key, value in each["env"].items())]
        if each["uid"] or each["gid"]:
            enter += ["setpriv", f"--reuid={each['uid']}", f"--regid={each['gid']}"]
            enter.append(f"--groups={','.join(map(str, each['groups']))}")
        return streams.Target(enter, known.folder / "containers" / container / "log")

    def behind(self, host: str, port: int) -> Server | None:
        """A pod by its own address, or a ready one by a Service's cluster IP and port.

        None where nobody is ready, or the pod is not run here.
        """
        running = {known.address: known.process for known in [*self._known.values()]}
        places = [(host, port)] if host in running else endpoints_at(self._api, host, port)
        for address, number in places:
            if process := running.get(address):
                return forward(partial(self._lab.connect_to, process, address, number))
        return None

    # One pod --------------------------------------------------------------------------------------------------------

    def _see(self, uid: str, pod: Object, node: Object) -> None:
        known = self._known.get(uid) or self._adopted(uid)
        alive = known is not None and self._alive(known)
        if deleting(pod):
            if known is not None and alive:
                self._end(known, pod)
                self._report(known, pod, node)
            else:
                self._api.delete(PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"]), grace_seconds=0)
                self._forget(uid)
        elif at(pod, "status", "phase") in ("Succeeded", "Failed"):
            self._kill(uid)
        elif known is not None and alive:
            self._break(known, node)
            self._report(known, pod, node)
        else:
            self._start(uid, pod, node, known)

    def _start(self, uid: str, pod: Object, node: Object, before: _Known | None) -> None:
        folder = self._pods / uid
        try:
            self._lab.ensure()
            image = self._lab.image_of(words(pod, "metadata", "labels").get(NAME_LABEL, ""))
            template = self._lab.folder / f"etc-{image.name}"
            if not template.exists():
                etc.make(template, image, single_user=self._lab.single_user)
            sources = self._sources[pod["metadata"]["namespace"]]
            volumes = materialise(pod, folder / "volumes", sources, single_user=self._lab.single_user)
            address = before.address if before else names.free_address(self._range(node), self._taken())
            rest = folder / "rest"
            rest.mkdir(exist_ok=True)
            # slurmrestd runs as a user of its own.
            rest.chmod(0o777)
            around = Surroundings(
                image=image,
                etc=template,
                address=address,
                prefix=self._lab.pods.prefixlen,
                volumes=volumes,
                sources=sources,
                cpus=int(quantity(node["status"]["capacity"]["cpu"])),
                memory=int(quantity(node["status"]["capacity"]["memory"]) // 2**20),
                api=self._place.cluster.api_address,
                gpus=gpus_of(node, self._vm_types),
                shared={etc.NAMES: self._names_of(pod["metadata"]["namespace"]), machine.DMESG: self._dmesg(node)},
                rest=rest,
                single_user=self._lab.single_user,
                tool=self._lab.tool,
            )
            wanted = specification(pod, around)
        except (LabError, MissingError, ValueError) as error:
            self._wait(pod, str(error), lab=isinstance(error, LabError))
            return
        lives = before.lives + 1 if before else 0
        for name in ("status.json", "stop.json"):
            (folder / name).unlink(missing_ok=True)
        (folder / "pod.json").write_text(json.dumps({**wanted, "lives": lives}))
        self._lab.start(folder)
        self._known[uid] = _Known(folder, address, lives, looked_for=time.monotonic())

    def _dmesg(self, node: Object) -> Path:
        """The program by which pods read their node's kernel log, up to date."""
        path = self._lab.folder / "machines" / node["metadata"]["name"]
        machine.write_dmesg(path, gpu_faults.faults_of(annotation(node, gpu_faults.GPU_FAULTS)))
        return path

    def _break(self, known: _Known, node: Object) -> None:
        """Have a running pod see what broke of its node."""
        faults = gpu_faults.faults_of(annotation(node, gpu_faults.GPU_FAULTS))
        if not faults or known.process is None:
            return
        self._dmesg(node)
        new = gpu_faults.lost(faults) - known.lost
        if not new:
            return
        wanted, status = (json.loads((known.folder / name).read_text()) for name in ("pod.json", "status.json"))
        for container in [*wanted["init"], *wanted["containers"]]:
            first = status["containers"][container["name"]]["pid"]
            pid = self._lab.pid(known.process, first) if container["gpus"] and first else None
            if pid is not None:
                root = known.folder / "containers" / container["name"] / "root"
                command = self._lab.lose(pid, root, machine.places(new))
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_BREAK_SECONDS, check=False
                )
                if done.returncode:
                    _LOG.warning("a GPU of %s could not be taken away: %s", known.folder.name, done.stderr.decode())
                    return
        known.lost |= new

    def _wait(self, pod: Object, message: str, *, lab: bool) -> None:
        reason = "FailedCreatePodSandBox" if lab else "FailedMount"
        if any(each.get("message") == message for each in items(pod, "status", "conditions")):
            return
        tell(self._api, pod, "kubelet", reason, message)
        self._patch(pod, waiting_status(pod, "ContainerCreating", message))

    def _report(self, known: _Known, pod: Object, node: Object) -> None:
        try:
            report = json.loads((known.folder / "status.json").read_text())
        except (OSError, ValueError):
            return
        host = next((each["address"] for each in items(node, "status", "addresses")), "")
        status = pod_status(pod, report, known.address, host, known.lives)
        ready = {each["type"]: each["status"] for each in status["conditions"]}
        shown = {each["type"]: each["status"] for each in items(pod, "status", "conditions")}
        if status != known.told or any(shown.get(kind) != value for kind, value in ready.items()):
            self._patch(pod, status)
            known.told = status

    def _patch(self, pod: Object, status: Mapping[str, Any]) -> None:
        path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"])
        # The uid keeps a new pod of the same name from getting the status of the old one.
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        with suppress(ControlPlaneError):
            self._api.merge(f"{path}/status", patch, strategic=True)

    def _end(self, known: _Known, pod: Object) -> None:
        if known.ending or known.process is None:
            return
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        (known.folder / "stop.json").write_text(json.dumps({"grace": grace}))
        with suppress(psutil.NoSuchProcess):
            known.process.send_signal(signal.SIGTERM)
        known.ending = True

    def _kill(self, uid: str) -> None:
        known = self._known.get(uid) or self._adopted(uid)
        if known is None:
            return
        if self._alive(known) and known.process is not None:
            with suppress(psutil.Error):
                known.process.kill()
                known.process.wait(5)

    def _open(self, uid: str) -> None:
        """Have the pod find the local cloud's API where its settings have it: at the loopback address."""
        known = self._known.get(uid)
        if self._cloud is None or known is None or known.process is None:
            return
        if uid not in self._doors:
            host, port = self._cloud
            process = partial(_process, known)
            self._doors[uid] = ApiDoor(self._lab, process, host, port, forward_to(self._cloud))
        self._doors[uid].keep_open()

    def close(self) -> None:
        """Take no more connections of pods to the local cloud's API."""
        for door in self._doors.values():
            door.close()

    def _forget(self, uid: str) -> None:
        self._known.pop(uid, None)
        if uid in self._doors:
            self._doors.pop(uid).close()
        self._tokens.forget(uid)
        folder = self._pods / uid
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)

    # What is there --------------------------------------------------------------------------------------------------

    def _adopted(self, uid: str) -> _Known | None:
        """A pod that an earlier process started."""
        folder = self._pods / uid
        try:
            wanted = json.loads((folder / "pod.json").read_text())
        except (OSError, ValueError):
            return None
        known = _Known(folder, wanted["address"].partition("/")[0], wanted["lives"])
        known.process = self._lab.running().get(folder)
        known.ending = (folder / "stop.json").exists()
        self._known[uid] = known
        return known

    def _alive(self, known: _Known) -> bool:
        if known.process is None:
            known.process = self._lab.running().get(known.folder)
            if known.process is None:
                # It has been started and isn't the first of its namespaces yet, or it never got there.
                return time.monotonic() - known.looked_for < reach.START_SECONDS
        return known.process.is_running() and known.process.status() != psutil.STATUS_ZOMBIE

    def _taken(self) -> list[str]:
        return [known.address for known in self._known.values()]

    def _range(self, node: Object) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(at(node, "spec", "podCIDR") or str(self._lab.pods))

    def _refresh(self, pods: list[Object]) -> None:
        """Read what volumes are made of, and bring those of running pods up to date now and then."""
        spaces = {pod["metadata"]["namespace"] for pod in pods}
        new = spaces - self._sources.keys()
        starting = any(pod["metadata"]["uid"] not in self._known for pod in pods)
        if not spaces or (not new and not starting and time.monotonic() - self._refreshed < _REFRESH_SECONDS):
            return
        self._refreshed = time.monotonic()
        volumes = {item["metadata"]["name"]: item for item in self._api.list(VOLUMES.path())}
        self._sources = {space: self._sources_of(space, volumes) for space in spaces}
        for pod in pods:
            known = self._known.get(pod["metadata"]["uid"])
            if known is not None and not deleting(pod):
                with suppress(MissingError):
                    materialise(
                        pod,
                        known.folder / "volumes",
                        self._sources[pod["metadata"]["namespace"]],
                        single_user=self._lab.single_user,
                    )

    def _sources_of(self, namespace: str, volumes: Mapping[str, Object]) -> Sources:
        def by_name(kind: Kind) -> dict[str, Object]:
            return {item["metadata"]["name"]: item for item in self._api.list(kind.path(namespace))}

        disks: dict[str, Path] = {}
        for name, claim in by_name(CLAIMS).items():
            volume = volumes.get(at(claim, "spec", "volumeName") or "")
            if volume is not None and at(claim, "status", "phase") == "Bound":
                handle = at(volume, "spec", "csi", "volumeHandle") or volume["metadata"]["name"]
                # Disks are the project's: they outlive the cluster.
                disks[name] = self._place.home.root / "disks" / str(handle).replace("/", "_")
        return Sources(by_name(_CONFIG_MAPS), by_name(_SECRETS), disks, self._tokens.token)

    def _names_of(self, namespace: str) -> Path:
        return self._lab.folder / "names" / namespace

    def _name(self, pods: list[Object]) -> None:
        services = self._api.list(SERVICES.path())
        # A pod's address counts from its start on, before anybody was told of it.
        placed = [_with_address(pod, self._known.get(pod["metadata"]["uid"])) for pod in pods]
        for namespace in {pod["metadata"]["namespace"] for pod in pods}:
            folder = self._names_of(namespace)
            text = names.hosts(namespace, placed, services, self._lab.nowhere)
            path = folder / "hosts"
            if not path.exists() or path.read_text() != text:
                folder.mkdir(parents=True, exist_ok=True)
                draft = folder / ".hosts"
                draft.write_text(text)
                draft.replace(path)

    def _rest_sockets(self, pods: list[Object]) -> list[Path]:
        """Sockets of slurmrestd, those of ready pods first."""
        found: list[tuple[bool, Path]] = []
        for pod in pods:
            known = self._known.get(pod["metadata"]["uid"])
            if known is not None and words(pod, "metadata", "labels").get(NAME_LABEL) == "slurmrestd":
                ready = any(
                    each["type"] == "Ready" and each["status"] == "True" for each in items(pod, "status", "conditions")
                )
                found.append((not ready, known.folder / "rest" / reach.REST_NAME))
        return [path for _, path in sorted(found)]


def _process(known: _Known) -> psutil.Process | None:
    return known.process


def _with_address(pod: Object, known: _Known | None) -> Object:
    if known is None or at(pod, "status", "podIP"):
        return pod
    return {**pod, "status": {**pod.get("status", {}), "podIP": known.address}}


def gpus_of(node: Object, vm_types: Mapping[str, VmType]) -> tuple[str, ...]:
    """The name of each NVIDIA GPU that a node offers, about as the driver has it; empty for one that is gone.

    AMD's aren't played.
    """
    count = int(quantity(str(at(node, "status", "capacity", "nvidia.com/gpu") or "0")))
    vm_type = vm_types.get(words(node, "metadata", "labels").get("node.kubernetes.io/instance-type", ""))
    model = f"NVIDIA {vm_type.gpu_model} {vm_type.gpu_memory_gb}GB" if vm_type else "NVIDIA GPU"
    lost = gpu_faults.lost(gpu_faults.faults_of(annotation(node, gpu_faults.GPU_FAULTS)))
    return tuple("" if number in lost else model for number in range(count))


class Kubelets:
    """The kubelets of all clusters of one local cloud."""

    def __init__(
        self,
        image: Callable[[], Path],
        vm_types: Mapping[str, VmType],
        tool: Callable[[str], Path] = no_tool,
        worker_image: Callable[[], Path] | None = None,
        cloud: tuple[str, int] | None = None,
    ) -> None:
        """`image` gives the folder with Slurm, `tool` another program by its name; both may raise LabError.

        `worker_image` gives the folder of workers and login pods where it is another one. `cloud` is host and port of
        the local cloud's API.
        """
        self._cloud = cloud
        self._image = image
        self._worker_image = worker_image
        self._tool = tool
        self._vm_types = vm_types
        self._labs: dict[str, Lab] = {}
        self._kubelets: dict[str, Kubelet] = {}
        self._context: ssl.SSLContext | None = None

    def act(self, place: Place, stop: threading.Event) -> None:
        """The actor of one cluster."""
        address = place.cluster.api_address
        network = ipaddress.IPv4Network(place.cluster.cluster_cidr)
        lab = Lab(reach.lab_folder(place.home), self._image, network, (address,), self._tool, self._worker_image)
        api = urlsplit(place.api.address)
        door = ApiDoor(lab, lab.first, address, API_PORT, forward_to((api.hostname or "", api.port or API_PORT)))
        self._labs[place.cluster.id] = lab
        kubelet = self._kubelets[place.cluster.id] = Kubelet(place, lab, self._vm_types, self._cloud)
        try:
            while not stop.is_set():
                try:
                    kubelet.round()
                except ControlPlaneError as error:
                    # The watch sees to a control plane that ended.
                    _LOG.info("Slurm's pods of cluster %s wait: %s", place.cluster.name, error)
                if kubelet.busy:
                    door.keep_open()
                stop.wait(_ROUND_SECONDS)
        finally:
            door.close()
            kubelet.close()

    def connect(self, cluster_id: str, address: str, port: int) -> socket.socket:
        """A TCP connection to a pod's address (`localcloud.dialing.Dialer`). Raises OSError."""
        lab = self._labs.get(cluster_id)
        if lab is None:
            raise ConnectionRefusedError(f"cluster {cluster_id} has no pods that are processes")
        return lab.connect(address, port)

    def resolve(self, place: Place, host: str, port: int) -> Server | None:
        """A node's kubelet, a pod, or one behind a Service (`localcloud.kubernetes.egress.Resolver`).

        Only kubelets have their port.
        """
        kubelet = self._kubelets.get(place.cluster.id)
        if kubelet is None:
            return None
        if port != streams.PORT:
            return kubelet.behind(host, port)
        context = self._context = self._context or streams.server_context()
        return lambda client: streams.serve(client, context, kubelet.target)
