"""The order of the ways to a tool, the cache, the lock, and what is left behind."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from tests.unit.tools.support import PLATFORM, SCRIPT, FileServer, publish, release
from tools import toolchain as toolchain_module
from tools.errors import ToolMissingError
from tools.network import Network
from tools.places import cache_folder
from tools.progress import Reporter
from tools.releases import Release
from tools.toolchain import Toolchain, binary

Make = Callable[..., Toolchain]


@pytest.fixture
def make(tmp_path: Path, modules: Path, network: Network, quiet: Reporter) -> Make:
    """Make a toolchain with a cache of its own and a PATH that holds nothing."""

    def made(gadget: Release, **changes: object) -> Toolchain:
        path = str(changes.pop("path", tmp_path / "empty"))
        seconds = float(str(changes.pop("lock_seconds", 5)))
        return Toolchain(
            releases=(gadget,),
            cache=tmp_path / "cache",
            modules=modules,
            environ={"PATH": path, "HOME": str(tmp_path), **{key: str(value) for key, value in changes.items()}},
            platform=PLATFORM,
            network=network,
            reporter=quiet,
            lock_seconds=seconds,
        )

    return made


def a_tool(folder: Path, says: str, name: str = "gadget") -> Path:
    """Put a tool on a PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)
    return folder


def a_go(folder: Path) -> Path:
    """Put a `go` on a PATH that builds a gadget of its own kind."""
    a_tool(folder, "", "go")
    (folder / "go").write_text(
        '#!/bin/sh\n[ "$1" = env ] && exit 0\nwhile [ "$1" != -o ]; do shift; done\n'
        'printf \'#!/bin/sh\\necho built\\n\' > "$2"; /bin/chmod +x "$2"\n'
    )
    return folder


def test_the_download_fills_the_cache_and_the_next_run_asks_nobody(make: Make, server: FileServer):
    publish(server)
    gadget = release(server.url)
    found = make(gadget).ensure("dev")
    assert found["gadget"].read_bytes() == SCRIPT
    assert found["gadget"].parent.name == "gadget-1.2.3-linux-amd64"
    asked = len(server.asked)
    assert make(gadget).ensure("dev") == found
    assert len(server.asked) == asked


def test_a_new_version_has_a_place_of_its_own(make: Make, server: FileServer):
    publish(server)
    old = make(release(server.url)).ensure("dev")
    with pytest.raises(ToolMissingError):
        make(replace(release(server.url), version="1.2.4")).ensure("dev")
    assert old["gadget"].exists()


@pytest.mark.parametrize("says", ["gadget v1.2.3", "1.2.3", "gadget version 1.2.3, build 7"])
def test_a_fitting_tool_on_path_is_used(make: Make, server: FileServer, tmp_path: Path, says: str):
    folder = a_tool(tmp_path / "bin", says)
    assert make(release(server.url), path=folder).ensure("dev") == {"gadget": folder / "gadget"}
    assert server.asked == []


@pytest.mark.parametrize("says", ["gadget v1.2.30", "11.2.3", "1.2.3-beta.1", "1.2.3.4", "something else"])
def test_a_tool_of_another_version_on_path_is_not(make: Make, server: FileServer, tmp_path: Path, says: str):
    publish(server)
    folder = a_tool(tmp_path / "bin", says)
    assert make(release(server.url), path=folder).ensure("dev")["gadget"].read_bytes() == SCRIPT


