"""The verdict: PASS only where all of it happened, in order, by itself, with the undisturbed run's losses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from drill.losses import Comparison, Step, compare, parse
from drill.observations import Observation
from drill.scenarios import BY_NAME, SCENARIOS
from drill.stages import BY_KEY, moments, story
from drill.verdict import Verdict, judge, late, on_real_machines, wanted
from tests.unit.drill.making import NODE, seen, steps, whole

REFERENCE = steps(0, 119)
RUN = [*steps(0, 50), *steps(40, 119, 1)]


def verdict(
    observations: list[Observation] | None = None, run: list[Step] | None = None, name: str = "default"
) -> Verdict:
    told = story(whole() if observations is None else observations)
    reached = moments(told)
    return judge(BY_NAME[name].expected, told, reached, compare(REFERENCE, RUN if run is None else run))


def test_a_whole_drill_passes() -> None:
    assert verdict() == Verdict(())
    assert verdict().word == "PASS"


@pytest.mark.parametrize("key", wanted(BY_NAME["default"].expected))
def test_each_expected_stage_is_needed(key: str) -> None:
    told = story(whole())
    reached = {other: moment for other, moment in moments(told).items() if other != key}
    found = judge(BY_NAME["default"].expected, told, reached, compare(REFERENCE, RUN))
    assert any(BY_KEY[key].title in finding for finding in found.findings), found
    assert not found.passed


@pytest.mark.parametrize("chain", BY_NAME["default"].expected.chains)
def test_the_order_counts(chain: tuple[str, ...]) -> None:
    told = story(whole())
    reached = moments(told)
    first, second = chain[:2]
    swapped = {**reached, second: replace(reached[second], at=reached[first].at - 5)}
    found = judge(BY_NAME["default"].expected, told, swapped, compare(REFERENCE, RUN))
    assert any(finding.startswith("Out of order") for finding in found.findings), found


def test_without_the_actor_it_fails() -> None:
    found = verdict([each for each in whole() if each.what.get("component") != "slurm-actor"])
    assert found.findings == ("Never seen: the actor answered the fault.",)


def test_a_person_who_helps_fails_it() -> None:
    assert not verdict([*whole(), seen(105, "drill", "helped", why="the job was released")]).passed


def bit(run: list[Step], number: int) -> list[Step]:
    """A run of which one loss differs in its last bit."""
    return [replace(each, loss=math.nextafter(each.value, 2.0).hex()) if each.step == number else each for each in run]


SPOILED: list[tuple[list[Step], str]] = [
    (RUN[:-1], "Steps missing: 119"),
    ([*RUN, *steps(120, 121, 1)], "too many: 120, 121"),
    (bit(RUN, 100), "bit for bit: 100"),
    ([*steps(0, 50, off=0.1), *RUN[51:]], "bit for bit: 0, 1, 2"),
    ([*steps(0, 50), *steps(10, 119, 1)], "took back 41 steps, 20 are allowed"),
    ([*steps(0, 50), *steps(40, 60, 1), *steps(60, 119, 2)], "began again 2 times, 1 are allowed"),
    ([], "Steps missing"),
]


@pytest.mark.parametrize(("run", "words"), SPOILED)
def test_losses(run: list[Step], words: str) -> None:
    assert words in " ".join(verdict(run=run).findings)


def test_on_real_machines_losses_have_a_band_and_notices_are_not_read() -> None:
    off = [*steps(0, 50), *steps(40, 119, 1, off=1e-5)]
    assert not compare(REFERENCE, off).exact
    assert compare(REFERENCE, off, 0.01).exact
    assert not compare(REFERENCE, [*steps(0, 50), *steps(40, 119, 1, off=0.1)], 0.01).exact
    assert not compare(REFERENCE, off[:-1], 0.01).exact
    expected = on_real_machines(BY_NAME["default"].expected)
    assert "told" not in wanted(expected)
    assert {"isolated", "answered", "replaced", "completed"} <= set(wanted(expected))


def test_an_empty_reference_is_no_pass() -> None:
    assert not Comparison(0).exact
    told = story(whole())
    found = judge(BY_NAME["default"].expected, told, moments(told), compare([], []))
    assert "no undisturbed run" in " ".join(found.findings)


def test_targets_of_time_are_told_and_fail_nothing() -> None:
    expected = BY_NAME["default"].expected
    assert late(expected, moments(story(whole())), 1.0) == []
    slow = [replace(each, at=each.at + 30) if each.at > 109 else each for each in whole()]
    found = " ".join(late(expected, moments(story(slow)), 3.7))
    assert "it took 46.0 s" in found
    assert "own share was 3.7 s" in found
    assert verdict(slow).passed


def test_what_must_not_happen_fails_it() -> None:
    found = verdict(name="off")
    assert any(each.startswith("Must not have happened") for each in found.findings)
    quiet = [each for each in whole() if each.at <= 102 or (each.kind == "job" and each.what["state"] == "COMPLETED")]
    quiet = [replace(each, what={**each.what, "restarts": 0}) if each.kind == "job" else each for each in quiet]
    assert verdict(quiet, REFERENCE, "off").passed


def test_a_line_that_was_cut_off_is_no_step() -> None:
    text = '{"step": 0, "loss": "0x1p0", "attempt": 0, "time": 1.5}\n{"step": 1, "lo'
    assert parse(text) == [Step(0, "0x1p0", 0, 1.5)]
    for other in ("", "null", "[1]", '{"step": 1}', "3"):
        assert parse(other) == []


def test_scenarios_name_stages_and_moments_that_exist() -> None:
    assert len(BY_NAME) == len(SCENARIOS)
    for scenario in SCENARIOS:
        keys = {*wanted(scenario.expected), *scenario.expected.absent}
        assert keys <= BY_KEY.keys(), scenario.name
        assert not set(wanted(scenario.expected)) & set(scenario.expected.absent), scenario.name
        assert {each.after for each in scenario.plan} - {None} <= BY_KEY.keys()
        assert scenario.what.endswith(".")
        assert scenario.outcome.endswith(".")
    assert SCENARIOS[0].name == "default"
    assert NODE
