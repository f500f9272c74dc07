"""What becomes of a job that ended, and without which nodes it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from training import codes
from training.blame import MOST, SECONDS, Suspicion, affordable, kept, suspects, users_own
from training.requeue import CRASHES, LONGEST_PAUSE, Decision, Ending, Memory, decide, read_memory, write_memory


def crash(newest: int) -> Ending:
    return Ending(status=1, told="none", newest=newest)


def test_a_job_that_is_done_ends() -> None:
    decision = decide(Ending(0, "none", 200), Memory(100, 2), 30)
    assert (decision.code, decision.requeue) == (codes.DONE, False)
    assert (decision.memory.newest, decision.memory.crashes) == (200, 0)


def test_what_slurm_ended_is_slurms() -> None:
    decision = decide(Ending(143, "term", 40), Memory(20, 1), 30)
    assert (decision.code, decision.requeue, decision.memory) == (143, False, Memory(20, 1))


def test_refused_options_are_not_tried_again() -> None:
    decision = decide(Ending(1, "none", 40, refused=True), Memory(), 30)
    assert (decision.code, decision.requeue) == (codes.REFUSED, False)


def test_crashes_without_progress_are_bounded_and_pause_longer() -> None:
    memory = Memory()
    pauses: list[float] = []
    for _ in range(CRASHES - 1):
        decision = decide(crash(40), memory, 30)
        assert decision.requeue
        pauses.append(decision.pause)
        memory = decision.memory
    decision = decide(crash(40), memory, 30)
    assert (decision.code, decision.requeue) == (codes.GAVE_UP, False)
    assert "without a newer checkpoint than step 40" in decision.sentence
    assert pauses == [30, 60]
    # Submitted again by a person, it gets all its tries.
    assert decide(crash(40), decision.memory, 30).requeue


def test_crashes_with_progress_are_not_bounded() -> None:
    memory = Memory()
    for newest in range(0, 1000, 20):
        decision = decide(crash(newest), memory, 30)
        assert decision.requeue
        assert decision.pause == 30
        memory = decision.memory


def test_a_job_without_any_checkpoint_is_given_up_too() -> None:
    memory = Memory()
    decisions: list[Decision] = []
    for _ in range(CRASHES):
        decisions.append(decide(crash(-1), memory, 30))
        memory = decisions[-1].memory
    assert [each.requeue for each in decisions] == [True] * (CRASHES - 1) + [False]


def test_failed_nodes_do_not_count() -> None:
    memory = Memory(40, CRASHES - 1)
    for _ in range(20):
        decision = decide(Ending(1, "none", 40, node_failed=True), memory, 30)
        assert (decision.requeue, decision.pause, decision.memory) == (True, 0, memory)


def test_the_time_limit_is_no_crash() -> None:
    decision = decide(Ending(1, "limit", 60), Memory(40, 2), 30)
    assert (decision.requeue, decision.pause, decision.memory.crashes) == (True, 0, 0)
    assert not decide(Ending(0, "limit", 60), Memory(), 30).requeue


def test_a_pause_has_an_end() -> None:
    assert decide(crash(40), Memory(40, 1), 1e6).pause == LONGEST_PAUSE


def test_what_is_kept_between_attempts_is_read_as_written(tmp_path: Path) -> None:
    memory = Memory(40, 1, (Suspicion("gpu-1", 5.0, "vm-1"),))
    write_memory(tmp_path, memory)
    assert read_memory(tmp_path) == memory
    (tmp_path / "requeue.json").write_text('{"newest"')
    assert read_memory(tmp_path) == read_memory(tmp_path / "missing") == Memory()


# Blame ----------------------------------------------------------------------------------------------------------------


def failed(node: str, code: int, attempt: int = 1) -> dict[str, Any]:
    return {"event": "ranks-failed", "attempt": attempt, "node": node, "failures": [{"rank": 0, "code": code}]}


def crashed(node: str, error: str) -> dict[str, Any]:
    return {"event": "crashed", "attempt": 1, "node": node, "error": error}


PEER = "RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer [10.0.0.1]:7"


def test_the_node_whose_rank_was_killed_is_blamed_not_those_that_lost_it() -> None:
    events = [failed("a", 1), crashed("a", PEER), failed("b", -9)]
    assert suspects(events, 1, 3) == ["b"]


def test_an_error_of_its_own_is_blamed_where_nobody_was_killed() -> None:
    events = [crashed("a", "RuntimeError: CUDA error: uncorrectable ECC error encountered"), crashed("b", PEER)]
    assert suspects(events, 1, 2) == ["a"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [crashed("a", PEER), crashed("b", "DistBackendError: NCCL error")],
        [crashed("a", "ValueError: no"), crashed("b", "ValueError: no")],
        [failed(node, -11) for node in "abc"],
        [failed("a", -15)],
        [failed("a", -9, attempt=0)],
    ],
    ids=["nothing known", "only consequences", "all nodes", "too many", "told to end", "another attempt"],
)
def test_nobody_is_blamed_without_a_reason(events: list[dict[str, Any]]) -> None:
    assert suspects(events, 1, 2 if len(events) < 3 else 8) == []


def test_a_suspicion_ends_in_time_or_with_the_machine() -> None:
    before = [Suspicion("a", 100.0, "vm-1"), Suspicion("b", 100.0, "")]
    assert kept(before, [], {"a": "vm-1"}, now=50) == before
    assert kept(before, [], {"a": "vm-2"}, now=50) == before[1:]
    assert kept(before, [], {"a": "vm-1"}, now=100) == []


def test_the_newest_suspicions_stay() -> None:
    before = [Suspicion("a", 1e9), Suspicion("b", 1e9)]
    found = kept(before, ["c", "b"], {"c": "vm-3"}, now=10)
    assert found == [Suspicion("c", 10 + SECONDS, "vm-3"), Suspicion("b", 10 + SECONDS)]
    assert len(found) == MOST


def test_a_job_keeps_enough_nodes() -> None:
    found = [Suspicion("a", 1e9), Suspicion("b", 1e9)]
    assert affordable(found, {"a", "b", "c", "d"}, 2) == found
    assert affordable(found, {"a", "b", "c"}, 2) == found[:1]
    assert affordable(found, {"a", "b"}, 2) == []
    # One that is down already takes nothing away.
    assert affordable(found, {"b", "c", "d"}, 2) == found


def test_the_users_own_exclusions_stay() -> None:
    assert users_own(["a", "own"], [Suspicion("a", 1e9)]) == {"own"}
    assert users_own(["own"], [Suspicion("a", 1e9)]) == {"own"}
    assert users_own([], []) == set()
