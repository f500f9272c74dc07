"""What makes things fail: whom it meets, and that it holds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from drill import block
from drill.conduct import aim
from drill.deeds import Hands, LocalCloud, Rank, Target
from drill.observations import Observation
from drill.room import Room, Undo
from drill.scenarios import (
    SCENARIOS,
    Action,
    BadReplacement,
    Beside,
    Cancel,
    Capacity,
    Detection,
    Do,
    GpuFault,
    KillDaemons,
    Maintenance,
    Power,
    Storage,
    TimeLimit,
)
from drill.site import Site, SiteError

TARGET = Target("7", "drill/x", "train-0", {"train-0": "np-1-0", "train-1": "np-1-1"})


def test_nodes_of_a_job_are_told_apart() -> None:
    assert TARGET.worker("batch") == "train-0"
    assert TARGET.worker("other") == "train-1"
    assert Target("7", "x", "train-1", TARGET.machines).worker("other") == "train-0"
    assert Target("7", "x", "train-0", {"train-0": "np"}).worker("other") == "train-0"


def test_what_follows_a_stage_meets_the_machine_that_failed() -> None:
    left = Target("7", "x", "train-0", {"train-0": "np-1-0"})
    for scenario in SCENARIOS:
        met: Target | None = None
        for each in scenario.plan:
            if each.at_step is not None:
                assert aim(each, met, lambda: TARGET) is TARGET
                met = TARGET
            elif each.after is not None:
                assert aim(each, met, lambda: left) is TARGET
    assert aim(Do(Power(on=True), after="requeued"), None, lambda: left) is left


@pytest.mark.parametrize(
    ("line", "rank"),
    [("1 3 240 4,6", Rank(1, 3, 240, 6)), ("0 2 239 4,6", Rank(0, 2, 239, 4)), ("1 3 240", Rank(1, 3, 240, 1))],
)
def test_the_gpu_of_a_rank_is_what_slurm_gave_it(line: str, rank: Rank) -> None:
    assert Rank.read(line) == rank


class Stack:
    """Commands that were run, and answers to them."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def run(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        line = " ".join(command)
        self.commands.append(line)
        ranks = "0 2 239 4,6\n1 3 240 4,6\n1 3 245 4,6\n" if "LOCAL_RANK" in line else ""
        now = "np-1-7" if "{.spec.nodeName}" in line else ""
        return subprocess.CompletedProcess(command, 0, ranks or now, "")

    def ran(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in self.commands)


class Api:
    """The API's configuration of AutoClusters."""

    def __init__(self, override: str | None) -> None:
        self.row = {"issue_name": "XID_48", **({"user_override": override} if override else {})}
        self.patched: list[Any] = []

    def get(self, _: str) -> Any:
        return {"remediation_configs": [self.row]}

    def patch(self, _: str, body: Any) -> None:
        self.patched.append(body)


MakeHands = Callable[..., Hands]


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    made = Stack()
    for module in ("site", "deeds"):
        monkeypatch.setattr(f"drill.{module}.subprocess.run", made.run)
    return made


@pytest.fixture
def hands(stack: Stack, tmp_path: Path) -> MakeHands:
    def make(client: Any = None, *, real: bool = False, say: Callable[[str], None] = print) -> Hands:
        room = Room(tmp_path)
        room.enter("x")
        site = Site("kubectl", room.kubeconfig, "user", "login-0")
        made = list[Observation]()
        found = Hands(site, room, made.append, say, "c", None if real else LocalCloud(tmp_path), client)
        found.seen = made  # pyright: ignore[reportAttributeAccessIssue]  for the tests
        return found

    assert stack.commands == []
    return make


def undos(hands: Hands) -> list[Undo]:
    kept = json.loads((hands.room.folder / "running.json").read_text())
    return [Undo(each["kind"], each["arguments"]) for each in kept["undo"]]


def test_a_broken_gpu_meets_the_rank_that_has_it(stack: Stack, hands: MakeHands) -> None:
    one = hands()
    one.do(GpuFault(79), TARGET)
    assert stack.ran("localcloud gpu-fault", "--node=np-1-1", "--xid=79", "--gpu=6")
    assert stack.ran("train-1", "kill -ABRT 240")
    assert undos(one) == [Undo("replace", ["np-1-1"])]
    [fault] = one.seen  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert fault.what["worker"] == "train-1"  # pyright: ignore[reportUnknownMemberType]


def test_the_machine_that_came_in_its_place_breaks_and_not_the_one_that_went(stack: Stack, hands: MakeHands) -> None:
    one = hands()
    one.do(BadReplacement(), TARGET)
    assert stack.ran("localcloud gpu-fault", "--node=np-1-7", "--xid=79", "--gpu=0")
    assert not stack.ran("gpu-fault", "np-1-1")
    assert undos(one) == [Undo("replace", ["np-1-7"])]
    [fault] = one.seen  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert (fault.what["worker"], fault.what["node"]) == ("train-1", "np-1-7")  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(("full", "limit"), [(True, "16384:"), (False, "unlimited:")])
