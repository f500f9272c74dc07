"""What is safe, what needs a person, what is refused, and what could not be previewed."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.model import Outcome, Report
from tests.unit.gitops.making import (
    DISK,
    POOL,
    Json,
    diagnostic,
    review,
    reviewed,
    state,
    step,
    summary,
    violation,
)

H100 = {"type": "h100-80gb-sxm-ib.8x", "count": 2}
CLUSTER = "crusoe:index:KubernetesCluster"
SLINKY = "kubernetes:slinky.slurm.net/v1beta1:NodeSet"
KEY = "crusoe:index:GeneratedSecret"


def gone(kind: str, inputs: Json, **more: Any) -> Json:
    return step("delete", state(kind, "it", inputs, **more), None)


def replaced(kind: str, inputs: Json) -> list[Json]:
    old, new = state(kind, "it", inputs), state(kind, "it", {**inputs, "type": "l40s-48gb.10x"})
    diff = {"type": "update-replace"}
    ops = ("delete-replaced", "replace", "create-replacement")
    return [
        step(op, old if op != "create-replacement" else None, new if op != "delete-replaced" else None, diff)
        for op in ops
    ]


@pytest.mark.parametrize(
    ("kind", "inputs", "what"),
    [
        (CLUSTER, {}, "cluster"),
        ("crusoe:index:SlurmCluster", {}, "cluster"),
        (POOL, H100, "GPU pool"),
        (POOL, {"type": "b900.8x", "count": 1}, "GPU pool"),
        (SLINKY, {}, "NodeSet"),
        ("crusoe:index:SlurmNodeSet", {}, "NodeSet"),
        (DISK, {"size": "1TiB"}, "disk"),
        ("kubernetes:core/v1:PersistentVolumeClaim", {}, "disk"),
        (KEY, {}, "key"),
    ],
)
def test_what_cannot_be_had_back_needs_approval(kind: str, inputs: Json, what: str) -> None:
    for told in ([gone(kind, inputs)], replaced(kind, inputs)):
        report = reviewed(*told).report
        assert report.verdict.outcome is Outcome.NEEDS_APPROVAL
        assert [loss.what for loss in report.losses] == [what]
        assert report.verdict.label
        assert report.verdict.label in report.losses[0].approve


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [(POOL, {"type": "c1a.8x", "count": 2}), ("crusoe:index:VpcFirewallRule", {}), ("kubernetes:core/v1:Secret", {})],
)
def test_what_can_be_made_again_does_not(kind: str, inputs: Json) -> None:
    assert reviewed(gone(kind, inputs)).report.verdict.outcome is Outcome.SAFE


def test_what_stays_in_the_cloud_is_not_lost() -> None:
    report = reviewed(gone(DISK, {}, retainOnDelete=True)).report
    assert (report.verdict.outcome, report.losses) == (Outcome.SAFE, ())


def test_what_an_earlier_replacement_has_left_is_no_loss_of_what_is_there() -> None:
    there = step("same", state(DISK, "it", {}), state(DISK, "it", {}))
    left = gone(DISK, {}, delete=True)
    for told in ([there, left], [left, there]):
        report = reviewed(*told).report
        assert (report.verdict.outcome, report.changes) == (Outcome.SAFE, ())
    assert reviewed(left).report.verdict.outcome is Outcome.NEEDS_APPROVAL


def test_the_label_approves_these_losses_and_no_others() -> None:
    label = reviewed(gone(DISK, {})).report.verdict.label
    assert label
    assert reviewed(gone(DISK, {}), labels=[label]).report.verdict.outcome is Outcome.SAFE
    more = [gone(DISK, {}), gone(CLUSTER, {})]
    assert reviewed(*more, labels=[label]).report.verdict.outcome is Outcome.NEEDS_APPROVAL
    other = gone(DISK, {}, id="another-disk")
    assert reviewed(other, labels=[label]).report.verdict.outcome is Outcome.NEEDS_APPROVAL
    again = replaced(DISK, {})
    assert reviewed(*again, labels=[label]).report.verdict.outcome is Outcome.NEEDS_APPROVAL


def test_a_retired_pool_may_go_and_no_label_is_asked_for() -> None:
    report = reviewed(gone(POOL, {**H100, "drained": True})).report
    assert (report.verdict.outcome, report.verdict.label) == (Outcome.SAFE, None)
    assert report.losses[0].approved_by == "retire"


def test_the_nodeset_of_a_retired_pool_may_go_with_it() -> None:
    assert reviewed(gone(SLINKY, {"spec": {"replicas": 0}})).report.losses[0].approved_by == "retire"
    assert reviewed(gone(SLINKY, {"spec": {"replicas": 2}})).report.losses[0].approved_by is None


def test_a_key_that_is_drawn_anew_needs_approval_though_it_is_protected() -> None:
    old = state(KEY, "it", {"keepers": {"version": "1"}}, protect=True)
    told = step(
        "update", old, state(KEY, "it", {"keepers": {"version": "2"}}, protect=True), {"keepers.version": "update"}
    )
    report = reviewed(told).report
    assert report.verdict.outcome is Outcome.NEEDS_APPROVAL
    assert [(loss.what, loss.blocked) for loss in report.losses] == [("key", False)]
    assert report.verdict.label
    assert reviewed(told, labels=[report.verdict.label]).report.verdict.outcome is Outcome.SAFE


def test_retire_in_the_same_change_approves_nothing() -> None:
    old, new = state(POOL, "it", H100), state(POOL, "it", {**H100, "drained": True})
    told = step("replace", old, new, {"drained": "update-replace"})
    assert reviewed(told).report.verdict.outcome is Outcome.NEEDS_APPROVAL


def test_what_is_protected_is_refused_whatever_the_label() -> None:
    label = reviewed(gone(DISK, {})).report.verdict.label
    assert label
    report = reviewed(gone(DISK, {}, protect=True), labels=[label]).report
    assert report.verdict.outcome is Outcome.REFUSED
    assert report.losses[0].blocked


@pytest.mark.parametrize("level", ["mandatory", "advisory"])
def test_policies(level: str) -> None:
    report = review([violation("no", level), diagnostic("preview failed"), summary("failed")], 1).report
    assert report.verdict.outcome is (Outcome.REFUSED if level == "mandatory" else Outcome.FAILED)


def test_an_excepted_violation_refuses_nothing_and_is_listed() -> None:
    told = violation("no", exceptions=[{"id": "EXC-1", "reason": "until May"}])
    report = review([told, summary()]).report
    assert report.verdict.outcome is Outcome.SAFE
    assert report.policies[0].exceptions == ("EXC-1: until May",)


def test_a_violation_does_not_hide_that_the_program_failed() -> None:
    told = [violation("no"), diagnostic("ValueError: the reason"), diagnostic("preview failed"), summary("failed")]
    assert review(told, 1).report.verdict.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ([violation("no"), diagnostic("preview failed")], Outcome.REFUSED),
        ([diagnostic("a cause")], Outcome.FAILED),
        ([], Outcome.FAILED),
    ],
)
def test_what_a_program_says_when_the_engine_gave_up_first_is_no_cause(told: list[Json], outcome: Outcome) -> None:
    """It says so or not, as it happens."""
    afterwards = diagnostic("Resource monitor has terminated, shutting down")
    with_it = review([*told, afterwards, summary("failed")], 1)
    assert with_it.report.verdict.outcome is outcome
    assert with_it.report == review([*told, summary("failed")], 1).report


@pytest.mark.parametrize(
    ("told", "status", "outcome"),
    [
        ([], 1, Outcome.FAILED),
        ([], 0, Outcome.FAILED),
        ([summary("failed")], 1, Outcome.FAILED),
        ([summary("failed")], 0, Outcome.FAILED),
        ([summary()], 1, Outcome.FAILED),
        ([summary()], -9, Outcome.FAILED),
        ([summary("canceled")], 8, Outcome.FAILED),
        ([], 6, Outcome.NO_STACK),
        ([], 3, Outcome.NO_CREDENTIALS),
        ([diagnostic("No Crusoe access key was found: set"), summary("failed")], 1, Outcome.NO_CREDENTIALS),
        ([diagnostic("error: incorrect passphrase")], 1, Outcome.NO_CREDENTIALS),
    ],
)
def test_what_could_not_be_previewed_is_never_green(told: list[Json], status: int, outcome: Outcome) -> None:
    report = review(told, status).report
    assert report.verdict.outcome is outcome
    assert report.verdict.exit_code >= 20
    assert report.verdict.reasons


def test_the_exit_codes_differ() -> None:
    from gitops.verdict import EXIT_CODES

    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES) == len(Outcome)
    assert [outcome for outcome, code in EXIT_CODES.items() if code == 0] == [Outcome.SAFE]


def exact(report: Report) -> dict[str, tuple[str | None, str | None]]:
    return {one.path: (one.old, one.new) for change in report.changes for one in change.properties}


def test_each_changed_property_is_told_old_and_new() -> None:
    old = state(POOL, "it", {"count": 2, "nodeLabels": {"a.b/c": "x"}, "nodeTaints": [{"key": "k"}], "gone": 1})
    new = state(POOL, "it", {"count": 3, "nodeLabels": {"a.b/c": "y"}, "nodeTaints": [{"key": "l"}], "more": True})
    detailed = {
        "count": "update",
        'nodeLabels["a.b/c"]': "update",
        "nodeTaints[0].key": "update",
        "gone": "delete",
        "more": "add",
    }
    expected = {
        "count": ("2", "3"),
        'nodeLabels["a.b/c"]': ('"x"', '"y"'),
        "nodeTaints[0].key": ('"k"', '"l"'),
        "gone": ("1", None),
        "more": (None, "true"),
    }
    assert exact(reviewed(step("update", old, new, detailed)).report) == expected
    # A provider that gives no details: the inputs are compared, as deep as they are mappings.
    found = exact(reviewed(step("update", old, new, None, diffs=[])).report)
    del expected["nodeTaints[0].key"]
    assert found == {**expected, "nodeTaints": ('[{"key": "k"}]', '[{"key": "l"}]')}