def test_a_tool_that_hangs_when_asked_is_not_used(
    make: Make, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    publish(server)
    monkeypatch.setattr(toolchain_module, "PROBE_SECONDS", 0.2)
    folder = a_tool(tmp_path / "bin", "1.2.3")
    (folder / "gadget").write_text("#!/bin/sh\nexec sleep 5\n")
    assert make(release(server.url), path=f"{folder}:/usr/bin:/bin").ensure("dev")["gadget"].read_bytes() == SCRIPT


def test_a_tool_that_another_program_installed_is_used(make: Make, server: FileServer, tmp_path: Path):
    gadget = replace(release(server.url), probe=None, installed="{pulumi_home}/plugins/gadget-v{version}/{name}")
    folder = tmp_path / "home" / "plugins" / "gadget-v1.2.3"
    folder.parent.mkdir(parents=True)
    a_tool(folder, "")
    assert make(gadget, PULUMI_HOME=tmp_path / "home").ensure("dev") == {"gadget": folder / "gadget"}
    (tmp_path / "home").rename(tmp_path / ".pulumi")
    assert make(gadget).locate(gadget) == {"gadget": tmp_path / ".pulumi/plugins/gadget-v1.2.3/gadget"}


@pytest.mark.parametrize("trouble", ["unreachable", "tampered", "missing"])
def test_where_the_download_fails_go_builds(
    make: Make, server: FileServer, tmp_path: Path, closed_url: str, trouble: str
):
    publish(server)
    url = closed_url if trouble == "unreachable" else server.url
    archive = "/gadget-v1.2.3-linux-amd64.tar.gz"
    if trouble == "tampered":
        server.files[archive] += b"x"
    elif trouble == "missing":
        server.files.pop(archive)
    found = make(release(url), path=a_go(tmp_path / "bin")).ensure("dev")
    assert found["gadget"].read_text() == "#!/bin/sh\necho built\n"
    assert [path.name for path in found["gadget"].parent.iterdir()] == ["gadget"]


def test_a_product_without_binaries_is_built_and_nobody_is_asked(make: Make, server: FileServer, tmp_path: Path):
    publish(server)
    gadget = replace(release(server.url), download=None)
    assert make(gadget, path=a_go(tmp_path / "bin")).ensure("dev")["gadget"].read_text() == "#!/bin/sh\necho built\n"
    assert server.asked == []


def test_with_no_way_left_the_error_names_both_and_what_to_do(make: Make, closed_url: str, tmp_path: Path):
    started = time.monotonic()
    with pytest.raises(ToolMissingError) as caught:
        make(release(closed_url)).ensure("dev")
    assert time.monotonic() - started < 5
    message = str(caught.value)
    assert message.startswith("gadget 1.2.3 is missing. Its official download failed: 127.0.0.1")
    assert "refused" in message
    assert "there is no `go` on PATH" in message
    assert "Put gadget 1.2.3 on PATH" in message
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["gadget.lock"]


def test_two_runs_at_once_fetch_once(make: Make, server: FileServer):
    publish(server)
    gadget = release(server.url)
    found: list[dict[str, Path]] = []
    threads = [threading.Thread(target=lambda: found.append(make(gadget).ensure("dev"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert server.requests_for("/gadget-v1.2.3-linux-amd64.tar.gz") == 1


def test_a_lock_that_is_never_given_back_is_named(make: Make, server: FileServer, tmp_path: Path):
    publish(server)
    (tmp_path / "cache").mkdir()
    with FileLock(tmp_path / "cache" / "gadget.lock"), pytest.raises(ToolMissingError, match=r"gadget\.lock for 0 s"):
        make(release(server.url), lock_seconds=0).ensure("dev")
    assert make(release(server.url)).ensure("dev")


def test_what_an_earlier_run_left_is_cleared(make: Make, server: FileServer, tmp_path: Path):
    publish(server)
    (left := tmp_path / "cache" / ".gadget-partial-abc").mkdir(parents=True)
    (left / "gadget").write_text("half")
    make(release(server.url)).ensure("dev")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["gadget-1.2.3-linux-amd64", "gadget.lock"]


def test_a_cache_that_lost_a_binary_is_filled_again(make: Make, server: FileServer):
    publish(server)
    found = make(release(server.url)).ensure("dev")
    found["gadget"].unlink()
    assert make(release(server.url)).ensure("dev")["gadget"].read_bytes() == SCRIPT


def test_a_need_fetches_only_its_own(make: Make, server: FileServer):
    assert make(replace(release(server.url), needed_for="dev")).ensure("cloud") == {}
    assert server.asked == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.cache/crusoe-gpu-platform/tools"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/crusoe-gpu-platform/tools"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "relative"}, "/h/.cache/crusoe-gpu-platform/tools"),
        ({"HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.cache/crusoe-gpu-platform/tools"),
    ],
)
def test_the_cache_follows_the_xdg_specification(environ: dict[str, str], expected: str):
    assert cache_folder(environ) == Path(expected)


def test_an_unknown_tool_lists_the_known_ones():
    with pytest.raises(ToolMissingError, match=r"helm is not one of .*pulumi, .*kwokctl"):
        binary("helm")


def test_a_tool_that_is_not_there_names_the_command_that_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError, match=r"kwok and kwokctl 0\.7\.0 .*python -m tools ensure --for dev"):
        binary("kwokctl")
    assert list(tmp_path.iterdir()) == []
