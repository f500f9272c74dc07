"""A real slurmctld for tests: it loads a configuration in throw-away namespaces and says what it made of it."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from localcloud.slurm import etc
from localcloud.slurm.images import PATH, SLURM
from localcloud.slurm.lab import Lab, LabError
from tools.errors import ToolMissingError
from tools.slurm_root.root import folder as slurm_root

_NETWORK = ipaddress.IPv4Network("10.99.0.0/24")
_ADDRESS = "10.99.0.10"
_WAIT_SECONDS = 60.0
_ENDED, _ANSWERED = "ended", "answered"

# Waits until slurmctld answers or ends; what it says in the end is for the log.
_SCRIPT = """\
slurmctld -D > /out/log 2>&1 &
pid=$!
for _ in $(seq 300); do
    if scontrol show config > /out/config.new 2> /out/trouble; then mv /out/config.new /out/answered; break; fi
    kill -0 $pid 2> /dev/null || break
    sleep 0.1
done
for command in "$@"; do bash -c "$command" >> /out/commands 2>&1; echo "rc=$?" >> /out/commands; done
touch /out/ended
"""


class SlurmctldError(Exception):
    """slurmctld refused the configuration; `str()` is what it said (`fatal:` and `error:` lines)."""


def real_slurmctld(conf: str, files: Mapping[str, str] | None = None) -> dict[str, str]:
    """Start a real slurmctld 26.05 on a configuration, unchanged; returns `scontrol show config` as a dict.

    `conf` is slurm.conf, `files` others of /etc/slurm by name (`topology.yaml`, `gres.conf`, ...; scripts are made
    executable). The host, user and folders that `conf` names are there; so are `slurm.key` and `jwt.key`. Skips the
    test where this machine has no Slurm or no namespaces.

    Raises:
        SlurmctldError: it ended instead of answering.
    """
    config, _, log = run_slurmctld(conf, files)
    if config is None:
        raise SlurmctldError(_telling(log))
    return config


def run_slurmctld(
    conf: str, files: Mapping[str, str] | None = None, commands: tuple[str, ...] = ()
) -> tuple[dict[str, str] | None, str, str]:
    """As `real_slurmctld`, but gives the configuration (None if slurmctld ended), the output of shell commands that are
    run beside it (each followed by `rc=<exit status>`), and its whole log."""
    try:
        image = slurm_root()
    except ToolMissingError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="slurmctld-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", lambda: image, _NETWORK)
        try:
            lab.ensure()
        except LabError as error:
            pytest.skip(str(error))
        try:
            out = _started(lab, folder, conf, files or {}, commands)
            deadline = time.monotonic() + _WAIT_SECONDS
            while not (out / _ENDED).exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"slurmctld neither answered nor ended within {_WAIT_SECONDS:.0f} s")
                time.sleep(0.02)
            answered = out / _ANSWERED
            return (
                _parsed(answered.read_text()) if answered.exists() else None,
                (out / "commands").read_text() if commands else "",
                (out / "log").read_text(errors="replace"),
            )
        finally:
            lab.end()


def _started(lab: Lab, folder: Path, conf: str, files: Mapping[str, str], commands: tuple[str, ...]) -> Path:
    host, user = _option(conf, "SlurmctldHost") or "slurmctld", 0 if lab.single_user else SLURM
    out, slurm, state, names = (folder / part for part in ("out", "slurm", "state", "names"))
    for path in (out, slurm, state, names):
        path.mkdir()
    for path in (out, state):
        path.chmod(0o777)
    named = {"localhost", host.partition("(")[0], host.partition("(")[2].rstrip(")")} - {""}
    (names / "hosts").write_text(f"127.0.0.1 localhost\n{_ADDRESS} {' '.join(sorted(named - {'localhost'}))}\n")
    for name, text in {"slurm.conf": conf, **files}.items():
        (slurm / name).write_text(text)
        (slurm / name).chmod(0o755 if text.startswith("#!") else 0o644)
    for key in ("slurm.key", "jwt.key"):
        (slurm / key).write_bytes(os.urandom(1024))
        (slurm / key).chmod(0o600)
        os.chown(slurm / key, *(-1, -1) if lab.single_user else (SLURM, SLURM))
    made = [
        "/run/slurmctld",
        _option(conf, "StateSaveLocation"),
        *(_option(conf, each).rpartition("/")[0] for each in _FILES),
    ]
    mounts = [{"source": str(out), "target": "/out", "read_only": False}]
    mounts += [{"source": str(slurm), "target": "/etc/slurm", "read_only": False}]
    mounts += [{"source": str(names), "target": etc.NAMES, "read_only": True}]
    for number, target in enumerate(sorted({path for path in made if path.startswith("/")})):
        (state / str(number)).mkdir()
        (state / str(number)).chmod(0o777)
        mounts.append({"source": str(state / str(number)), "target": target, "read_only": False})
    pod = folder / "lab" / "pods" / "slurmctld"
    pod.mkdir(parents=True)
    container: dict[str, Any] = {
        "name": "slurmctld",
        "argv": ["bash", "-c", _SCRIPT, "bash", *commands],
        "env": {"PATH": PATH, "HOME": "/tmp"},
        "cwd": "/tmp",
        "uid": user,
        "gid": user,
        "groups": [],
        "etc": str(etc.make(folder / "etc", lab.image, single_user=lab.single_user)),
        "devices": {},
        "gpus": [],
        "mounts": mounts,
        "once": True,
        "pre_stop": None,
        "probes": {},
    }
    wanted = {
        "image": str(lab.image),
        "hostname": host.partition("(")[0],
        "link": "v0",
        "address": f"{_ADDRESS}/{_NETWORK.prefixlen}",
        "grace": 1,
        "init": [],
        "containers": [container],
    }
    (pod / "pod.json").write_text(json.dumps(wanted))
    lab.start(pod)
    return out


_FILES = ("SlurmctldLogFile", "SlurmctldPidFile", "SlurmSchedLogFile", "JobCompLoc")


def _option(conf: str, name: str) -> str:
    found = re.findall(rf"^\s*{name}\s*=\s*(\S+)", conf, re.MULTILINE | re.IGNORECASE)
    return str(found[-1]) if found else ""


def _parsed(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if re.match(r"\S+\s+= ", line))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _telling(log: str) -> str:
    lines = [line for line in log.splitlines() if "fatal:" in line or "error:" in line]
    return "\n".join(lines) or log
