"""The Go build, with a `go` that does as it is told."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tools.support import release
from tools.errors import BuildError
from tools.gobuild import build
from tools.network import Network
from tools.releases import GoModule, Release

# Says what it was asked, knows no proxy, and writes what -o names.
GO = """#!/bin/sh
echo "$*" >> "$GO_CALLS"
echo "CGO_ENABLED=$CGO_ENABLED GOWORK=$GOWORK GOOS=$GOOS GOPROXY=$GOPROXY" >> "$GO_CALLS"
case "$1" in
  env) echo "$GO_PROXY_SETTING"; exit 0 ;;
  list) echo "$GO_SOURCE"; exit 0 ;;
  mod) exit 0 ;;
esac
%s
while [ "$1" != -o ]; do shift; done
echo '#!/bin/sh' > "$2"; echo 'echo v1.2.3' >> "$2"; chmod +x "$2"
"""


class Go:
    """A `go` on a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        self.environ = {
            "PATH": f"{folder}:/usr/bin:/bin",
            "GO_CALLS": str(self.calls_file),
            "GO_PROXY_SETTING": "off",
            "GO_SOURCE": str(folder),
        }
        self.does("")

    def does(self, script: str) -> None:
        (self.folder / "go").write_text(GO % script)
        (self.folder / "go").chmod(0o755)

    @property
    def calls(self) -> str:
        return self.calls_file.read_text()


@pytest.fixture
def go(tmp_path: Path) -> Go:
    (folder := tmp_path / "go-bin").mkdir()
    return Go(folder)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (folder := tmp_path / "target").mkdir()
    return folder


@pytest.fixture
def gadget() -> Release:
    return release("http://127.0.0.1:9")


def recipe_of(release: Release) -> GoModule:
    assert release.go is not None
    return release.go


def nothing() -> None:
    """No progress to show."""


def test_the_binary_is_built_pinned_and_reproducible(
    go: Go, gadget: Release, modules: Path, target: Path, network: Network
):
    ticks: list[int] = []
    build(gadget, modules, target, {**go.environ, "GOOS": "plan9"}, network, lambda: ticks.append(1))
    assert [path.name for path in target.iterdir()] == ["gadget"]
    assert "build -trimpath -buildvcs=false -ldflags -s -w -X main.version=1.2.3 -o" in go.calls
    assert go.calls.strip().endswith("CGO_ENABLED=0 GOWORK=off GOOS= GOPROXY=")
    assert "example.com/gadget" in go.calls
    assert ticks


def test_the_module_in_the_clone_stays_as_it_is(go: Go, gadget: Release, modules: Path, target: Path, network: Network):
    go.does("touch generated; ls > $GO_SOURCE/seen")
    build(gadget, modules, target, go.environ, network, nothing)
    assert sorted(path.name for path in (modules / "gadget").iterdir()) == ["go.mod", "left-over.json"]
    assert "left-over.json" not in (go.folder / "seen").read_text()


def test_several_packages_go_into_the_folder(go: Go, gadget: Release, modules: Path, target: Path, network: Network):
    two = replace(
        gadget,
        binaries=("a", "b"),
        go=replace(recipe_of(gadget), packages={"a": "example.com/a", "b": "example.com/b"}),
    )
    go.does('for last; do :; done; while [ "$1" != -o ]; do shift; done; touch "$2a" "$2b"; exit 0')
    build(two, modules, target, go.environ, network, nothing)
    assert sorted(path.name for path in target.iterdir()) == ["a", "b"]


def test_embedded_files_come_from_the_module(go: Go, gadget: Release, modules: Path, target: Path, network: Network):
    (go.folder / "cmd").mkdir()
    (go.folder / "cmd" / "schema.json").write_text("schema")
    embedding = replace(
        gadget, go=replace(recipe_of(gadget), embed_module="example.com/up", embed_files=("cmd/schema.json",))
    )
    go.does('cp schema.json "$GO_SOURCE/seen"')
    build(embedding, modules, target, go.environ, network, nothing)
    assert (go.folder / "seen").read_text() == "schema"
    assert not (modules / "gadget" / "schema.json").exists()


