"""Set up this clone's virtual environment, then run a Python module in it.

    python3 tools/bootstrap.py [--for dev|cloud] [-m MODULE ARGUMENT ...]

Needs only Python's standard library, and is written so that an older Python can read it far enough to look for a newer
one. Everything is installed as the lock files in requirements/ say, each package compared with its hash. Nothing is
done when the environment is what they say; an interrupted run is finished by the next.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "crusoe-gpu-platform.json"
BOOTSTRAP_LOCK = ROOT / "requirements" / "bootstrap.lock"
LOCKS = {"dev": ROOT / "requirements" / "dev.lock", "cloud": ROOT / "requirements" / "runtime.lock"}

OLDEST = (3, 11)
IS_OLD = f"import sys; sys.exit(sys.version_info[:2] < {OLDEST})"
CANDIDATES = ("python3.13", "python3.12", "python3.11", "python3.14")

HELP = """\
The Python packages could not be installed; the reason stands above.
Nothing can be fetched without network: check it and the proxy (HTTPS_PROXY, PIP_INDEX_URL), then run this again."""


def say(line: str) -> None:
    """Print one line for the person, on standard error."""
    print(line, file=sys.stderr, flush=True)


def newer_python() -> str | None:
    """Return another interpreter of this machine that is new enough, None when there is none."""
    for name in CANDIDATES:
        path = shutil.which(name)
        # A pyenv shim is there for every version but runs only some.
        if path and subprocess.run([path, "-c", IS_OLD], capture_output=True, check=False).returncode == 0:
            return path
    return None


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for pip and uv: certificates and index are the machine's, and no wait is long."""
    quiet = {} if sys.stderr.isatty() else {"UV_NO_PROGRESS": "1"}
    index = {"UV_DEFAULT_INDEX": environ["PIP_INDEX_URL"]} if "PIP_INDEX_URL" in environ else {}
    defaults = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_DEFAULT_TIMEOUT": "15",
        "PIP_RETRIES": "1",
        "UV_HTTP_TIMEOUT": "30",
        "UV_HTTP_RETRIES": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "true",
    }
    return {**defaults, **quiet, **index, **environ, "VIRTUAL_ENV": str(VENV)}


def digest(kind: str) -> str:
    """Return in one word what an environment of a kind depends on: it is current while that stays the same."""
    seen = hashlib.sha256()
    for path in (LOCKS[kind], BOOTSTRAP_LOCK, ROOT / "pyproject.toml"):
        seen.update(path.read_bytes())
    # Scripts in an environment name it by its path.
    seen.update(str(ROOT).encode())
    return seen.hexdigest()


def stamped() -> dict[str, str]:
    """Return what the last finished installation noted; nothing when there was none."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def usable() -> bool:
    """Say whether the environment's interpreter runs and has pip, as it has not when its making was interrupted."""
    try:
        answer = subprocess.run([PYTHON, "-I", "-c", f"import pip; {IS_OLD}"], capture_output=True, check=False)
    except OSError:
        return False
    return answer.returncode == 0


def install(kind: str) -> None:
    """Bring the environment to what the lock of a kind says. Raises SystemExit with what to do."""
    started = time.monotonic()
    if STAMP.exists():
        STAMP.unlink()
    if not usable():
        say(f"Making the virtual environment in .venv (Python {sys.version.split()[0]})")
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--clear", VENV], stdout=subprocess.PIPE, text=True, check=False
        )
        if made.returncode:
            say(made.stdout.strip())
            raise SystemExit(
                "Python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"
            )
    say(f"Installing the Python packages of requirements/{LOCKS[kind].name} (about 30 s when they must be fetched)")
    uv = VENV / "bin" / "uv"
    for command in (
        [PYTHON, "-I", "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", BOOTSTRAP_LOCK],
        [uv, "pip", "sync", "--quiet", "--require-hashes", LOCKS[kind]],
        [uv, "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT],
    ):
        done = subprocess.run(command, cwd=ROOT, env=environment(os.environ), stdout=sys.stderr, check=False)
        if done.returncode:
            raise SystemExit(HELP)
    new = STAMP.with_suffix(".new")
    new.write_text(json.dumps({"kind": kind, "digest": digest(kind)}), encoding="utf-8")
    new.replace(STAMP)
    say(f"The Python environment is ready after {time.monotonic() - started:.0f} s")


def prepare(need: str) -> None:
    """Make sure that the environment serves a need (`dev` or `cloud`). One that serves dev serves both."""
    local = ROOT / ".local"
    try:
        local.mkdir(exist_ok=True)
    except OSError as error:
        raise SystemExit(f"The folder {local} can't be made ({error.strerror}); move what is there away.") from None
    with (local / "environment.lock").open("w") as lock:
        # Two runs at once would install into the same folder.
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = stamped()
        kind = "dev" if "dev" in (need, stamp.get("kind")) else "cloud"
        if stamp != {"kind": kind, "digest": digest(kind)}:
            install(kind)


def main(arguments: Sequence[str]) -> int:
    """Prepare the environment, then become the Python that is asked for; return the exit status."""
    if sys.version_info[:2] < OLDEST:
        python = newer_python()
        if python is None:
            say(f"Python 3.11 or newer is needed, and python3 is {sys.version.split()[0]}.")
            say("Install one (apt install python3.11, brew install python@3.13), then run this again.")
            return 1
        os.execv(python, [python, str(Path(__file__).resolve()), *arguments])
    need = "dev"
    if arguments[:1] == ["--for"]:
        need, arguments = arguments[1], arguments[2:]
    prepare(need)
    if arguments:
        os.execv(PYTHON, [str(PYTHON), *arguments])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
