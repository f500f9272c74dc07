"""The Go build of a release, from a wrapper module in tools/go whose go.sum pins every source file."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tools.errors import BuildError
from tools.network import Network
from tools.releases import GoModule, Release

BUILD_SECONDS = 3600.0
"""How long one Go command may take."""

_TICK_SECONDS = 0.2
_LINES_OF_ERROR = 8


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a Go command and the compilers it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
            return


def _go(arguments: Sequence[str], folder: Path, environ: Mapping[str, str], log: Path, tick: Callable[[], None]) -> str:
    """Run one Go command; return its standard output. Raises BuildError with the end of what it said."""
    deadline = time.monotonic() + BUILD_SECONDS
    output = log.with_suffix(".out")
    with log.open("wb") as errors, output.open("wb") as answers:
        # A session of its own, so that an interrupt ends the compilers with it.
        process = subprocess.Popen(
            ["go", *arguments], cwd=folder, env=environ, stdout=answers, stderr=errors, start_new_session=True
        )
        try:
            # It may have ended before anybody looks, and is a step all the same.
            tick()
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise BuildError(f"`go {arguments[0]}` took longer than {BUILD_SECONDS / 60:.0f} min")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_TICK_SECONDS)
                tick()
        finally:
            if process.poll() is None:
                _end(process)
    if process.returncode:
        said = log.read_text(errors="replace").strip().splitlines()
        telling = [line for line in said if not line.startswith("go: downloading")] or said
        raise BuildError(f"`go {arguments[0]}` failed: " + "\n  ".join(telling[-_LINES_OF_ERROR:]))
    return output.read_text().strip()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without what would build another binary than the pinned one."""
    kept = {key: value for key, value in environ.items() if key not in {"GOOS", "GOARCH"}}
    return {**kept, "CGO_ENABLED": "0", "GOWORK": "off"}


def _first_proxy(setting: str) -> str | None:
    """Return the URL of the first Go module proxy in a GOPROXY list, None when there is none to ask."""
    first = setting.replace("|", ",").split(",")[0].strip()
    return first if first.startswith(("http://", "https://")) else None


def build(
    release: Release,
    modules: Path,
    folder: Path,
    environ: Mapping[str, str],
    network: Network,
    tick: Callable[[], None],
) -> None:
    """Put every binary of a release into `folder`, built from its module under `modules`.

    The build runs in a copy of the module, so the clone stays as it is. Without network it still works from Go's own
    module cache.

    Raises:
        BuildError: Go is not there, a source can't be had or is not the one that go.sum pins, or the build fails.
    """
    recipe = release.go
    if recipe is None:
        raise BuildError("it is not built with Go here")
    if shutil.which("go", path=environ.get("PATH")) is None:
        raise BuildError("there is no `go` on PATH")
    module = folder / ".module"
    shutil.copytree(modules / recipe.module, module, ignore=shutil.ignore_patterns("*.json"))
    log = folder / ".go.log"
    environment = _environment(environ)

    def go(*arguments: str) -> str:
        return _go(arguments, module, environment, log, tick)

    trouble = None
    proxy = _first_proxy(go("env", "GOPROXY"))
    if proxy is not None and (trouble := network.trouble(proxy)) is not None:
        # Go would wait half a minute for each source; this way it says at once what its cache lacks.
        environment["GOPROXY"] = "off"
    try:
        _compile(release, recipe, module, folder, go)
    except BuildError as error:
        if trouble is None:
            raise
        raise BuildError(f"the Go module proxy can't be reached ({trouble}); without it {error}") from error
    missing = [name for name in release.binaries if not (folder / name).is_file()]
    if missing:
        raise BuildError(f"the build of {recipe.module} gave no {', '.join(missing)}")
    shutil.rmtree(module)
    log.unlink()
    log.with_suffix(".out").unlink()


def _compile(release: Release, recipe: GoModule, module: Path, folder: Path, go: Callable[..., str]) -> None:
    if recipe.embed_module is not None:
        go("mod", "download", recipe.embed_module)
        source = Path(go("list", "-m", "-f", "{{.Dir}}", recipe.embed_module))
        for file in recipe.embed_files:
            shutil.copyfile(source / file, module / Path(file).name)
    # One package is written under the binary's name; several go into the folder, each named after its package.
    single = release.binaries[0] if len(recipe.packages) == 1 else ""
    go(
        "build",
        "-trimpath",
        "-buildvcs=false",
        *recipe.flags,
        "-ldflags",
        f"-s -w {release.fill(recipe.ldflags, 'any-any')}".strip(),
        "-o",
        f"{folder}/{single}",
        *recipe.packages.values(),
    )
    for name, within in recipe.keep_folders.items():
        source = Path(go("list", "-m", "-f", "{{.Dir}}", recipe.keep_module or recipe.module))
        _copy(source / within, folder / name)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder of a module without its modes: Go's cache lets nobody write, and this copy is to be removable."""
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
