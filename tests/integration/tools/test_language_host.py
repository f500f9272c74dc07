"""The stand-in language host, driven by the real CLI: programs and plugins run, fail and end as they should."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.tools.support import Tiny, creating, lay_out, wait_until
from tests.processes import status_after_a_thread_got
from tools import links
from tools.places import ROOT
from tools.toolchain import binary

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLI without the official host beside it, so that the stand-in serves whatever this machine has."""
    alone = tmp_path_factory.mktemp("cli")
    source = binary("pulumi").resolve()
    try:
        (alone / "pulumi").hardlink_to(source)
    except OSError:
        shutil.copy2(source, alone / "pulumi")
    return links.refresh({"pulumi": alone / "pulumi"}, alone / "bin")


@pytest.fixture
def tiny(bin_folder: Path, tmp_path: Path) -> Tiny:
    lay_out(folder := tmp_path / "project")
    (tmp_path / "state").mkdir()
    project = Tiny(
        folder,
        {
            "PATH": f"{bin_folder}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "PULUMI_HOME": str(tmp_path / "home"),
            "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        },
    )
    assert project.run("stack", "init").returncode == 0
    return project


def test_a_program_with_a_plugin_comes_up_and_stays(tiny: Tiny):
    preview = tiny.run("preview")
    assert preview.returncode == 0, preview.stdout
    assert "+ 2 to create" in preview.stdout
    up = tiny.up()
    assert up.returncode == 0, up.stdout
    assert '"HELLO"' in up.stdout
    assert '"organization/tiny/dev"' in up.stdout
    assert "the program says hello" in up.stdout
    again = tiny.run("preview", "--expect-no-changes", "--diff")
    assert again.returncode == 0, again.stdout
    update = tiny.up(TINY_TEXT="other")
    assert '"OTHER"' in update.stdout
    assert "warning" not in preview.stdout + up.stdout + again.stdout
    assert tiny.run("destroy", "--yes", "--skip-preview").returncode == 0


def test_program_and_plugin_run_in_the_environment_their_project_names(tiny: Tiny):
    up = tiny.up()
    assert f'"{tiny.folder}/environment"' in up.stdout
    (tiny.folder / "environment").rename(tiny.folder / "elsewhere")
    missing = tiny.run("preview")
    assert missing.returncode != 0
    assert f"There is no Python environment at {tiny.folder}/environment" in missing.stdout
    assert "Traceback" not in missing.stdout


def test_nothing_is_written_to_the_stacks_file(tiny: Tiny):
    before = (tiny.folder / "Pulumi.dev.yaml").read_text()
    tiny.up()
    assert (tiny.folder / "Pulumi.dev.yaml").read_text() == before


def test_configuration_and_secrets_arrive(tiny: Tiny):
    assert tiny.run("config", "set", "--secret", "secret", "canary-7f3a").returncode == 0
    up = tiny.up()
    assert up.returncode == 0, up.stdout
    assert '"x"' in up.stdout
    assert "canary-7f3a" not in up.stdout
    shown = tiny.run("stack", "output", "secret", "--show-secrets").stdout
    assert shown.strip() == "canary-7f3a"


def test_an_exception_shows_the_programs_own_frames_once(tiny: Tiny):
    up = tiny.up(TINY_FAIL="exception")
    assert up.returncode != 0
    diagnostics = up.stdout[up.stdout.index("Diagnostics:") :]
    assert diagnostics.count("ValueError: the reason it failed") == 1
    assert 'File "__main__.py"' in diagnostics or f'File "{tiny.folder}/__main__.py"' in diagnostics
    assert "in fail" in diagnostics
    assert "runpy" not in diagnostics
    assert "language_host" not in diagnostics


def test_a_run_error_is_its_message_only(tiny: Tiny):
    up = tiny.up(TINY_FAIL="run-error")
    assert up.returncode != 0
    diagnostics = up.stdout[up.stdout.index("Diagnostics:") :]
    assert diagnostics.count("one plain sentence") == 1
    assert "Traceback" not in diagnostics


def test_a_programs_own_exit_status_is_told(tiny: Tiny):
    up = tiny.up(TINY_FAIL="exit")
    assert up.returncode != 0
    assert "The program ended with exit status 3." in up.stdout


def test_a_plugin_that_dies_says_why(tiny: Tiny):
    up = tiny.up(TINY_PLUGIN="broken")
    assert up.returncode != 0
    assert "the plugin's own reason" in up.stdout


def test_about_names_the_interpreter_and_what_is_installed(tiny: Tiny):
    about = tiny.run("about", "--transitive")
    assert f"executable='{tiny.folder}/environment/bin/python'" in about.stdout
    assert f"version='{sys.version.split()[0]}'" in about.stdout
    assert "grpcio" in about.stdout


def test_installing_leaves_the_environment_alone(tiny: Tiny):
    install = tiny.run_plain("install", "--no-plugins")
    assert install.returncode == 0, install.stdout
    assert "Nothing to install" in install.stdout


def test_an_interrupt_ends_in_order(tiny: Tiny):
    up = tiny.start("up", "--yes", "--skip-preview", TINY_TEXT="slow")
    wait_until(lambda: creating(tiny.folder.parent / "state"), "the create")
    started = time.monotonic()
    os.killpg(up.pid, signal.SIGINT)
    time.sleep(0.3)
    # One interrupt waits for the create in flight; a second does not.
    os.killpg(up.pid, signal.SIGINT)
    output = up.communicate(timeout=20)[0]
    assert time.monotonic() - started < 10
    assert up.returncode != 0
    assert "KeyboardInterrupt" not in output
    assert "Traceback" not in output
    wait_until(lambda: tiny.processes() == [], "the end of host, program and plugin")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_another_thread_gets_the_signal(number: signal.Signals):
    assert status_after_a_thread_got(number, ROOT / "tools" / "language_host") == 0


def test_a_killed_cli_leaves_no_process_behind(tiny: Tiny):
    up = tiny.start("up", "--yes", "--skip-preview", TINY_TEXT="slow")
    wait_until(lambda: any("plugin" in line for line in tiny.processes()), "the plugin's start")
    up.kill()
    up.wait()
    wait_until(lambda: tiny.processes() == [], "the end of host, program and plugin")
