"""The report: the same facts as text, JSON, picture and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.slurm.conf_settings import TimingSettings
from crusoe.rules.slurm_timing import POD_MARGIN
from drill import timing
from drill.conduct import conclude
from drill.observations import read, write
from drill.report import Report, as_json, text
from drill.scenarios import BY_NAME
from exporter.figures import FIGURES
from tests.unit.drill.making import steps, whole

RUN = [*steps(0, 50), *steps(40, 119, 1)]


@pytest.fixture
def report() -> Report:
    prod = {"timing": {"killWait": 120}}
    return conclude(
        "dev", {"slurm": {"timing": {"credExpire": 5}}}, BY_NAME["default"], whole(), steps(0, 119), RUN, prod
    )


def test_the_text_says_what_happened_when_and_whose_time_it_was(report: Report) -> None:
    said = text(report)
    assert said.startswith("Drill `default` on the stack dev: PASS")
    assert said.endswith("PASS default")
    assert "+2.0 s  AutoClusters told of the fault (webhook" in said
    assert "From the failure to the next step: 16.0 s" in said
    assert "120 of 120 steps have the undisturbed run's loss, bit for bit; taken again: 11." in said


def test_both_sums_of_times_are_there(report: Report) -> None:
    said = text(report)
    assert (
        "dev: a warned job has been requeued at the latest after: drain budget 30 + KillWait 90 + cred_expire 5" in said
    )
    assert (
        "prod: a warned job has been requeued at the latest after: drain budget 30 + KillWait 120 + cred_expire 30"
        in said
    )


def test_the_defaults_of_the_sums_are_the_settings_own() -> None:
    own = TimingSettings().model_dump(by_alias=True)
    assert {name: own[name] for name in timing.DEFAULTS} == dict(timing.DEFAULTS)
    assert timing.POD_MARGIN == POD_MARGIN


def test_json_holds_the_same(report: Report) -> None:
    found = json.loads(json.dumps(as_json(report)))
    assert (found["verdict"], found["resumeSeconds"], found["losses"]["lost"]) == ("PASS", 16.0, [11])
    assert [each["stage"] for each in found["stages"]][:3] == ["submitted", "training", "fault"]
    assert sum(found["shares"].values()) == pytest.approx(16.0)


def test_the_figures_are_those_of_the_exporter(report: Report) -> None:
    found, at = as_json(report)["figures"], {key: moment.at for key, moment in report.reached.items()}
    assert set(found) == set(FIGURES)
    for name, (first, last) in FIGURES.items():
        assert found[name] == pytest.approx(max(0.0, at[last] - at[first]), abs=0.001)
    assert f"Recovery figures: detect {found['detect']:.1f} s" in text(report)


def test_a_failed_drill_says_why() -> None:
    found = conclude("dev", {}, BY_NAME["default"], whole()[:9], steps(0, 119), steps(0, 50))
    said = text(found)
    assert "FAIL" in said.splitlines()[0]
    assert "  * Never seen: the actor answered the fault." in said
    assert as_json(found)["verdict"] == "FAIL"


def test_what_was_observed_is_kept_and_judged_again(report: Report, tmp_path: Path) -> None:
    write(tmp_path / "kept", whole())
    again = conclude("dev", {}, BY_NAME["default"], read(tmp_path / "kept"), steps(0, 119), RUN)
    assert again.reached == report.reached
    assert again.verdict == report.verdict


def test_picture_and_page_stand_alone(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from drill.picture import save

    page = save(report, tmp_path)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    html = page.read_text()
    assert "data:image/png;base64," in html
    assert "http" not in html.split("base64,")[0]
