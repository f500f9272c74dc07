"""The state that a release leaves behind, kept in tests/baselines, so that no later release replaces anything in it.

`python -m tests.baseline VERSION` records one before a release is tagged: a stack with every kind of resource is
brought up on a local cloud, and its state is written with the address of that cloud and all secrets taken out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import yaml

from tests.harness import ROOT, Json, Project, running_cloud

FOLDER = ROOT / "tests/baselines"
STACK = "baseline"
ENDPOINT = "http://127.0.0.1:1/v1"
"""Stands in a recorded state for the address of its local cloud."""

SETTINGS: Json = {
    "cluster": {
        "oidc": {"issuerUrl": "https://login.example.com", "clientId": "gpu-platform"},
        "viewers": ["engineers"],
        "operators": ["operators"],
    },
    "network": {"ingress": [{"name": "ssh", "cidrs": ["203.0.113.0/24"], "ports": ["22"]}]},
    "storage": {"disks": {"home": {"size": "1TiB"}}},
    "autoClusters": {"actions": {"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}},
    "slurm": {
        "accounting": {"enabled": True},
        "people": {"users": {"ada": {"uid": 10001, "keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada"]}}},
    },
}
"""Laid over the dev stack's: what brings every kind of resource."""

_SECRET = "4dabf18193072939515e22adb298388d"
_KUBECONFIG: Json = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "nobody"}}],
    "current-context": "gone",
    "users": [{"name": "nobody", "user": {}}],
}


_PLACES = ("sourcePosition", "stackTrace")
"""Where in the program a resource was declared: paths of the machine that recorded the state."""


def harmless(secret: Any) -> Any:
    """A secret of the same shape that opens nothing: the kubeconfig of a cluster that is gone, or a word in base64."""
    if isinstance(secret, dict):
        return {key: harmless(one) for key, one in cast(Json, secret).items()}
    if isinstance(secret, list):
        return [harmless(one) for one in cast(list[Any], secret)]
    if not isinstance(secret, str):
        return secret
    return json.dumps(_KUBECONFIG) if "client-certificate" in secret else "c2VjcmV0"


def portable(value: Any) -> Any:
    """A copy without places and with harmless secrets."""
    if isinstance(value, dict):
        mapping = cast(Json, value)
        if _SECRET in mapping:
            plain = json.loads(mapping["plaintext"])
            return {_SECRET: mapping[_SECRET], "plaintext": json.dumps(harmless(plain))}
        return {key: portable(one) for key, one in mapping.items() if key not in _PLACES}
    if isinstance(value, list):
        return [portable(one) for one in cast(list[Any], value)]
    return value


def record(version: str) -> None:
    """Writes the state and the settings of `version`."""
    with tempfile.TemporaryDirectory() as name, running_cloud(Path(name)) as cloud:
        project = Project(Path(name) / STACK, cloud, STACK)
        project.init()
        project.use_settings("dev", SETTINGS, slurm=True)
        project.up()
        text = project.pulumi("stack", "export", "--show-secrets", "-s", STACK).out
        state = portable(json.loads(text.replace(cloud.endpoint, ENDPOINT)))
        project.change_settings({"cloud": {"endpoint": ENDPOINT}})
        settings = cast(Json, yaml.safe_load(project.stack_file.read_text()))
        project.change_settings({"cloud": {"endpoint": cloud.endpoint}})
        project.destroy()
    settings.pop("encryptionsalt")
    (FOLDER / f"{version}.json").write_text(json.dumps(state, indent=1) + "\n")
    (FOLDER / f"{version}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


if __name__ == "__main__":
    record(sys.argv[1])
