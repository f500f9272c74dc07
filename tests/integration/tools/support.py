"""The tiny project (tiny/) in a folder of its own, run by the real CLI with the stand-in language host."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TINY = Path(__file__).with_name("tiny")


@dataclass(frozen=True)
class Tiny:
    """The project's folder and the environment to run Pulumi in."""

    folder: Path
    environ: dict[str, str]

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run Pulumi on the stack dev; standard error comes with the output, as on a terminal."""
        return self.run_plain(*arguments, "--stack", "dev", **environ)

    def run_plain(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run Pulumi on no stack in particular."""
        return subprocess.run(
            ["pulumi", *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

    def up(self, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--yes", "--skip-preview", **environ)

    def start(self, *arguments: str, **environ: str) -> "subprocess.Popen[str]":
        """Start Pulumi in a process group of its own, as a shell does."""
        return subprocess.Popen(
            ["pulumi", *arguments, "--stack", "dev"],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def processes(self) -> list[str]:
        """The command lines of this project's running programs, plugins and language hosts."""
        found: list[str] = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    here = str((folder / "cwd").readlink())
                except OSError:
                    continue
                if str(self.folder) in line or (str(self.folder) in here and "language_host" in line):
                    found.append(line)
        return found


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait for something to become true. Raises AssertionError, which names it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)


def creating(backend: Path) -> bool:
    """Whether the state says that a create is under way; the backend takes the file away whenever it writes it."""
    try:
        return '"creating"' in (backend / ".pulumi" / "stacks" / "tiny" / "dev.json").read_text()
    except FileNotFoundError:
        return False


def lay_out(folder: Path) -> None:
    """Copy the tiny project into a folder, with the interpreter that runs the tests as its environment."""
    shutil.copytree(TINY, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "environment").symlink_to(sys.prefix)