def test_a_folder_of_the_module_is_kept_and_can_be_removed(
    go: Go, gadget: Release, modules: Path, target: Path, network: Network
):
    (chart := go.folder / "charts" / "gadget").mkdir(parents=True)
    (chart / "templates").mkdir()
    (chart / "templates" / "all.yaml").write_text("kind: Gadget")
    # As in Go's own cache.
    (chart / "templates" / "all.yaml").chmod(0o444)
    (chart / "templates").chmod(0o555)
    recipe = replace(recipe_of(gadget), keep_module="example.com/gadget", keep_folders={"chart": "charts/gadget"})
    build(replace(gadget, go=recipe), modules, target, go.environ, network, nothing)
    kept = target / "chart" / "templates" / "all.yaml"
    assert kept.read_text() == "kind: Gadget"
    assert kept.stat().st_mode & kept.parent.stat().st_mode & 0o200


def test_a_failing_build_says_what_go_said(go: Go, gadget: Release, modules: Path, target: Path, network: Network):
    go.does('echo "go: downloading example.com/x" >&2; echo "gadget.go:3: undefined: thing" >&2; exit 1')
    with pytest.raises(BuildError, match=r"`go build` failed: gadget\.go:3: undefined: thing$"):
        build(gadget, modules, target, go.environ, network, nothing)


def test_without_go_it_says_so(gadget: Release, modules: Path, target: Path, network: Network, tmp_path: Path):
    with pytest.raises(BuildError, match="no `go` on PATH"):
        build(gadget, modules, target, {"PATH": str(tmp_path)}, network, nothing)


def test_a_build_that_gives_nothing_is_an_error(go: Go, gadget: Release, modules: Path, target: Path, network: Network):
    go.does("exit 0")
    with pytest.raises(BuildError, match="gave no gadget"):
        build(gadget, modules, target, go.environ, network, nothing)


def test_without_a_proxy_to_reach_go_is_kept_from_waiting_for_it(
    go: Go, gadget: Release, modules: Path, target: Path, network: Network, closed_url: str
):
    environ = {**go.environ, "GO_PROXY_SETTING": f"{closed_url},direct"}
    build(gadget, modules, target, environ, network, nothing)
    assert "GOPROXY=off" in go.calls
    go.does('echo "module lookup disabled by GOPROXY=off" >&2; exit 1')
    (again := target / "again").mkdir()
    with pytest.raises(BuildError, match=r"proxy can't be reached .*refused"):
        build(gadget, modules, again, environ, network, nothing)


def test_an_interrupted_build_ends_its_compilers(
    go: Go, gadget: Release, modules: Path, target: Path, network: Network
):
    go.does(f"sleep 60 & {noted('$!', 'compiler')}; wait")

    def interrupt() -> None:
        if (go.folder / "compiler").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(gadget, modules, target, go.environ, network, interrupt)
    compiler = int((go.folder / "compiler").read_text())
    for _ in range(50):
        if not is_running(compiler):
            break
        time.sleep(0.1)
    assert not is_running(compiler)


def noted(pid: str, file: str) -> str:
    """Shell that writes a process id into a file, which is not there before it is whole."""
    return f'echo {pid} > "$GO_SOURCE/draft"; mv "$GO_SOURCE/draft" "$GO_SOURCE/{file}"'


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely unburied."""
    answer = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()[:1] not in ("", "Z")


def test_a_terminated_run_leaves_nothing_half_made(go: Go, modules: Path, tmp_path: Path):
    go.does(f"{noted('$$', 'started')}; sleep 60")
    script = f"""
import sys, signal
from pathlib import Path
from tests.unit.tools.support import release
from tools.__main__ import main
from tools import toolchain, links
made = toolchain.Toolchain(releases=(release("http://127.0.0.1:9"),), cache=Path({str(tmp_path / "cache")!r}),
    modules=Path({str(modules)!r}), environ={go.environ!r}, platform="linux-amd64")
toolchain.Toolchain = lambda: made
sys.exit(main(["ensure"]))
"""
    run = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    reader = threading.Thread(target=run.wait, daemon=True)
    reader.start()
    for _ in range(150):
        if (go.folder / "started").exists():
            break
        time.sleep(0.1)
    os.kill(run.pid, signal.SIGTERM)
    reader.join(10)
    assert run.returncode == 128 + signal.SIGTERM
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["gadget.lock"]
    assert not is_running(int((go.folder / "started").read_text()))
