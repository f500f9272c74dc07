"""A pod in, what is to run out: the specification that a pod's first process reads. Pure functions.

```
image, hostname, link, grace       folder of /usr, hostname, name of the network link, grace period (s)
address                            the pod's address with the network's prefix length
routes                             addresses out of that network that answer at the pods' bridge; may be left out
init, containers                   lists of containers, each:
    name, argv, env, cwd           what to run
    uid, gid, groups               as whom
    etc                            the folder that /etc is copied from
    devices, gpus, cpus            stand-ins below /dev by name; model of each NVIDIA GPU, "" if lost; the node's CPUs
    mounts                         source, target, read_only; in the order in which they are mounted
    once                           whether it is to end by itself: an init container that is no sidecar
    post_start, pre_stop           arguments of each hook's program, or null
    probes                         startup, liveness, readiness: exec | tcp | http, period, timeout, delay (s), failures
                                   and calm, the period (s) of one that passes
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcloud.slinky.values import at, items, part
from localcloud.slurm.images import PATH, REST_SOCKET, image_of
from localcloud.slurm.volumes import MissingError, Sources, data_of, field_of

Object = Mapping[str, Any]

ASKS_THE_CLOUD = ("gpuplatform-exporter", "alertmanager")
DAEMONS = (
    *("slurmctld", "slurmd", "slurmrestd", "slurmdbd", "mariadb", "login", "sacctmgr", "slurm-actor", "kueue"),
    *ASKS_THE_CLOUD,
)
"""Values of the label `app.kubernetes.io/name` of pods that run as processes; some of them ask Crusoe's API."""

API_PORT = 443
"""The port of the Service `kubernetes`."""

NAME_LABEL = "app.kubernetes.io/name"
_HOOKS = {"post_start": "postStart", "pre_stop": "preStop"}
_GRACE_SECONDS = 30
_VARIABLE = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_NULL = "/dev/null"


def _no_tool(name: str) -> Path:
    raise MissingError(f"nobody gives pods the program {name} here")


@dataclass(frozen=True)
class Surroundings:
    """What a pod finds around itself.

    `etc` is the folder that its /etc is copied from, `volumes` the folder of each of its volumes, `shared` those that
    every pod has (source by target). `cpus` and `memory` (MiB) are its node's, `gpus` the model of each NVIDIA GPU
    of the node. `api` is the address of the API server for pods. With `single_user` everything runs as that user.
    `tool` finds a pinned tool by its name.
    """

    image: Path
    etc: Path
    address: str
    prefix: int
    volumes: Mapping[str, Path]
    sources: Sources
    cpus: int
    memory: int
    api: str
    gpus: tuple[str, ...] = ()
    shared: Mapping[str, Path] = field(default_factory=dict[str, Path])
    rest: Path | None = None
    single_user: bool = False
    tool: Callable[[str], Path] = _no_tool


def specification(pod: Object, around: Surroundings) -> dict[str, Any]:
    """What `pod.json` says.

    Raises:
        MissingError: a variable's or a mount's object isn't there.
        LabError: a tool isn't.
    """
    spec = pod["spec"]
    return {
        "image": str(around.image),
        "hostname": spec.get("hostname") or pod["metadata"]["name"],
        "link": f"v{pod['metadata']['uid'].replace('-', '')[:12]}",
        "address": f"{around.address}/{around.prefix}",
        "routes": [around.api],
        "grace": spec.get("terminationGracePeriodSeconds", _GRACE_SECONDS),
        "init": [
            _container(each, pod, around, once=each.get("restartPolicy") != "Always")
            for each in items(spec, "initContainers")
        ],
        "containers": [_container(each, pod, around, once=False) for each in spec["containers"]],
    }


def _container(container: Object, pod: Object, around: Surroundings, *, once: bool) -> dict[str, Any]:
    name = container["name"]
    image = image_of(name)
    env = environment(container, pod, around)
    arguments = [expanded(word, env) for word in container.get("args") or ()]
    command = [expanded(word, env) for word in container.get("command") or ()]
    argv = [*command, *arguments] if command else list(image.entrypoint(arguments, env))
    security = {**part(pod, "spec", "securityContext"), **part(container, "securityContext")}
    uid = 0 if around.single_user else security.get("runAsUser", image.user)
    gid = 0 if around.single_user else security.get("runAsGroup", uid)
    groups = {gid, *security.get("supplementalGroups", ())}
    if "fsGroup" in security:
        groups.add(security["fsGroup"])
    gpus = _gpus(container, around)
    hooks = {name: at(container, "lifecycle", key, "exec", "command") for name, key in _HOOKS.items()}
    mounts = [*_mounts(container, around)]
    if name == "slurmrestd" and around.rest is not None:
        mounts.append(_mount(around.rest, REST_SOCKET.rpartition("/")[0]))
    mounts += [_mount(around.tool(tool), place, read_only=True) for place, tool in image.programs.items()]
    return {
        "name": name,
        "argv": argv,
        "env": env,
        "cwd": container.get("workingDir", "/"),
        "uid": uid,
        "gid": gid,
        "groups": sorted(groups) if not around.single_user else [],
        "etc": str(around.etc),
        "devices": {f"nvidia{number}": _NULL for number, model in enumerate(gpus) if model}
        | ({"nvidiactl": _NULL} if gpus else {}),
        "gpus": list(gpus),
        "cpus": around.cpus,
        "mounts": mounts,
        "once": once,
        **hooks,
        "probes": {} if once else _probes(container),
    }


