"""Reports on kept previews: tests/previews.py recorded both from real runs, and the integration tier runs them anew."""

from __future__ import annotations

import json

import pytest

from gitops import events, markdown, report_json
from gitops.model import Outcome
from gitops.verdict import EXIT_CODES
from tests.previews import KEPT, ROOT, STACK, Kept

FAILED = {"failed": 1, "policies": 1}
OUTCOMES = {
    "first": Outcome.SAFE,
    "unchanged": Outcome.SAFE,
    "growth": Outcome.SAFE,
    "losses": Outcome.NEEDS_APPROVAL,
    "failed": Outcome.FAILED,
    "policies": Outcome.REFUSED,
    "protected": Outcome.REFUSED,
    "retired": Outcome.SAFE,
}


def kept(name: str) -> Kept:
    stack = "prod" if name == "policies" else STACK
    return Kept((KEPT / f"{name}.jsonl").read_text(), FAILED.get(name, 0), stack)


def test_every_kept_preview_is_judged_here() -> None:
    assert {path.stem for path in KEPT.glob("*.jsonl")} == OUTCOMES.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_report_is_as_it_was_kept(name: str) -> None:
    report = kept(name).report()
    assert report.verdict.outcome is OUTCOMES[name]
    assert markdown.render(report) == (KEPT / f"{name}.md").read_text()


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_report_is_the_same_in_any_order_of_events(name: str) -> None:
    whole = kept(name)
    *steps, summary = whole.text.splitlines()
    turned = Kept("\n".join([*reversed(steps), summary]), whole.status, whole.stack)
    assert turned.report().model_copy(update={"problems": ()}) == whole.report().model_copy(update={"problems": ()})


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_report_comes_back_from_its_json(name: str) -> None:
    report = kept(name).report()
    assert report_json.load(report_json.dump(report)) == report


def test_the_schema_is_current() -> None:
    schema = json.loads((ROOT / "docs/preview-report.schema.json").read_text())
    assert schema == report_json.schema(), "write it anew with: python -m gitops schema"


def test_growth_is_told_in_gpus_and_whole_hosts() -> None:
    [gpus] = kept("growth").report().gpus
    assert (gpus.type, gpus.whole_host) == ("h100-80gb-sxm-ib.8x", True)
    assert (str(gpus.gpus_before), str(gpus.gpus_after)) == ("16", "24")
    assert (str(gpus.vms_before), str(gpus.vms_after)) == ("2", "3")


def test_a_change_of_repairs_is_told() -> None:
    [repair] = kept("growth").report().repairs
    assert (repair.subject, repair.old, repair.new) == ("GPU_FELL_OFF_THE_BUS", "OFF", "REPLACE_NODE")


def test_a_digest_is_no_stream_of_events() -> None:
    with pytest.raises(events.OtherFormatError, match="digest"):
        events.read(json.dumps({"steps": [], "changeSummary": {"create": 1}}, indent=4).splitlines())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": true}', '{"format": 1, "stack": "prod"}'])
def test_what_is_no_report_of_this_version_is_refused(text: str) -> None:
    with pytest.raises(report_json.OtherVersionError):
        report_json.load(text)


def test_the_documentation_has_every_exit_code() -> None:
    page = (ROOT / "docs/gitops.md").read_text()
    assert [outcome for outcome, code in EXIT_CODES.items() if f"| `{outcome}` | {code} |" not in page] == []
