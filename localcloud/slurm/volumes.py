"""A pod's volumes as folders of this machine: what lies in them is computed purely, then written.

ConfigMaps, Secrets and what is projected of them are written as files; while the pod runs they follow the objects, as a
kubelet's do. Claims are the folders of the disks behind them, which outlive pods, nodes and the cluster.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcloud.slinky.values import at, items, words
from localcloud.slurm.overrides import overridden

Object = Mapping[str, Any]
Files = dict[str, tuple[bytes, int]]
"""Content and mode of each file of a volume by its path in it."""


class MissingError(Exception):
    """Something that the pod needs isn't there yet; `str()` says what, in a kubelet's words."""


Token = Callable[[Object, Object], str]
"""(pod, `serviceAccountToken`) to a token."""


def _no_token(_pod: Object, _source: Object) -> str:
    raise MissingError("nobody gives tokens of service accounts")


@dataclass(frozen=True)
class Sources:
    """What volumes and variables of one namespace are made of.

    `config_maps` and `secrets` by name. `disks` gives the folder of each bound claim by the claim's name. `token` gives
    a pod's token for a `serviceAccountToken` of a volume, and raises MissingError where there is none.
    """

    config_maps: Mapping[str, Object] = field(default_factory=dict[str, Object])
    secrets: Mapping[str, Object] = field(default_factory=dict[str, Object])
    disks: Mapping[str, Path] = field(default_factory=dict[str, Path])
    token: Token = _no_token


def data_of(kind: str, name: str, sources: Sources) -> dict[str, bytes] | None:
    """The files of a ConfigMap or Secret; None if there is none."""
    found = (sources.config_maps if kind == "configMap" else sources.secrets).get(name)
    if found is None:
        return None
    if kind == "secret":
        return {key: base64.b64decode(value) for key, value in words(found, "data").items()}
    binary = {key: base64.b64decode(value) for key, value in words(found, "binaryData").items()}
    return {key: value.encode() for key, value in words(found, "data").items()} | binary


def files_of(volume: Object, pod: Object, sources: Sources) -> Files | None:
    """The files of a volume that is made of objects; None for one that isn't.

    Raises:
        MissingError: an object or a key that it must have isn't there.
    """
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            source = volume[kind]
            return _with_lab(_part(kind, source, pod, sources, source.get("defaultMode", 0o644)))
    if "projected" in volume:
        mode = volume["projected"].get("defaultMode", 0o644)
        files: Files = {}
        for source in items(volume, "projected", "sources"):
            for kind in ("configMap", "secret", "downwardAPI"):
                if kind in source:
                    files |= _part(kind, source[kind], pod, sources, mode)
            if "serviceAccountToken" in source:
                wanted = source["serviceAccountToken"]
                files[wanted["path"]] = (sources.token(pod, wanted).encode(), mode)
        return _with_lab(files)
    return None


def _part(kind: str, source: Object, pod: Object, sources: Sources, mode: int) -> Files:
    if kind == "downwardAPI":
        return {
            item["path"]: (field_of(pod, item["fieldRef"]["fieldPath"]).encode(), item.get("mode", mode))
            for item in items(source, "items")
            if "fieldRef" in item
        }
    name = source.get("secretName") or source.get("name", "")
    data = data_of(kind, name, sources)
    if data is None:
        if source.get("optional"):
            return {}
        raise MissingError(f'{kind.lower()} "{name}" not found')
    wanted = items(source, "items")
    if not wanted:
        return {key: (value, mode) for key, value in data.items()}
    missing = [item["key"] for item in wanted if item["key"] not in data]
    if missing and not source.get("optional"):
        raise MissingError(f"references non-existent {kind.lower()} key: {missing[0]}")
    return {item["path"]: (data[item["key"]], item.get("mode", mode)) for item in wanted if item["key"] in data}


def _with_lab(files: Files) -> Files:
    if "slurm.conf" not in files:
        return files
    mode = files["slurm.conf"][1]
    changed = overridden({name: content for name, (content, _) in files.items()})
    return {name: (content, files.get(name, (b"", mode))[1]) for name, content in changed.items()}


def field_of(pod: Object, path: str) -> str:
    """The value of a field path of the downward API; empty where it has none."""
    if "[" in path:
        path, _, key = path.partition("[")
        return words(pod, *path.split(".")).get(key.strip("]'\""), "")
    value = at(pod, *path.split("."))
    return "" if value is None else str(value)


def materialise(pod: Object, folder: Path, sources: Sources, *, single_user: bool) -> dict[str, Path]:
    """Make the pod's volumes below a folder; returns where each is. Done again, it brings files up to date.

    Raises:
        MissingError: an object isn't there, a claim isn't bound, or a volume is of a kind that nobody plays here.
    """
    group: int | None = at(pod, "spec", "securityContext", "fsGroup")
    owner = None if single_user else group
    places: dict[str, Path] = {}
    for volume in items(pod, "spec", "volumes"):
        name = volume["name"]
        place = folder / name
        files = files_of(volume, pod, sources)
        if files is not None:
            _write(place, files, owner)
        elif "emptyDir" in volume:
            _own_folder(place, owner, 0o777)
        elif "persistentVolumeClaim" in volume or "ephemeral" in volume:
            claim = at(volume, "persistentVolumeClaim", "claimName") or f"{pod['metadata']['name']}-{name}"
            if claim not in sources.disks:
                raise MissingError(f'claim "{claim}" has no bound volume yet')
            place = sources.disks[claim]
            _own_folder(place, owner, 0o755)
        elif "hostPath" in volume:
            # The node's own file system: a folder of the pod's, since its node is no machine.
            _own_folder(place, None, 0o755)
        else:
            raise MissingError(f"volume {name} is of a kind that the local cloud doesn't play")
        places[name] = place
    return places


def _own_folder(place: Path, group: int | None, mode: int) -> None:
    if not place.exists():
        place.mkdir(parents=True)
        place.chmod(mode)
    if group is not None and place.stat().st_gid != group:
        os.chown(place, -1, group)
        place.chmod((place.stat().st_mode & 0o777) | 0o2070)


def _write(place: Path, files: Files, group: int | None) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, (content, mode) in files.items():
        path = place / name
        # What a kubelet does for `fsGroup` with volumes that nobody writes to: 0600 becomes 0640.
        wanted = mode | 0o440 if group is not None else mode
        if path.exists() and path.read_bytes() == content and path.stat().st_mode & 0o777 == wanted:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        draft.write_bytes(content)
        draft.chmod(wanted)
        if group is not None:
            os.chown(draft, -1, group)
        draft.replace(path)
    for path in place.iterdir():
        if path.name not in {name.partition("/")[0] for name in files}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