def _gpus(container: Object, around: Surroundings) -> tuple[str, ...]:
    """GPUs that a container sees: all of the node's when it is privileged, else as many as it is given."""
    if at(container, "securityContext", "privileged"):
        return around.gpus
    return around.gpus[: int(part(container, "resources", "limits").get("nvidia.com/gpu", 0))]


def _mount(source: Path, target: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"source": str(source), "target": target, "read_only": read_only}


def _mounts(container: Object, around: Surroundings) -> list[dict[str, Any]]:
    """The mounts of a container, a folder before what lies in it."""
    found = [_mount(source, target, read_only=True) for target, source in around.shared.items()]
    for mounted in items(container, "volumeMounts"):
        if mounted["name"] not in around.volumes:
            raise MissingError(f"container {container['name']} mounts {mounted['name']}, which the pod doesn't have")
        place = around.volumes[mounted["name"]]
        within = mounted.get("subPath", "")
        source = place / within
        if within and not source.exists():
            source.mkdir(parents=True)
        found.append(_mount(source, mounted["mountPath"], read_only=bool(mounted.get("readOnly"))))
    return sorted(found, key=lambda mount: mount["target"].rstrip("/").count("/"))


def environment(container: Object, pod: Object, around: Surroundings) -> dict[str, str]:
    """The variables of a container: the local cloud's, the image's, then the pod's own.

    Raises:
        MissingError: one is taken from a ConfigMap or Secret that isn't there.
    """
    name = container["name"]
    env = {
        "PATH": PATH,
        "HOME": "/root",
        "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
        "LOCAL_CPUS": str(around.cpus),
        "LOCAL_MEMORY": str(around.memory),
        "KUBERNETES_SERVICE_HOST": around.api,
        "KUBERNETES_SERVICE_PORT": str(API_PORT),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(API_PORT),
        **(image_of(name).env or {}),
    }
    live = {**pod, "status": {**part(pod, "status"), "podIP": around.address}}
    for source in items(container, "envFrom"):
        for kind, key in (("configMap", "configMapRef"), ("secret", "secretRef")):
            if key in source:
                data = data_of(kind, source[key].get("name", ""), around.sources)
                if data is None and not source[key].get("optional"):
                    raise MissingError(f'{kind.lower()} "{source[key].get("name", "")}" not found')
                env |= {f"{source.get('prefix', '')}{item}": value.decode() for item, value in (data or {}).items()}
    for variable in items(container, "env"):
        value = _value(variable, live, around)
        if value is not None:
            env[variable["name"]] = expanded(value, env)
    return env


def _value(variable: Object, pod: Object, around: Surroundings) -> str | None:
    source = variable.get("valueFrom")
    if source is None:
        return str(variable.get("value", ""))
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"])
    for kind, key in (("configMap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if key in source:
            data = data_of(kind, source[key].get("name", ""), around.sources) or {}
            if source[key]["key"] in data:
                return data[source[key]["key"]].decode()
            if not source[key].get("optional"):
                raise MissingError(f"couldn't find key {source[key]['key']} in {kind} {source[key].get('name', '')}")
    return None


def expanded(text: str, env: Mapping[str, str]) -> str:
    """A text of the Pod API with its `$(NAME)` references filled in; unknown ones stay, `$$(NAME)` loses one dollar."""

    def replaced(found: re.Match[str]) -> str:
        return f"$({found[2]})" if found[1] else env.get(found[2], found[0])

    return _VARIABLE.sub(replaced, text)


def _probes(container: Object) -> dict[str, Any]:
    """The probes of a container. One without a readiness probe is ready when its first port answers."""
    probes = {
        kind: _probe(container[key], container)
        for kind, key in (("startup", "startupProbe"), ("liveness", "livenessProbe"), ("readiness", "readinessProbe"))
        if container.get(key)
    }
    ports = items(container, "ports")
    if "readiness" not in probes and ports:
        probes["readiness"] = _probe({"tcpSocket": {"port": ports[0]["containerPort"]}, "periodSeconds": 1}, container)
    return probes


def _probe(probe: Object, container: Object) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if "exec" in probe:
        asked["exec"] = probe["exec"]["command"]
    elif "httpGet" in probe:
        asked["http"] = {"port": _port(probe["httpGet"]["port"], container), "path": probe["httpGet"].get("path", "/")}
    else:
        asked["tcp"] = _port((part(probe, "tcpSocket") or probe["grpc"])["port"], container)
    period = max(probe.get("periodSeconds", 10), 1)
    return {
        **asked,
        # A kubelet looks only every 10 s by default; here nobody waits for a look that would tell of a good start.
        "period": 1,
        "calm": period,
        "timeout": probe.get("timeoutSeconds", 1),
        "delay": probe.get("initialDelaySeconds", 0),
        # As long as it takes to fail there, it takes to fail here.
        "failures": probe.get("failureThreshold", 3) * period,
    }


def _port(port: int | str, container: Object) -> int:
    named = {each.get("name"): each["containerPort"] for each in items(container, "ports")}
    return port if isinstance(port, int) else named.get(port) or int(port)