def test_storage_is_full_for_the_last_rank_of_a_node_only(
    stack: Stack, hands: MakeHands, full: bool, limit: str
) -> None:
    one = hands()
    one.do(Storage(full=full), TARGET)
    assert stack.ran("train-1", "setpriv", f"prlimit --pid=240 --fsize={limit}")
    assert len(one.seen) == full  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]


def test_a_time_limit_that_is_taken_back_is_no_second_fault(stack: Stack, hands: MakeHands) -> None:
    one = hands()
    one.do(TimeLimit(2), TARGET)
    one.do(TimeLimit(15, near=False), TARGET)
    assert stack.ran("scontrol update JobId=7 TimeLimit=2")
    assert stack.ran("scontrol update JobId=7 TimeLimit=15")
    assert len(one.seen) == 1  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]


def test_a_rank_that_works_on_is_left_alone(stack: Stack, hands: MakeHands) -> None:
    hands().do(GpuFault(48, rank="works"), TARGET)
    assert stack.ran("gpu-fault", "--xid=48")
    assert not stack.ran("kill")


def test_on_real_machines_a_person_is_asked_and_nothing_is_broken(stack: Stack, hands: MakeHands) -> None:
    said = list[str]()
    one = hands(real=True, say=said.append)
    one.do(GpuFault(79), TARGET)
    assert "np-1-1" in said[0]
    assert "dcgmi test --inject --gpuid 6 -f 230 -v 79" in said[0]
    assert not stack.ran("kill")
    assert not stack.ran("localcloud")
    assert undos(one) == []
    with pytest.raises(SiteError, match="Only the local cloud"):
        one.do(Capacity(0), None)


def test_power_is_cut_only_once_it_is_written_down_how_it_comes_back(stack: Stack, hands: MakeHands) -> None:
    one = hands()
    one.do(Power(), TARGET)
    assert stack.ran("annotate node np-1-1 local.crusoe.ai/power=off")
    assert undos(one) == [Undo("kubectl", ["annotate", "node", "np-1-1", "local.crusoe.ai/power-"])]
    one.do(Power(on=True), TARGET)
    assert len(undos(one)) == 1


@pytest.mark.parametrize(
    ("before", "back"),
    [
        (None, {"remove_remediation_overrides": ["XID_48"]}),
        ("REPLACE_NODE", {"set_remediation_overrides": [{"issue_name": "XID_48", "action": "REPLACE_NODE"}]}),
    ],
)
def test_an_action_is_put_back_as_it_was(hands: MakeHands, before: str | None, back: object) -> None:
    api = Api(before)
    one = hands(api)
    one.do(Action("XID_48", "OFF"), None)
    assert api.patched == [{"set_remediation_overrides": [{"issue_name": "XID_48", "action": "OFF"}]}]
    [undo] = undos(one)
    assert json.loads(undo.arguments[1]) == back


def test_what_is_seen_late_is_seen_as_soon_as_ever_again(stack: Stack, hands: MakeHands) -> None:
    one = hands()
    one.do(Detection(30), None)
    assert stack.ran("localcloud set autoclusters --detect-seconds=30")
    assert undos(one) == [Undo("localcloud", ["set", "autoclusters", "--detect-seconds=2"])]


def test_another_job_runs_on_the_node_with_the_batch_script_and_ends_with_the_drill(
    stack: Stack, hands: MakeHands
) -> None:
    one = hands()
    one.do(Beside(), TARGET)
    assert stack.ran("runuser -l user", "sbatch", "--nodelist=train-0", "--job-name=bystander")
    assert undos(one) == [Undo("scancel", ["--name=bystander"])]


def test_the_user_cancels_the_job_and_no_other(stack: Stack, hands: MakeHands) -> None:
    hands().do(Cancel(), TARGET)
    assert stack.commands[-1].endswith("runuser -l user -c scancel 7")


def test_daemons_are_killed_without_a_word(stack: Stack, hands: MakeHands) -> None:
    hands().do(KillDaemons(), None)
    assert stack.ran("delete pods", "(slurmctld,slurmrestd)", "--grace-period=0", "--force")


def test_a_cordoned_node_is_uncordoned_in_the_end(stack: Stack, hands: MakeHands) -> None:
    one = hands()
    one.do(Maintenance(), TARGET)
    assert stack.ran("cordon np-1-1")
    assert undos(one) == [Undo("kubectl", ["uncordon", "np-1-1"])]


def test_without_a_job_nothing_can_be_disturbed(hands: MakeHands) -> None:
    with pytest.raises(SiteError, match="no job yet"):
        hands().do(GpuFault(), None)


def test_a_held_process_ends_with_sigkill_and_nothing_less() -> None:
    sleeper = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); time.sleep(60)"
    target = subprocess.Popen([sys.executable, "-c", sleeper])
    while psutil.Process(target.pid).num_threads() < 2:
        time.sleep(0.01)
    holder = subprocess.Popen([sys.executable, block.__file__, str(target.pid)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != "held":
            pytest.skip("this user may not trace processes here")
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGINT, signal.SIGTERM):
            target.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            target.wait(0.5)
        target.kill()
        assert target.wait(10) == -signal.SIGKILL
        assert holder.wait(10) == 0
    finally:
        target.kill()
        holder.kill()
        target.wait()
        holder.wait()
