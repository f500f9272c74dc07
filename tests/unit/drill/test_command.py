"""What a drill refuses, in a sentence that says what to do."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drill import __main__ as command
from drill.__main__ import main
from drill.scenarios import BY_NAME
from tools.errors import ToolMissingError
from tools.front_door import drill as front
from tools.front_door.environment import FrontDoorError

SLINKY: dict[str, Any] = {"outputs": {"slurm": {"mode": "slinky"}, "kubeconfig": "x", "clusterId": "c"}, "settings": {}}


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: Any, *arguments: str) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(given)))
    assert main(["--kubectl=/nonexistent/kubectl", *arguments]) == 1
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stack=prod"], "make drill STACK=prod CONFIRM=prod"),
        (["--stack=prod", "--confirm=dev"], "make drill STACK=prod CONFIRM=prod"),
        (["--stack=dev", "--local-state=/x", "--scenario=fire"], "SCENARIO is one of default, "),
        (["--stack=prod", "--confirm=prod", "--scenario=no-spare"], "on real machines SCENARIO is default, polite"),
    ],
)
def test_what_is_asked_for_wrongly(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    words: str,
) -> None:
    assert words in refused(monkeypatch, capsys, SLINKY, f"--folder={tmp_path}", *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("slurm", [None, {"mode": "none"}, {"mode": "managed"}])
def test_a_stack_without_a_slurm_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, slurm: object
) -> None:
    given = {**SLINKY, "outputs": {**SLINKY["outputs"], "slurm": slurm}}
    said = refused(monkeypatch, capsys, given, f"--folder={tmp_path}", "--stack=dev", "--local-state=/x")
    assert "has no Slurm of its own" in said


def test_a_cluster_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def down(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "The connection to the server was refused\n")

    monkeypatch.setattr("drill.site.subprocess.run", down)
    said = refused(monkeypatch, capsys, SLINKY, f"--folder={tmp_path}", "--stack=dev", "--local-state=/x")
    assert "The connection to the server was refused" in said
    assert list(tmp_path.iterdir()) == [], "the kubeconfig is gone"


def session() -> Any:
    def settings() -> dict[str, object]:
        return {"slurm": {}}

    return SimpleNamespace(is_dev=True, stack="dev", project="p", settings=settings)


def nothing(*_: object) -> None:
    return None


def missing(what: str) -> Any:
    def raises(*_: object) -> Path:
        raise ToolMissingError(f"{what} is missing")

    return raises


def test_the_front_door_says_at_once_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check = front._ensure_it_can_run  # pyright: ignore[reportPrivateUsage]  what runs before anything else does
    monkeypatch.setattr("tools.front_door.slurm.os.geteuid", lambda: 1000)
    monkeypatch.setattr("tools.front_door.slurm.shutil.which", nothing)
    with pytest.raises(FrontDoorError, match="Run this as root"):
        check(session())
    monkeypatch.setattr("tools.front_door.slurm.os.geteuid", lambda: 0)
    monkeypatch.setattr(front, "slurm_root", missing("Slurm"))
    with pytest.raises(ToolMissingError, match="Slurm is missing"):
        check(session())

    def only_slurm(*contents: object) -> Path:
        if contents:
            raise ToolMissingError("PyTorch is missing: python -m tools ensure --for training")
        return tmp_path

    monkeypatch.setattr(front, "slurm_root", only_slurm)
    with pytest.raises(FrontDoorError, match="ensure --for training; then `make down` and `make up`"):
        check(session())

    def there(*_: object) -> Path:
        return tmp_path

    monkeypatch.setattr(front, "slurm_root", there)
    monkeypatch.setattr(front, "STATE", tmp_path)
    with pytest.raises(FrontDoorError, match="Run `make up`"):
        check(session())
    monkeypatch.setattr(front.importlib.util, "find_spec", nothing)
    with pytest.raises(FrontDoorError, match="`make drill` puts them there"):
        check(session())


def always(answer: object) -> Callable[..., object]:
    def answered(*_: object) -> object:
        return answer

    return answered


def test_a_soak_ends_with_the_first_that_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def drilled(results: list[bool], *, to_the_first_failure: bool) -> int:
        verdicts = iter(results)

        def told(*_: object) -> bool:
            return next(verdicts)

        monkeypatch.setattr(command, "_told", told)
        chosen = [BY_NAME["polite"]] * len(results)
        room = SimpleNamespace(report_folder=always(None), take_back=always(None))
        bench: Any = SimpleNamespace(job=SimpleNamespace(prepare=always("")), room=room, take_back=None, real=False)
        status = command._scenarios(bench, chosen, to_the_first_failure=to_the_first_failure)  # pyright: ignore[reportPrivateUsage]
        left.append(len(list(verdicts)))
        return status

    left: list[int] = []
    answers: dict[str, object] = {"undisturbed": [], "drill": None, "healthy": True}
    for name, answer in answers.items():
        monkeypatch.setattr(f"drill.conduct.{name}", always(answer))
    assert drilled([True, True], to_the_first_failure=True) == 0
    assert drilled([True, False, True], to_the_first_failure=True) == 1
    assert drilled([False, True], to_the_first_failure=False) == 1
    assert left == [0, 1, 0]
    assert "1 of 3 drills passed." in capsys.readouterr().err
