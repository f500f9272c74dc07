"""The shell environment in which Pulumi works on a stack.

For `dev` it is complete: a file backend, a Pulumi home and an empty passphrase inside the clone, and the local cloud's
keys. For any other stack the clone's tools come first on PATH, nothing else of the user's is touched, and what a shell
still holds of `dev` is taken out of it. The clone's policies guard both.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools import places
from tools.errors import ToolError
from tools.front_door.process import output
from tools.releases import Need, load
from tools.toolchain import ensure

DEV = "dev"
"""The one stack that lives on this machine."""

STATE = places.LOCAL / "state"
PULUMI_HOME = places.LOCAL / "pulumi-home"

POLICY_PACK = places.ROOT / "policies"
"""What guards every preview and `up`; it has to be an absolute path."""

_DEV_OPTIONS = {
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    # Nothing is fetched behind anyone's back: every plugin is pinned, and already here.
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
}


class FrontDoorError(ToolError):
    """A command can't go on; `str()` says why and what to do."""


def need_of(stack: str) -> Need:
    """Return what a stack needs of the toolchain."""
    return "dev" if stack == DEV else "cloud"


def direct(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep traffic on this machine from a proxy; none where no proxy is set.

    Pulumi's Python SDK and the local cloud's clients would otherwise ask the proxy for 127.0.0.1.
    """
    if not any(name.lower() in {"http_proxy", "https_proxy", "all_proxy"} for name in environ):
        return {}
    kept = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = ",".join(dict.fromkeys([*filter(None, kept.split(",")), "127.0.0.1", "localhost"]))
    return {"NO_PROXY": names, "no_proxy": names}


def guard(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that has Pulumi run this clone's policies, before the packs that are in it already."""
    name = "PULUMI_OPTION_POLICY_PACK"
    packs = [str(POLICY_PACK), *filter(None, environ.get(name, "").split(","))]
    return {name: ",".join(dict.fromkeys(packs))}


def _local_cloud_keys() -> dict[str, str]:
    """Return the variables that `python -m localcloud env` exports."""
    try:
        text = output([sys.executable, "-m", "localcloud", "env"], {**os.environ, **direct(os.environ)}, seconds=30)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise FrontDoorError(
            "The local cloud did not give its keys; `make clean` and `make up` start afresh."
        ) from error
    words = shlex.split(text, comments=True)
    return dict(word.split("=", 1) for word in words if "=" in word)


def local_cloud_port() -> int | None:
    """Return the port on which this clone's local cloud runs or ran last, None when it never did."""
    if not (places.LOCAL / "cloud").is_dir():
        return None
    try:
        return urlsplit(_local_cloud_keys().get("CRUSOE_API_ENDPOINT", "")).port
    except (FrontDoorError, ValueError):
        return None


def _in_local(path: str) -> bool:
    return bool(path) and (places.ROOT / Path(path).expanduser()).resolve().is_relative_to(places.LOCAL.resolve())


def is_local_backend(url: str) -> bool:
    """Whether a Pulumi backend is a folder of this clone's `.local`, which `make clean` removes."""
    scheme, host, path, *_ = urlsplit(url)
    # Pulumi takes file://~/x and file://./x as well as file:///x.
    return scheme == "file" and _in_local(unquote(host + path))


def left_of_dev(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that still have the value which `make env` of this clone's `dev` gave them."""
    names = {"PULUMI_BACKEND_URL": is_local_backend, "PULUMI_HOME": _in_local}
    found = [name for name, is_devs in names.items() if is_devs(environ.get(name, ""))]
    if found:
        devs = {"PULUMI_CONFIG_PASSPHRASE": "", **_DEV_OPTIONS}
        found += [name for name, value in devs.items() if environ.get(name) == value]
    # A real key does not begin like this; the local cloud's all do.
    if environ.get("CRUSOE_ACCESS_KEY_ID", "").startswith("LOCAL"):
        found += [name for name in ("CRUSOE_ACCESS_KEY_ID", "CRUSOE_SECRET_KEY") if name in environ]
    if found and environ.get("CRUSOE_API_ENDPOINT", "").startswith("http://127.0.0.1:"):
        found.append("CRUSOE_API_ENDPOINT")
    return found


def _install_plugin(binary: Path) -> None:
    """Put the Kubernetes plugin where the engine keeps its own, so that it is found without a remark about PATH."""
    version = next(release.version for release in load() if binary.name in release.binaries)
    folder = PULUMI_HOME / "plugins" / f"resource-kubernetes-v{version}"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / binary.name
    if not link.is_symlink() or link.readlink() != binary:
        link.unlink(missing_ok=True)
        link.symlink_to(binary)


def exports(stack: str, backend: str = "") -> dict[str, str]:
    """Return the variables that differ from the user's own, PATH as the part that comes first on it.

    `backend` is where the stack's file says that its state is kept: Pulumi goes there unless the shell names another.
    Fetches the tools that are missing. For `dev` the local cloud must have been started once.

    Raises:
        ToolError: a tool is missing, or the local cloud does not answer.
    """
    folder = ensure(need_of(stack))
    path = os.pathsep.join((str(folder), str(Path(sys.prefix) / "bin")))
    if stack != DEV:
        named = os.environ.get("PULUMI_BACKEND_URL", "")
        own = {"PULUMI_BACKEND_URL": backend} if backend and (not named or is_local_backend(named)) else {}
        return {"PATH": path, **own, **guard(os.environ)}
    STATE.mkdir(parents=True, exist_ok=True)
    _install_plugin((folder / "pulumi-resource-kubernetes").resolve())
    return {
        "PATH": path,
        "PULUMI_BACKEND_URL": STATE.as_uri(),
        "PULUMI_HOME": str(PULUMI_HOME),
        "PULUMI_CONFIG_PASSPHRASE": "",
        **_DEV_OPTIONS,
        **guard(os.environ),
        **direct(os.environ),
        **_local_cloud_keys(),
    }


def environment(stack: str, environ: Mapping[str, str] = os.environ, backend: str = "") -> dict[str, str]:
    """Return the whole environment for a stack; `backend` as for `exports`.

    Raises:
        FrontDoorError: the state of a stack other than `dev` would land where `make clean` removes it.
        ToolError: as `exports` does.
    """
    if stack != DEV and is_local_backend(environ.get("PULUMI_BACKEND_URL", "")):
        raise FrontDoorError(
            f"PULUMI_BACKEND_URL lies in this clone's .local, where `make clean` would destroy the state of {stack}. "
            f'Run `eval "$(make -s env STACK={stack})"`, name your own backend (`pulumi login`, or export '
            "PULUMI_BACKEND_URL anew), then run this again."
        )
    changed = exports(stack, backend)
    path = os.pathsep.join(filter(None, (changed["PATH"], environ.get("PATH", ""))))
    return {**environ, **changed, "PATH": path}


def shell_lines(changed: Mapping[str, str], removed: Sequence[str] = ()) -> list[str]:
    """Return lines for `eval` in a POSIX shell, which set some variables and remove others."""
    lines = [f'export PATH={shlex.quote(changed["PATH"])}:"$PATH"']
    lines += [f"export {name}={shlex.quote(value)}" for name, value in changed.items() if name != "PATH"]
    return lines + [f"unset {name}" for name in removed]
